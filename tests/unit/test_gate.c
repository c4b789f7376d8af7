/* pure-test */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "budget/gate.h"
#include "classify/outcome.h"

#define S USEC_SEC
#define CAP (60 * S)
#define LEASE (15 * S)

static const struct gate_outcome well = {.answered_well = true, .advice = -1};
static const struct gate_outcome limited = {
	.repeatable_class = true, .rate_limited = true, .advice = -1};
static const struct gate_outcome timed_out = {
	.repeatable_class = true, .possible = true, .advice = -1};

static struct gate_outcome advised(usec_t advice)
{
	struct gate_outcome outcome = limited;

	outcome.advice = advice;
	return outcome;
}

static uint64_t take(struct gate *gate, usec_t now)
{
	struct gate_answer answer = gate_take(gate, now, LEASE);

	assert_int_equal(answer.why, GATE_OPEN);
	assert_int_not_equal(answer.ticket, 0);
	return answer.ticket;
}

static void assert_closed(struct gate *gate, usec_t now, enum gate_why why, usec_t until)
{
	struct gate before = *gate;
	struct gate_answer answer = gate_take(gate, now, LEASE);

	assert_int_equal(answer.why, why);
	assert_int_equal(answer.until, until);
	assert_int_equal(answer.ticket, 0);
	assert_int_equal(gate->used, before.used);
	assert_int_equal(gate->last_ticket, before.last_ticket);
}

/* Sends one attempt at 0 that is answered with this advice at 0. */
static void close_gate(struct gate *gate, int limit, usec_t advice)
{
	struct gate_outcome outcome = advised(advice);

	gate_init(gate, limit);
	gate_settle(gate, take(gate, 0), &outcome, CAP, 0);
}

static void test_concurrency(void **state)
{
	struct gate gate;
	uint64_t a, b;
	usec_t until;

	(void)state;
	gate_init(&gate, 2);
	a = take(&gate, 0);
	b = take(&gate, 0);
	assert_int_not_equal(a, b);
	assert_closed(&gate, 0, GATE_CONCURRENCY, USEC_MAX);
	assert_int_equal(gate_look(&gate, 0, 0, &until), GATE_CONCURRENCY);
	assert_int_equal(gate_look(&gate, 0, a, &until), GATE_OPEN);
	gate_release(&gate, a);
	a = take(&gate, 0);
	assert_closed(&gate, 0, GATE_CONCURRENCY, USEC_MAX);
	gate_settle(&gate, a, &well, CAP, 0);
	gate_settle(&gate, b, &limited, CAP, 0);
	assert_int_equal(gate.used, 0);
	/* A rate limit without advice is its own operation's affair. */
	take(&gate, 0);
}

/* B43: many cancelled and settled attempts leak no slot. */
static void test_no_leak(void **state)
{
	struct gate gate;

	(void)state;
	gate_init(&gate, 3);
	for (int i = 0; i < 1000; i++) {
		uint64_t ticket = take(&gate, i);

		if (i % 2)
			gate_release(&gate, ticket);
		else
			gate_settle(&gate, ticket, &well, CAP, i);
	}
	assert_int_equal(gate.used, 0);
}

