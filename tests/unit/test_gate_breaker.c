/* pure-test */
/* The breaker and the ramp on a virtual clock. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "budget/gate.h"
#include "budget/operation.h"
#include "budget/schedule.h"
#include "classify/outcome.h"

#define S USEC_SEC
#define MS USEC_MS
#define T0 (20000 * USEC_DAY)
#define CAP (60 * S)
#define LEASE (15 * S)
#define RAMP (250 * MS)

static const struct gate_policy standard = {
	.failures = 10, .open = 5 * S, .max = 60 * S, .ramp = RAMP};
static const struct gate_outcome well = {.answered_well = true, .answered = true, .advice = -1};
static const struct gate_outcome refused = {
	.repeatable_class = true, .breaker_failure = true, .advice = -1};
static const struct gate_outcome fault_500 = {
	.repeatable_class = true, .possible = true, .answered = true, .advice = -1};
static const struct gate_outcome limited = {
	.repeatable_class = true, .rate_limited = true, .answered = true, .advice = -1};
static const struct gate_outcome our_fault = {.repeatable_class = true, .advice = -1};

static void init(struct gate *gate, int limit)
{
	gate_init(gate, limit);
	gate->policy = standard;
}

static uint64_t take(struct gate *gate, usec_t now)
{
	struct gate_answer answer = gate_take(gate, now, LEASE);

	assert_int_equal(answer.why, GATE_OPEN);
	return answer.ticket;
}

static void assert_closed(struct gate *gate, usec_t now, enum gate_why why, usec_t until)
{
	struct gate_answer answer = gate_take(gate, now, LEASE);

	assert_int_equal(answer.why, why);
	assert_int_equal(answer.until - now, until - now);
	assert_int_equal(answer.ticket, 0);
	assert_false(answer.rate_limited);
}

static void attempt(struct gate *gate, usec_t now, const struct gate_outcome *outcome)
{
	gate_settle(gate, take(gate, now), outcome, CAP, now);
}

static void fail_times(struct gate *gate, int times, usec_t now)
{
	for (int i = 0; i < times; i++)
		attempt(gate, now, &refused);
}

/* Lets the ramp pass. */
static usec_t ramped(struct gate *gate, usec_t now)
{
	attempt(gate, now, &well);
	return now + 60 * RAMP;
}

static void test_opens(void **state)
{
	struct gate gate;

	(void)state;
	init(&gate, 64);
	fail_times(&gate, 9, T0);
	assert_int_equal(gate_breaker_state(&gate, T0), GATE_BREAKER_CLOSED);
	fail_times(&gate, 1, T0 + S);
	assert_int_equal(gate_breaker_state(&gate, T0 + S), GATE_BREAKER_OPEN);
	assert_int_equal(gate_blocked_for(&gate, T0 + 2 * S), 4 * S);
	assert_closed(&gate, T0 + S, GATE_BREAKER, T0 + 6 * S);
	assert_closed(&gate, T0 + 6 * S - 1, GATE_BREAKER, T0 + 6 * S);
	assert_int_equal(gate_breaker_state(&gate, T0 + 6 * S), GATE_BREAKER_HALF_OPEN);
	/* One probe, and nobody beside it. */
	assert_true(gate_take(&gate, T0 + 6 * S, LEASE).probe);
	assert_closed(&gate, T0 + 7 * S, GATE_PROBE_OUT, T0 + 21 * S);
}

/* Only a success between them ends a row of failures; what says nothing leaves it. */
static void test_in_a_row(void **state)
{
	static const struct {
		const struct gate_outcome *between;
		enum gate_breaker state;
	} rows[] = {
		{&well, GATE_BREAKER_CLOSED},  {&fault_500, GATE_BREAKER_OPEN},
		{&limited, GATE_BREAKER_OPEN}, {&our_fault, GATE_BREAKER_OPEN},
		{NULL, GATE_BREAKER_OPEN}, /* released */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct gate gate;

		init(&gate, 64);
		fail_times(&gate, 9, T0);
		if (rows[i].between != NULL)
			attempt(&gate, T0, rows[i].between);
		else
			gate_release(&gate, take(&gate, T0));
		fail_times(&gate, 1, T0);
		assert_int_equal(gate_breaker_state(&gate, T0), rows[i].state);
	}
}

