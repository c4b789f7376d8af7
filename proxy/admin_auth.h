/* Who may use the admin listener (design section 10): a token, needed everywhere but on loopback and
 * unix sockets, and the Host names that a loopback listener answers to. */
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

/* The two parts of it. Whether an Authorization value carries the token, in a time that does not
 * depend on it; whether a Host value is an IP literal, localhost or the configured host. */
bool admin_auth_token_matches(const struct admin_auth *auth, const char *value, size_t len);
bool admin_auth_host_matches(const struct admin_auth *auth, const char *value, size_t len);

#endif
