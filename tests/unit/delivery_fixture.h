/* A desk for one delivery: a policy, a clock, and one short call for each event; the action that the
 * machine answered with stands in `act`. */
#ifndef STINT_TESTS_DELIVERY_FIXTURE_H
#define STINT_TESTS_DELIVERY_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "budget/delivery.h"

#define T0 (USEC_DAY * 20000)
#define UNUSED __attribute__((unused))

struct desk {
	struct policy policy;
	struct delivery d;
	usec_t now;
	struct delivery_action act;
	uint8_t tokens;
};

static UNUSED void desk_init(struct desk *k)
{
	memset(k, 0, sizeof(*k));
	k->policy = (struct policy){
		.attempts = 3,
		.window = USEC_HOUR,
		.backoff = {.first = USEC_SEC, .factor = 2, .max = USEC_MIN},
		.attempt_timeout = 10 * USEC_SEC,
		.attempt_total = 30 * USEC_SEC,
		.attempt_least = 500 * USEC_MS,
		.lease = 15 * USEC_SEC,
		.hold = 20 * USEC_SEC,
		.retry_after_max = USEC_HOUR,
		.forwards_key = true,
		.key_retention = USEC_DAY,
	};
	k->now = T0;
	delivery_init(&k->d, &k->policy);
	k->d.ledgered = true;
	k->d.repeat = REPEAT_RETENTION;
	k->d.answer_by = T0 + k->policy.hold;
	k->d.instance = "a";
	k->d.fingerprint[0] = 1;
	k->d.incarnation[0] = 2;
}

static UNUSED void step(struct desk *k, struct delivery_event *event)
{
	event->now = k->now;
	delivery_step(&k->d, event, &k->act);
}

static UNUSED void simple(struct desk *k, enum delivery_event_kind kind)
{
	struct delivery_event event = {.kind = kind};

	step(k, &event);
}

static UNUSED void gate_open(struct desk *k)
{
	uint8_t token[OP_TOKEN_LEN] = {++k->tokens};
	struct delivery_event event = {.kind = DELIVERY_EV_GATE_OPEN, .token = token};

	step(k, &event);
}

static UNUSED void gate_closed(struct desk *k, usec_t until, bool rate_limited)
{
	struct delivery_event event = {
		.kind = DELIVERY_EV_GATE_CLOSED, .until = until, .rate_limited = rate_limited};

	step(k, &event);
}

static UNUSED void record(struct desk *k, const struct op *op)
{
	struct delivery_event event = {.kind = DELIVERY_EV_RECORD, .op = op};

	step(k, &event);
}

static UNUSED void busy(struct desk *k, bool same, const struct op *op)
{
	struct delivery_event event = {.kind = DELIVERY_EV_BUSY, .same = same, .op = op};

	step(k, &event);
}

/* START, the gate open, the claim written: the attempt may be sent. */
static UNUSED void send_first(struct desk *k)
{
	simple(k, DELIVERY_EV_START);
	assert_int_equal(k->act.act, DELIVERY_ACT_GATE);
	gate_open(k);
	assert_int_equal(k->act.act, DELIVERY_ACT_WRITE);
	assert_int_equal(k->act.write, WRITE_CLAIM);
	assert_int_equal(k->d.proposal.state, OP_ATTEMPTING);
	simple(k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k->act.act, DELIVERY_ACT_SEND);
}

/* The next attempt, after its turn has come. */
static UNUSED void send_next(struct desk *k)
{
	assert_int_equal(k->act.act, DELIVERY_ACT_WAIT);
	k->now = k->act.until;
	simple(k, DELIVERY_EV_TIMER);
	assert_int_equal(k->act.act, DELIVERY_ACT_GATE);
	gate_open(k);
	assert_int_equal(k->act.write, WRITE_CLAIM);
	simple(k, DELIVERY_EV_WRITTEN);
	assert_int_equal(k->act.act, DELIVERY_ACT_SEND);
}

