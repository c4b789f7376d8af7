/* Where an operation's key, tenant, scope and remote id come from: header, JSON, form, template. */
#ifndef STINT_PROXY_KEY_H
#define STINT_PROXY_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "classify/outcome.h"

enum key_source_kind { KEY_HEADER, KEY_JSON, KEY_FORM, KEY_TEMPLATE };

/* One compiled source. Texts are owned. */
struct key_source {
	enum key_source_kind kind;
	char *text; /* as configured, for messages and audit */
	char *name; /* header name, JSON pointer, form field */
	int part;   /* header: 1-based part after splitting at `sep`; 0: the whole value */
	char sep;
	/* template: literal and source pieces in order */
	struct key_piece *pieces;
	size_t piece_count;
};

struct key_piece {
	char *literal;             /* or NULL */
	struct key_source *source; /* or NULL: header, json or form */
};

/* Compiles "header:NAME", "header:NAME;part=N;sep=,", "json:/pointer", "form:field",
 * "template:invoice:{json:/invoice_id}:charge". 0, or -1 with a sentence in error that says what to
 * write instead. */
int key_source_parse(const char *text, struct key_source *ret_source, char *error,
		     size_t error_len);
void key_source_done(struct key_source *source);

/* What a source may read: of a request, or of a reply (remote id). */
struct key_input {
	const struct header_view *headers;
	size_t header_count;
	const char *body; /* whole body, or NULL where it was too large to buffer */
	size_t body_len;
	const char *content_type; /* NUL-terminated, or NULL */
};

enum key_result {
	KEY_FOUND = 0,
	KEY_NONE = 1,     /* no source gave a value */
	KEY_INVALID = -1, /* a source is there and is malformed: a stable 400 */
};

#define KEY_DETAIL_MAX 128

/* Tries the sources in order; the first that is present decides. A header source that appears on
 * more than one line, an empty value, a value that is no structured-field string and holds other
 * than 1 to 255 visible ASCII characters is KEY_INVALID, and `ret_detail` (at least KEY_DETAIL_MAX
 * bytes, written for KEY_INVALID only) says why without quoting the value. A JSON number or string
 * is taken as its text; a missing pointer, null there, or a body that does not parse is "not
 * present"; a member on the pointer's way that is there twice is invalid, since two readers may
 * take different ones, and so is nesting beyond JSON_SCAN_DEPTH. A form field counts only under
 * application/x-www-form-urlencoded, and twice the same field is invalid. A header without the part
 * that is asked for is invalid. A template needs all its pieces; where a piece is followed by
 * another one, a "%" and the first character of the literal between them are percent-encoded in
 * its value, so that different values never make the same key. ret_key is at least OP_KEY_MAX + 1
 * bytes and NUL-terminated; it is written for KEY_FOUND only. */
enum key_result key_extract(const struct key_source *sources, size_t count,
			    const struct key_input *input, char *ret_key, char *ret_detail);

/* Whether a source reads the body. */
bool key_source_needs_body(const struct key_source *source);
/* Whether a source reads the request header of that name (templates: any of its pieces). */
bool key_source_reads_header(const struct key_source *source, const char *name, size_t name_len);

/* The key in a header's value, as key_extract() reads it: white space around it left out, a
 * structured-field string or bare. KEY_FOUND or KEY_INVALID; buffers as for key_extract(). */
enum key_result key_from_text(const char *text, size_t len, char *ret_key, char *ret_detail);

#endif
