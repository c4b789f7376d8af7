/* pure-test */
/* The table "By people and probes" of design section 4, row by row and state by state. */
#include "operation_fixture.h"

static enum op_result reopen(struct lab *lab, int more, bool new_key)
{
	return lab_apply(
		lab, &(struct op_event){.kind = OP_EV_REOPEN, .more = more, .new_key = new_key});
}

/* Which places allow which event; what is not listed is the API's 409. */
static void test_allowed(void **state)
{
	static const struct {
		enum op_event_kind kind;
		unsigned places;
	} rows[] = {
#define P(place) (1u << AT_##place)
		{OP_EV_HOLD, P(READY) | P(READY_OPEN) | P(ATTEMPTING) | P(UNKNOWN)},
		{OP_EV_RELEASE, P(HELD) | P(HELD_OPEN)},
		{OP_EV_RELEASE_CREDENTIAL, P(HELD) | P(HELD_OPEN)},
		{OP_EV_REOPEN, P(EXHAUSTED) | P(HELD) | P(UNKNOWN) | P(HELD_OPEN)},
		{OP_EV_RESOLVE, P(READY_OPEN) | P(UNKNOWN) | P(HELD_OPEN)},
		{OP_EV_PROBE, P(READY_OPEN) | P(UNKNOWN) | P(HELD_OPEN)},
#undef P
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int place = 0; place < AT_COUNT; place++) {
			struct lab lab;

			lab_at(&lab, (enum lab_place)place);
			assert_int_equal(lab_do(&lab, rows[i].kind),
					 rows[i].places >> place & 1 ? OP_CHANGED : OP_REFUSED);
		}
	}
}

static void test_hold_and_release(void **state)
{
	struct lab lab;
	usec_t deadline;

	(void)state;
	lab_init(&lab); /* never charged: no window, before and after */
	lab_do(&lab, OP_EV_HOLD);
	assert_state(&lab, HELD);
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	lab.now += USEC_DAY;
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.deadline, 0);
	assert_false(lab.op.quarantined);
	lab_claim(&lab);
	lab.wait = 10 * USEC_MIN;
	lab_settle(&lab, 1, CLASS_RATE_LIMITED, 429);
	deadline = lab.op.deadline;
	lab.now += USEC_MIN;
	lab_do(&lab, OP_EV_HOLD);
	lab.now += 2 * USEC_MIN;
	lab_do(&lab, OP_EV_RELEASE);
	assert_int_equal(lab.op.deadline, deadline + 2 * USEC_MIN);
	/* The advised time still stands. */
	assert_int_equal(lab.op.next, lab.now + 7 * USEC_MIN);
}

static void test_quarantine(void **state)
{
	struct lab lab;

	(void)state;
	lab_at(&lab, AT_ATTEMPTING);
	lab_do(&lab, OP_EV_HOLD);
	assert_state(&lab, ATTEMPTING);
	assert_true(lab.op.quarantined);
	assert_int_equal(lab_do(&lab, OP_EV_HOLD), OP_UNCHANGED);
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	assert_state(&lab, HELD);
	assert_int_equal(lab_next(&lab), OP_REFUSED);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);

	lab_at(&lab, AT_ATTEMPTING);
	lab_do(&lab, OP_EV_HOLD);
	lab_void(&lab, 1);
	assert_state(&lab, HELD);

	lab_at(&lab, AT_ATTEMPTING);
	lab_do(&lab, OP_EV_HOLD);
	lab_settle(&lab, 1, CLASS_SUCCESS, 200);
	assert_state(&lab, SUCCEEDED);

	lab_init_plain(&lab);
	lab_claim(&lab);
	lab_expire(&lab);
	lab_do(&lab, OP_EV_HOLD);
	assert_state(&lab, UNKNOWN);
	lab_probe(&lab, false);
	assert_state(&lab, HELD);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);

	lab_at(&lab, AT_UNKNOWN); /* a reopen of what is not held leaves it in quarantine */
	lab_do(&lab, OP_EV_HOLD);
	assert_int_equal(reopen(&lab, 0, false), OP_CHANGED);
	assert_state(&lab, HELD);
	assert_int_equal(reopen(&lab, 0, false), OP_CHANGED);
	assert_state(&lab, READY);
}

