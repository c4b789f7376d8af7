/* A laboratory for one operation: a policy, a clock, and one short call for each event. */
#ifndef STINT_TESTS_OPERATION_FIXTURE_H
#define STINT_TESTS_OPERATION_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "budget/operation.h"
#include "budget/schedule.h"

#define T0 (USEC_DAY * 20000)
#define UNUSED __attribute__((unused))

struct lab {
	struct policy policy;
	enum repeat_rule rule;
	usec_t now;
	usec_t wait; /* of the next settle or expiry */
	bool is_delete, repeatable;
	const uint8_t *credential;
	struct op op;
	unsigned notes;
	uint8_t token[101][OP_TOKEN_LEN]; /* of attempt n */
	unsigned tokens;
};

static UNUSED void lab_init(struct lab *lab)
{
	static const uint8_t incarnation[OP_INCARNATION_LEN] = {1, 2, 3};
	static const uint8_t fingerprint[OP_FINGERPRINT_LEN] = {4, 5, 6};

	memset(lab, 0, sizeof(*lab));
	lab->policy = (struct policy){
		.attempts = 5,
		.window = USEC_HOUR,
		.backoff = {.first = USEC_SEC, .factor = 2, .max = USEC_MIN},
		.attempt_timeout = 10 * USEC_SEC,
		.attempt_total = 30 * USEC_SEC,
		.attempt_least = 500 * USEC_MS,
		.lease = 15 * USEC_SEC,
		.hold = 20 * USEC_SEC,
		.forwards_key = true,
		.key_retention = USEC_DAY,
	};
	lab->rule = REPEAT_RETENTION;
	lab->repeatable = true;
	lab->now = T0;
	lab->wait = USEC_SEC;
	op_init(&lab->op, &lab->policy, incarnation, fingerprint, lab->now);
}

/* A provider without idempotency: nothing may be repeated after a possible effect. */
static UNUSED void lab_init_plain(struct lab *lab)
{
	lab_init(lab);
	lab->rule = REPEAT_NEVER;
	lab->repeatable = false;
}

static UNUSED enum op_result lab_apply(struct lab *lab, const struct op_event *event)
{
	struct op before = lab->op;
	struct op after;
	struct op_event ev = *event;
	enum op_result result;

	ev.now = lab->now;
	memset(&after, 0x5a, sizeof(after));
	result = op_apply(&lab->op, &lab->policy, &ev, &after, &lab->notes);
	assert_memory_equal(&before, &lab->op, sizeof(before));
	if (result < 0)
		return result;
	assert_null(op_check(&after));
	assert_int_equal(after.counter, before.counter + (result == OP_CHANGED ? 1 : 0));
	lab->op = after;
	return result;
}

static UNUSED enum op_result lab_do(struct lab *lab, enum op_event_kind kind)
{
	return lab_apply(lab, &(struct op_event){.kind = kind, .wait = lab->wait});
}

static UNUSED enum op_result lab_claim(struct lab *lab)
{
	uint8_t token[OP_TOKEN_LEN] = {7};
	struct op_event event = {.kind = OP_EV_CLAIM,
				 .token = token,
				 .instance = "here",
				 .repeat = lab->rule,
				 .hold_until = lab->now + lab->policy.hold};
	enum op_result result;

	snprintf((char *)token, sizeof(token), "token-%u", ++lab->tokens);
	result = lab_apply(lab, &event);
	if (result == OP_CHANGED) {
		for (int n = 100; n >= 1; n--) {
			if (op_find_attempt(&lab->op, n)) {
				memcpy(lab->token[n], token, OP_TOKEN_LEN);
				break;
			}
		}
	}
	return result;
}

static UNUSED struct verdict verdict_of(enum outcome_class class, int status)
{
	struct verdict v = {.class = class, .advice = -1, .rule_wait = -1, .status = status};

	v.effect = class == CLASS_SUCCESS   ? EFFECT_DEFINITE
		   : class == CLASS_UNKNOWN ? EFFECT_POSSIBLE
					    : EFFECT_NONE;
	if (status)
		snprintf(v.reason, sizeof(v.reason), "status-%d", status);
	else {
		v.fault = FAULT_TIMEOUT;
		snprintf(v.reason, sizeof(v.reason), "timeout");
	}
	return v;
}

