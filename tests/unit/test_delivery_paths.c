/* pure-test */
/* The ways of a delivery beside the rows of test_delivery.c: waiting, joining, polling, taking back,
 * merging, leaving, streaming, limits. */
#include "tests/unit/delivery_fixture.h"

static void test_turn(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	assert_int_equal(k.act.until, T0 + USEC_SEC);
	assert_false(k.d.slot);
	/* Woken a moment early it goes on waiting. */
	k.now = T0 + USEC_SEC - 1;
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	send_next(&k);
	assert_int_equal(k.d.attempt_n, 2);
	assert_int_equal(k.d.started, 2);
	settle(&k, 200, FAULT_NONE);
	assert_ended(&k);
}

static void test_queue(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	simple(&k, DELIVERY_EV_START);
	gate_closed(&k, T0 + USEC_SEC, false);
	assert_int_equal(k.act.write, WRITE_INTENT);
	assert_true(k.act.expect_absent);
	assert_int_equal(k.d.proposal.attempts, 0);
	/* The write cost its place in the queue: the gate is asked again. */
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
	gate_closed(&k, T0 + USEC_SEC, false);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	assert_int_equal(k.act.until, T0 + USEC_SEC);
	k.now = T0 + USEC_SEC;
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
	gate_closed(&k, USEC_MAX, false);
	assert_int_equal(k.act.until, k.d.answer_by);
	/* Granted. */
	gate_open(&k);
	assert_int_equal(k.act.write, WRITE_CLAIM);
	assert_false(k.act.expect_absent);
}

/* A grant that crosses the end of the wait goes back. */
static void test_late_grant(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	gate_open(&k);
	assert_int_equal(k.act.act, DELIVERY_ACT_NONE);
	assert_true(k.act.release);
	assert_false(k.d.slot);
}

static void test_intent_and_the_end_of_waiting(void **state)
{
	struct desk k;

	(void)state;
	for (int i = 0; i < 4; i++) {
		desk_init(&k);
		simple(&k, DELIVERY_EV_START);
		gate_closed(&k, T0 + USEC_SEC, false);
		if (i == 0)
			simple(&k, DELIVERY_EV_GONE);
		else if (i == 1)
			simple(&k, DELIVERY_EV_HALF);
		else if (i == 2)
			simple(&k, DELIVERY_EV_DRAIN);
		else
			k.now = k.d.answer_by;
		simple(&k, DELIVERY_EV_WRITTEN);
		assert_int_equal(k.act.answer, i == 0 ? ANSWER_NONE : ANSWER_PROBLEM);
		assert_ended(&k);
	}
}

/* The record was there already: ready, so the gate is asked; then its own time counts. */
static void test_intent_meets_a_record(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_ready(&k, &op);
	simple(&k, DELIVERY_EV_START);
	gate_closed(&k, USEC_MAX, false);
	record(&k, &op);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
	gate_closed(&k, USEC_MAX, false);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
}

/* The claim met a record that is ready and due: claimed with the slot that it has. */
static void test_claim_meets_ready(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_ready(&k, &op);
	meet(&k, &op);
	assert_int_equal(k.act.write, WRITE_CLAIM);
	assert_false(k.act.expect_absent);
	assert_false(k.act.release);
	assert_int_equal(k.d.stored_counter, op.counter);
	assert_memory_equal(k.d.proposal.incarnation, op.incarnation, OP_INCARNATION_LEN);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.act, DELIVERY_ACT_SEND);
}

/* The record is gone again: from the start. */
static void test_absent(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_ready(&k, &op);
	meet(&k, &op);
	simple(&k, DELIVERY_EV_ABSENT);
	assert_true(k.act.release);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
	gate_open(&k);
	assert_true(k.act.expect_absent);

	desk_init(&k);
	meet(&k, &op);
	simple(&k, DELIVERY_EV_GONE);
	simple(&k, DELIVERY_EV_ABSENT);
	assert_ended(&k);
}