/* W14, W36: another credential releases what auth has held, and nothing else does by itself. */
static void test_release_by_credential(void **state)
{
	static const uint8_t refused[OP_CREDENTIAL_LEN] = {1};
	static const uint8_t other[OP_CREDENTIAL_LEN] = {2};
	struct op_event event = {.kind = OP_EV_RELEASE_CREDENTIAL, .credential = refused};
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.credential = refused;
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_AUTH, 401);
	assert_memory_equal(lab.op.credential, refused, sizeof(refused));
	assert_int_equal(lab_apply(&lab, &event), OP_REFUSED);
	event.credential = other;
	assert_int_equal(lab_apply(&lab, &event), OP_CHANGED);
	assert_state(&lab, READY);
	assert_int_equal(lab_claim(&lab), OP_CHANGED); /* at once */

	lab_init(&lab); /* quota: only a person */
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_QUOTA, 402);
	assert_int_equal(lab_apply(&lab, &event), OP_REFUSED);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);

	lab_at(&lab, AT_ATTEMPTING); /* a person's quarantine stands */
	lab_do(&lab, OP_EV_HOLD);
	lab_settle(&lab, 1, CLASS_AUTH, 401);
	assert_int_equal(lab_apply(&lab, &event), OP_REFUSED);
	lab_at(&lab, AT_HELD);
	lab_do(&lab, OP_EV_RELEASE);
	lab_do(&lab, OP_EV_HOLD);
	assert_int_equal(lab_apply(&lab, &event), OP_REFUSED);
}

/* The released verdict stays aside for what comes after the release. */
static void test_release_is_remembered(void **state)
{
	struct lab lab;

	(void)state;
	lab_at(&lab, AT_HELD_OPEN);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);
	lab_probe(&lab, false);
	assert_state(&lab, READY);
	lab_next(&lab);
	lab_void(&lab, 3);
	assert_state(&lab, READY);
	lab_next(&lab);
	lab_settle(&lab, 3, CLASS_AUTH, 401);
	assert_state(&lab, HELD);
	/* Released into unknown, then found not applied: ready. */
	lab_at(&lab, AT_HELD_OPEN);
	lab.op.repeat_until = lab.now;
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, UNKNOWN);
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	assert_state(&lab, READY);
}

static void test_release_picks(void **state)
{
	struct lab lab;

	(void)state;
	lab_at(&lab, AT_HELD);
	lab.op.limit = 1;
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, EXHAUSTED);
	lab_at(&lab, AT_HELD_OPEN);
	lab.op.limit = 2;
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, UNKNOWN);
	assert_open(&lab, 1);
	lab_at(&lab, AT_HELD_OPEN);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);
	assert_open(&lab, 1);
}

