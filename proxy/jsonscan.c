#include "proxy/jsonscan.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct scan {
	const char *at, *end;
	int depth;
	enum jsonscan_result found; /* of the pointed-at value */
	enum jsonscan_result fault; /* why the scan stopped */
	const char *start, *stop;   /* the pointed-at value's text */
	bool duplicate;
};

bool jsonscan_pointer_is_valid(const char *pointer)
{
	if (pointer[0] != '\0' && pointer[0] != '/')
		return false;
	for (const char *c = pointer; *c != '\0'; c++) {
		if (*c == '~' && c[1] != '0' && c[1] != '1')
			return false;
	}
	return strlen(pointer) <= JSONSCAN_POINTER_MAX;
}

static bool fail(struct scan *scan, enum jsonscan_result fault)
{
	scan->fault = fault;
	return false;
}

static void skip_space(struct scan *scan)
{
	while (scan->at < scan->end &&
	       (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
		scan->at++;
}

static bool take(struct scan *scan, char c)
{
	if (scan->at == scan->end || *scan->at != c)
		return false;
	scan->at++;
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Reads four hexadecimal digits; -1 if they are not there. */
static int32_t hex4(const char *at, const char *end)
{
	int32_t value = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(at[i]);

		if (digit < 0)
			return -1;
		value = value * 16 + digit;
	}
	return value;
}

/* Passes a string, and checks it; its quotes belong to it. */
static bool scan_string(struct scan *scan)
{
	if (!take(scan, '"'))
		return fail(scan, JSONSCAN_MALFORMED);
	while (scan->at < scan->end) {
		unsigned char c = (unsigned char)*scan->at++;

		if (c == '"')
			return true;
		if (c < 0x20)
			break;
		if (c != '\\')
			continue;
		if (scan->at == scan->end)
			break;
		c = (unsigned char)*scan->at++;
		if (c == 'u' && hex4(scan->at, scan->end) < 0)
			break;
		if (c == 0 || strchr("\"\\/bfnrtu", c) == NULL)
			break;
	}
	return fail(scan, JSONSCAN_MALFORMED);
}

static bool scan_digits(struct scan *scan)
{
	const char *start = scan->at;

	while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
		scan->at++;
	return scan->at > start;
}

static bool scan_number(struct scan *scan)
{
	take(scan, '-');
	if (!take(scan, '0') && !scan_digits(scan))
		return fail(scan, JSONSCAN_MALFORMED);
	if (take(scan, '.') && !scan_digits(scan))
		return fail(scan, JSONSCAN_MALFORMED);
	if (take(scan, 'e') || take(scan, 'E')) {
		if (!take(scan, '+'))
			take(scan, '-');
		if (!scan_digits(scan))
			return fail(scan, JSONSCAN_MALFORMED);
	}
	return true;
}

static bool scan_word(struct scan *scan, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(scan->end - scan->at) < len || memcmp(scan->at, word, len) != 0)
		return fail(scan, JSONSCAN_MALFORMED);
	scan->at += len;
	return true;
}

static size_t utf8_encode(uint32_t point, char *ret_bytes)
{
	if (point < 0x80) {
		ret_bytes[0] = (char)point;
		return 1;
	}
	if (point < 0x800) {
		ret_bytes[0] = (char)(0xc0 | point >> 6);
		ret_bytes[1] = (char)(0x80 | (point & 0x3f));
		return 2;
	}
	if (point < 0x10000) {
		ret_bytes[0] = (char)(0xe0 | point >> 12);
		ret_bytes[1] = (char)(0x80 | (point >> 6 & 0x3f));
		ret_bytes[2] = (char)(0x80 | (point & 0x3f));
		return 3;
	}
	ret_bytes[0] = (char)(0xf0 | point >> 18);
	ret_bytes[1] = (char)(0x80 | (point >> 12 & 0x3f));
	ret_bytes[2] = (char)(0x80 | (point >> 6 & 0x3f));
	ret_bytes[3] = (char)(0x80 | (point & 0x3f));
	return 4;
}

/* Decodes one checked escape after its backslash; a surrogate without its other half becomes
 * U+FFFD. */
static size_t decode_escape(const char **at, const char *end, char *ret_bytes)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = *(*at)++;
	uint32_t point;

	if (c != 'u') {
		ret_bytes[0] = to[strchr(from, c) - from];
		return 1;
	}
	point = (uint32_t)hex4(*at, end);
	*at += 4;
	if (point >= 0xd800 && point < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' &&
	    (*at)[1] == 'u') {
		int32_t low = hex4(*at + 2, end);

		if (low >= 0xdc00 && low < 0xe000) {
			*at += 6;
			point = 0x10000 + ((point - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
		}
	}
	if (point >= 0xd800 && point < 0xe000)
		point = 0xfffd;
	return utf8_encode(point, ret_bytes);
}

/* Decodes a checked string's inside. False if it does not fit with a NUL after it. */
static bool decode_string(const char *at, const char *end, char *ret_value, size_t size,
			  size_t *ret_len)
{
	size_t len = 0;

	while (at < end) {
		char bytes[4];
		size_t count = 1;

		bytes[0] = *at++;
		if (bytes[0] == '\\')
			count = decode_escape(&at, end, bytes);
		if (size - len <= count)
			return false;
		memcpy(ret_value + len, bytes, count);
		len += count;
	}
	ret_value[len] = '\0';
	*ret_len = len;
	return true;
}

const char *jsonscan_pointer_token(const char *pointer, char ret_token[JSONSCAN_POINTER_MAX + 1],
				   size_t *ret_len)
{
	size_t len = 0;

	for (pointer++; *pointer != '\0' && *pointer != '/'; pointer++) {
		char c = *pointer;

		if (c == '~')
			c = *++pointer == '0' ? '~' : '/';
		ret_token[len++] = c;
	}
	ret_token[len] = '\0';
	*ret_len = len;
	return pointer;
}

static bool name_is(const char *start, const char *stop, const char *token, size_t token_len)
{
	char name[JSONSCAN_POINTER_MAX + 1];
	size_t len;

	return decode_string(start, stop, name, sizeof(name), &len) && len == token_len &&
	       memcmp(name, token, len) == 0;
}

static bool scan_value(struct scan *scan, const char *pointer);

/* `pointer`: NULL off the pointer's way, else what of it is left. */
static bool scan_object(struct scan *scan, const char *pointer)
{
	char token[JSONSCAN_POINTER_MAX + 1];
	size_t token_len = 0;
	const char *rest = NULL;
	bool seen = false;

	if (pointer != NULL && *pointer == '/')
		rest = jsonscan_pointer_token(pointer, token, &token_len);
	scan->at++;
	skip_space(scan);
	if (take(scan, '}'))
		return true;
	do {
		const char *start, *stop;
		bool here;

		skip_space(scan);
		start = scan->at + 1;
		if (!scan_string(scan))
			return false;
		stop = scan->at - 1;
		skip_space(scan);
		if (!take(scan, ':'))
			return fail(scan, JSONSCAN_MALFORMED);
		here = rest != NULL && name_is(start, stop, token, token_len);
		scan->duplicate = scan->duplicate || (here && seen);
		seen = seen || here;
		if (!scan_value(scan, here ? rest : NULL))
			return false;
	} while (take(scan, ','));
	return take(scan, '}') || fail(scan, JSONSCAN_MALFORMED);
}

static bool scan_array(struct scan *scan, const char *pointer)
{
	char token[JSONSCAN_POINTER_MAX + 1], number[24];
	size_t token_len = 0;
	const char *rest = NULL;

	if (pointer != NULL && *pointer == '/')
		rest = jsonscan_pointer_token(pointer, token, &token_len);
	scan->at++;
	skip_space(scan);
	if (take(scan, ']'))
		return true;
	for (size_t index = 0;; index++) {
		bool here = false;

		if (rest != NULL) {
			int len = snprintf(number, sizeof(number), "%zu", index);

			here = (size_t)len == token_len && memcmp(number, token, token_len) == 0;
		}
		if (!scan_value(scan, here ? rest : NULL))
			return false;
		if (!take(scan, ','))
			return take(scan, ']') || fail(scan, JSONSCAN_MALFORMED);
	}
}

static bool scan_any(struct scan *scan, const char *pointer, enum jsonscan_result *ret_kind)
{
	*ret_kind = JSONSCAN_OTHER;
	switch (*scan->at) {
	case '{':
		return scan_object(scan, pointer);
	case '[':
		return scan_array(scan, pointer);
	case 't':
		return scan_word(scan, "true");
	case 'f':
		return scan_word(scan, "false");
	case 'n':
		*ret_kind = JSONSCAN_NULL;
		return scan_word(scan, "null");
	case '"':
		*ret_kind = JSONSCAN_STRING;
		return scan_string(scan);
	default:
		*ret_kind = JSONSCAN_NUMBER;
		return scan_number(scan);
	}
}

/* One value and the white space around it. Recursion is bounded by JSONSCAN_DEPTH_MAX. */
static bool scan_value(struct scan *scan, const char *pointer)
{
	enum jsonscan_result kind;
	const char *start;

	skip_space(scan);
	if (scan->at == scan->end)
		return fail(scan, JSONSCAN_MALFORMED);
	if (scan->depth == JSONSCAN_DEPTH_MAX)
		return fail(scan, JSONSCAN_DEEP);
	start = scan->at;
	scan->depth++;
	if (!scan_any(scan, pointer, &kind))
		return false;
	scan->depth--;
	if (pointer != NULL && *pointer == '\0') {
		scan->found = kind;
		scan->start = start;
		scan->stop = scan->at;
	}
	skip_space(scan);
	return true;
}

enum jsonscan_result jsonscan_find(const char *text, size_t len, const char *pointer,
				   char *ret_value, size_t size, size_t *ret_len)
{
	struct scan scan = {.at = text, .end = text + len, .found = JSONSCAN_ABSENT};
	size_t number_len;

	if (!scan_value(&scan, pointer))
		return scan.fault;
	if (scan.at != scan.end)
		return JSONSCAN_MALFORMED;
	if (scan.duplicate)
		return JSONSCAN_DUPLICATE;
	if (scan.found == JSONSCAN_STRING &&
	    !decode_string(scan.start + 1, scan.stop - 1, ret_value, size, ret_len))
		return JSONSCAN_LONG;
	if (scan.found == JSONSCAN_NUMBER) {
		number_len = (size_t)(scan.stop - scan.start);
		if (number_len >= size)
			return JSONSCAN_LONG;
		memcpy(ret_value, scan.start, number_len);
		ret_value[number_len] = '\0';
		*ret_len = number_len;
	}
	return scan.found;
}
