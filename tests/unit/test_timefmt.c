/* Wall times as text and back. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "proxy/timefmt.h"

static void assert_text(usec_t wall, const char *expected)
{
	char text[TIMEFMT_MAX];

	timefmt_rfc3339(wall, text);
	assert_string_equal(text, expected);
}

static void test_format(void **state)
{
	(void)state;
	assert_text(0, "1970-01-01T00:00:00.000Z");
	assert_text(-1, "1970-01-01T00:00:00.000Z");
	assert_text(999, "1970-01-01T00:00:00.000Z");
	assert_text(999999, "1970-01-01T00:00:00.999Z");
	assert_text(951782400 * USEC_SEC, "2000-02-29T00:00:00.000Z");
	assert_text(INT64_C(1792567680123456), "2026-10-21T07:28:00.123Z");
	assert_text(USEC_MAX, "9999-12-31T23:59:59.999Z");
}

/* Against the C library, once each 9 hours and a bit, over 400 years. */
static void test_against_libc(void **state)
{
	(void)state;
	for (int64_t seconds = 0; seconds < INT64_C(400) * 366 * 86400; seconds += 32777) {
		time_t t = (time_t)seconds;
		struct tm tm;
		char expected[64], text[TIMEFMT_MAX];
		usec_t back;

		assert_non_null(gmtime_r(&t, &tm));
		strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.007Z", &tm);
		timefmt_rfc3339(seconds * USEC_SEC + 7 * USEC_MS, text);
		assert_string_equal(text, expected);
		assert_true(timefmt_parse_rfc3339(text, strlen(text), &back));
		assert_int_equal(back, seconds * USEC_SEC + 7 * USEC_MS);
	}
}

static void assert_parsed(const char *text, usec_t expected)
{
	usec_t wall;

	if (!timefmt_parse_rfc3339(text, strlen(text), &wall))
		fail_msg("refused: %s", text);
	assert_int_equal(wall, expected);
}

static void test_parse(void **state)
{
	static const char *const bad[] = {"",
					  "2026-10-21",
					  "2026-10-21T07:28:00",
					  "2026-02-29T00:00:00Z",
					  "2026-02-30T00:00:00Z",
					  "2026-04-31T00:00:00Z",
					  "2026-13-01T00:00:00Z",
					  "2026-00-01T00:00:00Z",
					  "2026-01-00T00:00:00Z",
					  "2026-01-32T00:00:00Z",
					  "2026-01-01T24:00:00Z",
					  "2026-01-01T00:60:00Z",
					  "2026-01-01T00:00:61Z",
					  "2026-01-01T00:00:00.Z",
					  "2026-01-01T00:00:00Zx",
					  "2026-01-01T00:00:00+1:00",
					  "2026-01-01T00:00:00+24:00",
					  "2026-01-01T00:00:00+00:60",
					  "26-01-01T00:00:00Z",
					  "+026-01-01T00:00:00Z",
					  "2026-1-01T00:00:00Z",
					  "2026-01-01T00:00:00 Z",
					  " 2026-01-01T00:00:00Z",
					  "2100-02-29T00:00:00Z"};
	usec_t base = INT64_C(1792567680) * USEC_SEC;

	(void)state;
	assert_parsed("2026-10-21T07:28:00Z", base);
	assert_parsed("2026-10-21t07:28:00.123456789z", base + 123456);
	assert_parsed("2026-10-21 09:28:00+02:00", base);
	assert_parsed("2026-10-21T02:58:00.5-04:30", base + 500000);
	assert_parsed("2026-10-21T07:27:60Z", base);
	assert_parsed("1969-12-31T23:59:59Z", -USEC_SEC);
	assert_parsed("0000-01-01T00:00:00Z", INT64_C(-62167219200) * USEC_SEC);
	assert_parsed("0000-02-29T00:00:00Z", INT64_C(-62162121600) * USEC_SEC);
	assert_parsed("9999-12-31T23:59:59Z", INT64_C(253402300799) * USEC_SEC);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		usec_t wall = 77;

		if (timefmt_parse_rfc3339(bad[i], strlen(bad[i]), &wall))
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(wall, 77);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_against_libc),
		cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
