#include "classify/json_text.h"

#include <string.h>

#include "classify/text.h"

static int hex_digit(char c)
{
	if (text_is_digit(c))
		return c - '0';
	c = text_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits after \u. */
static bool hex_unit(const char *at, const char *end, uint32_t *ret_unit)
{
	uint32_t unit = 0;

	if (end - at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		int digit = hex_digit(at[i]);

		if (digit < 0)
			return false;
		unit = unit << 4 | (uint32_t)digit;
	}
	*ret_unit = unit;
	return true;
}

bool json_text_escape(const char *at, const char *end, const char **ret_after, uint32_t *ret_code)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	const char *simple;
	uint32_t code;
	uint32_t low;

	if (at == end)
		return false;
	simple = memchr(from, *at, sizeof(from) - 1);
	if (simple != NULL) {
		*ret_code = (unsigned char)to[simple - from];
		*ret_after = at + 1;
		return true;
	}
	if (*at != 'u' || !hex_unit(at + 1, end, &code))
		return false;
	*ret_code = code;
	*ret_after = at + 5;
	/* The first half of a pair, if the second follows (RFC 8259 section 7). */
	if (code >= 0xd800 && code <= 0xdbff && end - at >= 7 && at[5] == '\\' && at[6] == 'u' &&
	    hex_unit(at + 7, end, &low) && low >= 0xdc00 && low <= 0xdfff) {
		*ret_code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
		*ret_after = at + 11;
	}
	return true;
}

size_t json_text_utf8(const unsigned char *at, size_t left)
{
	unsigned char lowest = 0x80;
	unsigned char highest = 0xbf;
	size_t len;

	if (at[0] < 0x80)
		return 1;
	if (at[0] < 0xc2 || at[0] > 0xf4)
		return 0;
	len = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
	if (left < len)
		return 0;
	if (at[0] == 0xe0)
		lowest = 0xa0; /* shorter forms exist */
	else if (at[0] == 0xed)
		highest = 0x9f; /* surrogates */
	else if (at[0] == 0xf0)
		lowest = 0x90; /* shorter forms exist */
	else if (at[0] == 0xf4)
		highest = 0x8f; /* beyond U+10FFFF */
	if (at[1] < lowest || at[1] > highest)
		return 0;
	for (size_t i = 2; i < len; i++) {
		if (at[i] < 0x80 || at[i] > 0xbf)
			return 0;
	}
	return len;
}

static unsigned encode_utf8(uint32_t code, unsigned char *ret_bytes)
{
	if (code < 0x80) {
		ret_bytes[0] = (unsigned char)code;
		return 1;
	}
	if (code < 0x800) {
		ret_bytes[0] = (unsigned char)(0xc0 | code >> 6);
		ret_bytes[1] = (unsigned char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		ret_bytes[0] = (unsigned char)(0xe0 | code >> 12);
		ret_bytes[1] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
		ret_bytes[2] = (unsigned char)(0x80 | (code & 0x3f));
		return 3;
	}
	ret_bytes[0] = (unsigned char)(0xf0 | code >> 18);
	ret_bytes[1] = (unsigned char)(0x80 | (code >> 12 & 0x3f));
	ret_bytes[2] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
	ret_bytes[3] = (unsigned char)(0x80 | (code & 0x3f));
	return 4;
}

int json_text_next(struct json_text *in)
{
	uint32_t code;

	if (in->pending_at < in->pending_count)
		return in->pending[in->pending_at++];
	if (in->at == in->end)
		return -1;
	if (*in->at != '\\')
		return (unsigned char)*in->at++;
	if (!json_text_escape(in->at + 1, in->end, &in->at, &code))
		return -1;
	if (json_text_is_half(code))
		code = 0xfffd;
	in->pending_count = encode_utf8(code, in->pending);
	in->pending_at = 1;
	return in->pending[0];
}
