/* A request's credential as the ledger may keep it: an HMAC that tells one from another and cannot
 * be turned back (design section 4, "release by itself"). */
#ifndef STINT_PROXY_CREDENTIAL_H
#define STINT_PROXY_CREDENTIAL_H

#include <stddef.h>
#include <stdint.h>

#include "budget/operation.h"
#include "classify/outcome.h"

#define CREDENTIAL_SECRET_LEN 32

/* HMAC-SHA256 under the ledger's secret, cut to OP_CREDENTIAL_LEN, over the headers that carry
 * credentials (Authorization, X-Api-Key and their like; credential.c has the list) in their order
 * of lines, each name in lower case and each value with its length. A request without any has a
 * value too, always the same. 0, or -1 (out of memory). */
int credential_hmac(const uint8_t secret[CREDENTIAL_SECRET_LEN], const struct header_view *headers,
		    size_t count, uint8_t ret_credential[OP_CREDENTIAL_LEN]);

#endif
