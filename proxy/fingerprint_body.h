/* A request's body as its fingerprint counts it: JSON without some members, multipart without its
 * boundary. */
#ifndef STINT_PROXY_FINGERPRINT_BODY_H
#define STINT_PROXY_FINGERPRINT_BODY_H

#include "proxy/fingerprint.h"

struct digest;

enum fingerprint_body_result {
	FINGERPRINT_BODY_OK = 0,
	FINGERPRINT_BODY_EXACT = 1, /* the body is not of this kind: take its bytes */
	FINGERPRINT_BODY_MEMORY = -1,
};

/* JSON: the tree without config->except, in canonical form. A body with a member twice, nested
 * beyond JSON_SCAN_DEPTH, with a number that does not fit, or with more than 100,000 values (a
 * tree takes about a hundred bytes for each) is taken exactly. An array's element is replaced by
 * null, so that the others keep their places. Only after OK does the digest hold the body. */
enum fingerprint_body_result fingerprint_body_json(const struct fingerprint_config *config,
						   const struct fingerprint_input *input,
						   struct digest *digest);

/* multipart: what stands before the first part, each part's header block and content, and what
 * stands after the last, each with its length (RFC 2046 section 5.1). */
enum fingerprint_body_result fingerprint_body_multipart(const struct fingerprint_input *input,
							struct digest *digest);

#endif
