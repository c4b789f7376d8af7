/* pure-test */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "budget/schedule.h"

#define S USEC_SEC

static void test_exponential(void **state)
{
	struct backoff b = {.first = S, .factor = 5, .max = 20 * USEC_MIN};
	static const usec_t want[] = {S, 5 * S, 25 * S, 125 * S, 625 * S, 1200 * S, 1200 * S};

	(void)state;
	for (int i = 0; i < 7; i++)
		assert_int_equal(backoff_base(&b, i + 1), want[i]);
	assert_int_equal(backoff_base(&b, INT32_MAX), 1200 * S);
	assert_int_equal(backoff_base(&b, 0), S);
	assert_int_equal(backoff_base(&b, -5), S);
}

static void test_exponential_edges(void **state)
{
	struct backoff b = {.first = S, .factor = 1, .max = USEC_MIN};

	(void)state;
	assert_int_equal(backoff_base(&b, 1), S);
	assert_int_equal(backoff_base(&b, INT32_MAX), S);
	b.factor = 1.5;
	assert_int_equal(backoff_base(&b, 3), 2250000);
	b.factor = 1e300;
	b.max = USEC_MAX;
	assert_int_equal(backoff_base(&b, 3), USEC_MAX);
	b.factor = __builtin_nan("");
	assert_int_equal(backoff_base(&b, 2), USEC_MAX);
	b.factor = 2;
	assert_int_equal(backoff_base(&b, 100), USEC_MAX);
	b.first = USEC_HOUR;
	b.max = USEC_MIN;
	assert_int_equal(backoff_base(&b, 1), USEC_MIN);
	b.first = 0;
	assert_int_equal(backoff_base(&b, 9), 1);
	b.max = 0;
	assert_int_equal(backoff_base(&b, 9), 1);
}

/* W2: the list itself, not cut by the default `max`. */
static void test_schedule(void **state)
{
	static const usec_t list[] = {60 * S, 300 * S, 1500 * S, 7500 * S, 37500 * S};
	struct backoff b = {.first = S, .factor = 5, .max = USEC_MIN};

	(void)state;
	b.schedule = list;
	b.schedule_len = 5;
	for (int i = 0; i < 5; i++)
		assert_int_equal(backoff_base(&b, i + 1), list[i]);
	assert_int_equal(backoff_base(&b, 6), list[4]);
	assert_int_equal(backoff_base(&b, INT32_MAX), list[4]);
	b.schedule_len = 0;
	assert_int_equal(backoff_base(&b, 1), S);
}

static void test_jitter_only_adds(void **state)
{
	struct backoff b = {.first = 10, .factor = 1, .max = USEC_MIN};
	static const struct {
		enum jitter jitter;
		usec_t most;
	} rows[] = {{JITTER_NONE, 10}, {JITTER_EQUAL, 15}, {JITTER_FULL, 20}};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		usec_t least = USEC_MAX, most = 0;

		b.jitter = rows[i].jitter;
		for (uint64_t random = 0; random < 1000; random++) {
			usec_t wait =
				backoff_wait(&b, 1, -1, random * UINT64_C(0x9e3779b97f4a7c15));

			least = usec_min(least, wait);
			most = usec_max(most, wait);
		}
		assert_int_equal(least, 10);
		assert_int_equal(most, rows[i].most);
	}
}

static void test_largest_jitter(void **state)
{
	static const struct {
		enum jitter jitter;
		usec_t second;
	} rows[] = {{JITTER_NONE, 0}, {JITTER_EQUAL, 3 * S}, {JITTER_FULL, 6 * S}};
	struct backoff b = {.first = 2 * S, .factor = 3, .max = USEC_HOUR};

	(void)state;
	for (int i = 0; i < 3; i++) {
		usec_t most = rows[i].second;

		b.jitter = rows[i].jitter;
		assert_int_equal(backoff_jitter(&b, 2), most);
		/* It is reached, and not passed. */
		assert_int_equal(backoff_wait(&b, 2, -1, (uint64_t)most), 6 * S + most);
		assert_int_equal(backoff_wait(&b, 2, -1, (uint64_t)most + 1), 6 * S);
	}
}

static void test_advice(void **state)
{
	struct backoff b = {.first = 2 * S, .factor = 2, .max = USEC_MIN};

	(void)state;
	assert_int_equal(backoff_wait(&b, 1, -1, 7), 2 * S);
	assert_int_equal(backoff_wait(&b, 1, 0, 7), 2 * S);
	assert_int_equal(backoff_wait(&b, 1, S, 7), 2 * S);
	assert_int_equal(backoff_wait(&b, 1, 7 * S, 7), 7 * S);
	assert_int_equal(backoff_wait(&b, 4, 7 * S, 7), 16 * S);
	/* The jitter is a share of the backoff, on top of the advice. */
	b.jitter = JITTER_FULL;
	assert_int_equal(backoff_wait(&b, 1, 7 * S, (uint64_t)(2 * S)), 9 * S);
	assert_int_equal(backoff_wait(&b, 1, 7 * S, (uint64_t)(2 * S) + 1), 7 * S);
}

static void test_saturates(void **state)
{
	struct backoff b = {.first = USEC_MAX, .factor = 2, .max = USEC_MAX, .jitter = JITTER_FULL};

	(void)state;
	assert_int_equal(backoff_wait(&b, 3, USEC_MAX, UINT64_MAX), USEC_MAX);
	b.first = S;
	b.max = USEC_MIN;
	assert_int_equal(backoff_wait(&b, 3, USEC_MAX, UINT64_MAX), USEC_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exponential),      cmocka_unit_test(test_exponential_edges),
		cmocka_unit_test(test_largest_jitter),   cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_jitter_only_adds), cmocka_unit_test(test_advice),
		cmocka_unit_test(test_saturates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
