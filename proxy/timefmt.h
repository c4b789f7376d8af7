/* Wall times as text: RFC 3339 in UTC with milliseconds, as the API and the problems show them. */
#ifndef STINT_PROXY_TIMEFMT_H
#define STINT_PROXY_TIMEFMT_H

#include <stdbool.h>
#include <stddef.h>

#include "classify/usec.h"

#define TIMEFMT_MAX 32

/* "2026-10-21T07:28:00.123Z", cut to the millisecond. Times before 1970 or after 9999 are shown as
 * the nearest that can be. */
void timefmt_rfc3339(usec_t wall, char ret_text[TIMEFMT_MAX]);

/* The reverse, with any fraction (cut to the microsecond) and any offset. False, and nothing
 * written, for anything else, dates that do not exist included; a leap second counts as the second
 * after it. */
bool timefmt_parse_rfc3339(const char *text, size_t len, usec_t *ret_wall);

#endif
