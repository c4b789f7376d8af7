#include "proxy/target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proxy/config.h"

bool target_check(const char *method, const char *raw, size_t len, const char **ret_detail)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)raw[i];

		if (c <= 0x20 || c == 0x7f) {
			*ret_detail = "the request target holds a space or a control character; "
				      "percent-encode it";
			return false;
		}
		if (c == '#') {
			*ret_detail = "the request target holds a fragment; leave it out, or "
				      "percent-encode the #";
			return false;
		}
	}
	if (strcmp(method, "CONNECT") == 0) {
		*ret_detail = "CONNECT is not served: use stint as the base URL, not as a proxy";
		return false;
	}
	if (len == 1 && raw[0] == '*' && strcmp(method, "OPTIONS") == 0)
		return true;
	if (len == 0 || raw[0] != '/') {
		*ret_detail =
			"the request target must be a path: use stint as the base URL, not as "
			"a proxy";
		return false;
	}
	return true;
}

/* The host's name without port and final dot; brackets stay. */
static void host_name(const char *host, size_t len, size_t *ret_len)
{
	const char *end = host + len;
	const char *from = len > 0 && host[0] == '[' ? memchr(host, ']', len) : host;
	const char *colon = from == NULL ? NULL : memchr(from, ':', (size_t)(end - from));

	if (colon != NULL)
		len = (size_t)(colon - host);
	if (len > 1 && host[len - 1] == '.')
		len--;
	*ret_len = len;
}

static bool host_is(const char *host, size_t len, const char *wanted)
{
	size_t wanted_len;

	if (host == NULL || wanted == NULL)
		return false;
	host_name(host, len, &len);
	host_name(wanted, strlen(wanted), &wanted_len);
	return len > 0 && len == wanted_len && strncasecmp(host, wanted, len) == 0;
}

/* Whether the prefix ends at the end of a segment of the path. */
static bool prefix_fits(const char *prefix, const char *raw, size_t len)
{
	size_t prefix_len = strlen(prefix);

	if (prefix_len > len || memcmp(prefix, raw, prefix_len) != 0)
		return false;
	return prefix_len == 0 || prefix_len == len || raw[prefix_len] == '/' ||
	       raw[prefix_len] == '?';
}

const struct provider_config *target_route(const struct config *config,
					   const struct provider_config *own, const char *host,
					   size_t host_len, const char *raw, size_t len)
{
	const struct provider_config *best = NULL;

	if (own != NULL)
		return own;
	for (size_t i = 0; i < config->provider_count; i++) {
		const struct provider_config *provider = &config->providers[i];

		if (provider->route_kind == ROUTE_HOST &&
		    host_is(host, host_len, provider->route_host))
			return provider;
	}
	for (size_t i = 0; i < config->provider_count; i++) {
		const struct provider_config *provider = &config->providers[i];

		if (provider->route_kind != ROUTE_PREFIX ||
		    !prefix_fits(provider->route_prefix, raw, len))
			continue;
		if (best == NULL || strlen(provider->route_prefix) > strlen(best->route_prefix))
			best = provider;
	}
	return best;
}

int target_build(const struct provider_config *provider, const char *raw, size_t len,
		 char **ret_upstream, const char **ret_rest)
{
	const char *path = provider->upstream.path == NULL ? "" : provider->upstream.path;
	size_t path_len = strlen(path);
	bool star = len == 1 && raw[0] == '*';
	char *upstream, *at;

	if (star)
		path_len = 0;
	else if (provider->route_kind == ROUTE_PREFIX) {
		size_t prefix_len = strlen(provider->route_prefix);

		raw += prefix_len;
		len -= prefix_len;
	}
	upstream = malloc(path_len + 1 + len + 1);
	if (upstream == NULL)
		return -1;
	memcpy(upstream, path, path_len);
	at = upstream + path_len;
	if (!star && (len == 0 || raw[0] != '/'))
		*at++ = '/';
	memcpy(at, raw, len);
	at[len] = '\0';
	*ret_upstream = upstream;
	*ret_rest = upstream + path_len;
	return 0;
}
