/* Who may use the admin listener (design section 10): a token, needed everywhere but on loopback and
 * unix sockets, the Host names that a loopback listener answers to, and what a change must carry so
 * that no page of another origin can make it. */
#ifndef STINT_PROXY_ADMIN_AUTH_H
#define STINT_PROXY_ADMIN_AUTH_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;

#define ADMIN_TOKEN_MAX 4096

struct admin_auth {
	bool needs_token;  /* for all but what is open */
	bool checks_host;  /* loopback TCP: a page that a browser loaded elsewhere can reach it */
	const char *host;  /* the configured one, which is always an address */
	int port;          /* the configured one; 0 where the listener has none */
	uint8_t token[32]; /* its SHA-256 */
};

enum admin_verdict { ADMIN_ALLOWED, ADMIN_NO_TOKEN, ADMIN_WRONG_HOST };

/* Reads the token file, if one is configured: one word of visible ASCII, line ends after it are
 * stripped. 0, or -1 with a sentence in error; an empty file is refused, and so is a listener that
 * needs a token and has no file. */
int admin_auth_init(struct admin_auth *auth, const struct config *config, char *error,
		    size_t error_len);
void admin_auth_done(struct admin_auth *auth);

/* `open`: the path needs no token anywhere. */
enum admin_verdict admin_auth_check(const struct admin_auth *auth,
				    struct MHD_Connection *connection, bool open);

enum admin_change_verdict {
	ADMIN_CHANGE_ALLOWED,
	ADMIN_CHANGE_FOREIGN, /* the Origin of another page: 403 */
	ADMIN_CHANGE_NO_JSON, /* another content type than application/json, or none: 415 */
};

/* Whether a request that changes something may do so, after admin_auth_check() has allowed it. A
 * browser sends Origin with every POST of a page, and asks first before it sends application/json to
 * another origin (Fetch, "CORS-preflight request"), which is answered with 405 here. */
enum admin_change_verdict admin_auth_check_change(const struct admin_auth *auth,
						  struct MHD_Connection *connection);

/* The parts of it. Whether an Origin value is this listener's own, by the Host that the request came
 * with (the listener's port is meant where it has none): http, or https too where something in front may have ended TLS (no loopback TCP listener).
 * Whether a Content-Type value is JSON. */
bool admin_auth_origin_is_own(const struct admin_auth *auth, const char *origin, size_t origin_len,
			      const char *host, size_t host_len);
bool admin_auth_type_is_json(const char *value, size_t len);

/* The two parts of admin_auth_check(). Whether an Authorization value carries the token, in a time that does not
 * depend on it; whether a Host value is an IP literal, localhost or the configured host. */
bool admin_auth_token_matches(const struct admin_auth *auth, const char *value, size_t len);
bool admin_auth_host_matches(const struct admin_auth *auth, const char *value, size_t len);

#endif
