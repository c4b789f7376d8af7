/* The name of an operation: provider / tenant / scope / key. */
#ifndef STINT_BUDGET_NAME_H
#define STINT_BUDGET_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OP_KEY_MAX 255 /* visible ASCII characters (design section 4) */

/* NUL-terminated texts, not owned; tenant and scope are "" where there is none. */
struct op_name {
	const char *provider;
	const char *tenant;
	const char *scope;
	const char *key;
};

bool op_name_equal(const struct op_name *a, const struct op_name *b);
/* FNV-1a over the four parts with separators. */
uint64_t op_name_hash(const struct op_name *name);
/* 1 to OP_KEY_MAX visible ASCII characters (0x21 to 0x7e). */
bool op_key_is_valid(const char *key, size_t len);

#endif
