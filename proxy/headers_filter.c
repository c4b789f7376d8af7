/* What passes from one hop to the next (RFC 9110 section 7.6). */
#include "proxy/headers.h"

#include "proxy/config.h"

#define VIA "1.1 stint"

/* More than any client names; it bounds the work that one Connection line can cause. */
#define CONNECTION_OPTIONS_MAX 32

/* RFC 9110 section 7.6.1, with the connection's own fields of RFC 9112 and RFC 7540 section 3.2.1.
 * Literals one by one, so that each costs a comparison of lengths. */
static bool is_hop_by_hop(const struct header_view *header)
{
	return header_is(header, "Connection") || header_is(header, "Keep-Alive") ||
	       header_is(header, "Proxy-Connection") || header_is(header, "Proxy-Authenticate") ||
	       header_is(header, "Proxy-Authorization") || header_is(header, "TE") ||
	       header_is(header, "Trailer") || header_is(header, "Transfer-Encoding") ||
	       header_is(header, "Upgrade") || header_is(header, "HTTP2-Settings");
}

/* Stint and Stint-*: ours towards the caller, never the provider's. */
static bool is_ours(const struct header_view *header)
{
	return header->name_len >= 5 && strncasecmp(header->name, "Stint", 5) == 0 &&
	       (header->name_len == 5 || header->name[5] == '-');
}

/* Takes the next element of a comma-separated list; false at its end. Empty ones are skipped (RFC
 * 9110 section 5.6.1.2). */
static bool next_option(const char **at, const char *end, const char **ret_option, size_t *ret_len)
{
	while (*at < end) {
		const char *comma = memchr(*at, ',', (size_t)(end - *at));
		const char *stop = comma == NULL ? end : comma;

		header_value_trim(*at, (size_t)(stop - *at), ret_option, ret_len);
		*at = comma == NULL ? end : comma + 1;
		if (*ret_len > 0)
			return true;
	}
	return false;
}

static bool connection_names(const struct header_view *items, size_t count,
			     const struct header_view *header)
{
	for (size_t i = 0; i < count; i++) {
		const char *at = items[i].value, *option;
		size_t len;

		if (!header_is(&items[i], "Connection"))
			continue;
		while (next_option(&at, items[i].value + items[i].value_len, &option, &len)) {
			if (len == header->name_len && strncasecmp(option, header->name, len) == 0)
				return true;
		}
	}
	return false;
}

static bool has_connection(const struct header_view *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (header_is(&items[i], "Connection"))
			return true;
	}
	return false;
}

/* Whether the provider's configuration reads the header of that name. */
static bool provider_reads(const struct provider_config *provider, const char *name, size_t len)
{
	if (provider == NULL)
		return false;
	for (size_t i = 0; i < provider->key_from_count; i++) {
		if (key_source_reads_header(&provider->key_from[i], name, len))
			return true;
	}
	for (size_t i = 0; i < provider->scope_count; i++) {
		if (key_source_reads_header(&provider->scope[i], name, len))
			return true;
	}
	if (provider->has_tenant && key_source_reads_header(&provider->tenant, name, len))
		return true;
	return provider->idempotency_header != NULL &&
	       header_name_is(name, len, provider->idempotency_header);
}

/* NULL, or why a Connection option is to be answered with 400: to drop such a header would send
 * another request than the caller's, or to another operation. */
static const char *check_option(const char *option, size_t len,
				const struct provider_config *provider)
{
	if (!header_name_is_valid(option, len))
		return "Connection holds something that is no token";
	if (header_name_is(option, len, "Authorization"))
		return "Connection names Authorization; take it out of Connection";
	if (header_name_is(option, len, "Host") || header_name_is(option, len, "Content-Length"))
		return "Connection names Host or Content-Length; take it out of Connection";
	if (provider_reads(provider, option, len))
		return "Connection names the header of the operation's key, tenant or scope; take "
		       "it out of Connection";
	return NULL;
}

static const char *check_connection(const struct header_view *items, size_t count,
				    const struct provider_config *provider)
{
	int options = 0;

	for (size_t i = 0; i < count; i++) {
		const char *at = items[i].value, *option;
		size_t len;

		if (!header_is(&items[i], "Connection"))
			continue;
		while (next_option(&at, items[i].value + items[i].value_len, &option, &len)) {
			const char *detail = check_option(option, len, provider);

			if (detail != NULL)
				return detail;
			if (++options > CONNECTION_OPTIONS_MAX)
				return "Connection names too many headers";
		}
	}
	return NULL;
}

enum headers_result headers_filter_request(const struct header_view *items, size_t count,
					   const struct provider_config *provider,
					   struct headers *ret_headers, const char **ret_detail)
{
	bool connection = has_connection(items, count);
	const char *detail = connection ? check_connection(items, count, provider) : NULL;

	if (detail != NULL) {
		*ret_detail = detail;
		return HEADERS_REFUSED;
	}
	for (size_t i = 0; i < count; i++) {
		const struct header_view *item = &items[i];
		enum headers_result result;

		if (is_hop_by_hop(item) || is_ours(item) || header_is(item, "Expect") ||
		    header_is(item, "Host") || header_is(item, "Content-Length"))
			continue;
		if (connection && connection_names(items, count, item))
			continue;
		result = headers_add(ret_headers, item->name, item->name_len, item->value,
				     item->value_len);
		if (result == HEADERS_REFUSED)
			*ret_detail =
				"a header's name is no token, or its value holds CR, LF or NUL";
		if (result != HEADERS_OK)
			return result;
	}
	return headers_add_text(ret_headers, "Via", VIA);
}

enum headers_result headers_filter_reply(const struct header_view *items, size_t count,
					 struct headers *ret_headers)
{
	bool connection = has_connection(items, count);

	for (size_t i = 0; i < count; i++) {
		const struct header_view *item = &items[i];
		enum headers_result result;

		if (is_hop_by_hop(item) || is_ours(item) || header_is(item, "Content-Length"))
			continue;
		if (connection && connection_names(items, count, item))
			continue;
		result = headers_add(ret_headers, item->name, item->name_len, item->value,
				     item->value_len);
		if (result != HEADERS_OK)
			return result;
	}
	return headers_add_text(ret_headers, "Via", VIA);
}
