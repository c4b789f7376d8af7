#include "proxy/sfield.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INTEGER_MAX INT64_C(999999999999999) /* RFC 9651 section 3.3.1 */
#define DECIMAL_MAX INT64_C(999999999999)    /* section 3.3.2, before the point */

/* The largest member: a key, and a reason as a string with every character escaped. */
#define MEMBER_MAX 256

bool sfield_parse_string(const char *text, size_t len, char *ret_text, size_t size, size_t *ret_len)
{
	size_t out = 0;

	if (len < 2 || text[0] != '"')
		return false;
	for (size_t i = 1; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '"') {
			if (i != len - 1 || out >= size)
				return false;
			ret_text[out] = '\0';
			*ret_len = out;
			return true;
		}
		if (c < 0x20 || c >= 0x7f)
			return false;
		if (c == '\\') {
			if (++i == len || (text[i] != '"' && text[i] != '\\'))
				return false;
			c = (unsigned char)text[i];
		}
		if (out >= size)
			return false;
		ret_text[out++] = (char)c;
	}
	return false;
}

static bool is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool sfield_is_token(const char *text)
{
	if (!is_alpha(text[0]) && text[0] != '*')
		return false;
	for (const char *c = text; *c != '\0'; c++) {
		if (!is_alpha(*c) && !(*c >= '0' && *c <= '9') &&
		    strchr("!#$%&'*+-.^_`|~:/", *c) == NULL)
			return false;
	}
	return true;
}

void sfield_init(struct sfield *field, char *buffer, size_t size)
{
	*field = (struct sfield){.buffer = buffer, .size = size};
	buffer[0] = '\0';
}

/* "key" and "=value", or nothing at all. */
static void add_member(struct sfield *field, const char *key, const char *value)
{
	size_t room = field->size - field->len;
	int len = snprintf(field->buffer + field->len, room, "%s%s%s", field->len > 0 ? ", " : "",
			   key, value);

	if (len < 0 || (size_t)len >= room) {
		field->buffer[field->len] = '\0';
		return;
	}
	field->len += (size_t)len;
}

/* "=" and the text as a string; false if it cannot be one or is too long. */
static bool quote(const char *text, char *ret_value, size_t size)
{
	size_t len = 0;

	ret_value[len++] = '=';
	ret_value[len++] = '"';
	for (const char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			return false;
		if (size - len < 4)
			return false;
		if (*c == '"' || *c == '\\')
			ret_value[len++] = '\\';
		ret_value[len++] = *c;
	}
	ret_value[len++] = '"';
	ret_value[len] = '\0';
	return true;
}

void sfield_token(struct sfield *field, const char *key, const char *text)
{
	char value[MEMBER_MAX];

	if (sfield_is_token(text)) {
		int len = snprintf(value, sizeof(value), "=%s", text);

		if (len < 0 || (size_t)len >= sizeof(value))
			return;
	} else if (!quote(text, value, sizeof(value))) {
		return;
	}
	add_member(field, key, value);
}

void sfield_integer(struct sfield *field, const char *key, int64_t value)
{
	char text[32];

	if (value > INTEGER_MAX)
		value = INTEGER_MAX;
	if (value < -INTEGER_MAX)
		value = -INTEGER_MAX;
	snprintf(text, sizeof(text), "=%" PRId64, value);
	add_member(field, key, text);
}

void sfield_seconds(struct sfield *field, const char *key, usec_t value)
{
	char text[64];
	int64_t ms, whole;
	size_t len;

	if (value < 0)
		value = 0;
	ms = value / USEC_MS + (value % USEC_MS != 0 ? 1 : 0);
	whole = ms / 1000;
	if (whole > DECIMAL_MAX) {
		whole = DECIMAL_MAX;
		ms = 0;
	}
	snprintf(text, sizeof(text), "=%" PRId64 ".%03d", whole, (int)(ms % 1000));
	/* One digit after the point stays: without it the number is an integer. */
	len = strlen(text);
	while (text[len - 1] == '0' && text[len - 2] != '.')
		text[--len] = '\0';
	add_member(field, key, text);
}

void sfield_boolean(struct sfield *field, const char *key, bool value)
{
	add_member(field, key, value ? "" : "=?0");
}
