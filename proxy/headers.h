/* Header lists: owned, filtered for the next hop (RFC 9110 section 7.6.1), and kept in the ledger.
 *
 * Nothing that could inject a header gets into a list: a name is a token, a value holds no CR, LF
 * or NUL. Values are kept as given, white space around them included. */
#ifndef STINT_PROXY_HEADERS_H
#define STINT_PROXY_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "classify/outcome.h"

struct provider_config;

/* `items[0 .. count - 1]` are read freely. Names and values are NUL-terminated copies in one block;
 * adding may move them, so a view is good until the next add. */
struct headers {
	struct header_view *items;
	size_t count;
	size_t capacity;
	char *arena;
	size_t arena_len, arena_capacity;
};

enum headers_result {
	HEADERS_OK = 0,
	HEADERS_MEMORY = -1,
	HEADERS_REFUSED = -2, /* a malformed name or value, or a request to answer with 400 */
};

/* Whether a name equals `text` (NUL-terminated), without regard to case. */
static inline bool header_name_is(const char *name, size_t name_len, const char *text)
{
	return strlen(text) == name_len && strncasecmp(name, text, name_len) == 0;
}

static inline bool header_is(const struct header_view *header, const char *text)
{
	return header_name_is(header->name, header->name_len, text);
}

/* A token (RFC 9110 section 5.6.2): what a header's name may be. */
bool header_name_is_valid(const char *name, size_t len);
/* Free of CR, LF and NUL. */
bool header_value_is_valid(const char *value, size_t len);
/* The part of a value without the spaces and tabs around it. */
void header_value_trim(const char *value, size_t len, const char **ret_value, size_t *ret_len);

void headers_init(struct headers *headers);
void headers_done(struct headers *headers);
/* Empties the list and keeps its memory. */
void headers_clear(struct headers *headers);

/* Appends a copy. On failure nothing was appended. Neither part may point into the list. */
enum headers_result headers_add(struct headers *headers, const char *name, size_t name_len,
				const char *value, size_t value_len);
enum headers_result headers_add_text(struct headers *headers, const char *name, const char *value);
/* Removes every line of that name and appends one. On failure the list is unchanged. */
enum headers_result headers_set(struct headers *headers, const char *name, const char *value);
/* Returns how many lines went. */
size_t headers_remove(struct headers *headers, const char *name);

/* The first line of that name, or NULL. */
const struct header_view *headers_find(const struct headers *headers, const char *name);
size_t headers_count(const struct headers *headers, const char *name);
/* The one Content-Length of a message: 1 and the number, 0 if there is none, -1 if it is malformed
 * or there are several that differ (RFC 9112 section 6.3). */
int headers_content_length(const struct header_view *items, size_t count, int64_t *ret_length);

/* What goes upstream of a request's headers, appended to ret_headers, Via added. Left out: the
 * hop-by-hop ones and those that Connection names, Expect, Host, Content-Length, Stint and
 * Stint-*. HEADERS_REFUSED, with a sentence in ret_detail (static text), if Connection is malformed
 * or names what the request must not lose: the provider's key, tenant, scope or upstream key
 * header, Authorization, Host, Content-Length. `provider` may be NULL. On failure the list holds a
 * part and is only good for headers_done(). */
enum headers_result headers_filter_request(const struct header_view *items, size_t count,
					   const struct provider_config *provider,
					   struct headers *ret_headers, const char **ret_detail);

/* What goes to the caller of a reply's headers: hop-by-hop ones (by list and by Connection), Trailer,
 * Transfer-Encoding, Content-Length, Stint and Stint-* left out, Via added. */
enum headers_result headers_filter_reply(const struct header_view *items, size_t count,
					 struct headers *ret_headers);

/* "Name: value\r\n" for each, as the ledger keeps a reply's head: a malloc'ed block that the caller
 * owns, NUL-terminated beyond its length. */
enum headers_result headers_serialise(const struct headers *headers, char **ret_text,
				      size_t *ret_len);
/* The reverse, appended to the list; HEADERS_REFUSED for a block that is not of this form. */
enum headers_result headers_parse(const char *text, size_t len, struct headers *ret_headers);

#endif
