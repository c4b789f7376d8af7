/* Structured fields (RFC 9651), as far as they are used: a string as an item, and the dictionary of
 * the Stint field. */
#ifndef STINT_PROXY_SFIELD_H
#define STINT_PROXY_SFIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "classify/usec.h"

/* The content of a text that is one string, quotes first and last, without parameters (RFC 9651
 * section 4.2.5): copied with a NUL after it. False if it is malformed or does not fit. */
bool sfield_parse_string(const char *text, size_t len, char *ret_text, size_t size,
			 size_t *ret_len);

/* A token of RFC 9651 section 3.3.4 (NUL-terminated text). */
bool sfield_is_token(const char *text);

/* A dictionary under construction in the caller's buffer, which is NUL-terminated at any time. A
 * member that does not fit is left out whole; keys are literals of the program. */
struct sfield {
	char *buffer;
	size_t size;
	size_t len;
};

void sfield_init(struct sfield *field, char *buffer, size_t size); /* size >= 1 */
/* A text that is no token is written as a string; one that cannot be a string either (control
 * characters, non-ASCII) is left out. */
void sfield_token(struct sfield *field, const char *key, const char *text);
void sfield_integer(struct sfield *field, const char *key, int64_t value);
/* A decimal number of seconds, rounded up to the millisecond, so that nobody comes back early:
 * 12.0, 0.503. Below 0: 0.0; beyond twelve digits: the largest there is. */
void sfield_seconds(struct sfield *field, const char *key, usec_t value);
/* true is the bare key, false is "=?0". */
void sfield_boolean(struct sfield *field, const char *key, bool value);

#endif
