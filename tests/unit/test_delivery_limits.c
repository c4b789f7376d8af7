/* pure-test */
/* What bounds a delivery: its caller, its own deadline and hints, the drain, a slow store, its body,
 * the provider's advice; and requests that no ledger records. */
#include "tests/unit/delivery_fixture.h"

/* --- the caller ---------------------------------------------------------------------------------- */

static void test_gone_while_waiting(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k); /* for its turn */
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	simple(&k, DELIVERY_EV_GONE);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);

	desk_init(&k); /* for a slot */
	simple(&k, DELIVERY_EV_START);
	gate_closed(&k, USEC_MAX, false);
	simple(&k, DELIVERY_EV_WRITTEN);
	gate_closed(&k, USEC_MAX, false);
	simple(&k, DELIVERY_EV_GONE);
	assert_ended(&k);

	desk_init(&k); /* for another instance */
	make_attempting(&k, &op);
	meet(&k, &op);
	simple(&k, DELIVERY_EV_GONE);
	assert_ended(&k);

	desk_init(&k); /* for another delivery */
	busy(&k, true, NULL);
	simple(&k, DELIVERY_EV_GONE);
	assert_ended(&k);
}

static void test_gone_during_the_attempt(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	simple(&k, DELIVERY_EV_GONE);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);
	assert_int_equal(k.d.op.state, OP_READY);
}

static void test_gone_before_the_claim_is_known(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	simple(&k, DELIVERY_EV_GONE);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.write, WRITE_VOID);
	assert_true(k.act.release);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);

	desk_init(&k);
	make_ready(&k, &op);
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	simple(&k, DELIVERY_EV_GONE);
	record(&k, &op);
	assert_true(k.act.release);
	assert_ended(&k);
}

static void test_gone_before_the_slot(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	simple(&k, DELIVERY_EV_GONE);
	gate_open(&k);
	assert_true(k.act.release);
	assert_ended(&k);

	desk_init(&k);
	k.d.caller = CALLER_GONE;
	simple(&k, DELIVERY_EV_START);
	assert_ended(&k);

	desk_init(&k);
	k.d.ledgered = false;
	simple(&k, DELIVERY_EV_START);
	simple(&k, DELIVERY_EV_GONE);
	gate_closed(&k, USEC_MAX, false);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);
}

/* A bare FIN: nothing new is started, the answer is still written. */
static void test_half(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	simple(&k, DELIVERY_EV_HALF);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);

	desk_init(&k);
	send_first(&k);
	simple(&k, DELIVERY_EV_HALF);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);

	desk_init(&k); /* the claim's word comes after it */
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	simple(&k, DELIVERY_EV_HALF);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.write, WRITE_VOID);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);

	desk_init(&k); /* one who joins starts nothing, and goes on waiting */
	make_attempting(&k, &op);
	meet(&k, &op);
	simple(&k, DELIVERY_EV_HALF);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	simple(&k, DELIVERY_EV_HALF);
	k.now += POLL_FIRST;
	simple(&k, DELIVERY_EV_TIMER);
	make_ready(&k, &op);
	record(&k, &op);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);

	desk_init(&k);
	k.d.caller = CALLER_GONE;
	simple(&k, DELIVERY_EV_HALF);
	assert_int_equal(k.d.caller, CALLER_GONE);
}

/* --- requests that no ledger records ------------------------------------------------------------- */

static void desk_unledgered(struct desk *k, bool safe)
{
	desk_init(k);
	k->d.ledgered = false;
	k->d.safe = safe;
	k->d.repeat = safe ? REPEAT_ALWAYS : REPEAT_NEVER;
}

static void test_safe(void **state)
{
	struct desk k;

	(void)state;
	desk_unledgered(&k, true);
	send_first(&k);
	settle(&k, 503, FAULT_NONE);
	send_next(&k);
	simple(&k, DELIVERY_EV_GONE);
	assert_int_equal(k.act.act, DELIVERY_ACT_CANCEL);
	outcome(&k, 0, FAULT_CALLER);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_ended(&k);
}

/* One attempt, repeated only while the effect is none; a possible one is inserted as unknown. */
static void test_unkeyed(void **state)
{
	struct desk k;

	(void)state;
	desk_unledgered(&k, false);
	simple(&k, DELIVERY_EV_START);
	gate_closed(&k, USEC_MAX, false);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT); /* no intent */
	gate_open(&k);
	simple(&k, DELIVERY_EV_WRITTEN);
	settle(&k, 0, FAULT_CONNECT);
	send_next(&k);
	outcome(&k, 0, FAULT_TIMEOUT);
	assert_true(k.act.expect_absent);
	assert_int_equal(k.d.proposal.state, OP_UNKNOWN);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_problem(&k, "unknown-outcome", 504, -1);
}

/* --- Stint-Deadline ------------------------------------------------------------------------------ */

