#include "proxy/fingerprint.h"

#include <string.h>

#include "proxy/digest.h"
#include "proxy/fingerprint_body.h"

/* What the body counted as: the tag's second letter. */
#define TAG_EXACT 'e'
#define TAG_PARTIAL 'p'
#define TAG_CANONICAL 'c'

static const char mode_letters[] = {
	[FINGERPRINT_EXACT] = 'E',
	[FINGERPRINT_NONE] = 'N',
	[FINGERPRINT_MULTIPART] = 'M',
	[FINGERPRINT_JSON] = 'J',
};

static void begin(struct digest *digest, const struct fingerprint_config *config, char how)
{
	const char tag[] = {'s', 't', 'i', 'n', 't', '1', mode_letters[config->mode], how};

	digest_init(digest);
	digest_bytes(digest, tag, sizeof(tag));
}

static void begin_request(struct digest *digest, const struct fingerprint_config *config, char how,
			  const struct fingerprint_input *input)
{
	begin(digest, config, how);
	digest_text(digest, input->method);
	digest_text(digest, input->target);
}

int fingerprint_compute(const struct fingerprint_config *config,
			const struct fingerprint_input *input, uint8_t ret_fingerprint[32])
{
	struct digest digest;
	enum fingerprint_body_result result = FINGERPRINT_BODY_EXACT;

	if (config->mode == FINGERPRINT_NONE) {
		begin(&digest, config, TAG_EXACT);
		digest_done(&digest, ret_fingerprint);
		return 0;
	}
	if (input->partial) {
		begin_request(&digest, config, TAG_PARTIAL, input);
		digest_number(&digest, (uint64_t)input->total_length);
		digest_bytes(&digest, input->body, input->body_len);
		digest_done(&digest, ret_fingerprint);
		return 0;
	}
	begin_request(&digest, config, TAG_CANONICAL, input);
	if (config->mode == FINGERPRINT_JSON)
		result = fingerprint_body_json(config, input, &digest);
	else if (config->mode == FINGERPRINT_MULTIPART)
		result = fingerprint_body_multipart(input, &digest);
	if (result == FINGERPRINT_BODY_MEMORY)
		return -1;
	if (result == FINGERPRINT_BODY_EXACT) {
		begin_request(&digest, config, TAG_EXACT, input);
		digest_bytes(&digest, input->body, input->body_len);
	}
	digest_done(&digest, ret_fingerprint);
	return 0;
}

/* 32 bytes as 43 characters of base64url without padding (RFC 4648 section 5). */
static void base64url(const uint8_t hash[DIGEST_LEN], char ret_text[44])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint32_t bits = 0;
	int held = 0;
	size_t len = 0;

	for (size_t i = 0; i < DIGEST_LEN; i++) {
		bits = bits << 8 | hash[i];
		held += 8;
		while (held >= 6) {
			held -= 6;
			ret_text[len++] = letters[bits >> held & 63];
		}
	}
	ret_text[len++] = letters[bits << (6 - held) & 63];
	ret_text[len] = '\0';
}

void fingerprint_upstream_key(const char *provider, const char *tenant, const char *scope,
			      const char *key, int generation, char ret_key[44])
{
	struct digest digest;
	uint8_t hash[DIGEST_LEN];

	digest_init(&digest);
	digest_text(&digest, provider);
	digest_text(&digest, tenant == NULL ? "" : tenant);
	digest_text(&digest, scope == NULL ? "" : scope);
	digest_text(&digest, key);
	digest_number(&digest, (uint64_t)generation);
	digest_done(&digest, hash);
	base64url(hash, ret_key);
}
