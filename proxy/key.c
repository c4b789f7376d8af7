/* Reads an operation's key out of a request, or a remote id out of a reply. */
#include "proxy/key.h"

#include <stdio.h>
#include <string.h>

#include "budget/name.h"
#include "classify/json_scan.h"
#include "proxy/headers.h"
#include "proxy/sfield.h"

static enum key_result invalid(char *ret_detail, const char *what, const char *name,
			       const char *why)
{
	snprintf(ret_detail, KEY_DETAIL_MAX, "%s%s%.40s%s", what, name[0] == '\0' ? "" : " ", name,
		 why);
	return KEY_INVALID;
}

/* Copies a value that is a key as it stands. */
static enum key_result accept(const char *text, size_t len, char *ret_key, char *ret_detail)
{
	if (!op_key_is_valid(text, len))
		return invalid(ret_detail, "the key must be 1 to 255 visible ASCII characters", "",
			       "");
	memcpy(ret_key, text, len);
	ret_key[len] = '\0';
	return KEY_FOUND;
}

enum key_result key_from_text(const char *text, size_t len, char *ret_key, char *ret_detail)
{
	char content[OP_KEY_MAX + 1];

	header_value_trim(text, len, &text, &len);
	if (len == 0 || text[0] != '"')
		return accept(text, len, ret_key, ret_detail);
	if (!sfield_parse_string(text, len, content, sizeof(content), &len))
		return invalid(ret_detail,
			       "the key is a malformed quoted string (RFC 9651), or too long", "",
			       "");
	return accept(content, len, ret_key, ret_detail);
}

/* The source's part of a value; false if the value has not so many. */
static bool take_part(const struct key_source *source, const char **text, size_t *len)
{
	const char *end = *text + *len;

	for (int part = 1;; part++) {
		const char *stop = memchr(*text, source->sep, (size_t)(end - *text));

		if (part == source->part) {
			*len = (size_t)((stop == NULL ? end : stop) - *text);
			return true;
		}
		if (stop == NULL)
			return false;
		*text = stop + 1;
	}
}

static enum key_result from_header(const struct key_source *source, const struct key_input *input,
				   char *ret_key, char *ret_detail)
{
	const struct header_view *header = NULL;
	const char *text;
	size_t len;

	for (size_t i = 0; i < input->header_count; i++) {
		if (!header_is(&input->headers[i], source->name))
			continue;
		if (header != NULL)
			return invalid(ret_detail, "header", source->name,
				       " is there more than once");
		header = &input->headers[i];
	}
	if (header == NULL)
		return KEY_NONE;
	text = header->value;
	len = header->value_len;
	if (source->part > 0 && !take_part(source, &text, &len))
		return invalid(ret_detail, "header", source->name,
			       " has not the part that holds the key");
	return key_from_text(text, len, ret_key, ret_detail);
}

static enum key_result from_json_value(const struct key_source *source,
				       const struct json_value *value, char *ret_key,
				       char *ret_detail)
{
	char text[OP_KEY_MAX + 1];

	if (value->type == JSON_TYPE_NULL)
		return KEY_NONE;
	if (value->type != JSON_TYPE_STRING && value->type != JSON_TYPE_NUMBER)
		return invalid(ret_detail, "the JSON value at", source->name,
			       " is neither a string nor a number");
	if (!json_scan_copy(value, text, sizeof(text))) /* too long, or with a NUL */
		text[0] = '\0';
	return accept(text, strlen(text), ret_key, ret_detail);
}

static enum key_result from_json(const struct key_source *source, const struct key_input *input,
				 char *ret_key, char *ret_detail)
{
	struct json_value value;

	switch (json_scan_look_up(input->body, input->body_len, source->name, &value)) {
	case JSON_SCAN_FOUND:
	case JSON_SCAN_MISENCODED: /* elsewhere it does not change the key, in the key it shows */
		return from_json_value(source, &value, ret_key, ret_detail);
	case JSON_SCAN_ABSENT:
	case JSON_SCAN_MALFORMED:
		break;
	case JSON_SCAN_DUPLICATE:
		return invalid(ret_detail, "the JSON body has a member twice on the way to",
			       source->name, "");
	case JSON_SCAN_DEEP:
		return invalid(ret_detail, "the JSON body is nested too deeply", "", "");
	}
	return KEY_NONE;
}

