#include "proxy/digest.h"

#include <string.h>

void digest_init(struct digest *digest)
{
	SHA256_Init(&digest->sha);
}

void digest_bytes(struct digest *digest, const void *data, size_t len)
{
	if (len > 0)
		SHA256_Update(&digest->sha, data, len);
}

void digest_number(struct digest *digest, uint64_t number)
{
	uint8_t bytes[8];

	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(number >> (56 - 8 * i));
	SHA256_Update(&digest->sha, bytes, sizeof(bytes));
}

void digest_field(struct digest *digest, const void *data, size_t len)
{
	digest_number(digest, len);
	digest_bytes(digest, data, len);
}

void digest_text(struct digest *digest, const char *text)
{
	digest_field(digest, text, strlen(text));
}

void digest_done(struct digest *digest, uint8_t ret_hash[DIGEST_LEN])
{
	SHA256_Final(ret_hash, &digest->sha);
}
