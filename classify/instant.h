/* Strict readers of points in time as replies carry them: the three dates of HTTP and RFC 3339.
 * Pure; times are microseconds since the epoch, on the wall clock. */
#ifndef STINT_CLASSIFY_INSTANT_H
#define STINT_CLASSIFY_INSTANT_H

#include <stdbool.h>
#include <stddef.h>

#include "classify/usec.h"

/* Reads an HTTP-date (RFC 9110 section 5.6.7): IMF-fixdate, the date of RFC 850, asctime. The whole
 * text, case-sensitive; days that do not exist are refused. A day name must be one of the seven,
 * but need not be the right one: the date is what the server meant, and refusing it would send
 * earlier. `now_wall` gives the century of a two-digit year: never more than 50 years ahead. */
bool instant_http(const char *text, size_t len, usec_t now_wall, usec_t *ret_wall);

/* Reads a date-time of RFC 3339; fractions of a microsecond round up. */
bool instant_rfc3339(const char *text, size_t len, usec_t *ret_wall);

#endif