static void test_off(void **state)
{
	struct gate gate;

	(void)state;
	gate_init(&gate, 64);
	fail_times(&gate, 1000, T0);
	assert_int_equal(gate_blocked_for(&gate, T0), 0);
	assert_int_equal(take(&gate, T0), 1001);
}

/* 5, 10, 20, 40, 60, 60 seconds; a success brings it back to the first. */
static void test_doubles(void **state)
{
	static const usec_t waits[] = {5 * S, 10 * S, 20 * S, 40 * S, 60 * S, 60 * S};
	usec_t now = T0;
	struct gate gate;

	(void)state;
	init(&gate, 64);
	fail_times(&gate, 10, now);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		assert_closed(&gate, now, GATE_BREAKER, now + waits[i]);
		now += waits[i];
		attempt(&gate, now, i + 1 < sizeof(waits) / sizeof(waits[0]) ? &refused : &well);
	}
	assert_int_equal(gate_blocked_for(&gate, now), 0);
	now = ramped(&gate, now);
	fail_times(&gate, 9, now);
	assert_int_equal(gate_blocked_for(&gate, now), 0);
	fail_times(&gate, 1, now);
	assert_int_equal(gate_blocked_for(&gate, now), 5 * S);
}

/* What was under way when it opened neither lengthens nor doubles it; a success closes it. */
static void test_stragglers(void **state)
{
	uint64_t tickets[5];
	struct gate gate;
	usec_t until;

	(void)state;
	init(&gate, 64);
	for (int i = 0; i < 5; i++)
		tickets[i] = take(&gate, T0);
	fail_times(&gate, 10, T0);
	gate_settle(&gate, tickets[0], &refused, CAP, T0 + 4 * S);
	gate_settle(&gate, tickets[1], &refused, CAP, T0 + 4 * S);
	assert_int_equal(gate_blocked_for(&gate, T0 + 4 * S), S);
	/* Not yet sent: not sent now, nor beside the probe. */
	assert_int_equal(gate_look(&gate, T0 + 4 * S, tickets[2], &until), GATE_BREAKER);
	assert_int_equal(gate_look(&gate, T0 + 5 * S, tickets[2], &until), GATE_PROBE_OUT);
	gate_settle(&gate, tickets[3], &refused, CAP, T0 + 5 * S);
	assert_int_equal(gate_blocked_for(&gate, T0 + 5 * S), 0);
	gate_settle(&gate, tickets[2], &well, CAP, T0 + 5 * S);
	assert_int_equal(gate_breaker_state(&gate, T0 + 5 * S), GATE_BREAKER_CLOSED);
	assert_int_equal(gate_look(&gate, T0 + 5 * S, tickets[4], &until), GATE_OPEN);
}

