/* Looks up one value in a JSON text by its pointer: strict (RFC 8259, RFC 6901), in one pass, with
 * no allocation, over bytes that nobody vouches for. Numbers keep their text: a tree parser would
 * round a long identifier, or refuse the whole body for it. Pure. */
#ifndef STINT_CLASSIFY_JSON_SCAN_H
#define STINT_CLASSIFY_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* Arrays and objects inside each other; a deeper text is not read. */
#define JSON_SCAN_DEPTH 128

/* The longest pointer that a configuration may hold. */
#define JSON_POINTER_MAX 255

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

enum json_scan_result {
	JSON_SCAN_FOUND,
	JSON_SCAN_MISENCODED, /* found, but a string somewhere is no Unicode text: readers differ */
	JSON_SCAN_ABSENT,
	JSON_SCAN_MALFORMED, /* the text is not one whole JSON value, or the pointer is none */
	JSON_SCAN_DUPLICATE, /* a member on the pointer's way is there twice: readers differ */
	JSON_SCAN_DEEP,      /* nested beyond JSON_SCAN_DEPTH */
};

/* Whether the pointer is empty or a chain of /TOKEN, with ~ only in ~0 and ~1. */
bool json_scan_pointer_valid(const char *pointer);

/* Looks for what the pointer names, and writes it for FOUND and MISENCODED only. A string is no
 * Unicode text if it holds invalid UTF-8 or an unpaired surrogate's escape. */
enum json_scan_result json_scan_look_up(const char *body, size_t len, const char *pointer,
					struct json_value *ret_value);

/* Whether json_scan_look_up() says FOUND; writes nothing otherwise. */
bool json_scan_find(const char *body, size_t len, const char *pointer,
		    struct json_value *ret_value);

/* Whether a scalar reads as `text`: a string by its characters, a number as it is spelt, `true`,
 * `false`, `null`. Arrays and objects equal nothing. An unpaired surrogate reads as U+FFFD. */
bool json_scan_equal(const struct json_value *value, const char *text);

/* Copies a scalar as json_scan_equal() reads it, NUL-terminated. False, with the buffer undefined,
 * if it does not fit, holds a NUL or is no scalar. */
bool json_scan_copy(const struct json_value *value, char *ret_text, size_t size);

#endif
