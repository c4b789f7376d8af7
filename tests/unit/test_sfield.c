/* Structured fields as far as they are used (RFC 9651). */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "proxy/sfield.h"

static bool parse(const char *text, size_t len, char *ret_text, size_t size, size_t *ret_len)
{
	char *copy = malloc(len == 0 ? 1 : len);
	bool ok;

	assert_non_null(copy);
	memcpy(copy, text, len);
	ok = sfield_parse_string(copy, len, ret_text, size, ret_len);
	free(copy);
	return ok;
}

static void test_string(void **state)
{
	static const char *const bad[] = {"",        "\"",       "a",        "\"a",
					  "a\"",     "\"a\"b",   "\"a\"\"",  "\"\\\"",
					  "\"\\a\"", "\"\x01\"", "\"\x7f\"", "\"\xc3\xa9\"",
					  "\"a\";x", " \"a\"",   "\"a\" "};
	char text[8];
	size_t len;

	(void)state;
	assert_true(parse("\"abc\"", 5, text, sizeof(text), &len));
	assert_string_equal(text, "abc");
	assert_int_equal(len, 3);
	assert_true(parse("\"a\\\"\\\\d\"", 8, text, sizeof(text), &len));
	assert_string_equal(text, "a\"\\d");
	assert_true(parse("\"\"", 2, text, sizeof(text), &len));
	assert_int_equal(len, 0);
	assert_true(parse("\"1234567\"", 9, text, sizeof(text), &len));
	assert_false(parse("\"12345678\"", 10, text, sizeof(text), &len));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse(bad[i], strlen(bad[i]), text, sizeof(text), &len));
	assert_false(parse("\"a\0b\"", 5, text, sizeof(text), &len));
}

/* The example of design section 8. */
static void test_dictionary(void **state)
{
	struct sfield field;
	char text[200];

	(void)state;
	sfield_init(&field, text, sizeof(text));
	assert_string_equal(text, "");
	sfield_token(&field, "state", "ready");
	sfield_token(&field, "class", "rate_limited");
	sfield_integer(&field, "attempts", 2);
	sfield_integer(&field, "limit", 5);
	sfield_boolean(&field, "replayed", false);
	sfield_boolean(&field, "made", true);
	sfield_seconds(&field, "next", 12 * USEC_SEC);
	assert_string_equal(text, "state=ready, class=rate_limited, attempts=2, limit=5, "
				  "replayed=?0, made, next=12.0");
	assert_int_equal(field.len, strlen(text));
}

static void assert_seconds(usec_t value, const char *expected)
{
	struct sfield field;
	char text[64];

	sfield_init(&field, text, sizeof(text));
	sfield_seconds(&field, "n", value);
	assert_string_equal(text, expected);
}

static void test_seconds(void **state)
{
	(void)state;
	assert_seconds(0, "n=0.0");
	assert_seconds(-5, "n=0.0");
	assert_seconds(1, "n=0.001");
	assert_seconds(503 * USEC_MS, "n=0.503");
	assert_seconds(503 * USEC_MS + 1, "n=0.504");
	assert_seconds(1500 * USEC_MS, "n=1.5");
	assert_seconds(1050 * USEC_MS, "n=1.05");
	assert_seconds(999999, "n=1.0");
	assert_seconds(100 * USEC_SEC, "n=100.0");
	assert_seconds(USEC_MAX, "n=999999999999.0");
}

static void assert_token(const char *value, const char *expected)
{
	struct sfield field;
	char text[512];

	sfield_init(&field, text, sizeof(text));
	sfield_token(&field, "reason", value);
	assert_string_equal(text, expected);
}

static void test_token(void **state)
{
	char longer[400];

	(void)state;
	assert_token("status-503", "reason=status-503");
	assert_token("503-not-applied", "reason=\"503-not-applied\"");
	assert_token("", "reason=\"\"");
	assert_token("a \"b\"\\", "reason=\"a \\\"b\\\"\\\\\"");
	assert_token("a\r\nX: y", "");
	assert_token("a\x7f", "");
	assert_token("\xc3\xa9", "");
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_token(longer, "");
	longer[0] = '"';
	assert_token(longer, "");
	assert_true(sfield_is_token("*a/b:c"));
	assert_false(sfield_is_token("a b"));
	assert_false(sfield_is_token("1a"));
}

static void test_integer(void **state)
{
	struct sfield field;
	char text[128];

	(void)state;
	sfield_init(&field, text, sizeof(text));
	sfield_integer(&field, "a", INT64_MAX);
	sfield_integer(&field, "b", INT64_MIN);
	sfield_integer(&field, "c", 0);
	assert_string_equal(text, "a=999999999999999, b=-999999999999999, c=0");
}

/* Whatever the buffer's size, the field is a whole number of members. */
static void test_full(void **state)
{
	for (size_t size = 1; size < 60; size++) {
		struct sfield field;
		char *text = malloc(size);

		(void)state;
		assert_non_null(text);
		sfield_init(&field, text, size);
		sfield_token(&field, "state", "ready");
		sfield_integer(&field, "attempts", 100);
		sfield_boolean(&field, "made", true);
		sfield_seconds(&field, "next", 5 * USEC_SEC);
		assert_int_equal(strlen(text), field.len);
		assert_true(field.len < size);
		if (size >= 45)
			assert_string_equal(text, "state=ready, attempts=100, made, next=5.0");
		if (size == 12)
			assert_string_equal(text, "state=ready");
		if (size == 11)
			assert_string_equal(text, "made");
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_string),  cmocka_unit_test(test_dictionary),
		cmocka_unit_test(test_seconds), cmocka_unit_test(test_token),
		cmocka_unit_test(test_integer), cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
