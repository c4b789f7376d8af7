/* pure-test */
/* The worked cases (W2 to W36) that are arithmetic of one operation, on a virtual clock. */
#include "operation_fixture.h"

static const usec_t w2_schedule[] = {60 * USEC_SEC, 300 * USEC_SEC, 1500 * USEC_SEC,
				     7500 * USEC_SEC, 37500 * USEC_SEC};

static void lab_init_w2(struct lab *lab)
{
	lab_init(lab);
	lab->policy.window = USEC_DAY;
	lab->policy.backoff.schedule = w2_schedule;
	lab->policy.backoff.schedule_len = 5;
	lab->op.limit = 6;
}

/* W2: redelivered whenever the last reply said so; down for good. */
static void test_w2(void **state)
{
	static const usec_t want[] = {0, 60, 360, 1860, 9360, 46860};
	struct lab lab;
	int n = 0;

	(void)state;
	lab_init_w2(&lab);
	while (lab_next(&lab) == OP_CHANGED) {
		assert_true(n < 6);
		assert_int_equal(lab.now - T0, want[n] * USEC_SEC);
		n++;
		lab.wait = backoff_wait(&lab.policy.backoff, n, -1, 0);
		lab_settle(&lab, n, CLASS_RATE_LIMITED, 429);
	}
	assert_int_equal(n, 6);
	assert_state(&lab, EXHAUSTED);
	assert_int_equal(lab.op.status, 429);
	assert_string_equal(lab.op.reason, "status-429");
	assert_int_equal(lab.op.last_end, T0 + 46860 * USEC_SEC);
}

/* W4, W5: 3 x 3 deliveries of one key; the limit holds, and each sees the count. */
static void test_w5(void **state)
{
	struct lab lab;
	int sent = 0;

	(void)state;
	lab_init(&lab);
	lab.policy.attempts = 3;
	lab.op.limit = 3;
	for (int worker = 0; worker < 3; worker++) {
		for (int sdk = 0; sdk < 3; sdk++) {
			if (lab_next(&lab) == OP_CHANGED)
				lab_settle(&lab, ++sent, CLASS_RATE_LIMITED, 429);
			assert_int_equal(lab.op.attempts, sent);
		}
	}
	assert_int_equal(sent, 3);
	assert_state(&lab, EXHAUSTED);
}

/* W7: each attempt takes 8 s, no wait to speak of between them. */
static void test_w7(void **state)
{
	for (int least = 2; least <= 8; least += 6) {
		struct lab lab;

		(void)state;
		lab_init(&lab);
		lab.policy.window = 30 * USEC_SEC;
		lab.policy.attempt_least = least * USEC_SEC;
		lab.wait = 0;
		for (int n = 1; n <= 3; n++) {
			assert_int_equal(lab_next(&lab), OP_CHANGED);
			lab.now += 8 * USEC_SEC;
			lab_settle(&lab, n, CLASS_TRANSIENT, 503);
		}
		assert_int_equal(lab.op.deadline - lab.now, 6 * USEC_SEC);
		assert_int_equal(lab_next(&lab), least == 2 ? OP_CHANGED : OP_REFUSED);
		assert_int_equal(lab.op.attempts, least == 2 ? 4 : 3);
		if (least == 8)
			assert_state(&lab, EXHAUSTED);
	}
}

/* W8: window 20 s, two attempts of 7 s, backoffs of 1 and 2 s; 3 s would be left. */
static void test_w8(void **state)
{
	for (int possible = 0; possible <= 2; possible++) {
		struct lab lab;

		(void)state;
		lab_init(&lab);
		lab.policy.window = 20 * USEC_SEC;
		lab.policy.attempt_least = 6 * USEC_SEC;
		for (int n = 1; n <= 2; n++) {
			assert_int_equal(lab_next(&lab), OP_CHANGED);
			lab.now += 7 * USEC_SEC;
			lab.wait = n * USEC_SEC;
			lab_settle(&lab, n, possible == n ? CLASS_UNKNOWN : CLASS_TRANSIENT, 503);
		}
		assert_int_equal(lab_next(&lab), OP_REFUSED);
		if (possible)
			assert_state(&lab, UNKNOWN);
		else
			assert_state(&lab, EXHAUSTED);
		assert_int_equal(lab.op.attempts, 2);
	}
}

/* W9, W12 */
static void test_w9(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_INVALID, 422);
	assert_state(&lab, FAILED);
	assert_int_equal(lab.op.status, 422);
	lab.now += USEC_HOUR;
	assert_int_equal(lab_next(&lab), OP_REFUSED);
	assert_int_equal(lab.op.attempts, 1);
}

/* W10: growing delays, three attempts for one effect, none left open. */
static void test_w10(void **state)
{
	struct lab lab;
	usec_t last = 0;

	(void)state;
	lab_init(&lab);
	for (int n = 1; n <= 2; n++) {
		lab_next(&lab);
		lab.wait = backoff_wait(&lab.policy.backoff, n, -1, 0);
		assert_true(lab.wait > last);
		last = lab.wait;
		lab_settle(&lab, n, CLASS_UNKNOWN, 503);
		assert_open(&lab, n);
		assert_state(&lab, READY);
	}
	lab_next(&lab);
	lab_settle(&lab, 3, CLASS_SUCCESS, 200);
	assert_state(&lab, SUCCEEDED);
	assert_open(&lab, 0);
	assert_int_equal(lab.op.attempts, 3);
}