static void test_reopen(void **state)
{
	struct lab lab;

	(void)state;
	lab_at(&lab, AT_EXHAUSTED);
	lab.now += 6 * USEC_HOUR;
	assert_int_equal(reopen(&lab, 0, false), OP_CHANGED);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.limit, 10);
	assert_int_equal(lab.op.attempts, 1);
	assert_int_equal(lab.op.deadline, lab.now + USEC_HOUR);
	assert_int_equal(lab.op.terminal, 0);
	assert_int_equal(lab.op.created, T0);
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	assert_non_null(op_find_attempt(&lab.op, 2));

	lab_at(&lab, AT_EXHAUSTED);
	lab.op.tombstone = true;
	assert_int_equal(reopen(&lab, 3, false), OP_CHANGED);
	assert_int_equal(lab.op.limit, 8);
	assert_false(lab.op.tombstone);

	lab_at(&lab, AT_EXHAUSTED); /* the ceiling */
	assert_int_equal(reopen(&lab, INT32_MAX, false), OP_CHANGED);
	assert_int_equal(lab.op.limit, ATTEMPTS_CEILING);
	lab_at(&lab, AT_EXHAUSTED);
	lab.op.limit = ATTEMPTS_CEILING;
	lab.op.attempts = ATTEMPTS_CEILING;
	assert_int_equal(reopen(&lab, 5, false), OP_REFUSED);

	lab_at(&lab, AT_UNKNOWN);
	lab.op.repeat_until = lab.now;
	assert_int_equal(reopen(&lab, 0, false), OP_REFUSED); /* resolve first */
	lab.op.repeat_until = lab.now + 1;
	assert_int_equal(reopen(&lab, 0, false), OP_CHANGED);
	assert_state(&lab, READY);
	assert_open(&lab, 1);
	lab_at(&lab, AT_HELD_OPEN);
	lab.op.repeat_until = lab.now;
	assert_int_equal(reopen(&lab, 0, false), OP_REFUSED);
	lab_init(&lab); /* held before its first charge: still no window */
	lab_do(&lab, OP_EV_HOLD);
	assert_int_equal(reopen(&lab, 0, false), OP_CHANGED);
	assert_int_equal(lab.op.deadline, 0);
}

static void test_new_key(void **state)
{
	struct lab lab;
	usec_t first;

	(void)state;
	lab_at(&lab, AT_UNKNOWN);
	assert_int_equal(reopen(&lab, 0, true), OP_REFUSED);
	lab_at(&lab, AT_EXHAUSTED);
	first = lab.op.repeat_until;
	lab.now += USEC_HOUR;
	assert_int_equal(reopen(&lab, 0, true), OP_CHANGED);
	assert_int_equal(lab.op.generation, 1);
	assert_int_equal(lab.op.generation_first, 1);
	assert_int_equal(lab.op.repeat_until, 0);
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until, first + USEC_HOUR);
	lab_settle(&lab, 2, CLASS_UNKNOWN, 0);
	first = lab.op.repeat_until;
	lab_next(&lab); /* only the first charge of the generation writes it */
	assert_int_equal(lab.op.repeat_until, first);
	lab_settle(&lab, 3, CLASS_INVALID, 400);
	assert_int_equal(lab_apply(&lab, &(struct op_event){.kind = OP_EV_RESOLVE,
							    .reopen = true,
							    .new_key = true}),
			 OP_REFUSED); /* the 400 stands */
	lab_at(&lab, AT_HELD_OPEN);
	assert_int_equal(lab_apply(&lab, &(struct op_event){.kind = OP_EV_RESOLVE,
							    .reopen = true,
							    .new_key = true}),
			 OP_CHANGED);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.generation, 1);
	assert_int_equal(lab.op.generation_first, 2);
	assert_int_equal(lab.op.limit, 10);
}

static void test_resolve(void **state)
{
	struct lab lab;

	(void)state;
	lab_at(&lab, AT_READY_OPEN);
	lab_apply(&lab,
		  &(struct op_event){.kind = OP_EV_RESOLVE, .applied = true, .remote_id = "ch_42"});
	assert_state(&lab, SUCCEEDED);
	assert_string_equal(lab.op.remote_id, "ch_42");
	assert_true(lab.op.settled_by_hand);
	assert_int_equal(lab.op.terminal, lab.now);
	assert_int_equal(lab_resolve(&lab, true), OP_REFUSED);

	lab_at(&lab, AT_READY_OPEN);
	lab_resolve(&lab, false);
	assert_state(&lab, READY);
	assert_open(&lab, 0);
	lab_at(&lab, AT_UNKNOWN); /* last verdict 400 */
	lab_resolve(&lab, false);
	assert_state(&lab, FAILED);
	lab_at(&lab, AT_HELD_OPEN);
	lab_resolve(&lab, false);
	assert_state(&lab, HELD);
	assert_open(&lab, 0);
	lab_at(&lab, AT_HELD_OPEN);
	lab_probe(&lab, true);
	assert_state(&lab, SUCCEEDED);

	lab_init_plain(&lab);
	lab.op.limit = 1;
	lab_claim(&lab);
	lab_expire(&lab);
	lab_resolve(&lab, false);
	assert_state(&lab, EXHAUSTED);
	lab_init_plain(&lab);
	lab.op.limit = 1;
	lab_claim(&lab);
	lab_expire(&lab);
	lab_apply(&lab, &(struct op_event){.kind = OP_EV_RESOLVE, .reopen = true, .more = 2});
	assert_state(&lab, READY);
	assert_int_equal(lab.op.limit, 3);
}