static void test_poll(void **state)
{
	static const usec_t waits[] = {25, 50, 100, 200, 400, 500, 500};
	struct desk k;
	struct op op, done;

	(void)state;
	desk_init(&k);
	make_attempting(&k, &op);
	meet(&k, &op);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
		assert_int_equal(k.act.until - k.now, waits[i] * USEC_MS);
		k.now = k.act.until;
		simple(&k, DELIVERY_EV_TIMER);
		assert_int_equal(k.act.act, DELIVERY_ACT_READ);
		record(&k, &op);
	}
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	make_settled(&k, 200, FAULT_NONE, &done);
	record(&k, &done);
	assert_int_equal(k.act.answer, ANSWER_STORED);
	assert_ended(&k);
}

/* A joiner becomes the sender where the record is ready and its own hold allows. */
static void test_poll_becomes_sender(void **state)
{
	struct desk k;
	struct op op, ready;

	(void)state;
	desk_init(&k);
	make_attempting(&k, &op);
	meet(&k, &op);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	make_ready(&k, &ready);
	record(&k, &ready);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
}

static void test_join(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	/* Told how it ended. */
	desk_init(&k);
	busy(&k, true, NULL);
	assert_int_equal(k.act.act, DELIVERY_ACT_JOIN);
	make_settled(&k, 200, FAULT_NONE, &op);
	record(&k, &op);
	assert_int_equal(k.act.answer, ANSWER_STORED);
	assert_ended(&k);

	/* Told to try itself: it reads what is there. */
	desk_init(&k);
	busy(&k, true, NULL);
	simple(&k, DELIVERY_EV_START);
	assert_int_equal(k.act.act, DELIVERY_ACT_READ);
	simple(&k, DELIVERY_EV_ABSENT);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);

	/* Told so when its hold is over. */
	desk_init(&k);
	busy(&k, true, NULL);
	k.now = k.d.answer_by;
	simple(&k, DELIVERY_EV_START);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);

	/* Its hold was over before. */
	desk_init(&k);
	k.now = k.d.answer_by;
	busy(&k, true, NULL);
	assert_problem(&k, "in-progress", 409, BUSY_RETRY_AFTER);
}

/* Time alone has ended it: that is written, and answered. */
static void test_tick(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_settled(&k, 429, FAULT_NONE, &op);
	k.now = T0 + 2 * USEC_HOUR;
	k.d.answer_by = k.now + USEC_SEC;
	meet(&k, &op);
	assert_int_equal(k.act.write, WRITE_TICK);
	assert_true(k.act.release);
	assert_int_equal(k.d.proposal.state, OP_EXHAUSTED);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_problem(&k, "exhausted", 424, -1);
}

/* A delivery that meets a record never charged moves its retention, at most once an hour, and goes on. */
static void test_seen(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	op_init(&op, &k.policy, k.d.incarnation, k.d.fingerprint, T0);
	k.now = T0 + SEEN_EVERY;
	k.d.answer_by = k.now + USEC_SEC;
	meet(&k, &op);
	assert_int_equal(k.act.write, WRITE_TICK);
	assert_int_equal(k.d.proposal.delivered, k.now);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);

	desk_init(&k);
	k.now = T0 + SEEN_EVERY - 1;
	k.d.answer_by = k.now + USEC_SEC;
	meet(&k, &op);
	assert_int_equal(k.act.act, DELIVERY_ACT_WRITE);
	assert_int_equal(k.act.write, WRITE_CLAIM);
}

/* The delivery that made the last attempt gets the provider's word, not 424. */
static void test_tick_of_own(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.policy.window = 1600 * USEC_MS;
	send_first(&k);
	settle(&k, 429, FAULT_NONE);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	k.now = T0 + 1200 * USEC_MS; /* woken late: less than attempt.least is left */
	simple(&k, DELIVERY_EV_TIMER);
	gate_open(&k);
	assert_int_equal(k.act.write, WRITE_TICK);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);
}