static void test_w11(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_UNKNOWN, 0);
	assert_state(&lab, UNKNOWN);
	assert_open(&lab, 1);
	lab.now += USEC_DAY;
	assert_int_equal(lab_next(&lab), OP_REFUSED);
	assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_UNCHANGED);
	assert_int_equal(lab.op.attempts, 1);
}

/* W14: the night that it was held does not count. */
static void test_w14(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab_next(&lab);
	lab.now += 10 * USEC_MIN;
	lab_settle(&lab, 1, CLASS_AUTH, 401);
	assert_state(&lab, HELD);
	lab.now += 10 * USEC_HOUR;
	assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_UNCHANGED);
	assert_int_equal(lab_next(&lab), OP_REFUSED);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.deadline - lab.now, 50 * USEC_MIN);
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	assert_int_equal(lab.op.attempts, 2);
	assert_int_equal(lab.op.limit, 5);
}

/* W25 */
static void test_w25(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	for (int n = 1; n <= 5; n++) {
		lab_next(&lab);
		lab_settle(&lab, n, CLASS_RATE_LIMITED, 429);
	}
	assert_state(&lab, EXHAUSTED);
	lab.now += 6 * USEC_HOUR;
	lab_do(&lab, OP_EV_REOPEN);
	assert_state(&lab, READY);
	lab.now += 10 * USEC_MIN;
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	assert_int_equal(lab.op.created, T0);
	assert_int_equal(lab.op.attempts, 6);
	assert_int_equal(lab.op.limit, 10);
	assert_int_equal(lab.op.deadline - lab.now, 50 * USEC_MIN);
}

static void test_w26(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_UNKNOWN, 0);
	lab_next(&lab);
	lab_settle(&lab, 2, CLASS_AUTH, 401);
	assert_state(&lab, HELD);
	assert_open(&lab, 1);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);
	assert_open(&lab, 1);
	lab_next(&lab);
	lab_settle(&lab, 3, CLASS_SUCCESS, 200);
	assert_state(&lab, SUCCEEDED);
	assert_open(&lab, 0);
}

/* W27, W34 */
static void test_w27(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_UNKNOWN, 0);
	lab_next(&lab);
	lab_settle(&lab, 2, CLASS_INVALID, 400);
	assert_state(&lab, UNKNOWN);
	assert_open(&lab, 1);
	lab.now += USEC_MIN;
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_CHANGED);
	assert_state(&lab, FAILED);
	assert_int_equal(lab.op.status, 400);
	assert_int_equal(lab.op.last_n, 2);
}

/* W28: PUT of version 1, delivered again after an hour with a fresh hold. */
static void test_w28(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.rule = REPEAT_WITHIN_HOLD;
	lab_next(&lab);
	lab.now += 10 * USEC_SEC;
	lab_settle(&lab, 1, CLASS_UNKNOWN, 0);
	assert_state(&lab, READY);
	lab.now += USEC_HOUR - USEC_MIN;
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_CHANGED);
	assert_state(&lab, UNKNOWN);
}

/* W29: the tombstone of a success. */
static void test_w29(void **state)
{
	struct lab lab;

	(void)state;
	lab_at(&lab, AT_SUCCEEDED);
	lab.op.tombstone = true;
	memset(lab.op.ring, 0, sizeof(lab.op.ring));
	assert_null(op_check(&lab.op));
	lab.now += 29 * USEC_DAY;
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	assert_int_equal(lab_do(&lab, OP_EV_REOPEN), OP_REFUSED);
	assert_state(&lab, SUCCEEDED);
}

/* W30: a delivery that waited and left has cost nothing. */
static void test_w30(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.now += USEC_MIN;
	lab_do(&lab, OP_EV_SEEN);
	lab_do(&lab, OP_EV_TICK);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.attempts, 0);
	assert_int_equal(lab.op.deadline, 0);
	assert_open(&lab, 0);
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	assert_int_equal(lab.op.deadline - lab.now, USEC_HOUR);
}

static void test_w32(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	lab_next(&lab);
	lab_expire(&lab);
	assert_state(&lab, UNKNOWN);
	lab_probe(&lab, false);
	assert_state(&lab, READY);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
	assert_state(&lab, SUCCEEDED);
	assert_true(lab.op.disputed);
	assert_int_equal(lab_next(&lab), OP_REFUSED);
}

static void test_w33(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	for (int n = 1; n <= 2; n++) {
		lab_next(&lab);
		lab_settle(&lab, n, CLASS_UNKNOWN, 0);
	}
	assert_open(&lab, 2);
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_CHANGED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_UNCHANGED);
	assert_open(&lab, 1);
	assert_true(op_set_has(&lab.op.unresolved, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_w2),  cmocka_unit_test(test_w5),  cmocka_unit_test(test_w7),
		cmocka_unit_test(test_w8),  cmocka_unit_test(test_w9),  cmocka_unit_test(test_w10),
		cmocka_unit_test(test_w11), cmocka_unit_test(test_w14), cmocka_unit_test(test_w25),
		cmocka_unit_test(test_w26), cmocka_unit_test(test_w27), cmocka_unit_test(test_w28),
		cmocka_unit_test(test_w29), cmocka_unit_test(test_w30), cmocka_unit_test(test_w32),
		cmocka_unit_test(test_w33),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
