/* pure-test */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "budget/name.h"

static void test_equal(void **state)
{
	struct op_name a = {"pay", "t", "s", "invoice:42"};
	struct op_name b = {"pay", "t", "s", "invoice:42"};
	const struct op_name others[] = {{"x", "t", "s", "invoice:42"},
					 {"pay", "x", "s", "invoice:42"},
					 {"pay", "t", "x", "invoice:42"},
					 {"pay", "t", "s", "invoice:43"}};

	(void)state;
	assert_true(op_name_equal(&a, &b));
	assert_int_equal(op_name_hash(&a), op_name_hash(&b));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_false(op_name_equal(&a, &others[i]));
		assert_int_not_equal(op_name_hash(&a), op_name_hash(&others[i]));
	}
}

/* The parts do not run into each other. */
static void test_separated(void **state)
{
	struct op_name a = {"pay", "ab", "", "c"};
	struct op_name b = {"pay", "a", "b", "c"};
	struct op_name c = {"pay", "", "ab", "c"};

	(void)state;
	assert_false(op_name_equal(&a, &b));
	assert_int_not_equal(op_name_hash(&a), op_name_hash(&b));
	assert_int_not_equal(op_name_hash(&a), op_name_hash(&c));
	assert_int_not_equal(op_name_hash(&b), op_name_hash(&c));
}

/* FNV-1a, 64 bits, over "a\0" three times "\0": by hand with the published constants. */
static void test_hash_is_fnv(void **state)
{
	struct op_name name = {"a", "", "", ""};
	uint64_t want = UINT64_C(0xcbf29ce484222325);
	static const unsigned char bytes[] = {'a', 0, 0, 0, 0};

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		want = (want ^ bytes[i]) * UINT64_C(0x100000001b3);
	assert_int_equal(op_name_hash(&name), want);
}

static void test_valid(void **state)
{
	char key[OP_KEY_MAX + 2];

	(void)state;
	memset(key, 'k', sizeof(key));
	assert_false(op_key_is_valid(key, 0));
	assert_true(op_key_is_valid(key, 1));
	assert_true(op_key_is_valid(key, OP_KEY_MAX));
	assert_false(op_key_is_valid(key, OP_KEY_MAX + 1));
	for (int c = 0; c < 256; c++) {
		key[1] = (char)c;
		assert_int_equal(op_key_is_valid(key, 3), c >= 0x21 && c <= 0x7e);
	}
	assert_true(op_key_is_valid("a:b", 3));
	assert_false(op_key_is_valid("a\001b", 3));
	assert_false(op_key_is_valid("\xf0\x9f\x92\xb3", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_separated),
		cmocka_unit_test(test_hash_is_fnv),
		cmocka_unit_test(test_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
