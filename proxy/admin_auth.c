#include "proxy/admin_auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "classify/text.h"
#include "proxy/config.h"
#include "proxy/digest.h"

_Static_assert(sizeof(((struct admin_auth *)NULL)->token) == DIGEST_LEN, "a digest fits");

static void hash(const char *text, size_t len, uint8_t ret_hash[DIGEST_LEN])
{
	struct digest digest;

	digest_init(&digest);
	digest_bytes(&digest, text, len);
	digest_done(&digest, ret_hash);
}

/* Reads at most `room` bytes; -1 with errno. */
static ssize_t read_file(const char *path, char *buffer, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t got = 0;
	ssize_t n = -1;
	int saved;

	if (fd < 0)
		return -1;
	while (got < room && (n = read(fd, buffer + got, room - got)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		got += (size_t)n;
	}
	saved = errno;
	(void)close(fd);
	errno = saved;
	return n < 0 ? -1 : (ssize_t)got;
}

static const char *token_fault(const char *token, size_t len)
{
	if (len == 0)
		return "it is empty, write the token into it";
	if (len > ADMIN_TOKEN_MAX)
		return "the token is too long, write at most 4096 characters";
	for (size_t i = 0; i < len; i++) {
		if (token[i] < 0x21 || token[i] > 0x7e)
			return "write one word of visible ASCII characters";
	}
	return NULL;
}

static int read_token(struct admin_auth *auth, const char *path, char *error, size_t error_len)
{
	char text[ADMIN_TOKEN_MAX + 16];
	ssize_t got = read_file(path, text, sizeof(text));
	size_t len = got > 0 ? (size_t)got : 0;
	const char *fault;

	if (got < 0) {
		(void)snprintf(error, error_len, "admin.token_file: %s: %s", path, strerror(errno));
		return -1;
	}
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	fault = token_fault(text, len);
	if (fault == NULL)
		hash(text, len, auth->token);
	OPENSSL_cleanse(text, sizeof(text));
	if (fault == NULL)
		return 0;
	(void)snprintf(error, error_len, "admin.token_file: %s: %s", path, fault);
	return -1;
}

int admin_auth_init(struct admin_auth *auth, const struct config *config, char *error,
		    size_t error_len)
{
	const struct listen_address *address = &config->admin_listen;

	*auth = (struct admin_auth){
		.needs_token = !address->loopback && address->path == NULL,
		.checks_host = address->loopback && address->path == NULL,
		.host = address->host,
		.port = address->port,
	};
	if (config->admin_token_file != NULL)
		return read_token(auth, config->admin_token_file, error, error_len);
	if (!auth->needs_token)
		return 0;
	(void)snprintf(error, error_len,
		       "admin.listen: %s is not loopback and there is no admin.token_file",
		       address->text);
	return -1;
}

void admin_auth_done(struct admin_auth *auth)
{
	OPENSSL_cleanse(auth->token, sizeof(auth->token));
}

/* Both sides are hashed, so that neither the place of the first difference nor the length shows in
 * the time. */
bool admin_auth_token_matches(const struct admin_auth *auth, const char *value, size_t len)
{
	static const char scheme[] = "bearer";
	const size_t scheme_len = sizeof(scheme) - 1;
	uint8_t given[DIGEST_LEN];

	text_trim(&value, &len);
	if (len <= scheme_len || value[scheme_len] != ' ' ||
	    !text_equal_nocase(value, scheme_len, scheme))
		return false;
	value += scheme_len;
	len -= scheme_len;
	text_trim(&value, &len);
	hash(value, len, given);
	return CRYPTO_memcmp(given, auth->token, DIGEST_LEN) == 0;
}

/* The host of a Host value without its port and brackets, NUL-terminated; false if it is malformed
 * or too long to be one that is allowed. */
static bool split_host(const char *value, size_t len, char *ret_host, size_t room, bool *ret_v6)
{
	const char *end;
	size_t host_len;

	text_trim(&value, &len);
	*ret_v6 = len > 0 && value[0] == '[';
	if (*ret_v6) {
		value++;
		len--;
		end = memchr(value, ']', len);
		if (end == NULL)
			return false;
		host_len = (size_t)(end - value);
		end++;
		len -= host_len + 1;
	} else {
		end = memchr(value, ':', len);
		host_len = end != NULL ? (size_t)(end - value) : len;
		end = value + host_len;
		len -= host_len;
	}
	if (host_len == 0 || host_len >= room || memchr(value, '\0', host_len) != NULL)
		return false;
	if (len > 0 && *end != ':')
		return false;
	for (size_t i = 1; i < len; i++) {
		if (!text_is_digit(end[i]))
			return false;
	}
	memcpy(ret_host, value, host_len);
	ret_host[host_len] = '\0';
	return true;
}

bool admin_auth_host_matches(const struct admin_auth *auth, const char *value, size_t len)
{
	char host[256];
	struct in6_addr address;
	bool v6;

	if (!split_host(value, len, host, sizeof(host), &v6))
		return false;
	if (inet_pton(v6 ? AF_INET6 : AF_INET, host, &address) == 1)
		return true;
	if (v6)
		return false;
	return text_equal_nocase(host, strlen(host), "localhost") ||
	       (auth->host != NULL && text_equal_nocase(host, strlen(host), auth->host));
}

struct found_header {
	const char *name;
	int count;
	const char *value;
	size_t len;
};

static enum MHD_Result find_header(void *data, enum MHD_ValueKind kind, const char *key,
				   size_t key_len, const char *value, size_t len)
{
	struct found_header *found = data;

	(void)kind;
	if (text_equal_nocase(key, key_len, found->name)) {
		found->count++;
		found->value = value != NULL ? value : "";
		found->len = value != NULL ? len : 0;
	}
	return MHD_YES;
}

static void look_up(struct MHD_Connection *connection, struct found_header *found)
{
	(void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, find_header, found);
}

static bool take(const char **text, size_t *len, const char *prefix, size_t prefix_len)
{
	if (*len < prefix_len || strncasecmp(*text, prefix, prefix_len) != 0)
		return false;
	*text += prefix_len;
	*len -= prefix_len;
	return true;
}

static bool take_scheme(const struct admin_auth *auth, const char **origin, size_t *len)
{
	return take(origin, len, "http://", strlen("http://")) ||
	       (!auth->checks_host && take(origin, len, "https://", strlen("https://")));
}

/* A colon after the brackets of an IPv6 literal, or the only one there is. */
static bool has_port(const char *host, size_t len)
{
	const char *bracket = memrchr(host, ']', len);

	return memchr(bracket != NULL ? bracket : host, ':',
		      bracket != NULL ? len - (size_t)(bracket - host) : len) != NULL;
}

bool admin_auth_origin_is_own(const struct admin_auth *auth, const char *origin, size_t origin_len,
			      const char *host, size_t host_len)
{
	char port[16];

	text_trim(&origin, &origin_len);
	text_trim(&host, &host_len);
	if (!take_scheme(auth, &origin, &origin_len) || host_len == 0 ||
	    !take(&origin, &origin_len, host, host_len))
		return false;
	(void)snprintf(port, sizeof(port), ":%d", auth->port);
	return origin_len == 0 ||
	       (!has_port(host, host_len) && text_equal(origin, origin_len, port));
}

bool admin_auth_type_is_json(const char *value, size_t len)
{
	const char *end = memchr(value, ';', len);

	if (end != NULL)
		len = (size_t)(end - value);
	text_trim(&value, &len);
	return text_equal_nocase(value, len, "application/json");
}

enum admin_change_verdict admin_auth_check_change(const struct admin_auth *auth,
						  struct MHD_Connection *connection)
{
	struct found_header origin = {.name = "origin"}, host = {.name = "host"};
	struct found_header type = {.name = "content-type"};

	look_up(connection, &origin);
	look_up(connection, &host);
	look_up(connection, &type);
	if (origin.count > 0 &&
	    (origin.count > 1 || host.count != 1 ||
	     !admin_auth_origin_is_own(auth, origin.value, origin.len, host.value, host.len)))
		return ADMIN_CHANGE_FOREIGN;
	if (type.count != 1 || !admin_auth_type_is_json(type.value, type.len))
		return ADMIN_CHANGE_NO_JSON;
	return ADMIN_CHANGE_ALLOWED;
}

/* A request without Host comes from no browser (RFC 9112 section 3.2 asks it of all HTTP/1.1). */
enum admin_verdict admin_auth_check(const struct admin_auth *auth,
				    struct MHD_Connection *connection, bool open)
{
	struct found_header host = {.name = "host"}, given = {.name = "authorization"};

	if (auth->checks_host) {
		look_up(connection, &host);
		if (host.count > 1 ||
		    (host.count == 1 && !admin_auth_host_matches(auth, host.value, host.len)))
			return ADMIN_WRONG_HOST;
	}
	if (!auth->needs_token || open)
		return ADMIN_ALLOWED;
	look_up(connection, &given);
	if (given.count != 1 || !admin_auth_token_matches(auth, given.value, given.len))
		return ADMIN_NO_TOKEN;
	return ADMIN_ALLOWED;
}
