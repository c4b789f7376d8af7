#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "proxy/config_build.h"
#include "proxy/config_value.h"

#define HOST_MAX 255
#define LISTEN_MAX 16
#define HOST_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"

void listen_address_done(struct listen_address *address)
{
	free(address->text);
	free(address->host);
	free(address->path);
	*address = (struct listen_address){0};
}

void upstream_url_done(struct upstream_url *url)
{
	free(url->text);
	free(url->host);
	free(url->origin);
	free(url->authority);
	free(url->path);
	*url = (struct upstream_url){0};
}

/* "1" to "65535", digits only. */
static bool parse_port(const char *text, int *ret_port)
{
	int64_t port;

	if (!isdigit((unsigned char)text[0]) || value_int(text, &port) != 0 || port < 1 ||
	    port > 65535)
		return false;
	*ret_port = (int)port;
	return true;
}

/* Splits "host:port", "[v6]:port", "host", "[v6]"; *ret_port stays where there is none. The host
 * comes without brackets. */
static bool split_authority(const char *text, size_t len, char ret_host[HOST_MAX + 1], bool *ret_v6,
			    int *ret_port)
{
	char copy[HOST_MAX + 16];
	char *host = copy, *end;
	struct in6_addr v6;

	if (len == 0 || len >= sizeof(copy))
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	*ret_v6 = copy[0] == '[';
	if (*ret_v6) {
		host = copy + 1;
		end = strchr(host, ']');
		if (end == NULL)
			return false;
		*end++ = '\0';
		if (inet_pton(AF_INET6, host, &v6) != 1)
			return false;
	} else {
		end = host + strcspn(host, ":");
	}
	if (*end == ':') {
		*end = '\0';
		if (!parse_port(end + 1, ret_port))
			return false;
	} else if (*end != '\0') {
		return false;
	}
	size_t host_len = strlen(host);

	if (host_len == 0 || host_len > HOST_MAX ||
	    (!*ret_v6 && strspn(host, HOST_LETTERS) != host_len))
		return false;
	for (size_t i = 0; i <= host_len; i++)
		ret_host[i] = (char)tolower((unsigned char)host[i]);
	return true;
}

static bool set_unix(struct loader *loader, const struct option *option, const struct node *node,
		     struct listen_address *ret_address)
{
	struct sockaddr_un room;
	const char *path = node->text + strlen("unix:");

	if (path[0] == '\0' || strlen(path) >= sizeof(room.sun_path))
		return value_refuse(loader, option, node, "write unix:PATH of 1 to %zu bytes",
				    sizeof(room.sun_path) - 1);
	ret_address->text = loader_strdup(loader, node->text);
	ret_address->path = loader_strdup(loader, path);
	ret_address->loopback = true;
	return true;
}

bool value_set_address(struct loader *loader, const struct option *option, const struct node *node,
		       struct listen_address *ret_address)
{
	char host[HOST_MAX + 1];
	struct in_addr v4;
	struct in6_addr v6;
	bool is_v6;
	int port = 0;

	if (!value_is_scalar(loader, option, node, "ADDRESS:PORT or unix:/path"))
		return false;
	if (strncmp(node->text, "unix:", strlen("unix:")) == 0)
		return set_unix(loader, option, node, ret_address);
	if (node->text[0] == ':' && parse_port(node->text + 1, &port))
		return value_refuse(loader, option, node, "write 127.0.0.1:%d or 0.0.0.0:%d", port,
				    port);
	if (parse_port(node->text, &port))
		return value_refuse(loader, option, node, "write 127.0.0.1:%d", port);
	port = 0;
	if (!split_authority(node->text, strlen(node->text), host, &is_v6, &port) || port == 0)
		return value_refuse(loader, option, node,
				    "write ADDRESS:PORT such as 127.0.0.1:8380 or [::1]:8380, or "
				    "unix:/path");
	if (!is_v6 && inet_pton(AF_INET, host, &v4) != 1)
		return value_refuse(loader, option, node,
				    "a listener has a numeric address, write 127.0.0.1:%d", port);
	if (is_v6) {
		inet_pton(AF_INET6, host, &v6);
		ret_address->loopback = IN6_IS_ADDR_LOOPBACK(&v6);
	} else {
		ret_address->loopback = (ntohl(v4.s_addr) >> 24) == 127;
	}
	ret_address->text = loader_strdup(loader, node->text);
	ret_address->host = loader_strdup(loader, host);
	ret_address->port = port;
	return true;
}

bool value_set_addresses(struct loader *loader, const struct option *option,
			 const struct node *node, struct config *config)
{
	size_t count = node->kind == NODE_LIST ? node->count : 1;
	bool good = true;

	if (count == 0 || count > LISTEN_MAX)
		return value_refuse(loader, option, node, "write 1 to %d addresses", LISTEN_MAX);
	config->listen = loader_heap(loader, count, sizeof(*config->listen));
	if (config->listen == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (value_set_address(loader, option, item, &config->listen[config->listen_count]))
			config->listen_count++;
		else
			good = false;
	}
	return good;
}

static char *print_text(struct loader *loader, const char *scheme, const char *host, bool is_v6,
			int port)
{
	char text[HOST_MAX + 32];

	if (port > 0)
		snprintf(text, sizeof(text), is_v6 ? "%s[%s]:%d" : "%s%s:%d", scheme, host, port);
	else
		snprintf(text, sizeof(text), is_v6 ? "%s[%s]" : "%s%s", scheme, host);
	return loader_strdup(loader, text);
}

