#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/config_tree.h"

#define NAME_MAX_LEN 128

/* One ${...} at `text`; *ret_end is behind it. */
static int expand_one(const char *text, const char **ret_value, size_t *ret_len,
		      const char **ret_end, char *ret_error, size_t error_len)
{
	const char *close = strchr(text, '}');
	const char *start = text + strlen("${env:");
	char name[NAME_MAX_LEN];
	size_t len = 0;

	if (close == NULL) {
		snprintf(ret_error, error_len, "${ without }: write ${env:NAME}");
		return -1;
	}
	if (strncmp(text, "${env:", strlen("${env:")) != 0) {
		snprintf(ret_error, error_len, "%.*s is not known: write ${env:NAME}",
			 close - text < 60 ? (int)(close - text + 1) : 60, text);
		return -1;
	}
	while (isalnum((unsigned char)start[len]) || start[len] == '_')
		len++;
	bool has_default = strncmp(start + len, ":-", 2) == 0;

	if (len == 0 || len >= sizeof(name) || isdigit((unsigned char)start[0]) ||
	    (!has_default && start + len != close)) {
		snprintf(ret_error, error_len,
			 "%.*s is malformed: write ${env:NAME} or ${env:NAME:-default}",
			 close - text < 60 ? (int)(close - text + 1) : 60, text);
		return -1;
	}
	memcpy(name, start, len);
	name[len] = '\0';
	const char *value = getenv(name);

	*ret_end = close + 1;
	if (has_default && (value == NULL || *value == '\0')) {
		*ret_value = start + len + 2;
		*ret_len = (size_t)(close - *ret_value);
		return 0;
	}
	if (value == NULL) {
		snprintf(ret_error, error_len,
			 "the environment variable %s is not set: set it, or write "
			 "${env:%s:-default}",
			 name, name);
		return -1;
	}
	*ret_value = value;
	*ret_len = strlen(value);
	int line, column;
	char what[64];

	if (text_scan(value, *ret_len, &line, &column, what, sizeof(what)) != 0) {
		snprintf(ret_error, error_len, "the environment variable %s is no text: %s", name,
			 what);
		return -1;
	}
	return 0;
}

int env_expand(const char *text, char *ret_text, size_t len, char *ret_error, size_t error_len)
{
	size_t used = 0;

	while (*text != '\0') {
		const char *value = text;
		size_t value_len = 1;
		const char *end = text + 1;

		if (text[0] == '$' && text[1] == '{' &&
		    expand_one(text, &value, &value_len, &end, ret_error, error_len) != 0)
			return -1;
		if (value_len >= len - used) {
			snprintf(ret_error, error_len, "a value has at most %zu bytes", len - 1);
			return -1;
		}
		memcpy(ret_text + used, value, value_len);
		used += value_len;
		text = end;
	}
	ret_text[used] = '\0';
	return 0;
}

/* The length of the UTF-8 sequence at `text`, 0 if it is none (RFC 3629 section 4). */
static size_t utf8_len(const unsigned char *text, size_t len)
{
	size_t need = text[0] < 0x80   ? 1
		      : text[0] < 0xc2 ? 0
		      : text[0] < 0xe0 ? 2
		      : text[0] < 0xf0 ? 3
		      : text[0] < 0xf5 ? 4
				       : 0;

	if (need == 0 || need > len)
		return 0;
	for (size_t i = 1; i < need; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return need;
}

/* Whether YAML takes the character (YAML 1.1 section 5.1). */
static bool is_printable(const unsigned char *text, size_t len)
{
	if (len == 1)
		return (text[0] >= 0x20 && text[0] != 0x7f) || text[0] == '\t' || text[0] == '\n' ||
		       text[0] == '\r';
	if (len == 2) /* C1 controls but for NEL */
		return text[0] != 0xc2 || text[1] >= 0xa0 || text[1] == 0x85;
	return !(len == 3 && text[0] == 0xef && text[1] == 0xbf && text[2] >= 0xbe);
}

int text_scan(const char *text, size_t len, int *ret_line, int *ret_column, char *ret_error,
	      size_t error_len)
{
	const unsigned char *bytes = (const unsigned char *)text;
	int line = 1, column = 1;

	for (size_t i = 0; i < len;) {
		size_t step = utf8_len(bytes + i, len - i);

		if (step == 0 || !is_printable(bytes + i, step)) {
			*ret_line = line;
			*ret_column = column;
			if (bytes[i] == 0)
				snprintf(ret_error, error_len, "a NUL byte");
			else if (step == 0)
				snprintf(ret_error, error_len, "byte 0x%02x is not valid UTF-8",
					 bytes[i]);
			else
				snprintf(ret_error, error_len, "a control character");
			return 1;
		}
		column++;
		if (bytes[i] == '\n') {
			line++;
			column = 1;
		}
		i += step;
	}
	return 0;
}
