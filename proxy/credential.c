#include "proxy/credential.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/headers.h"

/* In lower case, as they are hashed. Cookie is not among them: it changes with every visit, and each
 * change would release what is held. */
static const char *const names[] = {
	"authorization",          "x-api-key",      "api-key",        "apikey",
	"x-auth-token",           "x-access-token", "x-goog-api-key", "ocp-apim-subscription-key",
	"x-shopify-access-token", "private-token",  "x-auth-key",
};

static const char *credential_name(const struct header_view *header)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (header_is(header, names[i]))
			return names[i];
	}
	return NULL;
}

static uint8_t *put_text(uint8_t *at, const char *text, size_t len)
{
	for (int i = 0; i < 8; i++)
		*at++ = (uint8_t)((uint64_t)len >> (56 - 8 * i));
	if (len > 0)
		memcpy(at, text, len);
	return at + len;
}

int credential_hmac(const uint8_t secret[CREDENTIAL_SECRET_LEN], const struct header_view *headers,
		    size_t count, uint8_t ret_credential[OP_CREDENTIAL_LEN])
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	size_t size = 1;
	uint8_t *data, *at;
	unsigned int digest_len = 0;
	const uint8_t *made;

	for (size_t i = 0; i < count; i++)
		size += credential_name(&headers[i]) == NULL
				? 0
				: headers[i].name_len + headers[i].value_len + 16;
	data = malloc(size);
	if (data == NULL)
		return -1;
	at = data;
	for (size_t i = 0; i < count; i++) {
		const char *name = credential_name(&headers[i]);
		const char *value;
		size_t len;

		if (name == NULL)
			continue;
		header_value_trim(headers[i].value, headers[i].value_len, &value, &len);
		at = put_text(at, name, strlen(name));
		at = put_text(at, value, len);
	}
	made = HMAC(EVP_sha256(), secret, CREDENTIAL_SECRET_LEN, data, (size_t)(at - data), digest,
		    &digest_len);
	OPENSSL_cleanse(data, size);
	free(data);
	if (made == NULL || digest_len < OP_CREDENTIAL_LEN)
		return -1;
	memcpy(ret_credential, digest, OP_CREDENTIAL_LEN);
	return 0;
}
