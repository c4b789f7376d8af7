/* Looks up one value in a JSON text by its pointer: strict (RFC 8259, RFC 6901), in one pass, with
 * no allocation, over bytes that nobody vouches for. Pure. */
#ifndef STINT_CLASSIFY_JSON_SCAN_H
#define STINT_CLASSIFY_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* Arrays and objects inside each other; a deeper text counts as broken. */
#define JSON_SCAN_DEPTH 64

enum json_type {
	JSON_TYPE_NULL,
	JSON_TYPE_BOOLEAN,
	JSON_TYPE_NUMBER,
	JSON_TYPE_STRING,
	JSON_TYPE_ARRAY,
	JSON_TYPE_OBJECT,
};

/* A value where it stands in the text; for a string the characters between the quotes, still
 * escaped. */
struct json_value {
	enum json_type type;
	const char *text;
	size_t len;
};

/* Whether the pointer is empty or a chain of /TOKEN, with ~ only in ~0 and ~1. */
bool json_scan_pointer_valid(const char *pointer);

/* Finds what the pointer names. False, with nothing written, if nothing stands there, if the text
 * is not one whole valid JSON value (invalid UTF-8, unpaired surrogate escapes and control
 * characters included), if it is too deep, if the pointer is malformed, or if a member on the way
 * stands there twice: then readers disagree about which one counts. */
bool json_scan_find(const char *body, size_t len, const char *pointer,
		    struct json_value *ret_value);

/* Whether a scalar reads as `text`: a string by its characters, a number as it is spelt, `true`,
 * `false`, `null`. Arrays and objects equal nothing. */
bool json_scan_equal(const struct json_value *value, const char *text);

/* Copies a scalar as json_scan_equal() reads it, NUL-terminated. False, with the buffer undefined,
 * if it does not fit, holds a NUL or is no scalar. */
bool json_scan_copy(const struct json_value *value, char *ret_text, size_t size);

#endif
