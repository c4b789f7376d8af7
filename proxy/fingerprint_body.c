#include "proxy/fingerprint_body.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "classify/json_scan.h"
#include "proxy/digest.h"

#define VALUES_MAX 100000
#define BOUNDARY_MAX 70 /* RFC 2046 section 5.1.1 */

/* Counts, without checking the text, what a tree of it would cost: commas and brackets outside
 * strings bound the values, and open brackets the depth. */
static bool is_affordable(const char *text, size_t len)
{
	size_t values = 1, depth = 0;
	bool string = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (string && c == '\\')
			i++;
		else if (c == '"')
			string = !string;
		else if (string)
			continue;
		else if (c == ',')
			values++;
		else if (c == '[' || c == '{') {
			values++;
			if (++depth > JSON_SCAN_DEPTH)
				return false;
		} else if ((c == ']' || c == '}') && depth > 0)
			depth--;
	}
	return values <= VALUES_MAX;
}

/* The first reference token of a valid pointer that is not "", unescaped (RFC 6901 section 4) and
 * NUL-terminated; returns what follows it. */
static const char *pointer_token(const char *pointer, char ret_token[JSON_POINTER_MAX + 1])
{
	size_t len = 0;

	for (pointer++; *pointer != '\0' && *pointer != '/'; pointer++) {
		char c = *pointer;

		if (c == '~')
			c = *++pointer == '0' ? '~' : '/';
		ret_token[len++] = c;
	}
	ret_token[len] = '\0';
	return pointer;
}

static json_t *child_of(json_t *value, const char *token, size_t *ret_index)
{
	char *end;

	if (json_is_object(value))
		return json_object_get(value, token);
	if (!json_is_array(value) || token[0] < '0' || token[0] > '9' ||
	    (token[0] == '0' && token[1] != '\0'))
		return NULL;
	errno = 0;
	*ret_index = strtoul(token, &end, 10);
	if (*end != '\0' || errno != 0)
		return NULL;
	return json_array_get(value, *ret_index);
}

/* Takes the pointed-at value out, if it is there. False: out of memory. */
static bool except(json_t **root, const char *pointer)
{
	char token[JSON_POINTER_MAX + 1];
	json_t *value = *root;
	size_t index = 0;

	if (!json_scan_pointer_valid(pointer) || strlen(pointer) > JSON_POINTER_MAX)
		return true;
	if (*pointer == '\0') {
		json_decref(*root);
		*root = json_null();
		return true;
	}
	for (;;) {
		json_t *child;

		pointer = pointer_token(pointer, token);
		child = child_of(value, token, &index);
		if (child == NULL)
			return true;
		if (*pointer == '\0')
			break;
		value = child;
	}
	if (json_is_object(value))
		return json_object_del(value, token) == 0;
	return json_array_set_new(value, index, json_null()) == 0;
}

static int dump_to_digest(const char *text, size_t len, void *data)
{
	struct digest *digest = data;

	digest_bytes(digest, text, len);
	return 0;
}

enum fingerprint_body_result fingerprint_body_json(const struct fingerprint_config *config,
						   const struct fingerprint_input *input,
						   struct digest *digest)
{
	enum fingerprint_body_result result = FINGERPRINT_BODY_OK;
	json_error_t error;
	json_t *root;

