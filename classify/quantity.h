/* Strict readers of durations as providers write them: decimal numbers and Go's `6m30s`. Pure; each
 * wants the whole text and rounds fractions of a microsecond up: no wait comes out short. */
#ifndef STINT_CLASSIFY_QUANTITY_H
#define STINT_CLASSIFY_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "classify/usec.h"

/* Reads 1*DIGIT [ "." 1*DIGIT ] in units of `unit` microseconds (1 to USEC_HOUR). False on anything
 * else: signs, exponents, `1.`, `.5`, a value beyond USEC_MAX. */
bool quantity_decimal(const char *text, size_t len, usec_t unit, usec_t *ret_value);

/* Reads what Go's time.Duration prints and ParseDuration takes, without a sign: one or more of
 * number and unit (ns, us, the two micro signs with s, ms, s, m, h), or a bare 0. */
bool quantity_go(const char *text, size_t len, usec_t *ret_value);

#endif
