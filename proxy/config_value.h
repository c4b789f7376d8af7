/* The texts of scalars as values: durations, sizes, whole numbers, factors; and what somebody who
 * wrote something else most likely meant. Nothing here reads or reports. */
#ifndef STINT_PROXY_CONFIG_VALUE_H
#define STINT_PROXY_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "classify/usec.h"

#define VALUE_TEXT 32 /* room for any printed value */

/* "250ms", "8s", "5m", "24h", "30d": digits and one unit. -1 for anything else; then ret_hint (at
 * least VALUE_TEXT bytes) is what to write instead, or "" where that cannot be told. */
int value_duration(const char *text, usec_t *ret_value, char *ret_hint);
/* "512B", "64KiB", "8MiB", "1GiB"; otherwise the same. */
int value_size(const char *text, int64_t *ret_value, char *ret_hint);
/* Decimal digits with an optional minus sign, within int64_t. -1 for anything else. */
int value_int(const char *text, int64_t *ret_value);
/* A plain decimal number such as 2 or 1.5: no exponent, no sign, no inf or nan. */
int value_factor(const char *text, double *ret_value);

/* The shortest text in the units above, durations rounded up to milliseconds; negative values do
 * not occur. */
void value_print_duration(usec_t value, char ret_text[VALUE_TEXT]);
void value_print_size(int64_t value, char ret_text[VALUE_TEXT]);

/* A header's name is a token (RFC 9110 section 5.1). */
bool value_is_token(const char *text);

#endif