static bool has_dot_segment(const char *path)
{
	while (*path != '\0') {
		size_t len = strcspn(path, "/");

		if ((len == 1 && path[0] == '.') || (len == 2 && strncmp(path, "..", 2) == 0))
			return true;
		path += len;
		path += *path == '/';
	}
	return false;
}

static bool is_visible(const char *text)
{
	for (; *text != '\0'; text++)
		if (*text < 0x21 || *text > 0x7e)
			return false;
	return true;
}

/* What is wrong with the rest of an upstream whose scheme is known, or NULL. */
static const char *url_fault(const char *rest)
{
	size_t authority = strcspn(rest, "/?#");

	if (!is_visible(rest) || strpbrk(rest, "\\\"<>^`{|}") != NULL)
		return "write visible ASCII, other characters as %XX";
	if (has_dot_segment(rest + authority))
		return "leave out . and .. in its path";
	if (strstr(rest + authority, "//") != NULL)
		return "leave out the empty segments (//) of its path";
	return NULL;
}

bool value_set_url(struct loader *loader, const struct option *option, const struct node *node,
		   struct upstream_url *ret_url)
{
	const char *text = node->text;
	char host[HOST_MAX + 1];
	bool is_v6;
	int port = 0;

	if (!value_is_scalar(loader, option, node, "http://HOST or https://HOST"))
		return false;
	bool tls = strncasecmp(text, "https://", 8) == 0;

	if (!tls && strncasecmp(text, "http://", 7) != 0) {
		if (strchr(text, '@') != NULL)
			goto userinfo;
		return value_refuse(loader, option, node, "write http://HOST or https://HOST");
	}
	const char *rest = text + (tls ? 8 : 7);
	size_t authority = strcspn(rest, "/?#");

	if (memchr(rest, '@', authority) != NULL)
		goto userinfo;
	/* a query may hold a secret, as a userinfo does: neither is quoted */
	if (strpbrk(rest, "?#") != NULL) {
		loader_problem(loader, node->line, node->column,
			       "%s has a query or fragment: leave out what follows ? or #",
			       option->path);
		return false;
	}
	const char *fault = url_fault(rest);

	if (fault != NULL)
		return value_refuse(loader, option, node, "%s", fault);
	if (!split_authority(rest, authority, host, &is_v6, &port))
		return value_refuse(loader, option, node,
				    "write http://HOST[:PORT][/PATH] or the same with https");
	const char *path = rest + authority;
	size_t path_len = strlen(path);

	path_len -= path_len > 0 && path[path_len - 1] == '/';
	int standard = tls ? 443 : 80;

	ret_url->text = loader_strdup(loader, text);
	ret_url->tls = tls;
	ret_url->host = loader_strdup(loader, host);
	ret_url->port = port > 0 ? port : standard;
	ret_url->origin =
		print_text(loader, tls ? "https://" : "http://", host, is_v6, ret_url->port);
	ret_url->authority = print_text(loader, "", host, is_v6, port == standard ? 0 : port);
	ret_url->path = strndup(path, path_len);
	if (ret_url->path == NULL)
		loader->oom = true;
	return true;
userinfo:
	loader_problem(loader, node->line, node->column,
		       "%s has a user or password in it: leave out what stands before @, the "
		       "application sends its own credentials",
		       option->path);
	return false;
}

bool value_set_route(struct loader *loader, const struct option *option, const struct node *node,
		     char **ret_route)
{
	if (!value_is_scalar(loader, option, node, "a path prefix such as /payments"))
		return false;
	const char *text = node->text;
	size_t len = strlen(text);

	if (text[0] != '/')
		return value_refuse(loader, option, node, "write /%s",
				    is_visible(text) && strchr(text, ':') == NULL ? text
										  : "payments");
	if (strpbrk(text, "?#") != NULL)
		return value_refuse(loader, option, node, "leave out what follows ? or #");
	if (!is_visible(text) || strpbrk(text, "%\\\"<>^`{|}") != NULL)
		return value_refuse(loader, option, node,
				    "a route is compared byte by byte, write plain visible ASCII "
				    "without %% or \\");
	if (strstr(text, "//") != NULL)
		return value_refuse(loader, option, node, "leave out the empty segments (//)");
	if (has_dot_segment(text))
		return value_refuse(loader, option, node, "leave out the segments . and ..");
	if (len > 1 && text[len - 1] == '/')
		return value_refuse(loader, option, node, "write %.*s", (int)len - 1, text);
	*ret_route = loader_strdup(loader, len > 1 ? text : "");
	return *ret_route != NULL;
}

bool value_set_host(struct loader *loader, const struct option *option, const struct node *node,
		    char **ret_host)
{
	char host[HOST_MAX + 1], text[HOST_MAX + 3];
	bool is_v6;
	int port = 0;

	if (!value_is_scalar(loader, option, node, "a host name such as payments.internal"))
		return false;
	if (!split_authority(node->text, strlen(node->text), host, &is_v6, &port))
		return value_refuse(loader, option, node,
				    "write a host name such as payments.internal");
	snprintf(text, sizeof(text), is_v6 ? "[%s]" : "%s", host);
	if (port > 0)
		return value_refuse(loader, option, node, "the port does not count, write %s",
				    text);
	*ret_host = loader_strdup(loader, text);
	return *ret_host != NULL;
}
