#include "budget/name.h"

#include <string.h>

#define FNV_OFFSET 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

/* The closing NUL goes in as well: it separates ("ab", "c") from ("a", "bc"), and no part can
 * contain it. */
static uint64_t hash_part(uint64_t hash, const char *text)
{
	for (;; text++) {
		hash ^= (unsigned char)*text;
		hash *= FNV_PRIME;
		if (*text == '\0')
			return hash;
	}
}

bool op_name_equal(const struct op_name *a, const struct op_name *b)
{
	return strcmp(a->key, b->key) == 0 && strcmp(a->provider, b->provider) == 0 &&
	       strcmp(a->tenant, b->tenant) == 0 && strcmp(a->scope, b->scope) == 0;
}

uint64_t op_name_hash(const struct op_name *name)
{
	uint64_t hash = FNV_OFFSET;

	hash = hash_part(hash, name->provider);
	hash = hash_part(hash, name->tenant);
	hash = hash_part(hash, name->scope);
	return hash_part(hash, name->key);
}

bool op_key_is_valid(const char *key, size_t len)
{
	if (len == 0 || len > OP_KEY_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (key[i] < 0x21 || key[i] > 0x7e)
			return false;
	}
	return true;
}
