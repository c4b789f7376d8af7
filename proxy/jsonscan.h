/* One value of a JSON text by pointer (RFC 6901, RFC 8259), read without building a tree.
 *
 * No allocation, bounded depth, one pass. Numbers keep their text: a tree parser would round a long
 * identifier, or refuse the whole body for it, and then the key in it would not be seen. */
#ifndef STINT_PROXY_JSONSCAN_H
#define STINT_PROXY_JSONSCAN_H

#include <stdbool.h>
#include <stddef.h>

#define JSONSCAN_DEPTH_MAX 128
#define JSONSCAN_POINTER_MAX 255

enum jsonscan_result {
	JSONSCAN_STRING,
	JSONSCAN_NUMBER,
	JSONSCAN_NULL,
	JSONSCAN_OTHER, /* true, false, an array or an object */
	JSONSCAN_ABSENT = -1,
	JSONSCAN_MALFORMED = -2, /* the text is not JSON */
	JSONSCAN_DUPLICATE = -3, /* a member on the pointer's way is there more than once */
	JSONSCAN_DEEP = -4,      /* nested beyond JSONSCAN_DEPTH_MAX */
	JSONSCAN_LONG = -5,      /* the value does not fit */
};

/* Finds the value and, for STRING (decoded) and NUMBER (as written), copies it to ret_value with a
 * NUL after it; a string may hold any byte, NUL too. */
enum jsonscan_result jsonscan_find(const char *text, size_t len, const char *pointer,
				   char *ret_value, size_t size, size_t *ret_len);

/* "" or "/a/b~1c", at most JSONSCAN_POINTER_MAX bytes. */
bool jsonscan_pointer_is_valid(const char *pointer);

/* The first reference token of a valid pointer that is not "", unescaped (RFC 6901 section 4) and
 * NUL-terminated; returns what follows it. */
const char *jsonscan_pointer_token(const char *pointer, char ret_token[JSONSCAN_POINTER_MAX + 1],
				   size_t *ret_len);

#endif