static void test_probe_outcomes(void **state)
{
	static const struct {
		const struct gate_outcome *outcome;
		enum gate_breaker state;
		usec_t blocked;
	} rows[] = {
		{&refused, GATE_BREAKER_OPEN, 10 * S},
		{&well, GATE_BREAKER_CLOSED, 0},
		{&fault_500, GATE_BREAKER_CLOSED, 0}, /* it answers */
		{&limited, GATE_BREAKER_CLOSED, 0},
		{&our_fault, GATE_BREAKER_HALF_OPEN, 0}, /* nothing learnt: another probe */
		{NULL, GATE_BREAKER_HALF_OPEN, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		usec_t now = T0 + 5 * S;
		struct gate_answer answer;
		struct gate gate;

		init(&gate, 64);
		fail_times(&gate, 10, T0);
		answer = gate_take(&gate, now, LEASE);
		assert_true(answer.probe);
		if (rows[i].outcome != NULL)
			gate_settle(&gate, answer.ticket, rows[i].outcome, CAP, now);
		else
			gate_release(&gate, answer.ticket);
		assert_int_equal(gate_breaker_state(&gate, now), rows[i].state);
		assert_int_equal(gate_blocked_for(&gate, now), rows[i].blocked);
		assert_int_equal(gate.used, 0);
	}
}

/* A probe that was sent before the breaker opened is not its probe. */
static void test_older_probe(void **state)
{
	struct gate_outcome outcome = limited;
	uint64_t tickets[10], probe;
	struct gate gate;

	(void)state;
	init(&gate, 64);
	for (int i = 0; i < 10; i++)
		tickets[i] = take(&gate, T0);
	outcome.advice = 3600 * S;
	attempt(&gate, T0, &outcome);
	probe = take(&gate, T0 + 60 * S);
	for (int i = 0; i < 10; i++)
		gate_settle(&gate, tickets[i], &refused, CAP, T0 + 61 * S);
	assert_int_equal(gate_blocked_for(&gate, T0 + 61 * S), 5 * S);
	gate_settle(&gate, probe, &refused, CAP, T0 + 62 * S);
	/* The block's probe failed: it is closed for the cap again. The breaker's pause stays. */
	assert_int_equal(gate.breaker_until - T0, 66 * S);
	assert_int_equal(gate.blocked_until - T0, 122 * S);
	/* The next one is both's: one attempt opens both. */
	probe = take(&gate, T0 + 122 * S);
	gate_settle(&gate, probe, &well, CAP, T0 + 122 * S);
	assert_int_equal(gate_breaker_state(&gate, T0 + 122 * S), GATE_BREAKER_CLOSED);
	assert_false(gate.probing);
}

/* Closed by both: the later one is the cause that callers are told. */
static void test_cause(void **state)
{
	struct gate_outcome outcome = limited;
	struct gate_answer answer;
	struct gate gate;

	(void)state;
	init(&gate, 64);
	outcome.advice = 3 * S;
	fail_times(&gate, 9, T0);
	attempt(&gate, T0, &outcome);
	gate.blocked_until = 0; /* as if it were over */
	fail_times(&gate, 1, T0);
	gate.blocked_until = T0 + 3 * S;
	answer = gate_take(&gate, T0 + S, LEASE);
	assert_int_equal(answer.why, GATE_BREAKER);
	assert_int_equal(answer.until - T0, 5 * S);
	assert_false(answer.rate_limited);
	gate.blocked_until = T0 + 9 * S;
	answer = gate_take(&gate, T0 + S, LEASE);
	assert_int_equal(answer.why, GATE_BLOCKED);
	assert_int_equal(answer.until - T0, 9 * S);
	assert_true(answer.rate_limited);
}

/* --- the ramp ----------------------------------------------------------------------------------- */

/* W15: twenty wait for the end of a block of 7 s, and are answered at once. */
static void test_w15(void **state)
{
	static const int per_step[] = {1, 2, 4, 8, 5};
	usec_t wake[20];
	int started = 0, starts[8] = {0};
	struct gate_outcome outcome = limited;
	struct gate gate;

	(void)state;
	init(&gate, 64);
	outcome.advice = 7 * S;
	attempt(&gate, T0, &outcome);
	for (int i = 0; i < 20; i++)
		wake[i] = T0;
	for (usec_t now = T0; started < 20 && now < T0 + 20 * S; now += MS) {
		for (int i = 0; i < 20; i++) {
			struct gate_answer answer;

			if (wake[i] > now)
				continue;
			answer = gate_take(&gate, now, LEASE);
			if (answer.why != GATE_OPEN) {
				assert_true(answer.rate_limited);
				assert_true(answer.until > now);
				wake[i] = answer.until;
				continue;
			}
			assert_true(now >= T0 + 7 * S);
			starts[(now - T0 - 7 * S) / RAMP]++;
			gate_settle(&gate, answer.ticket, &well, CAP, now);
			wake[i] = USEC_MAX;
			started++;
		}
	}
	for (size_t i = 0; i < sizeof(per_step) / sizeof(per_step[0]); i++)
		assert_int_equal(starts[i], per_step[i]);
}

/* It begins with the first start, however long after the block, and is over at the limit. */
static void test_ramp_life(void **state)
{
	struct gate_outcome outcome = limited;
	usec_t now = T0 + USEC_HOUR;
	struct gate gate;

	(void)state;
	init(&gate, 3);
	outcome.advice = S;
	attempt(&gate, T0, &outcome);
	take(&gate, now);
	assert_int_equal(gate_take(&gate, now, LEASE).why, GATE_RAMP);
	assert_int_equal(gate_take(&gate, now + RAMP - 1, LEASE).until - now, RAMP);
	take(&gate, now + RAMP);
	take(&gate, now + RAMP);
	assert_int_equal(gate_take(&gate, now + RAMP, LEASE).why, GATE_RAMP);
	assert_int_equal(gate_take(&gate, now + 2 * RAMP, LEASE).why, GATE_CONCURRENCY);
	gate_settle(&gate, 2, &well, CAP, now + 2 * RAMP);
	gate_settle(&gate, take(&gate, now + 2 * RAMP), &well, CAP, now + 2 * RAMP);
	take(&gate, now + 2 * RAMP);
	/* A new block begins it anew. */
	gate_settle(&gate, 3, &outcome, CAP, now + 3 * RAMP);
	take(&gate, now + 3 * RAMP + S);
	gate_settle(&gate, 4, &well, CAP, now + 3 * RAMP + S);
	assert_int_equal(gate_take(&gate, now + 3 * RAMP + S, LEASE).why, GATE_RAMP);
}

/* After a probe it is one attempt again, then two. */
static void test_ramp_after_probe(void **state)
{
	usec_t now = T0 + 5 * S;
	struct gate gate;

	(void)state;
	init(&gate, 64);
	fail_times(&gate, 10, T0);
	attempt(&gate, now, &well);
	attempt(&gate, now, &well);
	assert_closed(&gate, now, GATE_RAMP, now + RAMP);
}

/* With one slot, or without a step, there is nothing to climb. */
static void test_no_ramp(void **state)
{
	struct gate_outcome outcome = limited;
	struct gate gate;

	(void)state;
	outcome.advice = S;
	init(&gate, 1);
	attempt(&gate, T0, &outcome);
	attempt(&gate, T0 + S, &well);
	attempt(&gate, T0 + S, &well);
	init(&gate, 64);
	gate.policy.ramp = 0;
	attempt(&gate, T0, &outcome);
	for (int i = 0; i < 64; i++)
		take(&gate, T0 + S);
}

static void test_ramp_offset(void **state)
{
	static const struct {
		int64_t before;
		int step;
	} rows[] = {{0, 0}, {1, 1}, {2, 1}, {3, 2}, {6, 2}, {7, 3}, {14, 3}, {15, 3}, {1000, 3}};
	struct gate gate;

	(void)state;
	init(&gate, 8);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(gate_ramp_offset(&gate, rows[i].before), rows[i].step * RAMP);
	gate_init(&gate, 8);
	assert_int_equal(gate_ramp_offset(&gate, 1000), 0);
}

/* --- W37 ---------------------------------------------------------------------------------------- */

struct outage_op {
	struct op op;
	usec_t wake; /* when its next delivery comes */
};

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* One minute of refused connections, then answers: each delivery does one attempt where the gate
 * lets it, and comes back when it is told to. */
static int run_outage(struct gate *gate, const struct policy *policy, struct outage_op *ops,
		      int count, usec_t outage, usec_t end)
{
	uint64_t seed = 88172645463325252U;
	int attempts = 0;

	for (usec_t now = T0; now < T0 + end; now += 5 * MS) {
		bool down = now < T0 + outage;

		for (int i = 0; i < count; i++) {
			struct op_event claim = {.kind = OP_EV_CLAIM, .now = now, .instance = "i"};
			struct op_event settle = {.kind = OP_EV_SETTLE, .now = now};
			struct verdict verdict = {.advice = -1, .rule_wait = -1};
			uint8_t token[OP_TOKEN_LEN] = {1};
			struct gate_answer answer;
			struct gate_outcome outcome;
			struct op next;
			unsigned notes;

			if (ops[i].wake > now || ops[i].op.state != OP_READY)
				continue;
			answer = gate_take(gate, now, LEASE);
			if (answer.why != GATE_OPEN) {
				ops[i].wake = usec_min(answer.until, now + S);
				continue;
			}
			memcpy(token + 1, &answer.ticket, sizeof(answer.ticket));
			claim.token = token;
			claim.repeat = REPEAT_NEVER;
			assert_int_equal(op_apply(&ops[i].op, policy, &claim, &next, &notes),
					 OP_CHANGED);
			ops[i].op = next;
			attempts += down;
			verdict.class = down ? CLASS_TRANSIENT : CLASS_SUCCESS;
			verdict.effect = down ? EFFECT_NONE : EFFECT_DEFINITE;
			verdict.fault = down ? FAULT_CONNECT : FAULT_NONE;
			verdict.status = down ? 0 : 200;
			outcome = gate_outcome_of(&verdict);
			gate_settle(gate, answer.ticket, &outcome, policy->retry_after_max, now);
			settle.token = token;
			settle.n = next.attempts;
			settle.verdict = &verdict;
			settle.wait = backoff_wait(&policy->backoff, next.attempts, -1,
						   next_random(&seed));
			assert_int_equal(op_apply(&next, policy, &settle, &ops[i].op, &notes),
					 OP_CHANGED);
			ops[i].wake = ops[i].op.next;
		}
	}
	return attempts;
}

static void test_w37(void **state)
{
	enum { COUNT = 1000 };
	static const uint8_t id[OP_FINGERPRINT_LEN] = {1};
	const struct policy policy = {
		.attempts = 6,
		.window = USEC_HOUR,
		.backoff = {.first = S, .factor = 5, .max = 20 * USEC_MIN, .jitter = JITTER_FULL},
		.attempt_timeout = 60 * S,
		.attempt_connect = 3 * S,
		.attempt_total = 10 * USEC_MIN,
		.attempt_least = 500 * MS,
		.lease = 65 * S,
		.hold = 20 * S,
		.retry_after_max = 60 * S,
	};
	struct outage_op *ops = calloc(COUNT, sizeof(*ops));
	struct gate gate;
	int attempts;

	(void)state;
	assert_non_null(ops);
	init(&gate, 64);
	for (int i = 0; i < COUNT; i++) {
		op_init(&ops[i].op, &policy, id, id, T0);
		ops[i].wake = T0;
	}
	attempts = run_outage(&gate, &policy, ops, COUNT, USEC_MIN, 3 * USEC_MIN);
	/* Ten that open it, and the probes after 5, 10, 20 seconds: 15, 35 and none before 60. */
	assert_int_equal(attempts, 13);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(ops[i].op.state, OP_SUCCEEDED);
		assert_in_range(ops[i].op.attempts, 1, policy.attempts - 1);
	}
	free(ops);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_opens),
		cmocka_unit_test(test_in_a_row),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_stragglers),
		cmocka_unit_test(test_probe_outcomes),
		cmocka_unit_test(test_older_probe),
		cmocka_unit_test(test_cause),
		cmocka_unit_test(test_w15),
		cmocka_unit_test(test_ramp_life),
		cmocka_unit_test(test_ramp_after_probe),
		cmocka_unit_test(test_no_ramp),
		cmocka_unit_test(test_ramp_offset),
		cmocka_unit_test(test_w37),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