static UNUSED enum op_result lab_find(struct lab *lab, int n, const struct verdict *verdict)
{
	return lab_apply(lab, &(struct op_event){.kind = OP_EV_SETTLE,
						 .token = lab->token[n],
						 .n = n,
						 .verdict = verdict,
						 .wait = lab->wait,
						 .is_delete = lab->is_delete,
						 .repeatable = lab->repeatable,
						 .credential = lab->credential});
}

static UNUSED enum op_result lab_settle(struct lab *lab, int n, enum outcome_class class,
					int status)
{
	struct verdict v = verdict_of(class, status);

	return lab_find(lab, n, &v);
}

static UNUSED enum op_result lab_void(struct lab *lab, int n)
{
	return lab_apply(lab, &(struct op_event){.kind = OP_EV_VOID, .token = lab->token[n]});
}

/* Lets the lease run out, and sweeps. */
static UNUSED enum op_result lab_expire(struct lab *lab)
{
	lab->now = usec_max(lab->now, lab->op.lease_until);
	return lab_do(lab, OP_EV_EXPIRE);
}

/* Waits until the next attempt is due, and claims it. */
static UNUSED enum op_result lab_next(struct lab *lab)
{
	lab->now = usec_max(lab->now, lab->op.next);
	return lab_claim(lab);
}

static UNUSED enum op_result lab_resolve(struct lab *lab, bool applied)
{
	return lab_apply(lab, &(struct op_event){.kind = OP_EV_RESOLVE, .applied = applied});
}

static UNUSED enum op_result lab_probe(struct lab *lab, bool applied)
{
	return lab_apply(lab, &(struct op_event){.kind = OP_EV_PROBE, .applied = applied});
}

#define assert_state(lab, want)                                                                    \
	assert_string_equal(op_state_name((lab)->op.state), op_state_name(OP_##want))
#define assert_open(lab, want) assert_int_equal(op_set_count(&(lab)->op.unresolved), want)

/* Brings a fresh operation into a state; SUCCEEDED by its only attempt, UNKNOWN and HELD_OPEN with
 * attempt 1 open. */
enum lab_place {
	AT_READY,
	AT_READY_OPEN,
	AT_ATTEMPTING,
	AT_SUCCEEDED,
	AT_FAILED,
	AT_EXHAUSTED,
	AT_UNKNOWN,
	AT_HELD,
	AT_HELD_OPEN,
	AT_COUNT,
};

static UNUSED void lab_at(struct lab *lab, enum lab_place place)
{
	struct verdict never = verdict_of(CLASS_TRANSIENT, 503);

	lab_init(lab);
	never.retry_never = true;
	if (place == AT_READY)
		return;
	assert_int_equal(lab_claim(lab), OP_CHANGED);
	switch (place) {
	case AT_SUCCEEDED:
		assert_int_equal(lab_settle(lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
		break;
	case AT_FAILED:
		assert_int_equal(lab_settle(lab, 1, CLASS_INVALID, 422), OP_CHANGED);
		break;
	case AT_EXHAUSTED:
		assert_int_equal(lab_find(lab, 1, &never), OP_CHANGED);
		break;
	case AT_HELD:
		assert_int_equal(lab_settle(lab, 1, CLASS_AUTH, 401), OP_CHANGED);
		break;
	case AT_READY_OPEN:
	case AT_UNKNOWN:
	case AT_HELD_OPEN:
		assert_int_equal(lab_settle(lab, 1, CLASS_UNKNOWN, 0), OP_CHANGED);
		if (place == AT_READY_OPEN)
			break;
		assert_int_equal(lab_next(lab), OP_CHANGED);
		assert_int_equal(place == AT_UNKNOWN ? lab_settle(lab, 2, CLASS_INVALID, 400)
						     : lab_settle(lab, 2, CLASS_AUTH, 401),
				 OP_CHANGED);
		break;
	default:
		break;
	}
}

#endif