/* B04, W15: within the cap (inclusive) in full, beyond it the cap. */
static void test_cap(void **state)
{
	static const struct {
		usec_t advice, closed;
		bool probe;
	} rows[] = {
		{1, 1, false},
		{7 * S, 7 * S, false},
		{59 * S, 59 * S, false},
		{60 * S, 60 * S, false},
		{60 * S + 1, 60 * S, true},
		{70 * S, 60 * S, true},
		{3600 * S, 60 * S, true},
		{USEC_MAX, 60 * S, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gate gate;
		struct gate_answer answer;

		close_gate(&gate, 10, rows[i].advice);
		assert_closed(&gate, 0, GATE_BLOCKED, rows[i].closed);
		assert_closed(&gate, rows[i].closed - 1, GATE_BLOCKED, rows[i].closed);
		assert_int_equal(gate_blocked_for(&gate, rows[i].closed - 1), 1);
		assert_int_equal(gate_blocked_for(&gate, rows[i].closed), 0);
		assert_true(gate.block_is_rate_limit);
		answer = gate_take(&gate, rows[i].closed, LEASE);
		assert_int_equal(answer.why, GATE_OPEN);
		assert_int_equal(answer.probe, rows[i].probe);
		if (rows[i].probe)
			assert_closed(&gate, rows[i].closed, GATE_PROBE_OUT,
				      rows[i].closed + LEASE);
		else
			take(&gate, rows[i].closed);
	}
}

/* Advice counts on what may be repeated, and only where there is some. */
static void test_what_blocks(void **state)
{
	struct gate gate;
	struct gate_outcome outcome = advised(30 * S);

	(void)state;
	gate_init(&gate, 10);
	outcome.repeatable_class = false;
	gate_settle(&gate, take(&gate, 0), &outcome, CAP, 0);
	assert_int_equal(gate_blocked_for(&gate, 0), 0);
	outcome = advised(0);
	gate_settle(&gate, take(&gate, 0), &outcome, CAP, 0);
	assert_int_equal(gate_blocked_for(&gate, 0), 0);
	outcome = timed_out;
	outcome.advice = 30 * S;
	gate_settle(&gate, take(&gate, 0), &outcome, CAP, 0);
	assert_int_equal(gate_blocked_for(&gate, 0), 30 * S);
	assert_false(gate.block_is_rate_limit);
}

/* Invariant 6: attempts that were under way lengthen a block, and never shorten or lift it. */
static void test_stragglers(void **state)
{
	struct gate gate;
	uint64_t a, b, c, d;
	struct gate_outcome outcome = advised(20 * S);

	(void)state;
	gate_init(&gate, 10);
	a = take(&gate, 0);
	b = take(&gate, 0);
	c = take(&gate, 0);
	d = take(&gate, 0);
	gate_settle(&gate, a, &outcome, CAP, 0);
	outcome = advised(5 * S);
	gate_settle(&gate, b, &outcome, CAP, S);
	assert_closed(&gate, 2 * S, GATE_BLOCKED, 20 * S);
	gate_settle(&gate, c, &well, CAP, 2 * S);
	assert_closed(&gate, 2 * S, GATE_BLOCKED, 20 * S);
	outcome = advised(30 * S);
	gate_settle(&gate, d, &outcome, CAP, 2 * S);
	assert_closed(&gate, 31 * S, GATE_BLOCKED, 32 * S);
	assert_int_equal(gate.used, 0);
	take(&gate, 32 * S);
}

/* The time of a block that will be probed is not cut to a straggler's shorter advice, and the probe
 * stays due. */
static void test_straggler_before_probe(void **state)
{
	struct gate gate;
	uint64_t a, b;
	struct gate_outcome outcome = advised(3600 * S);

	(void)state;
	gate_init(&gate, 10);
	a = take(&gate, 0);
	b = take(&gate, 0);
	gate_settle(&gate, a, &outcome, CAP, 0);
	outcome = advised(S);
	gate_settle(&gate, b, &outcome, CAP, S);
	assert_closed(&gate, 59 * S, GATE_BLOCKED, 60 * S);
	assert_true(gate_take(&gate, 60 * S, LEASE).probe);
}

static void test_probe_decides(void **state)
{
	static const struct {
		struct gate_outcome outcome;
		usec_t closed; /* after the probe's end */
		bool probe;    /* what comes then is a probe again */
	} rows[] = {
		{{.answered_well = true, .advice = -1}, 0, false},
		{{.repeatable_class = true, .rate_limited = true, .advice = -1}, CAP, true},
		{{.repeatable_class = true, .possible = true, .advice = -1}, CAP, true},
		{{.repeatable_class = true, .advice = -1}, CAP, true}, /* not sent */
		{{.repeatable_class = true, .rate_limited = true, .advice = 9 * S}, 9 * S, false},
		{{.repeatable_class = true, .possible = true, .advice = 9 * S}, 9 * S, true},
		{{.repeatable_class = true, .rate_limited = true, .advice = 999 * S}, CAP, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gate gate;
		usec_t now = 61 * S;
		struct gate_answer answer;

		close_gate(&gate, 10, 3600 * S);
		answer = gate_take(&gate, now, LEASE);
		assert_true(answer.probe);
		assert_int_equal(gate_blocked_for(&gate, now + S), LEASE - S);
		now += 2 * S;
		gate_settle(&gate, answer.ticket, &rows[i].outcome, CAP, now);
		assert_int_equal(gate_blocked_for(&gate, now), rows[i].closed);
		if (rows[i].closed)
			assert_closed(&gate, now + rows[i].closed - 1, GATE_BLOCKED,
				      now + rows[i].closed);
		answer = gate_take(&gate, now + rows[i].closed, LEASE);
		assert_int_equal(answer.why, GATE_OPEN);
		assert_int_equal(answer.probe, rows[i].probe);
	}
}

static void test_probe_lease(void **state)
{
	struct gate gate;
	struct gate_answer first, second;

	(void)state;
	close_gate(&gate, 10, 3600 * S);
	first = gate_take(&gate, 60 * S, LEASE);
	assert_closed(&gate, 74 * S, GATE_PROBE_OUT, 75 * S);
	second = gate_take(&gate, 75 * S, LEASE);
	assert_true(second.probe);
	/* The lost one decides nothing any more. */
	gate_settle(&gate, first.ticket, &well, CAP, 76 * S);
	assert_closed(&gate, 77 * S, GATE_PROBE_OUT, 90 * S);
	/* Given back unused, the slot is free for any operation. */
	gate_release(&gate, second.ticket);
	second = gate_take(&gate, 77 * S, LEASE);
	assert_true(second.probe);
	gate_settle(&gate, second.ticket, &well, CAP, 78 * S);
	assert_false(gate_take(&gate, 78 * S, LEASE).probe);
	assert_false(gate_take(&gate, 78 * S, LEASE).probe);
}

/* A straggler closes the gate anew while the probe is out. */
static void test_block_while_probing(void **state)
{
	struct gate gate;
	struct gate_outcome outcome = advised(3600 * S);
	uint64_t a, straggler;
	struct gate_answer probe;
	usec_t until;

	(void)state;
	gate_init(&gate, 10);
	a = take(&gate, 0);
	straggler = take(&gate, 0);
	gate_settle(&gate, a, &outcome, CAP, 0);
	probe = gate_take(&gate, 60 * S, LEASE);
	outcome = advised(30 * S);
	gate_settle(&gate, straggler, &outcome, CAP, 61 * S);
	assert_int_equal(gate_look(&gate, 62 * S, probe.ticket, &until), GATE_BLOCKED);
	assert_int_equal(until, 91 * S);
	gate_settle(&gate, probe.ticket, &well, CAP, 63 * S);
	assert_closed(&gate, 90 * S, GATE_BLOCKED, 91 * S);
	assert_false(gate_take(&gate, 91 * S, LEASE).probe);
}

static void test_look(void **state)
{
	struct gate gate;
	struct gate_outcome outcome = advised(3600 * S);
	uint64_t a, old;
	struct gate_answer probe;
	usec_t until;

	(void)state;
	gate_init(&gate, 10);
	a = take(&gate, 0);
	old = take(&gate, 0);
	assert_int_equal(gate_look(&gate, 0, old, &until), GATE_OPEN);
	gate_settle(&gate, a, &outcome, CAP, 0);
	assert_int_equal(gate_look(&gate, 1, old, &until), GATE_BLOCKED);
	assert_int_equal(until, 60 * S);
	/* A ticket from before the block is not its probe, though the time has passed. */
	assert_int_equal(gate_look(&gate, 60 * S, old, &until), GATE_PROBE_OUT);
	assert_int_equal(gate_look(&gate, 60 * S, 0, &until), GATE_OPEN);
	probe = gate_take(&gate, 60 * S, LEASE);
	assert_int_equal(gate_look(&gate, 60 * S, 0, &until), GATE_PROBE_OUT);
	assert_int_equal(until, 75 * S);
	assert_int_equal(gate_look(&gate, 60 * S, old, &until), GATE_PROBE_OUT);
	assert_int_equal(gate_look(&gate, 60 * S, probe.ticket, &until), GATE_OPEN);
}

/* What a verdict says about the provider: advice on any class that may be repeated blocks, quota and
 * auth never do, and of faults only those of the provider's side count for the breaker. */
static void test_outcome_of(void **state)
{
	static const struct {
		enum outcome_class class;
		enum effect effect;
		enum fault fault;
		int status;
		bool never;
		bool well, blocks, limited, failure, answered;
	} rows[] = {
		{CLASS_SUCCESS, EFFECT_DEFINITE, FAULT_NONE, 200, 0, 1, 0, 0, 0, 1},
		{CLASS_INVALID, EFFECT_NONE, FAULT_NONE, 400, 0, 1, 0, 0, 0, 1},
		{CLASS_AUTH, EFFECT_NONE, FAULT_NONE, 401, 0, 1, 0, 0, 0, 1},
		{CLASS_QUOTA, EFFECT_NONE, FAULT_NONE, 429, 0, 1, 0, 0, 0, 1},
		{CLASS_RATE_LIMITED, EFFECT_NONE, FAULT_NONE, 429, 0, 0, 1, 1, 0, 1},
		{CLASS_RATE_LIMITED, EFFECT_NONE, FAULT_NONE, 503, 0, 0, 1, 1, 0, 1},
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_NONE, 408, 0, 0, 1, 0, 0, 1},
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_NONE, 503, 0, 0, 1, 0, 1, 1},
		{CLASS_DEFERRED, EFFECT_NONE, FAULT_NONE, 503, 0, 0, 1, 0, 0, 1},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_NONE, 500, 0, 0, 1, 0, 0, 1},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_NONE, 500, 1, 0, 1, 0, 0, 1},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_NONE, 502, 0, 0, 1, 0, 1, 1},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_NONE, 504, 0, 0, 1, 0, 1, 1},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_NONE, 505, 0, 0, 1, 0, 0, 1},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_HEAD_TOO_LARGE, 502, 0, 0, 1, 0, 1, 1},
		{CLASS_INVALID, EFFECT_NONE, FAULT_NONE, 503, 0, 1, 0, 0, 0, 1}, /* by a rule */
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_RESOLVE, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_CONNECT, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_CONNECT_TIMEOUT, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_TLS, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_TIMEOUT, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_IDLE, 200, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_TOTAL, 200, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_RESET, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_CLOSED, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_CUT, 200, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_HIDDEN_RESEND, 0, 0, 0, 1, 0, 1, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_PROTOCOL, 200, 0, 0, 1, 0, 0, 0},
		/* Our own side, and the caller's. */
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_GUARD, 0, 0, 0, 1, 0, 0, 0},
		{CLASS_TRANSIENT, EFFECT_NONE, FAULT_LOCAL, 0, 0, 0, 1, 0, 0, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_LOCAL, 0, 0, 0, 1, 0, 0, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_CALLER, 0, 0, 0, 1, 0, 0, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_UPLOAD, 0, 0, 0, 1, 0, 0, 0},
		{CLASS_UNKNOWN, EFFECT_POSSIBLE, FAULT_DEADLINE, 0, 0, 0, 1, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct verdict verdict = {.class = rows[i].class,
					  .effect = rows[i].effect,
					  .fault = rows[i].fault,
					  .status = rows[i].status,
					  .retry_never = rows[i].never,
					  .advice = 7 * S};
		struct gate_outcome outcome = gate_outcome_of(&verdict);

		assert_int_equal(outcome.answered_well, rows[i].well);
		assert_int_equal(outcome.repeatable_class, rows[i].blocks);
		assert_int_equal(outcome.rate_limited, rows[i].limited);
		assert_int_equal(outcome.breaker_failure, rows[i].failure);
		assert_int_equal(outcome.answered, rows[i].answered);
		assert_int_equal(outcome.possible, rows[i].effect == EFFECT_POSSIBLE);
		assert_int_equal(outcome.advice, 7 * S);
	}
}