static bool is_form(const char *content_type)
{
	static const char form[] = "application/x-www-form-urlencoded";
	size_t len;

	if (content_type == NULL)
		return false;
	content_type += strspn(content_type, " \t");
	len = strcspn(content_type, "; \t");
	return header_name_is(content_type, len, form);
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

/* Takes one decoded character of application/x-www-form-urlencoded text; false if its percent
 * encoding is malformed (the percent sign is then taken as itself). */
static bool form_char(const char **at, const char *end, char *ret_char)
{
	int high, low;

	*ret_char = *(*at)++;
	if (*ret_char == '+')
		*ret_char = ' ';
	if (*ret_char != '%')
		return true;
	if (end - *at < 2)
		return false;
	high = hex_digit((*at)[0]);
	low = hex_digit((*at)[1]);
	if (high < 0 || low < 0)
		return false;
	*ret_char = (char)(high * 16 + low);
	*at += 2;
	return true;
}

static bool form_name_is(const char *at, const char *end, const char *name)
{
	for (; at < end; name++) {
		char c;

		form_char(&at, end, &c);
		if (*name == '\0' || c != *name)
			return false;
	}
	return *name == '\0';
}

/* Decodes a value; false if it is malformed or does not fit. */
static bool form_value(const char *at, const char *end, char *ret_value, size_t size,
		       size_t *ret_len)
{
	size_t len = 0;

	while (at < end) {
		if (len == size || !form_char(&at, end, &ret_value[len]))
			return false;
		len++;
	}
	*ret_len = len;
	return true;
}

static enum key_result from_form(const struct key_source *source, const struct key_input *input,
				 char *ret_key, char *ret_detail)
{
	const char *at = input->body, *end;
	const char *found = NULL, *found_end = NULL;
	char value[OP_KEY_MAX];
	size_t len;

	if (input->body == NULL || !is_form(input->content_type))
		return KEY_NONE;
	for (end = at + input->body_len; at < end;) {
		const char *stop = memchr(at, '&', (size_t)(end - at));
		const char *field_end = stop == NULL ? end : stop;
		const char *equals = memchr(at, '=', (size_t)(field_end - at));

		if (form_name_is(at, equals == NULL ? field_end : equals, source->name)) {
			if (found != NULL)
				return invalid(ret_detail, "form field", source->name,
					       " is there more than once");
			found = equals == NULL ? field_end : equals + 1;
			found_end = field_end;
		}
		at = stop == NULL ? end : stop + 1;
	}
	if (found == NULL)
		return KEY_NONE;
	if (!form_value(found, found_end, value, sizeof(value), &len))
		return invalid(ret_detail, "form field", source->name,
			       " is malformed or longer than 255 characters");
	return accept(value, len, ret_key, ret_detail);
}

static enum key_result from_simple(const struct key_source *source, const struct key_input *input,
				   char *ret_key, char *ret_detail)
{
	switch (source->kind) {
	case KEY_HEADER:
		return from_header(source, input, ret_key, ret_detail);
	case KEY_JSON:
		return from_json(source, input, ret_key, ret_detail);
	case KEY_FORM:
		return from_form(source, input, ret_key, ret_detail);
	case KEY_TEMPLATE:
		break;
	}
	return KEY_NONE;
}

/* A key under construction. */
struct assembly {
	char text[OP_KEY_MAX];
	size_t len;
	bool over;
};

static void put(struct assembly *assembly, char c)
{
	if (assembly->len == sizeof(assembly->text)) {
		assembly->over = true;
		return;
	}
	assembly->text[assembly->len++] = c;
}

/* stop: the character that ends this value, because another source follows; 0: none does, and the
 * value needs no encoding to be told from what is around it. */
static void put_value(struct assembly *assembly, const char *value, char stop)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *value != '\0'; value++) {
		unsigned char c = (unsigned char)*value;

		if (stop == 0 || (*value != '%' && *value != stop)) {
			put(assembly, *value);
			continue;
		}
		put(assembly, '%');
		put(assembly, hex[c >> 4]);
		put(assembly, hex[c & 15]);
	}
}

/* Pieces alternate, with a literal between any two sources (key_source.c). */
static char stop_after(const struct key_source *source, size_t piece)
{
	return piece + 2 < source->piece_count ? source->pieces[piece + 1].literal[0] : '\0';
}

static enum key_result from_template(const struct key_source *source, const struct key_input *input,
				     char *ret_key, char *ret_detail)
{
	struct assembly assembly = {0};

	for (size_t i = 0; i < source->piece_count; i++) {
		const struct key_piece *piece = &source->pieces[i];
		char value[OP_KEY_MAX + 1];
		enum key_result result;

		if (piece->literal != NULL) {
			put_value(&assembly, piece->literal, 0);
			continue;
		}
		result = from_simple(piece->source, input, value, ret_detail);
		if (result != KEY_FOUND)
			return result;
		put_value(&assembly, value, stop_after(source, i));
	}
	if (assembly.over)
		return invalid(ret_detail, "the template's key is longer than 255 characters", "",
			       "");
	return accept(assembly.text, assembly.len, ret_key, ret_detail);
}

enum key_result key_extract(const struct key_source *sources, size_t count,
			    const struct key_input *input, char *ret_key, char *ret_detail)
{
	for (size_t i = 0; i < count; i++) {
		enum key_result result;

		if (sources[i].kind == KEY_TEMPLATE)
			result = from_template(&sources[i], input, ret_key, ret_detail);
		else
			result = from_simple(&sources[i], input, ret_key, ret_detail);
		if (result != KEY_NONE)
			return result;
	}
	return KEY_NONE;
}
