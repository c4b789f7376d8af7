/* pure-test */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "budget/gate.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
