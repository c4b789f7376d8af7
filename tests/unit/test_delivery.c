/* pure-test */
/* The rows of the table in design section 8, each as what the machine says, and what every happy path
 * looks like. test_delivery_paths.c has the ways in between. */
#include "tests/unit/delivery_fixture.h"

static void test_happy_path(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	assert_int_equal(k.act.limit, k.d.op.deadline);
	assert_int_equal(k.act.unsent_limit, USEC_MAX);
	assert_int_equal(k.act.until, USEC_MAX);
	assert_true(delivery_may_send(&k.d, k.now));
	settle(&k, 200, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_int_equal(k.act.retry_after, -1);
	assert_ended(&k);
	assert_int_equal(k.d.op.state, OP_SUCCEEDED);
	assert_int_equal(k.d.started, 1);
}

/* "an answer from the provider ends the delivery" */
static void test_row_provider_answer(void **state)
{
	static const int statuses[] = {200, 302, 400, 401, 422};
	struct desk k;

	(void)state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		desk_init(&k);
		send_first(&k);
		settle(&k, statuses[i], FAULT_NONE);
		assert_int_equal(k.act.answer, ANSWER_REPLY);
		assert_ended(&k);
	}
}

/* On exhaustion too: the last reply, whatever the state has become. */
static void test_row_provider_answer_at_exhaustion(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.policy.attempts = 2;
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	send_next(&k);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.d.op.state, OP_EXHAUSTED);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_int_equal(k.act.retry_after, -1);
}

/* "replay of a terminal operation", and "terminal, reply not kept" */
static void test_row_replay(void **state)
{
	static const int statuses[] = {200, 422};
	struct desk k;
	struct op op;

	(void)state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		desk_init(&k);
		make_settled(&k, statuses[i], FAULT_NONE, &op);
		meet(&k, &op);
		assert_int_equal(k.act.answer, ANSWER_STORED);
		assert_string_equal(k.act.problem, "response-not-retained");
		assert_int_equal(k.act.status, 424);
		assert_true(k.act.release);
		assert_ended(&k);
	}
}

/* "the wait is longer than the hold": this delivery's own last reply */
static void test_row_wait_own_reply(void **state)
{
	struct verdict verdict = verdict_of(429, FAULT_NONE);
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	verdict.advice = 60 * USEC_SEC;
	outcome_of(&k, &verdict);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_int_equal(k.act.retry_after, 60 * USEC_SEC);
	assert_string_equal(k.act.reason, "deadline-before-retry-after");
	assert_int_equal(k.d.op.state, OP_READY);
	assert_ended(&k);
}

/* "... or a hint is spent" */
static void test_row_hint_spent(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.d.hint_attempts = 1;
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_int_equal(k.act.retry_after, USEC_SEC);
	assert_null(k.act.reason);
	assert_int_equal(k.d.op.state, OP_READY);
}

/* "... attempts that were not sent are skipped over" */
static void test_row_not_sent_is_skipped(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.policy.attempts = 2;
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	send_next(&k);
	settle(&k, 0, FAULT_CONNECT);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
}

/* "... if the last one sent had no answer, the row below says so whatever earlier ones said" */
static void test_row_no_answer_after_reply(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.policy.attempts = 2;
	send_first(&k);
	settle(&k, 503, FAULT_NONE);
	send_next(&k);
	settle(&k, 0, FAULT_RESET);
	assert_problem(&k, "unknown-outcome", 502, -1);
}

/* "else 429 if its rate limiting is the cause": another delivery's reply, or the gate's block */
static void test_row_wait_429(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	k.d.answer_by = T0 + USEC_SEC;
	make_settled(&k, 429, FAULT_NONE, &op);
	meet(&k, &op);
	assert_problem(&k, "waiting", 429, 5 * USEC_SEC);
	assert_ended(&k);

	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	gate_closed(&k, T0 + USEC_MIN, true);
	assert_int_equal(k.act.write, WRITE_INTENT);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
	gate_closed(&k, T0 + USEC_MIN, true);
	assert_problem(&k, "waiting", 429, USEC_MIN);
	assert_int_equal(k.d.op.attempts, 0);
	assert_int_equal(k.d.op.next, 0);
}

/* "503 for pause, breaker, queue, ratio, concurrency" */
static void test_row_wait_503(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	k.d.answer_by = T0 + USEC_SEC;
	make_settled(&k, 0, FAULT_CONNECT, &op);
	meet(&k, &op);
	assert_problem(&k, "waiting", 503, 5 * USEC_SEC);

	/* Waits for a slot as long as it may. */
	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	gate_closed(&k, USEC_MAX, false);
	simple(&k, DELIVERY_EV_WRITTEN);
	gate_closed(&k, USEC_MAX, false);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	assert_int_equal(k.act.until, k.d.answer_by);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);
}

/* "key reused with another request": of a record, of one in flight here, and of one that waits */
static void test_row_key_reuse(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_attempting(&k, &op);
	op.fingerprint[0] = 99;
	meet(&k, &op);
	assert_problem(&k, "key-reuse", 422, -1);
	assert_ended(&k);

	desk_init(&k);
	busy(&k, false, NULL);
	assert_problem(&k, "key-reuse", 422, -1);
	assert_ended(&k);
}

/* "in flight elsewhere beyond the hold, or in_flight: refuse" */
static void test_row_in_progress(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_attempting(&k, &op);
	meet(&k, &op);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	assert_int_equal(k.act.until, T0 + POLL_FIRST);
	assert_true(k.act.release);
	k.now = k.d.answer_by;
	simple(&k, DELIVERY_EV_TIMER);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);

	desk_init(&k);
	k.policy.in_flight = IN_FLIGHT_REFUSE;
	meet(&k, &op);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);

	desk_init(&k);
	k.policy.in_flight = IN_FLIGHT_REFUSE;
	busy(&k, true, &op);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);
}