/* The policy leaves no attempt at all. */
static void test_claim_refused(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	k.policy.window = k.policy.attempt_least - 1;
	simple(&k, DELIVERY_EV_START);
	gate_open(&k);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_true(k.act.release);
}

static void test_other_credential(void **state)
{
	struct desk k;
	struct op op;

	(void)state;
	desk_init(&k);
	make_settled(&k, 401, FAULT_NONE, &op);
	k.now += USEC_SEC;
	k.d.has_credential = true;
	k.d.credential[0] = 5;
	meet(&k, &op);
	assert_int_equal(k.act.write, WRITE_TICK);
	assert_true(k.d.released_by_credential);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_false(k.d.released_by_credential);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);

	/* Another one was faster. */
	desk_init(&k);
	make_settled(&k, 401, FAULT_NONE, &op);
	k.d.has_credential = true;
	k.d.credential[0] = 5;
	meet(&k, &op);
	make_attempting(&k, &op);
	record(&k, &op);
	assert_false(k.d.released_by_credential);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);

	/* The same credential again. */
	desk_init(&k);
	make_settled(&k, 401, FAULT_NONE, &op);
	k.d.has_credential = true;
	memcpy(k.d.credential, op.credential, OP_CREDENTIAL_LEN);
	meet(&k, &op);
	assert_problem(&k, "held", 424, -1);
}

/* The pre-request check said no: the claim is taken back, and it is not tried at once again. */
static void test_guard(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	outcome(&k, 0, FAULT_GUARD);
	assert_int_equal(k.act.write, WRITE_VOID);
	assert_int_equal(k.d.started, 0);
	assert_int_equal(k.d.proposal.attempts, 0);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	assert_int_equal(k.act.until, T0 + POLL_FIRST);
	k.now = k.act.until;
	simple(&k, DELIVERY_EV_TIMER);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
	gate_open(&k);
	simple(&k, DELIVERY_EV_WRITTEN);
	k.now = k.d.answer_by;
	outcome(&k, 0, FAULT_GUARD);
	assert_int_equal(k.act.until, k.now + STORE_PATIENCE);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_problem(&k, "waiting", 503, BUSY_RETRY_AFTER);
	assert_ended(&k);
}

/* The claim to take back had been swept meanwhile, or is nowhere any more. */
static void test_guard_after_sweep(void **state)
{
	struct op_event expire = {.kind = OP_EV_EXPIRE, .wait = USEC_SEC};
	struct desk k;
	struct op swept;

	(void)state;
	desk_init(&k);
	send_first(&k);
	swept = k.d.op;
	k.now += k.policy.lease;
	expire.now = k.now;
	apply(&k, &swept, &expire);
	outcome(&k, 0, FAULT_GUARD);
	record(&k, &swept);
	assert_int_equal(k.act.write, WRITE_VOID);
	assert_int_equal(k.d.stored_counter, swept.counter);
	assert_int_equal(op_set_count(&k.d.proposal.unresolved), 0);
	assert_int_equal(k.d.proposal.attempts, 0);

	/* Voided already: nothing is left to take back. */
	desk_init(&k);
	send_first(&k);
	outcome(&k, 0, FAULT_GUARD);
	make_ready(&k, &swept);
	record(&k, &swept);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);

	desk_init(&k);
	send_first(&k);
	outcome(&k, 0, FAULT_GUARD);
	simple(&k, DELIVERY_EV_ABSENT);
	assert_int_equal(k.act.act, DELIVERY_ACT_GATE);
}

