/* The fingerprint of a request: SHA-256 over method, target after route removal and body, by
 * key.fingerprint (design section 4). */
#ifndef STINT_PROXY_FINGERPRINT_H
#define STINT_PROXY_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fingerprint_mode {
	FINGERPRINT_EXACT,
	FINGERPRINT_NONE,
	FINGERPRINT_MULTIPART,
	FINGERPRINT_JSON
};

struct fingerprint_config {
	enum fingerprint_mode mode;
	char **except; /* FINGERPRINT_JSON: pointers left out, owned by the configuration */
	size_t except_count;
};

struct fingerprint_input {
	const char *method;
	const char *target;
	const char *content_type; /* or NULL */
	const char *body;         /* the body, or its first part */
	size_t body_len;
	bool partial; /* too large to buffer: `body` is its first part, and it is tagged so */
	int64_t total_length; /* partial: Content-Length, -1 unknown */
};

/* json-except: the body without the named members, in canonical form (keys sorted, no white
 * space); a body that does not parse is taken exactly. multipart: each part's headers and content in
 * order, without the boundary (RFC 2046); not multipart, or malformed: exactly. none: the method and
 * target do not count either. Every mode and case is tagged, so that none equals another's. Returns
 * 0, or -1 out of memory. */
int fingerprint_compute(const struct fingerprint_config *config,
			const struct fingerprint_input *input, uint8_t ret_fingerprint[32]);

/* The 43-character base64url SHA-256 over provider, tenant, scope, key and generation that goes
 * upstream as the idempotency key (design section 4, "Upstream key"). */
void fingerprint_upstream_key(const char *provider, const char *tenant, const char *scope,
			      const char *key, int generation, char ret_key[44]);

#endif
