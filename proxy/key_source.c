/* Compiles key sources: "header:NAME", "json:/pointer", "form:field", "template:...". */
#include "proxy/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classify/json_scan.h"
#include "proxy/headers.h"

#define PART_MAX 99
#define TEXT_MAX 1024

/* Writes the sentence and returns -1. */
static int refuse(char *error, size_t error_len, const char *sentence)
{
	snprintf(error, error_len, "%s", sentence);
	return -1;
}

static int refuse_memory(char *error, size_t error_len)
{
	return refuse(error, error_len, "out of memory");
}

void key_source_done(struct key_source *source)
{
	free(source->text);
	free(source->name);
	for (size_t i = 0; i < source->piece_count; i++) {
		struct key_piece *piece = &source->pieces[i];

		free(piece->literal);
		if (piece->source != NULL) {
			key_source_done(piece->source); /* one level: no template in a template */
			free(piece->source);
		}
	}
	free(source->pieces);
	*source = (struct key_source){0};
}

/* ";part=N" and then, if it is there, ";sep=C". */
static bool parse_part(const char *text, int *ret_part, char *ret_sep)
{
	int part = 0;
	char sep = ',';

	if (strncmp(text, ";part=", 6) != 0)
		return false;
	for (text += 6; *text >= '0' && *text <= '9'; text++) {
		part = part * 10 + (*text - '0');
		if (part > PART_MAX)
			return false;
	}
	if (strncmp(text, ";sep=", 5) == 0) {
		sep = text[5];
		if ((unsigned char)sep < 0x20 || (unsigned char)sep >= 0x7f)
			return false;
		text += 6;
	}
	if (part < 1 || *text != '\0')
		return false;
	*ret_part = part;
	*ret_sep = sep;
	return true;
}

static int parse_header(const char *text, struct key_source *source, char *error, size_t error_len)
{
	size_t len = strcspn(text, ";");

	if (!header_name_is_valid(text, len))
		return refuse(error, error_len, "no header's name: write header:Idempotency-Key");
	if (text[len] == ';' && !parse_part(text + len, &source->part, &source->sep))
		return refuse(error, error_len,
			      "malformed part: write header:NAME;part=N;sep=C, with N from 1 to 99 "
			      "and one character C");
	source->kind = KEY_HEADER;
	source->name = strndup(text, len);
	return source->name == NULL ? refuse_memory(error, error_len) : 0;
}

static int parse_json(const char *text, struct key_source *source, char *error, size_t error_len)
{
	if (text[0] != '/' || !json_scan_pointer_valid(text) || strlen(text) > JSON_POINTER_MAX)
		return refuse(error, error_len,
			      "no JSON pointer: write json:/invoice_id (RFC 6901, at most 255 "
			      "characters)");
	source->kind = KEY_JSON;
	source->name = strdup(text);
	return source->name == NULL ? refuse_memory(error, error_len) : 0;
}

static int parse_form(const char *text, struct key_source *source, char *error, size_t error_len)
{
	if (text[0] == '\0')
		return refuse(error, error_len, "no form field: write form:invoice_id");
	source->kind = KEY_FORM;
	source->name = strdup(text);
	return source->name == NULL ? refuse_memory(error, error_len) : 0;
}

static int parse_simple(const char *text, struct key_source *source, char *error, size_t error_len)
{
	if (strncmp(text, "header:", 7) == 0)
		return parse_header(text + 7, source, error, error_len);
	if (strncmp(text, "json:", 5) == 0)
		return parse_json(text + 5, source, error, error_len);
	if (strncmp(text, "form:", 5) == 0)
		return parse_form(text + 5, source, error, error_len);
	return refuse(error, error_len,
		      "unknown source: write header:NAME, json:/pointer, form:field, or "
		      "template:invoice:{json:/invoice_id}:charge");
}

static struct key_piece *new_piece(struct key_source *source)
{
	struct key_piece *pieces =
		realloc(source->pieces, (source->piece_count + 1) * sizeof(*pieces));