static void test_may_send(void **state)
{
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	/* The guard is a twentieth of the lease, at most 250 ms. */
	assert_true(delivery_may_send(&k.d, k.d.op.lease_until - 251 * USEC_MS));
	assert_false(delivery_may_send(&k.d, k.d.op.lease_until - 250 * USEC_MS));
	op_set_add(&k.d.op.unresolved, 1);
	k.d.op.repeat_until = T0 + USEC_SEC;
	assert_true(delivery_may_send(&k.d, T0));
	assert_false(delivery_may_send(&k.d, T0 + USEC_SEC));

	desk_init(&k);
	k.policy.lease = 2 * USEC_SEC;
	send_first(&k);
	assert_true(delivery_may_send(&k.d, k.d.op.lease_until - 101 * USEC_MS));
	assert_false(delivery_may_send(&k.d, k.d.op.lease_until - 100 * USEC_MS));

	k.d.ledgered = false;
	assert_true(delivery_may_send(&k.d, USEC_MAX - 1));
}

/* A settle that met another version is merged and written again. */
static void test_settle_merges(void **state)
{
	struct op_event hold = {.kind = OP_EV_HOLD};
	struct desk k;
	struct op moved;

	(void)state;
	desk_init(&k);
	send_first(&k);
	moved = k.d.op;
	hold.now = k.now;
	apply(&k, &moved, &hold);
	outcome(&k, 429, FAULT_NONE);
	record(&k, &moved);
	assert_int_equal(k.act.write, WRITE_SETTLE);
	assert_int_equal(k.d.stored_counter, moved.counter);
	assert_int_equal(k.d.proposal.state, OP_HELD);
	simple(&k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_int_equal(k.act.retry_after, -1);
}

/* A record of another incarnation is never changed; the caller still gets what it got. */
static void test_settle_of_another_incarnation(void **state)
{
	struct desk k;
	struct op other;

	(void)state;
	desk_init(&k);
	send_first(&k);
	make_attempting(&k, &other);
	outcome(&k, 200, FAULT_NONE);
	record(&k, &other);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);

	desk_init(&k);
	send_first(&k);
	outcome(&k, 200, FAULT_NONE);
	simple(&k, DELIVERY_EV_ABSENT);
	assert_int_equal(k.act.answer, ANSWER_REPLY);
	assert_ended(&k);
}

/* The finding is in the record already, as after a lost reply. */
static void test_settle_known(void **state)
{
	struct desk k;
	struct op done;

	(void)state;
	desk_init(&k);
	send_first(&k);
	outcome(&k, 429, FAULT_NONE);
	done = k.d.proposal;
	record(&k, &done);
	assert_int_equal(k.act.act, DELIVERY_ACT_WAIT);
	assert_int_equal(k.d.phase, DELIVERY_TURN);
}

static void test_remote_id(void **state)
{
	struct verdict verdict = verdict_of(200, FAULT_NONE);
	struct delivery_event event = {.kind = DELIVERY_EV_OUTCOME, .verdict = &verdict};
	char longer[OP_REMOTE_ID_MAX + 10];
	struct desk k;

	(void)state;
	desk_init(&k);
	send_first(&k);
	event.remote_id = "ch_1";
	step(&k, &event);
	assert_string_equal(k.d.proposal.remote_id, "ch_1");

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	desk_init(&k);
	send_first(&k);
	event.remote_id = longer;
	step(&k, &event);
	assert_int_equal(strlen(k.d.proposal.remote_id), OP_REMOTE_ID_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turn),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_late_grant),
		cmocka_unit_test(test_intent_and_the_end_of_waiting),
		cmocka_unit_test(test_intent_meets_a_record),
		cmocka_unit_test(test_claim_meets_ready),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_poll_becomes_sender),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_tick),
		cmocka_unit_test(test_seen),
		cmocka_unit_test(test_tick_of_own),
		cmocka_unit_test(test_claim_refused),
		cmocka_unit_test(test_other_credential),
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_guard_after_sweep),
		cmocka_unit_test(test_may_send),
		cmocka_unit_test(test_settle_merges),
		cmocka_unit_test(test_settle_of_another_incarnation),
		cmocka_unit_test(test_settle_known),
		cmocka_unit_test(test_remote_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
