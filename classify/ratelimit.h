/* Reads the fields RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers): a list of
 * named items with parameters (RFC 9651). Pure; items point into the text. */
#ifndef STINT_CLASSIFY_RATELIMIT_H
#define STINT_CLASSIFY_RATELIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One item; a number that the item does not have is -1. */
struct ratelimit_item {
	const char *name; /* between the quotes, escapes as written; or a token, of older drafts */
	size_t name_len;
	int64_t remaining; /* r, units left */
	int64_t reset;     /* t, seconds until they come back */
	int64_t quota;     /* q, of a policy */
	int64_t window;    /* w, of a policy, seconds */
};

/* Reads one line of either field into at most `max` items. False, and nothing counted, if any part
 * of the line is malformed (a structured field is read whole or ignored), if a number that is used
 * here is not a non-negative integer, or if there are more than `max` items. */
bool ratelimit_parse(const char *text, size_t len, struct ratelimit_item *items, size_t max,
		     size_t *ret_count);

#endif