	if (pieces == NULL)
		return NULL;
	source->pieces = pieces;
	pieces[source->piece_count] = (struct key_piece){0};
	return &pieces[source->piece_count++];
}

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static int add_literal(struct key_source *source, const char *text, size_t len, bool more,
		       char *error, size_t error_len)
{
	struct key_piece *piece;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c <= 0x20 || c >= 0x7f || c == '}')
			return refuse(
				error, error_len,
				"a template holds visible ASCII characters and {source} only");
	}
	/* Its first character is encoded in the value before it (key.c), in hexadecimal. */
	if (more && source->piece_count > 0 && is_alnum(text[0]))
		return refuse(error, error_len,
			      "a separator between two sources of a template must not begin with a "
			      "letter or digit: write {a}:{b}");
	piece = new_piece(source);
	if (piece == NULL)
		return refuse_memory(error, error_len);
	piece->literal = strndup(text, len);
	return piece->literal == NULL ? refuse_memory(error, error_len) : 0;
}

static int add_source(struct key_source *source, const char *text, size_t len, char *error,
		      size_t error_len)
{
	struct key_piece *piece;
	char *inner;
	int result;

	if (source->piece_count > 0 && source->pieces[source->piece_count - 1].source != NULL)
		return refuse(error, error_len,
			      "two sources of a template need a separator between them: write "
			      "{a}:{b}");
	piece = new_piece(source);
	if (piece == NULL)
		return refuse_memory(error, error_len);
	piece->source = calloc(1, sizeof(*piece->source));
	inner = strndup(text, len);
	if (piece->source == NULL || inner == NULL) {
		free(inner);
		return refuse_memory(error, error_len);
	}
	piece->source->text = inner;
	result = parse_simple(inner, piece->source, error, error_len);
	return result;
}

static int parse_template(const char *text, struct key_source *source, char *error,
			  size_t error_len)
{
	bool any = false;

	source->kind = KEY_TEMPLATE;
	while (*text != '\0') {
		size_t len = strcspn(text, "{");
		int result;

		if (len > 0) {
			result = add_literal(source, text, len, text[len] == '{', error, error_len);
			text += len;
		} else {
			len = strcspn(text, "}");
			if (text[len] == '\0')
				return refuse(error, error_len,
					      "a template's { has no }: write "
					      "template:invoice:{json:/invoice_id}:charge");
			result = add_source(source, text + 1, len - 1, error, error_len);
			text += len + 1;
			any = true;
		}
		if (result != 0)
			return result;
	}
	if (!any)
		return refuse(error, error_len,
			      "a template without a source gives every request the same key: write "
			      "template:invoice:{json:/invoice_id}:charge");
	return 0;
}

int key_source_parse(const char *text, struct key_source *ret_source, char *error, size_t error_len)
{
	struct key_source source = {0};
	int result;

	if (strlen(text) > TEXT_MAX)
		return refuse(error, error_len, "a source's text is longer than 1024 characters");
	if (strncmp(text, "template:", 9) == 0)
		result = parse_template(text + 9, &source, error, error_len);
	else
		result = parse_simple(text, &source, error, error_len);
	if (result == 0) {
		source.text = strdup(text);
		if (source.text == NULL)
			result = refuse_memory(error, error_len);
	}
	if (result != 0) {
		key_source_done(&source);
		return result;
	}
	*ret_source = source;
	return 0;
}

bool key_source_needs_body(const struct key_source *source)
{
	for (size_t i = 0; i < source->piece_count; i++) {
		if (source->pieces[i].source != NULL &&
		    key_source_needs_body(source->pieces[i].source))
			return true;
	}
	return source->kind == KEY_JSON || source->kind == KEY_FORM;
}

bool key_source_reads_header(const struct key_source *source, const char *name, size_t name_len)
{
	for (size_t i = 0; i < source->piece_count; i++) {
		if (source->pieces[i].source != NULL &&
		    key_source_reads_header(source->pieces[i].source, name, name_len))
			return true;
	}
	return source->kind == KEY_HEADER && source->name != NULL &&
	       header_name_is(name, name_len, source->name);
}