static void set_deadline(struct desk *k, usec_t after)
{
	k->d.deadline = T0 + after;
	k->d.answer_by = usec_min(k->d.answer_by, k->d.deadline);
}

static void test_deadline_of_a_safe_request(void **state)
{
	struct desk k;

	(void)state;
	desk_unledgered(&k, true);
	set_deadline(&k, 2 * USEC_SEC);
	send_first(&k);
	assert_int_equal(k.act.limit, k.d.deadline);
	assert_true(k.act.limit_is_deadline);
	assert_int_equal(k.act.unsent_limit, k.d.deadline);
	assert_int_equal(k.act.until, USEC_MAX);

	/* The window ends before it. */
	desk_unledgered(&k, true);
	k.policy.window = USEC_SEC;
	set_deadline(&k, 2 * USEC_SEC);
	send_first(&k);
	assert_int_equal(k.act.limit, T0 + USEC_SEC);
	assert_false(k.act.limit_is_deadline);

	/* Less than attempt.least is left. */
	desk_unledgered(&k, true);
	set_deadline(&k, k.policy.attempt_least - 1);
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);
}

static void test_deadline_of_a_sent_attempt(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	set_deadline(&k, 2 * USEC_SEC);
	send_first(&k);
	assert_false(k.act.limit_is_deadline);
	assert_int_equal(k.act.unsent_limit, k.d.deadline);
	assert_int_equal(k.act.until, k.d.deadline + DEADLINE_GRACE);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	settle(&k, 200, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);

	desk_unledgered(&k, false);
	set_deadline(&k, 2 * USEC_SEC);
	send_first(&k);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_problem(&k, "unknown-outcome", 504, -1);
}

static void test_deadline_is_over(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	set_deadline(&k, 0);
	simple(&k, DELIVERY_EV_START);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);

	/* Of a call to the store, too. */
	desk_init(&k);
	set_deadline(&k, 100 * USEC_MS);
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	assert_int_equal(k.act.until, k.d.deadline);
}

/* A hold of nothing is one attempt: it bounds the waiting, not the trying. */
static void test_no_hold(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.d.answer_by = T0;
	k.now = T0 + 50;
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	assert_int_equal(k.act.until, k.now + STORE_PATIENCE);
	simple(&k, DELIVERY_EV_WRITTEN);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);
}

/* --- drain --------------------------------------------------------------------------------------- */

static void test_drain(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k); /* an attempt in flight goes on; nothing follows it */
	send_first(&k);
	simple(&k, DELIVERY_EV_DRAIN);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);

	desk_init(&k); /* between two attempts */
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	simple(&k, DELIVERY_EV_DRAIN);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);

	desk_init(&k); /* for a slot */
	simple(&k, DELIVERY_EV_START);
	gate_closed(&k, USEC_MAX, false);
	simple(&k, DELIVERY_EV_WRITTEN);
	gate_closed(&k, USEC_MAX, false);
	simple(&k, DELIVERY_EV_DRAIN);
	assert_problem(&k, "draining", 503, BUSY_RETRY_AFTER);

	desk_init(&k); /* for another's attempt */
	busy(&k, true, NULL);
	simple(&k, DELIVERY_EV_DRAIN);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);

	desk_init(&k); /* the record says that another's runs */
	k.d.draining = true;
	make_attempting(&k, &op);
	k.d.phase = DELIVERY_LOOK;
	record(&k, &op);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);

	desk_init(&k); /* joining */
	k.d.draining = true;
	busy(&k, true, NULL);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);
}

static void test_drain_while_the_store_is_asked(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	busy(&k, true, NULL);
	simple(&k, DELIVERY_EV_START);
	simple(&k, DELIVERY_EV_DRAIN);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	make_ready(&k, &op);
	record(&k, &op);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);

	desk_init(&k);
	busy(&k, true, NULL);
	simple(&k, DELIVERY_EV_START);
	simple(&k, DELIVERY_EV_DRAIN);
	simple(&k, DELIVERY_EV_ABSENT);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
	gate_open(&k);
	assert_int_equal(k.act.answer, ANSWER_PROBLEM);
	assert_true(k.act.release);
	assert_ended(&k);
}

/* --- a slow store -------------------------------------------------------------------------------- */

/* The claim's word comes after the caller has its answer: taken back, whatever the word is. */
static void test_slow_claim(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	assert_int_equal(k.act.until, k.d.answer_by);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_problem(&k, "ledger-away", 503, BUSY_RETRY_AFTER);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	k.now += 10 * USEC_SEC;
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.write, WRITE_VOID);
	assert_true(k.act.release);
	simple(&k, DELIVERY_EV_AWAY);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);
}

static void test_slow_second_claim(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	gate_open(&k);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	simple(&k, DELIVERY_EV_AWAY);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);

	desk_init(&k); /* away instead of slow */
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	gate_open(&k);
	simple(&k, DELIVERY_EV_AWAY);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);
}