	if (input->body_len == 0 || !is_affordable(input->body, input->body_len))
		return FINGERPRINT_BODY_EXACT;
	root = json_loadb(input->body, input->body_len,
			  JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	if (root == NULL)
		return json_error_code(&error) == json_error_out_of_memory ? FINGERPRINT_BODY_MEMORY
									   : FINGERPRINT_BODY_EXACT;
	for (size_t i = 0; i < config->except_count; i++) {
		if (!except(&root, config->except[i]))
			result = FINGERPRINT_BODY_MEMORY;
	}
	if (result == FINGERPRINT_BODY_OK &&
	    json_dump_callback(root, dump_to_digest, digest,
			       JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) != 0)
		result = FINGERPRINT_BODY_MEMORY;
	json_decref(root);
	return result;
}

/* Reads a parameter's value, quoted or not, into ret_value; returns what follows it, or NULL if it
 * is malformed or longer than BOUNDARY_MAX where `keep` asks for it. */
static const char *parameter_value(const char *at, bool keep, char ret_value[BOUNDARY_MAX + 1])
{
	bool quoted = *at == '"';
	size_t len = 0;

	if (quoted)
		at++;
	while (quoted ? *at != '"' : *at != '\0' && strchr("; \t", *at) == NULL) {
		if (quoted && *at == '\\')
			at++;
		if (*at == '\0')
			return NULL;
		if (keep && len == BOUNDARY_MAX)
			return NULL;
		if (keep)
			ret_value[len++] = *at;
		at++;
	}
	if (keep)
		ret_value[len] = '\0';
	return quoted ? at + 1 : at;
}

/* The boundary of a multipart content type; false if it is another type, or has none. */
static bool find_boundary(const char *at, char ret_boundary[BOUNDARY_MAX + 1])
{
	bool found = false;

	if (at == NULL)
		return false;
	at += strspn(at, " \t");
	if (strncasecmp(at, "multipart/", 10) != 0)
		return false;
	at += strcspn(at, ";");
	while (*at != '\0') {
		size_t name_len;
		bool here;

		at += strspn(at, "; \t");
		name_len = strcspn(at, "=; \t");
		if (at[name_len] != '=') {
			at += name_len;
			continue;
		}
		here = name_len == 8 && strncasecmp(at, "boundary", 8) == 0;
		if (here && found)
			return false;
		at = parameter_value(at + name_len + 1, here, ret_boundary);
		if (at == NULL)
			return false;
		found = found || here;
	}
	return found && ret_boundary[0] != '\0';
}

/* One walk through a multipart body. */
struct walk {
	const char *at, *end;
	char delimiter[BOUNDARY_MAX + 5]; /* CRLF, two hyphens, boundary */
	size_t delimiter_len;
	struct digest *digest; /* NULL: only check */
};

static void count_field(struct walk *walk, const char *from, const char *to)
{
	if (walk->digest != NULL)
		digest_field(walk->digest, from, (size_t)(to - from));
}

/* Passes what follows a delimiter on its line. False if that is neither its end nor "--". */
static bool end_delimiter(struct walk *walk, bool *ret_last)
{
	*ret_last = walk->end - walk->at >= 2 && memcmp(walk->at, "--", 2) == 0;
	if (*ret_last) {
		walk->at += 2;
		return true;
	}
	while (walk->at < walk->end && (*walk->at == ' ' || *walk->at == '\t'))
		walk->at++;
	if (walk->end - walk->at < 2 || memcmp(walk->at, "\r\n", 2) != 0)
		return false;
	walk->at += 2;
	return true;
}

static bool walk_preamble(struct walk *walk, bool *ret_last)
{
	size_t first = walk->delimiter_len - 2; /* the first delimiter may begin the body */
	const char *from = walk->at, *found;

	if ((size_t)(walk->end - walk->at) >= first &&
	    memcmp(walk->at, walk->delimiter + 2, first) == 0) {
		count_field(walk, from, from);
		walk->at += first;
		return end_delimiter(walk, ret_last);
	}
	found = memmem(from, (size_t)(walk->end - from), walk->delimiter, walk->delimiter_len);
	if (found == NULL)
		return false;
	count_field(walk, from, found);
	walk->at = found + walk->delimiter_len;
	return end_delimiter(walk, ret_last);
}

static bool walk_part(struct walk *walk, bool *ret_last)
{
	const char *from = walk->at;
	const char *stop =
		memmem(from, (size_t)(walk->end - from), walk->delimiter, walk->delimiter_len);
	const char *content;

	if (stop == NULL)
		return false;
	if (stop - from >= 2 && memcmp(from, "\r\n", 2) == 0) {
		count_field(walk, from, from);
		content = from + 2;
	} else {
		const char *blank = memmem(from, (size_t)(stop - from), "\r\n\r\n", 4);

		if (blank == NULL)
			return false;
		count_field(walk, from, blank);
		content = blank + 4;
	}
	count_field(walk, content, stop);
	walk->at = stop + walk->delimiter_len;
	return end_delimiter(walk, ret_last);
}

static bool walk_body(const struct fingerprint_input *input, const char *boundary,
		      struct digest *digest)
{
	struct walk walk = {.at = input->body,
			    .end = input->body + input->body_len,
			    .delimiter = "\r\n--",
			    .digest = digest};
	size_t boundary_len = strlen(boundary);
	bool last;

	memcpy(walk.delimiter + 4, boundary, boundary_len);
	walk.delimiter_len = 4 + boundary_len;
	if (!walk_preamble(&walk, &last) || last) /* one part at least */
		return false;
	while (!last) {
		if (!walk_part(&walk, &last))
			return false;
	}
	count_field(&walk, walk.at, walk.end);
	return true;
}

enum fingerprint_body_result fingerprint_body_multipart(const struct fingerprint_input *input,
							struct digest *digest)
{
	char boundary[BOUNDARY_MAX + 1];

	if (input->body_len == 0 || !find_boundary(input->content_type, boundary))
		return FINGERPRINT_BODY_EXACT;
	if (!walk_body(input, boundary, NULL))
		return FINGERPRINT_BODY_EXACT;
	walk_body(input, boundary, digest);
	return FINGERPRINT_BODY_OK;
}
