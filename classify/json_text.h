/* The inside of JSON strings: escapes, and UTF-8 that is what it says it is. Pure. */
#ifndef STINT_CLASSIFY_JSON_TEXT_H
#define STINT_CLASSIFY_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string's characters, one byte of UTF-8 at a time, escapes resolved. */
struct json_text {
	const char *at;
	const char *end;
	unsigned char pending[4];
	unsigned pending_count;
	unsigned pending_at;
};

/* A surrogate, which is half a character. */
static inline bool json_text_is_half(uint32_t code)
{
	return code >= 0xd800 && code <= 0xdfff;
}

/* Reads one escape, `at` standing behind its backslash; says where it ends and which character it
 * stands for: itself, for a surrogate without its other half. */
bool json_text_escape(const char *at, const char *end, const char **ret_after, uint32_t *ret_code);

/* The length of the well-formed UTF-8 sequence at `at` (RFC 3629 section 4), `left` > 0 bytes being
 * there; 0 if there is none. */
size_t json_text_utf8(const unsigned char *at, size_t left);

/* The next byte of a string whose escapes are known to be good, -1 at its end. Half a character
 * reads as U+FFFD. */
int json_text_next(struct json_text *in);

#endif