static void test_slow_settle(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	k.now = k.d.answer_by + USEC_SEC;
	outcome(&k, 200, FAULT_NONE);
	assert_int_equal(k.act.until, k.now + SETTLE_PATIENCE);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	assert_int_equal(k.d.op.state, OP_ATTEMPTING);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);
}

static void test_timer_out_of_place(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	assert_int_equal(k.act.answer, ANSWER_NONE);
}

/* --- body, advice, streams ----------------------------------------------------------------------- */

static void test_not_replayable(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.d.replayable = false;
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_string_equal(k.act.reason, "body-not-replayable");
	assert_ended(&k);
}

static void test_advice(void **state)
{
	struct verdict verdict = verdict_of(429, FAULT_NONE);
	struct desk k;

	(void)state;
	desk_init(&k); /* within the cap: in full */
	send_first(&k);
	verdict.advice = 7 * USEC_SEC;
	outcome_of(&k, &verdict);
	assert_int_equal(k.d.proposal.next, T0 + 7 * USEC_SEC);

	desk_init(&k); /* beyond it: the cap */
	k.policy.retry_after_max = 5 * USEC_SEC;
	send_first(&k);
	outcome_of(&k, &verdict);
	assert_int_equal(k.d.proposal.next, T0 + 5 * USEC_SEC);

	desk_init(&k); /* beyond: stop */
	k.policy.retry_after_max = 5 * USEC_SEC;
	k.policy.beyond = BEYOND_STOP;
	send_first(&k);
	outcome_of(&k, &verdict);
	assert_int_equal(k.d.proposal.state, OP_EXHAUSTED);
	assert_string_equal(k.d.proposal.reason, "advice-beyond-cap");

	desk_init(&k); /* a rule's own wait */
	send_first(&k);
	verdict.rule_wait = 11 * USEC_SEC;
	outcome_of(&k, &verdict);
	assert_int_equal(k.d.proposal.next, T0 + 11 * USEC_SEC);
}

static bool would_end(const struct desk *k, int status)
{
	struct verdict verdict = verdict_of(status, FAULT_NONE);

	return delivery_would_end(&k->d, &verdict, k->now, 0);
}

static void test_would_end(void **state)
{
	struct verdict strange = verdict_of(200, FAULT_NONE);
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	assert_true(would_end(&k, 200));
	assert_true(would_end(&k, 400));
	assert_true(would_end(&k, 401));
	assert_false(would_end(&k, 429));
	assert_false(would_end(&k, 503));
	k.d.hint_attempts = 1;
	assert_true(would_end(&k, 429));
	k.d.hint_attempts = 2;
	assert_false(would_end(&k, 429));
	k.d.replayable = false;
	assert_true(would_end(&k, 429));
	k.d.replayable = true;
	k.d.draining = true;
	assert_true(would_end(&k, 429));
	k.d.draining = false;
	k.d.caller = CALLER_HALF;
	assert_true(would_end(&k, 429));
	k.d.caller = CALLER_HERE;
	k.d.answer_by = T0 + USEC_SEC - 1;
	assert_true(would_end(&k, 429));
	k.d.answer_by = T0 + USEC_SEC;
	assert_false(would_end(&k, 429));
	/* An illegal pair ends nothing. */
	strange.effect = EFFECT_NONE;
	assert_false(delivery_would_end(&k.d, &strange, k.now, 0));
}

/* Once a byte has gone to the caller nothing is retried. */
static void test_stream(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	simple(&k, DELIVERY_EV_STREAM);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	settle(&k, 200, FAULT_CUT);
	assert_int_equal(k.d.op.state, OP_READY);
	assert_int_equal(k.act.answer, ANSWER_NONE);
	assert_ended(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gone_while_waiting),
		cmocka_unit_test(test_gone_during_the_attempt),
		cmocka_unit_test(test_gone_before_the_claim_is_known),
		cmocka_unit_test(test_gone_before_the_slot),
		cmocka_unit_test(test_half),
		cmocka_unit_test(test_safe),
		cmocka_unit_test(test_unkeyed),
		cmocka_unit_test(test_deadline_of_a_safe_request),
		cmocka_unit_test(test_deadline_of_a_sent_attempt),
		cmocka_unit_test(test_deadline_is_over),
		cmocka_unit_test(test_no_hold),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_drain_while_the_store_is_asked),
		cmocka_unit_test(test_slow_claim),
		cmocka_unit_test(test_slow_second_claim),
		cmocka_unit_test(test_slow_settle),
		cmocka_unit_test(test_timer_out_of_place),
		cmocka_unit_test(test_not_replayable),
		cmocka_unit_test(test_advice),
		cmocka_unit_test(test_would_end),
		cmocka_unit_test(test_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
