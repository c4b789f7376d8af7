/* SHA-256 over fields with their lengths, so that no two lists of fields hash the same bytes.
 *
 * The low-level calls of libcrypto: a hash of 100 bytes takes 103 ns by them, 350 ns by EVP with its
 * implicit fetch (which also takes a lock that all threads share), measured with OpenSSL 3.0 on
 * Debian 12. They are deprecated since 3.0, and there. */
#ifndef STINT_PROXY_DIGEST_H
#define STINT_PROXY_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#ifndef OPENSSL_SUPPRESS_DEPRECATED
#define OPENSSL_SUPPRESS_DEPRECATED
#endif
#include <openssl/sha.h>

#define DIGEST_LEN 32

struct digest {
	SHA256_CTX sha;
};

void digest_init(struct digest *digest);
/* Bare bytes: of a last field, or of one whose length does not vary. */
void digest_bytes(struct digest *digest, const void *data, size_t len);
void digest_number(struct digest *digest, uint64_t number);
void digest_field(struct digest *digest, const void *data, size_t len);
void digest_text(struct digest *digest, const char *text);
void digest_done(struct digest *digest, uint8_t ret_hash[DIGEST_LEN]);

#endif
