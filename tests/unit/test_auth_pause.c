#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "proxy/auth_pause.h"

#define T0 (1000 * USEC_SEC)

/* Credentials that differ in their last bytes share a set. */
static const uint8_t *credential(uint8_t set, uint16_t n)
{
	static uint8_t made[OP_CREDENTIAL_LEN];

	memset(made, 0, sizeof(made));
	made[0] = set;
	made[14] = (uint8_t)(n >> 8);
	made[15] = (uint8_t)n;
	return made;
}

static void refuse(struct auth_pause *p, const uint8_t *who, usec_t now, int times)
{
	for (int i = 0; i < times; i++)
		auth_pause_report(p, who, AUTH_REPORT_REFUSED, now);
}

static void assert_open(struct auth_pause *p, const uint8_t *who, usec_t now)
{
	uint64_t probe = 99;

	assert_true(auth_pause_enter(p, who, now, &probe));
	assert_int_equal(probe, 0);
}

static void assert_paused(struct auth_pause *p, const uint8_t *who, usec_t now)
{
	uint64_t probe = 99;

	assert_false(auth_pause_enter(p, who, now, &probe));
	assert_int_equal(probe, 99);
}

static uint64_t take_probe(struct auth_pause *p, const uint8_t *who, usec_t now)
{
	uint64_t probe = 0;

	assert_true(auth_pause_enter(p, who, now, &probe));
	assert_true(probe != 0);
	return probe;
}

static void test_counts_in_a_row(void **state)
{
	struct auth_pause *p = auth_pause_new(3);
	const uint8_t *a = credential(1, 1);

	(void)state;
	assert_open(p, a, T0);
	refuse(p, a, T0, 2);
	assert_open(p, a, T0);
	assert_int_equal(auth_pause_count(p), 0);
	auth_pause_report(p, a, AUTH_REPORT_ACCEPTED, T0);
	refuse(p, a, T0, 2);
	assert_open(p, a, T0);
	auth_pause_report(p, a, AUTH_REPORT_NOTHING, T0); /* neither ends the row nor adds to it */
	assert_open(p, a, T0);
	refuse(p, a, T0, 1);
	assert_paused(p, a, T0);
	assert_int_equal(auth_pause_count(p), 1);
	auth_pause_report(p, a, AUTH_REPORT_NOTHING, T0);
	assert_paused(p, a, T0);
	auth_pause_free(p);
	auth_pause_free(NULL);
	assert_int_equal(auth_pause_count(NULL), 0);
}

static void test_one_of_many(void **state)
{
	struct auth_pause *p = auth_pause_new(1);

	(void)state;
	refuse(p, credential(1, 1), T0, 1);
	assert_paused(p, credential(1, 1), T0);
	assert_open(p, credential(1, 2), T0);
	assert_open(p, credential(2, 1), T0);
	auth_pause_free(p);
}

static void test_one_probe_each_minute(void **state)
{
	struct auth_pause *p = auth_pause_new(2);
	const uint8_t *a = credential(7, 1);
	uint64_t first, second;

	(void)state;
	refuse(p, a, T0, 2);
	assert_paused(p, a, T0 + AUTH_PAUSE_TIME - 1);
	first = take_probe(p, a, T0 + AUTH_PAUSE_TIME);
	assert_paused(p, a, T0 + AUTH_PAUSE_TIME);
	assert_paused(p, a, T0 + 10 * AUTH_PAUSE_TIME);
	/* It ended without a word on the credential: the next may try. */
	auth_pause_probe_back(p, a, first);
	second = take_probe(p, a, T0 + AUTH_PAUSE_TIME);
	assert_int_not_equal(first, second);
	/* An old probe's end says nothing about the new one. */
	auth_pause_probe_back(p, a, first);
	assert_paused(p, a, T0 + AUTH_PAUSE_TIME);
	/* Refused again: another minute, from then on. */
	refuse(p, a, T0 + 3 * AUTH_PAUSE_TIME, 1);
	auth_pause_probe_back(p, a, second);
	assert_paused(p, a, T0 + 4 * AUTH_PAUSE_TIME - 1);
	assert_int_equal(auth_pause_count(p), 1);
	second = take_probe(p, a, T0 + 4 * AUTH_PAUSE_TIME);
	auth_pause_report(p, a, AUTH_REPORT_ACCEPTED, T0 + 4 * AUTH_PAUSE_TIME);
	assert_open(p, a, T0 + 4 * AUTH_PAUSE_TIME);
	assert_int_equal(auth_pause_count(p), 0);
	auth_pause_probe_back(p, a, second);
	assert_open(p, a, T0 + 4 * AUTH_PAUSE_TIME);
	auth_pause_free(p);
}

