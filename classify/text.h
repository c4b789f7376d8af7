/* Views of text that is not NUL-terminated, as header lines and bodies come: ASCII only, no locale,
 * no allocation. */
#ifndef STINT_CLASSIFY_TEXT_H
#define STINT_CLASSIFY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool text_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline char text_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline bool text_equal(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(text, word, len) == 0;
}

/* For header names, which are case-insensitive (RFC 9110 section 5.1). */
static inline bool text_equal_nocase(const char *text, size_t len, const char *word)
{
	/* Most names differ in the bits of their first letter that are not its case: that is all
	 * that is looked at then, not even a length. */
	if (len > 0 && ((text[0] ^ word[0]) & ~('a' ^ 'A')) != 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (word[i] == '\0' || text_lower(text[i]) != text_lower(word[i]))
			return false;
	}
	return word[len] == '\0';
}

static inline bool text_starts(const char *text, size_t len, const char *prefix)
{
	size_t prefix_len = strlen(prefix);

	return prefix_len <= len && memcmp(text, prefix, prefix_len) == 0;
}

/* Takes optional white space (RFC 9110 section 5.6.3: SP, HTAB) off both ends. */
static inline void text_trim(const char **text, size_t *len)
{
	while (*len > 0 && (**text == ' ' || **text == '\t')) {
		(*text)++;
		(*len)--;
	}
	while (*len > 0 && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t'))
		(*len)--;
}

#endif