/* What is stored closes again, for no longer than the configuration can. */
static void test_restore(void **state)
{
	static const struct {
		struct gate_block stored;
		usec_t closed;
		bool probe, rate_limited;
	} rows[] = {
		{{1030 * S, false, true}, 30 * S, false, true},
		{{1030 * S, true, false}, 30 * S, true, false},
		{{1060 * S, true, true}, 60 * S, true, true},
		{{1061 * S, false, true}, 60 * S, false, true},
		{{USEC_MAX, true, true}, 60 * S, true, true},
		{{1000 * S, false, true}, 0, false, false},
		{{900 * S, true, true}, 0, true, false},
		{{-5, false, true}, 0, false, false},
		{{INT64_MIN, true, true}, 0, true, false},
		{{0, false, false}, 0, false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		usec_t now = 1000 * S;
		struct gate_block block;
		struct gate_answer answer;
		struct gate gate;

		gate_init(&gate, 10);
		gate_restore(&gate, &rows[i].stored, CAP, now);
		assert_int_equal(gate_blocked_for(&gate, now), rows[i].closed);
		answer = gate_take(&gate, now, LEASE);
		assert_int_equal(answer.rate_limited, rows[i].closed > 0 && rows[i].rate_limited);
		if (rows[i].closed > 0)
			answer = gate_take(&gate, now + rows[i].closed, LEASE);
		assert_int_equal(answer.why, GATE_OPEN);
		assert_int_equal(answer.probe, rows[i].probe);
		block = gate_block_of(&gate, now);
		assert_int_equal(block.until > now, rows[i].closed > 0);
		assert_int_equal(block.probing, rows[i].probe);
	}
}

/* A stored block never shortens one that came meanwhile, and lengthens it where it is longer. */
static void test_restore_late(void **state)
{
	struct gate_block shorter = {10 * S, false, false}, longer = {40 * S, true, false};
	struct gate gate;

	(void)state;
	close_gate(&gate, 10, 30 * S);
	gate_restore(&gate, &shorter, CAP, 0);
	assert_int_equal(gate_blocked_for(&gate, 0), 30 * S);
	assert_true(gate_block_of(&gate, 0).rate_limited);
	gate_restore(&gate, &longer, CAP, 0);
	assert_int_equal(gate_blocked_for(&gate, 0), 40 * S);
	assert_true(gate_take(&gate, 40 * S, LEASE).probe);
}

static void test_block_of(void **state)
{
	struct gate_block block;
	struct gate gate;

	(void)state;
	close_gate(&gate, 10, 30 * S);
	block = gate_block_of(&gate, 29 * S);
	assert_int_equal(block.until, 30 * S);
	assert_true(block.rate_limited);
	assert_false(block.probing);
	block = gate_block_of(&gate, 30 * S);
	assert_int_equal(block.until, 0);
	assert_false(gate_is_idle(&gate, 29 * S));
	assert_true(gate_is_idle(&gate, 30 * S));

	close_gate(&gate, 10, 3600 * S);
	block = gate_block_of(&gate, 90 * S);
	assert_int_equal(block.until, 60 * S);
	assert_true(block.probing);
	assert_false(gate_is_idle(&gate, 60 * S + GATE_FORGET - 1));
	assert_true(gate_is_idle(&gate, 60 * S + GATE_FORGET));
	take(&gate, 60 * S + GATE_FORGET);
	assert_false(gate_is_idle(&gate, 60 * S + GATE_FORGET));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_concurrency),
		cmocka_unit_test(test_no_leak),
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_what_blocks),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_straggler_before_probe),
		cmocka_unit_test(test_probe_decides),
		cmocka_unit_test(test_probe_lease),
		cmocka_unit_test(test_block_while_probing),
		cmocka_unit_test(test_look),
		cmocka_unit_test(test_outcome_of),
		cmocka_unit_test(test_restore),
		cmocka_unit_test(test_restore_late),
		cmocka_unit_test(test_block_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