/* A joiner of this process, and when to come back where the running delivery itself waits. */
static void test_row_in_progress_joined(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_settled(&k, 429, FAULT_NONE, &op);
	op.next = T0 + USEC_MIN;
	busy(&k, true, &op);
	assert_int_equal(k.act.act, DELIVERY_ACT_JOIN);
	assert_int_equal(k.act.until, k.d.answer_by);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_problem(&k, "in-progress", 409, USEC_MIN - k.policy.hold);
}

/* "exhausted, unknown, held on a later delivery" */
static void test_row_later_delivery(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	k.policy.attempts = 1;
	make_settled(&k, 429, FAULT_NONE, &op);
	assert_int_equal(op.state, OP_EXHAUSTED);
	meet(&k, &op);
	assert_problem(&k, "exhausted", 424, -1);

	desk_init(&k);
	k.policy.attempts = 1;
	make_settled(&k, 0, FAULT_TIMEOUT, &op);
	assert_int_equal(op.state, OP_UNKNOWN);
	meet(&k, &op);
	assert_problem(&k, "unknown", 424, -1);

	desk_init(&k);
	make_settled(&k, 401, FAULT_NONE, &op);
	assert_int_equal(op.state, OP_HELD);
	meet(&k, &op);
	assert_problem(&k, "held", 424, -1);
	assert_ended(&k);
}

/* "the last attempt sent ended without an answer: 504 on a time limit, else 502" */
static void test_row_no_answer(void **state)
{
	static const struct {
		enum fault fault;
		const char *problem;
		int status;
	} rows[] = {
		{FAULT_TIMEOUT, "unknown-outcome", 504}, {FAULT_IDLE, "unknown-outcome", 504},
		{FAULT_TOTAL, "unknown-outcome", 504},   {FAULT_RESET, "unknown-outcome", 502},
		{FAULT_CLOSED, "unknown-outcome", 502},  {FAULT_CUT, "unknown-outcome", 502},
		{FAULT_CONNECT, "not-sent", 502},        {FAULT_CONNECT_TIMEOUT, "not-sent", 504},
		{FAULT_DEADLINE, "not-sent", 504},
	};
	struct desk k;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		desk_init(&k);
		k.policy.attempts = 1;
		send_first(&k);
		settle(&k, rows[i].fault == FAULT_CUT ? 200 : 0, rows[i].fault);
		assert_problem(&k, rows[i].problem, rows[i].status, -1);
		assert_ended(&k);
	}
}

/* The time limit of the last one sent counts, not that of one that was not. */
static void test_row_no_answer_then_not_sent(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.policy.attempts = 2;
	send_first(&k);
	settle(&k, 0, FAULT_RESET);
	send_next(&k);
	settle(&k, 0, FAULT_CONNECT_TIMEOUT);
	assert_problem(&k, "unknown-outcome", 502, -1);

	desk_init(&k);
	k.policy.attempts = 2;
	send_first(&k);
	settle(&k, 0, FAULT_CONNECT);
	send_next(&k);
	settle(&k, 0, FAULT_TIMEOUT);
	assert_problem(&k, "unknown-outcome", 504, -1);
}

static void test_row_head_too_large(void **state)
{
	struct verdict verdict = verdict_of(200, FAULT_NONE);
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	verdict.fault = FAULT_HEAD_TOO_LARGE;
	outcome_of(&k, &verdict);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_problem(&k, "response-head-too-large", 502, -1);
	assert_int_equal(k.d.op.state, OP_SUCCEEDED);
}

/* "store away, lost or full" */
static void test_row_store_away(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	simple(&k, DELIVERY_EV_AWAY);
	assert_problem(&k, "ledger-away", 503, BUSY_RETRY_AFTER);
	assert_true(k.act.release);
	assert_ended(&k);
	assert_int_equal(k.d.started, 0);
}

/* What has been answered is delivered although the store would not take it. */
static void test_row_store_away_at_settle(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	outcome(&k, 200, FAULT_NONE);
	simple(&k, DELIVERY_EV_AWAY);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);

	desk_init(&k);
	send_first(&k);
	outcome(&k, 429, FAULT_NONE);
	simple(&k, DELIVERY_EV_AWAY);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_int_equal(k.act.retry_after, USEC_SEC);
	assert_ended(&k);
}

static void test_row_draining(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.d.draining = true;
	simple(&k, DELIVERY_EV_START);
	assert_problem(&k, "draining", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_happy_path),
		cmocka_unit_test(test_row_provider_answer),
		cmocka_unit_test(test_row_provider_answer_at_exhaustion),
		cmocka_unit_test(test_row_replay),
		cmocka_unit_test(test_row_wait_own_reply),
		cmocka_unit_test(test_row_hint_spent),
		cmocka_unit_test(test_row_not_sent_is_skipped),
		cmocka_unit_test(test_row_no_answer_after_reply),
		cmocka_unit_test(test_row_wait_429),
		cmocka_unit_test(test_row_wait_503),
		cmocka_unit_test(test_row_key_reuse),
		cmocka_unit_test(test_row_in_progress),
		cmocka_unit_test(test_row_in_progress_joined),
		cmocka_unit_test(test_row_later_delivery),
		cmocka_unit_test(test_row_no_answer),
		cmocka_unit_test(test_row_no_answer_then_not_sent),
		cmocka_unit_test(test_row_head_too_large),
		cmocka_unit_test(test_row_store_away),
		cmocka_unit_test(test_row_store_away_at_settle),
		cmocka_unit_test(test_row_draining),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