static void test_probe(void **state)
{
	struct lab lab;
	struct op_event ends = {.kind = OP_EV_PROBE, .then_exhausted = true};

	(void)state;
	lab_init_plain(&lab);
	lab_claim(&lab);
	assert_int_equal(lab_probe(&lab, false), OP_REFUSED); /* an attempt runs */
	lab_expire(&lab);
	lab_probe(&lab, false);
	assert_state(&lab, READY);
	assert_true(lab.op.settled_by_hand);
	assert_int_equal(lab_probe(&lab, false), OP_REFUSED); /* settles once */
	lab_init_plain(&lab);
	lab_claim(&lab);
	lab_expire(&lab);
	lab_apply(&lab, &ends);
	assert_state(&lab, EXHAUSTED);
	lab_at(&lab, AT_UNKNOWN);
	lab_apply(&lab, &ends);
	assert_state(&lab, FAILED);
	lab_at(&lab, AT_READY_OPEN);
	lab_apply(&lab, &ends);
	assert_state(&lab, EXHAUSTED);
}

/* "resolve | disputed, any state but attempting | as said, and the flag goes". */
static void test_resolve_dispute(void **state)
{
	struct lab lab;

	(void)state;
	/* A person said applied, the late answer says not: a person decides again. */
	for (int applied = 0; applied < 2; applied++) {
		lab_init_plain(&lab);
		lab_claim(&lab);
		lab_expire(&lab);
		lab_resolve(&lab, true);
		lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
		assert_true(lab.op.disputed);
		assert_int_equal(lab_probe(&lab, false), OP_REFUSED);
		assert_int_equal(lab_resolve(&lab, applied), OP_CHANGED);
		assert_false(lab.op.disputed);
		if (applied)
			assert_state(&lab, SUCCEEDED);
		else
			assert_state(&lab, READY);
	}
	/* The provider's own success stands, whatever is said of another attempt. */
	lab_init_plain(&lab);
	lab_claim(&lab);
	lab_expire(&lab);
	lab_probe(&lab, false);
	lab_settle(&lab, 1, CLASS_SUCCESS, 200);
	assert_true(lab.op.disputed);
	assert_int_equal(lab_apply(&lab, &(struct op_event){.kind = OP_EV_RESOLVE, .reopen = true}),
			 OP_REFUSED);
	lab_resolve(&lab, false);
	assert_state(&lab, SUCCEEDED);
	assert_false(lab.op.disputed);
	/* In flight: later. */
	lab_init(&lab);
	lab_claim(&lab);
	lab_expire(&lab);
	lab_probe(&lab, false);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_SUCCESS, 200);
	assert_true(lab.op.disputed);
	assert_int_equal(lab_resolve(&lab, true), OP_REFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allowed),
		cmocka_unit_test(test_hold_and_release),
		cmocka_unit_test(test_quarantine),
		cmocka_unit_test(test_release_by_credential),
		cmocka_unit_test(test_release_is_remembered),
		cmocka_unit_test(test_release_picks),
		cmocka_unit_test(test_reopen),
		cmocka_unit_test(test_new_key),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_resolve_dispute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
