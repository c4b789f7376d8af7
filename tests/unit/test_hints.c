/* The hints of a caller, and the malformed numbers of B19. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "proxy/hints.h"

static bool parse_one(const char *name, const char *value, struct hints *ret_hints)
{
	struct header_view headers[] = {{"Accept", 6, "x", 1},
					{name, strlen(name), value, strlen(value)}};
	char detail[HINTS_DETAIL_MAX] = "";
	bool ok;

	memset(ret_hints, 0x55, sizeof(*ret_hints));
	ok = hints_parse(headers, 2, ret_hints, detail);
	assert_true(ok == (detail[0] == '\0'));
	if (!ok) {
		assert_int_equal(ret_hints->attempts, 0x55555555);
		assert_non_null(strstr(detail, "Stint-"));
	}
	return ok;
}

static void test_none(void **state)
{
	struct hints hints;

	(void)state;
	assert_true(hints_parse(NULL, 0, &hints, NULL));
	assert_int_equal(hints.attempts, 0);
	assert_int_equal(hints.deadline, -1);
	assert_string_equal(hints.corrects, "");
	assert_true(parse_one("Stint-Anything", "x", &hints));
	assert_true(parse_one("Stint", "x", &hints));
}

static void test_attempts(void **state)
{
	static const char *const bad[] = {"0",   "-1",         "101",      "",     "abc", "4 ",
					  " 4",  "2147483648", "1e3",      "+4",   "4.0", "0x4",
					  "4,4", "1000",       "\xc2\xb2", "\"4\""};
	struct hints hints;

	(void)state;
	assert_true(parse_one("stint-ATTEMPTS", "1", &hints));
	assert_int_equal(hints.attempts, 1);
	assert_true(parse_one("Stint-Attempts", "100", &hints));
	assert_int_equal(hints.attempts, 100);
	assert_true(parse_one("Stint-Attempts", "004", &hints));
	assert_int_equal(hints.attempts, 4);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse_one("Stint-Attempts", bad[i], &hints));
}

static void assert_deadline(const char *value, usec_t expected)
{
	struct hints hints;

	if (!parse_one("Stint-Deadline", value, &hints))
		fail_msg("refused: %s", value);
	assert_int_equal(hints.deadline, expected);
}

static void test_deadline(void **state)
{
	static const char *const bad[] = {"0",
					  "0.0",
					  "0.000000000000",
					  "-1",
					  "+1",
					  "",
					  "abc",
					  "1 ",
					  " 1",
					  "1s",
					  "1e3",
					  "inf",
					  "nan",
					  "86400.0000001",
					  "86401",
					  "86400.1",
					  ".5",
					  "5.",
					  "1.2.3",
					  "1,5",
					  "0x5",
					  "000000001",
					  "99999999999999999999",
					  "1.0000000000001",
					  "0.-1"};
	struct hints hints;

	(void)state;
	assert_deadline("5", 5 * USEC_SEC);
	assert_deadline("0.3", 300 * USEC_MS);
	assert_deadline("2.500", 2500 * USEC_MS);
	assert_deadline("1.000001", USEC_SEC + 1);
	assert_deadline("1.0000019", USEC_SEC + 1);
	assert_deadline("0.0000001", 1);
	assert_deadline("86400", USEC_DAY);
	assert_deadline("86400.000", USEC_DAY);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(parse_one("Stint-Deadline", bad[i], &hints));
}

static void test_corrects(void **state)
{
	struct hints hints;
	char longest[OP_KEY_MAX + 2];

	(void)state;
	assert_true(parse_one("Stint-Corrects", "invoice:42", &hints));
	assert_string_equal(hints.corrects, "invoice:42");
	assert_true(parse_one("Stint-Corrects", "\"invoice:42\"", &hints));
	assert_string_equal(hints.corrects, "invoice:42");
	assert_false(parse_one("Stint-Corrects", "", &hints));
	assert_false(parse_one("Stint-Corrects", "a b", &hints));
	assert_false(parse_one("Stint-Corrects", "\"a", &hints));
	memset(longest, 'k', sizeof(longest));
	longest[OP_KEY_MAX + 1] = '\0';
	assert_false(parse_one("Stint-Corrects", longest, &hints));
	longest[OP_KEY_MAX] = '\0';
	assert_true(parse_one("Stint-Corrects", longest, &hints));
}

static void test_twice(void **state)
{
	static const struct {
		const char *name, *value;
	} cases[] = {{"Stint-Attempts", "3"}, {"Stint-Deadline", "3"}, {"Stint-Corrects", "k"}};
	struct hints hints;
	char detail[HINTS_DETAIL_MAX];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct header_view one = {cases[i].name, 14, cases[i].value, 1};
		struct header_view two[] = {one, one};

		assert_true(hints_parse(two, 1, &hints, detail));
		assert_false(hints_parse(two, 2, &hints, detail));
		assert_non_null(strstr(detail, "more than once"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),     cmocka_unit_test(test_attempts),
		cmocka_unit_test(test_deadline), cmocka_unit_test(test_corrects),
		cmocka_unit_test(test_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