static UNUSED struct verdict verdict_of(int status, enum fault fault)
{
	struct verdict v = {.advice = -1, .rule_wait = -1, .status = status, .fault = fault};

	v.class = CLASS_UNKNOWN;
	v.effect = EFFECT_POSSIBLE;
	if (fault == FAULT_NONE && status >= 200 && status < 400) {
		v.class = CLASS_SUCCESS;
		v.effect = EFFECT_DEFINITE;
	} else if (fault == FAULT_NONE && status >= 400 && status < 500) {
		v.class = status == 429   ? CLASS_RATE_LIMITED
			  : status == 401 ? CLASS_AUTH
					  : CLASS_INVALID;
		v.effect = EFFECT_NONE;
	} else if (fault == FAULT_CONNECT || fault == FAULT_CONNECT_TIMEOUT ||
		   fault == FAULT_DEADLINE || fault == FAULT_GUARD) {
		v.class = CLASS_TRANSIENT;
		v.effect = EFFECT_NONE;
	}
	(void)snprintf(v.reason, sizeof(v.reason), "test");
	return v;
}

static UNUSED void outcome_of(struct desk *k, const struct verdict *verdict)
{
	struct delivery_event event = {.kind = DELIVERY_EV_OUTCOME, .verdict = verdict};

	step(k, &event);
}

static UNUSED void outcome(struct desk *k, int status, enum fault fault)
{
	struct verdict verdict = verdict_of(status, fault);

	outcome_of(k, &verdict);
}

/* The attempt ends so, and its outcome is written. */
static UNUSED void settle(struct desk *k, int status, enum fault fault)
{
	outcome(k, status, fault);
	assert_int_equal(k->act.act, DELIVERY_ACT_WRITE);
	assert_int_equal(k->act.write, WRITE_SETTLE);
	simple(k, DELIVERY_EV_WRITTEN);
}

/* A record of the same request, never charged, due. */
static UNUSED void make_ready(const struct desk *k, struct op *ret_op)
{
	static const uint8_t incarnation[OP_INCARNATION_LEN] = {9};

	op_init(ret_op, &k->policy, incarnation, k->d.fingerprint, k->now);
}

static UNUSED void apply(const struct desk *k, struct op *op, const struct op_event *event)
{
	struct op before = *op;
	unsigned notes;

	assert_int_equal(op_apply(&before, &k->policy, event, op, &notes), OP_CHANGED);
}

/* Another one's attempt that holds the lease. */
static UNUSED void make_attempting(const struct desk *k, struct op *ret_op)
{
	static const uint8_t token[OP_TOKEN_LEN] = {77};
	struct op_event claim = {
		.kind = OP_EV_CLAIM, .now = k->now, .token = token, .instance = "b"};

	make_ready(k, ret_op);
	claim.repeat = k->d.repeat;
	claim.hold_until = k->now + k->policy.hold;
	apply(k, ret_op, &claim);
}

/* A record as one attempt of another one left it. */
static UNUSED void make_settled(const struct desk *k, int status, enum fault fault,
				struct op *ret_op)
{
	static const uint8_t token[OP_TOKEN_LEN] = {77};
	struct verdict verdict = verdict_of(status, fault);
	struct op_event event = {.kind = OP_EV_SETTLE, .now = k->now, .token = token, .n = 1};

	make_attempting(k, ret_op);
	event.verdict = &verdict;
	event.wait = 5 * USEC_SEC;
	event.credential = token;
	apply(k, ret_op, &event);
}

/* START while the gate is closed for want of a slot, then the record that is found. */
static UNUSED void meet(struct desk *k, const struct op *op)
{
	simple(k, DELIVERY_EV_START);
	gate_open(k);
	assert_int_equal(k->act.write, WRITE_CLAIM);
	assert_true(k->act.expect_absent);
	record(k, op);
}

static UNUSED void assert_problem(const struct desk *k, const char *problem, int status,
				  usec_t retry_after)
{
	assert_int_equal(k->act.answer, ANSWER_PROBLEM);
	assert_string_equal(k->act.problem, problem);
	assert_int_equal(k->act.status, status);
	assert_int_equal(k->act.retry_after, retry_after);
}

static UNUSED void assert_ended(const struct desk *k)
{
	assert_int_equal(k->act.act, DELIVERY_ACT_END);
	assert_int_equal(k->d.phase, DELIVERY_ENDED);
	assert_false(k->d.slot);
}

#endif