/* What was under way when it was paused does not make the pause longer. */
static void test_stragglers(void **state)
{
	struct auth_pause *p = auth_pause_new(2);
	const uint8_t *a = credential(7, 1);

	(void)state;
	refuse(p, a, T0, 2);
	refuse(p, a, T0 + AUTH_PAUSE_TIME / 2, 5);
	assert_int_equal(auth_pause_count(p), 1);
	(void)take_probe(p, a, T0 + AUTH_PAUSE_TIME);
	auth_pause_free(p);
}

static void test_lift(void **state)
{
	struct auth_pause *p = auth_pause_new(2);
	const uint8_t *a = credential(7, 1);

	(void)state;
	auth_pause_lift(p, a);
	refuse(p, a, T0, 2);
	auth_pause_lift(p, a);
	assert_int_equal(auth_pause_count(p), 0);
	assert_open(p, a, T0);
	refuse(p, a, T0, 1); /* a new row */
	assert_open(p, a, T0);
	refuse(p, a, T0, 1);
	assert_paused(p, a, T0);
	auth_pause_free(p);
}

/* A full set: those that are not paused go first, then whoever was met last longest ago. */
static void test_is_bounded(void **state)
{
	struct auth_pause *p = auth_pause_new(2);

	(void)state;
	for (uint16_t i = 0; i < AUTH_PAUSE_WAYS; i++)
		refuse(p, credential(3, i), T0 + i, i == 5 ? 1 : 2);
	assert_int_equal(auth_pause_count(p), AUTH_PAUSE_WAYS - 1);
	assert_paused(p, credential(3, 0), T0 + 100);
	refuse(p, credential(3, 100), T0 + 200, 2); /* takes the place of 5 */
	assert_int_equal(auth_pause_count(p), AUTH_PAUSE_WAYS);
	refuse(p, credential(3, 5), T0 + 300, 1); /* a new row, in the place of 1 */
	assert_int_equal(auth_pause_count(p), AUTH_PAUSE_WAYS - 1);
	assert_open(p, credential(3, 1), T0 + 400);
	assert_open(p, credential(3, 5), T0 + 400);
	assert_paused(p, credential(3, 0), T0 + 400);
	assert_paused(p, credential(3, 2), T0 + 400);
	for (uint16_t i = 0; i < 20000; i++)
		refuse(p, credential((uint8_t)i, i), T0 + 500, 2);
	assert_int_equal(auth_pause_count(p), AUTH_PAUSE_SETS * AUTH_PAUSE_WAYS);
	auth_pause_free(p);
}

static void test_what_a_verdict_says(void **state)
{
	static const struct {
		enum outcome_class class;
		enum auth_report report;
	} cases[] = {
		{CLASS_NONE, AUTH_REPORT_NOTHING},      {CLASS_SUCCESS, AUTH_REPORT_ACCEPTED},
		{CLASS_INVALID, AUTH_REPORT_ACCEPTED},  {CLASS_AUTH, AUTH_REPORT_REFUSED},
		{CLASS_QUOTA, AUTH_REPORT_ACCEPTED},    {CLASS_RATE_LIMITED, AUTH_REPORT_NOTHING},
		{CLASS_TRANSIENT, AUTH_REPORT_NOTHING}, {CLASS_DEFERRED, AUTH_REPORT_ACCEPTED},
		{CLASS_UNKNOWN, AUTH_REPORT_NOTHING},
	};

	(void)state;
	_Static_assert(sizeof(cases) / sizeof(cases[0]) == CLASS_COUNT, "each class");
	for (size_t i = 0; i < CLASS_COUNT; i++) {
		const struct verdict verdict = {.class = cases[i].class};

		assert_int_equal(auth_report_of(&verdict), cases[i].report);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_in_a_row),
		cmocka_unit_test(test_one_of_many),
		cmocka_unit_test(test_one_probe_each_minute),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_lift),
		cmocka_unit_test(test_is_bounded),
		cmocka_unit_test(test_what_a_verdict_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
