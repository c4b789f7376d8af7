/* Problem bodies (RFC 9457). */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/problem.h"

static void assert_json(const struct problem *problem, const char *expected)
{
	size_t len = 0;
	char *text = problem_json(problem, &len);

	assert_non_null(text);
	assert_int_equal(len, strlen(text));
	assert_string_equal(text, expected);
	free(text);
}

static void test_plain(void **state)
{
	struct problem problem;

	(void)state;
	problem_init(&problem, PROBLEM_KEY_INVALID, "send one line");
	assert_json(&problem,
		    "{\"type\":\"urn:stint:key-invalid\",\"title\":\"The operation key is "
		    "malformed\",\"status\":400,\"detail\":\"send one line\"}");
	problem.type = PROBLEM_BAD_REQUEST;
	problem.status = 431;
	problem.detail = NULL;
	assert_int_equal(problem_status(&problem), 431);
	assert_json(&problem, "{\"type\":\"urn:stint:bad-request\",\"title\":\"The request is "
			      "malformed\",\"status\":431}");
}

static void test_operation(void **state)
{
	struct problem problem;
	struct op op = {.state = OP_EXHAUSTED,
			.class = CLASS_RATE_LIMITED,
			.attempts = 6,
			.limit = 6,
			.status = 429,
			.reason = "status-429",
			.last_end = INT64_C(1792567680123456)};

	(void)state;
	problem_init(&problem, PROBLEM_EXHAUSTED, "reopen it");
	problem_set_operation(&problem, "payments", "inv\"1", &op);
	assert_json(
		&problem,
		"{\"type\":\"urn:stint:exhausted\",\"title\":\"The operation's budget is spent\","
		"\"status\":424,\"detail\":\"reopen it\",\"provider\":\"payments\",\"key\":"
		"\"inv\\\"1\",\"state\":\"exhausted\",\"class\":\"rate_limited\",\"attempts\":6,"
		"\"limit\":6,\"last\":{\"status\":429,\"reason\":\"status-429\",\"at\":"
		"\"2026-10-21T07:28:00.123Z\"}}");
}

/* A record that was never attempted has no class and no last. */
static void test_fresh_operation(void **state)
{
	struct problem problem;
	struct op op = {.state = OP_READY, .limit = 5};

	(void)state;
	problem_init(&problem, PROBLEM_PAUSED, NULL);
	problem_set_operation(&problem, "p", "k", &op);
	assert_json(&problem, "{\"type\":\"urn:stint:paused\",\"title\":\"The provider is paused\","
			      "\"status\":503,\"provider\":\"p\",\"key\":\"k\",\"state\":\"ready\","
			      "\"attempts\":0,\"limit\":5}");
}

/* Bytes that are no UTF-8 do not lose the body. */
static void test_bytes(void **state)
{
	struct problem problem;

	(void)state;
	problem_init(&problem, PROBLEM_DRAINING, "a\xff\r\n\x01z");
	assert_json(&problem,
		    "{\"type\":\"urn:stint:draining\",\"title\":\"This instance is shutting "
		    "down\",\"status\":503,\"detail\":\"a????z\"}");
	problem.detail = "\xc3\xa9\r\n";
	assert_json(&problem,
		    "{\"type\":\"urn:stint:draining\",\"title\":\"This instance is shutting "
		    "down\",\"status\":503,\"detail\":\"\xc3\xa9\\r\\n\"}");
}

/* Each name of design section 10 is there, with a status that fits it. */
static void test_table(void **state)
{
	static const char *const names[] = {"bad-request",
					    "no-route",
					    "key-invalid",
					    "key-missing",
					    "key-reuse",
					    "hint-invalid",
					    "body-too-large",
					    "in-progress",
					    "waiting",
					    "queue-full",
					    "paused",
					    "exhausted",
					    "unknown",
					    "held",
					    "not-sent",
					    "unknown-outcome",
					    "response-not-retained",
					    "response-head-too-large",
					    "ledger-away",
					    "ledger-lost",
					    "ledger-full",
					    "draining"};

	(void)state;
	assert_int_equal(PROBLEM_COUNT, sizeof(names) / sizeof(names[0]));
	for (size_t i = 0; i < PROBLEM_COUNT; i++) {
		struct problem problem;

		problem_init(&problem, (enum problem_type)i, NULL);
		assert_string_equal(problem_name((enum problem_type)i), names[i]);
		assert_in_range(problem_status(&problem), 400, 599);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),           cmocka_unit_test(test_operation),
		cmocka_unit_test(test_fresh_operation), cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
