/* pure-test: every status, by method, by what the provider promises, with and without Retry-After: the
 * verdict and the state after one attempt, held against a second formulation of the rules that is
 * written as sets of statuses and shares no code with the tables. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "budget/operation.h"
#include "classify/classify.h"

#define T0 (USEC_DAY * 20000)

enum promise { PROMISE_NONE, PROMISE_KEY, PROMISE_KEY_FOR_A_DAY, PROMISE_COUNT };

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "MERGE"};

static bool is_one_of(int status, const int *set)
{
	for (; *set != 0; set++) {
		if (*set == status)
			return true;
	}
	return false;
}

/* Design section 5, as a person reads it. */
static enum outcome_class expected_class(int status, bool retry_after)
{
	static const int held[] = {401, 403, 407, 0};
	static const int later[] = {408, 421, 423, 425, 511, 0};
	static const int never[] = {501, 505, 0};
	static const int slowed[] = {403, 413, 0};

	if (status == 429 || (retry_after && is_one_of(status, slowed)))
		return CLASS_RATE_LIMITED;
	if (is_one_of(status, held))
		return CLASS_AUTH;
	if (is_one_of(status, later))
		return CLASS_TRANSIENT;
	if (is_one_of(status, never) || status / 100 == 4)
		return CLASS_INVALID;
	return status / 100 == 2 || status / 100 == 3 ? CLASS_SUCCESS : CLASS_UNKNOWN;
}

static bool repeats_safely(const char *method, enum promise promise)
{
	static const char idempotent[] = " GET PUT DELETE TRACE ";
	char word[16];

	(void)snprintf(word, sizeof(word), " %s ", method);
	return promise != PROMISE_NONE || strstr(idempotent, word) != NULL;
}

static enum op_state expected_state(enum outcome_class class, const char *method,
				    enum promise promise)
{
	switch (class) {
	case CLASS_SUCCESS:
		return OP_SUCCEEDED;
	case CLASS_INVALID:
		return OP_FAILED;
	case CLASS_AUTH:
		return OP_HELD;
	case CLASS_UNKNOWN:
		return repeats_safely(method, promise) ? OP_READY : OP_UNKNOWN;
	default:
		return OP_READY;
	}
}

static void set_policy(struct policy *policy, enum promise promise)
{
	memset(policy, 0, sizeof(*policy));
	policy->attempts = 3;
	policy->window = USEC_HOUR;
	policy->backoff.first = USEC_SEC;
	policy->backoff.factor = 1;
	policy->backoff.max = USEC_SEC;
	policy->attempt_timeout = 10 * USEC_SEC;
	policy->attempt_total = 30 * USEC_SEC;
	policy->lease = 15 * USEC_SEC;
	policy->forwards_key = promise != PROMISE_NONE;
	policy->key_retention = promise == PROMISE_KEY_FOR_A_DAY ? USEC_DAY : 0;
}

static void judge(int status, const char *method, bool retry_after, struct verdict *ret_verdict)
{
	static const struct header_view header = {"Retry-After", 11, "7", 1};
	struct facts facts = {.method = method, .path = "/x", .status = status, .sent = true};

	facts.received_wall = T0;
	facts.headers = &header;
	facts.header_count = retry_after ? 1 : 0;
	classify(&facts, NULL, ret_verdict);
}

/* One claim and its settle. */
static void settle(const struct policy *policy, const char *method, const struct verdict *verdict,
		   struct op *ret_op)
{
	const uint8_t incarnation[OP_INCARNATION_LEN] = {1}, fingerprint[OP_FINGERPRINT_LEN] = {2};
	const uint8_t token[OP_TOKEN_LEN] = {3};
	struct op_event claim = {.kind = OP_EV_CLAIM, .now = T0, .token = token, .instance = "a"};
	struct op_event end = {.kind = OP_EV_SETTLE, .now = T0 + 1, .token = token, .n = 1};
	struct op op, attempting;
	unsigned notes;

	op_init(&op, policy, incarnation, fingerprint, T0);
	claim.repeat = op_repeat_rule(policy, method);
	claim.hold_until = T0 + USEC_MIN;
	assert_int_equal(op_apply(&op, policy, &claim, &attempting, &notes), OP_CHANGED);
	end.verdict = verdict;
	end.wait = USEC_SEC;
	end.is_delete = strcmp(method, "DELETE") == 0;
	assert_int_equal(op_apply(&attempting, policy, &end, ret_op, &notes), OP_CHANGED);
}

static void check(int status, const char *method, enum promise promise, bool retry_after)
{
	enum outcome_class class = expected_class(status, retry_after);
	enum effect effect = class == CLASS_SUCCESS   ? EFFECT_DEFINITE
			     : class == CLASS_UNKNOWN ? EFFECT_POSSIBLE
						      : EFFECT_NONE;
	struct policy policy;
	struct verdict verdict;
	struct op op;

	judge(status, method, retry_after, &verdict);
	set_policy(&policy, promise);
	settle(&policy, method, &verdict, &op);
	if (verdict.class != class || verdict.effect != effect ||
	    op.state != expected_state(class, method, promise))
		fail_msg("%s %d, promise %d, Retry-After %d: %s/%s/%s, expected %s/%s/%s", method,
			 status, (int)promise, retry_after, outcome_class_name(verdict.class),
			 effect_name(verdict.effect), op_state_name(op.state),
			 outcome_class_name(class), effect_name(effect),
			 op_state_name(expected_state(class, method, promise)));
	assert_int_equal(op_set_count(&op.unresolved), class == CLASS_UNKNOWN ? 1 : 0);
	assert_true(verdict.advice == (retry_after ? 7 * USEC_SEC : -1));
}

static void test_every_status(void **state)
{
	(void)state;
	for (int status = 100; status <= 599; status++) {
		for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
			for (int promise = 0; promise < PROMISE_COUNT; promise++) {
				check(status, methods[m], (enum promise)promise, false);
				check(status, methods[m], (enum promise)promise, true);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_status)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
