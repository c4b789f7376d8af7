/* pure-test */
/* Late truth: design section 4, sentence by sentence. */
#include "operation_fixture.h"

/* Attempt 1 stalls until its lease is over. */
static void stall(struct lab *lab)
{
	assert_int_equal(lab_next(lab), OP_CHANGED);
	assert_int_equal(lab_expire(lab), OP_CHANGED);
}

static void test_success_from_every_state(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab); /* ready */
	stall(&lab);
	assert_state(&lab, READY);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
	assert_state(&lab, SUCCEEDED);
	assert_int_equal(lab.notes, OP_NOTE_LATE);
	assert_false(lab.op.disputed);
	assert_int_equal(lab.op.terminal, lab.now);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_UNCHANGED);
	assert_int_equal(lab.notes, 0);

	lab_init_plain(&lab); /* unknown */
	stall(&lab);
	assert_state(&lab, UNKNOWN);
	lab_settle(&lab, 1, CLASS_SUCCESS, 201);
	assert_state(&lab, SUCCEEDED);
	assert_int_equal(lab.op.status, 201);

	lab_at(&lab, AT_HELD_OPEN); /* held */
	lab_settle(&lab, 1, CLASS_SUCCESS, 200);
	assert_state(&lab, SUCCEEDED);
	assert_int_equal(lab.op.class, CLASS_SUCCESS);
	assert_int_equal(lab.op.held_since, 0);

	lab_init_plain(&lab); /* exhausted: a person had said "not applied" */
	lab.op.limit = 1;
	stall(&lab);
	lab_resolve(&lab, false);
	assert_state(&lab, EXHAUSTED);
	lab_settle(&lab, 1, CLASS_SUCCESS, 200);
	assert_state(&lab, SUCCEEDED);
	assert_true(lab.op.disputed);
	assert_int_equal(lab.notes, OP_NOTE_LATE | OP_NOTE_DISPUTED);
}

/* In flight it is recorded, and merged at the running attempt's own end, whatever that is. */
static void test_success_in_flight(void **state)
{
	(void)state;
	for (int end = 0; end < 5; end++) {
		struct lab lab;

		lab_init(&lab);
		stall(&lab);
		lab_next(&lab);
		assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
		assert_state(&lab, ATTEMPTING);
		assert_int_equal(op_find_attempt(&lab.op, 1)->class, CLASS_SUCCESS);
		assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_UNCHANGED);
		switch (end) {
		case 0:
			lab_settle(&lab, 2, CLASS_INVALID, 409);
			break;
		case 1:
			lab_settle(&lab, 2, CLASS_UNKNOWN, 0);
			break;
		case 2:
			lab_expire(&lab);
			break;
		case 3:
			lab_void(&lab, 2);
			break;
		default:
			lab_settle(&lab, 2, CLASS_SUCCESS, 202);
			break;
		}
		assert_state(&lab, SUCCEEDED);
		assert_open(&lab, 0);
		assert_int_equal(lab.op.class, CLASS_SUCCESS);
		assert_int_equal(lab.op.status, end == 4 ? 202 : 200);
		assert_int_equal(lab_next(&lab), OP_REFUSED);
	}
}

/* The entry of attempt 1 has left the ring long ago. */
static void test_evicted(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.op.limit = 30;
	for (int n = 1; n <= 17; n++) {
		lab_next(&lab);
		lab_settle(&lab, n, n == 2 ? CLASS_TRANSIENT : CLASS_UNKNOWN, 500);
	}
	assert_open(&lab, 16);
	assert_int_equal(lab_settle(&lab, 1, CLASS_UNKNOWN, 500), OP_UNCHANGED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_CHANGED);
	assert_open(&lab, 15);
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_UNCHANGED);
	assert_open(&lab, 15);
	assert_int_equal(lab_settle(&lab, 19, CLASS_SUCCESS, 200), OP_STRANGER);
	lab_next(&lab); /* 18 takes the place of 2 */
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
	assert_state(&lab, ATTEMPTING);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_UNCHANGED);
	lab_settle(&lab, 18, CLASS_UNKNOWN, 0);
	assert_state(&lab, SUCCEEDED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_UNCHANGED);
}

static void test_tombstone(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	lab.op.limit = 1;
	stall(&lab);
	lab_resolve(&lab, false);
	lab.op.tombstone = true;
	memset(lab.op.ring, 0, sizeof(lab.op.ring));
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_UNCHANGED);
	assert_int_equal(lab_settle(&lab, 2, CLASS_SUCCESS, 200), OP_STRANGER);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
	assert_state(&lab, SUCCEEDED);
	assert_true(lab.op.disputed);
	assert_true(lab.op.tombstone);
}

static void test_success_in_failed(void **state)
{
	struct lab lab;
	struct verdict v = verdict_of(CLASS_INVALID, 400);

	(void)state;
	v.resolves = true;
	lab_init(&lab);
	stall(&lab);
	lab_next(&lab);
	lab_find(&lab, 2, &v);
	assert_state(&lab, FAILED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
	assert_state(&lab, FAILED);
	assert_true(lab.op.disputed);
	assert_int_equal(lab.notes, OP_NOTE_LATE | OP_NOTE_DISPUTED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_UNCHANGED);
	assert_int_equal(lab.op.status, 400);
	/* Only a person gets it out of there. */
	assert_int_equal(lab_probe(&lab, true), OP_REFUSED);
	assert_int_equal(lab_resolve(&lab, true), OP_CHANGED);
	assert_state(&lab, SUCCEEDED);
	assert_false(lab.op.disputed);
}

/* Contradicts a rule's `resolves`, while the operation went on. */
static void test_success_against_resolves(void **state)
{
	struct lab lab;
	struct verdict v = verdict_of(CLASS_TRANSIENT, 503);

	(void)state;
	v.resolves = true;
	lab_init(&lab);
	stall(&lab);
	lab_next(&lab);
	lab_find(&lab, 2, &v);
	assert_state(&lab, READY);
	assert_open(&lab, 0);
	lab_settle(&lab, 1, CLASS_SUCCESS, 200);
	assert_state(&lab, SUCCEEDED);
	assert_true(lab.op.disputed);
}

/* A success that a person had declared is only confirmed. */
static void test_success_confirms(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	stall(&lab);
	lab_resolve(&lab, true);
	assert_state(&lab, SUCCEEDED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
	assert_false(lab.op.disputed);
	assert_int_equal(lab.notes, OP_NOTE_LATE);
	assert_int_equal(lab.op.class, CLASS_SUCCESS);
}

static void test_duplicate_effect(void **state)
{
	(void)state;
	for (int covered = 0; covered < 4; covered++) {
		struct lab lab;
		unsigned want = covered == 3 ? 0 : OP_NOTE_DUPLICATE_EFFECT;

		lab_init(&lab);
		stall(&lab);
		lab_next(&lab);
		lab.repeatable = covered & 1;
		lab_settle(&lab, 2, CLASS_SUCCESS, 200);
		assert_int_equal(lab.notes, 0);
		lab.repeatable = covered & 2;
		assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_CHANGED);
		assert_int_equal(lab.notes, OP_NOTE_LATE | want);
		assert_state(&lab, SUCCEEDED);
		/* Counted once. */
		assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_UNCHANGED);
		assert_int_equal(lab.notes, 0);

		/* The other way round: the late one first. */
		lab_init(&lab);
		stall(&lab);
		lab_next(&lab);
		lab.repeatable = covered & 1;
		lab_settle(&lab, 1, CLASS_SUCCESS, 200);
		assert_int_equal(lab.notes, OP_NOTE_LATE);
		lab.repeatable = covered & 2;
		lab_settle(&lab, 2, CLASS_SUCCESS, 200);
		assert_int_equal(lab.notes, want);
	}
}

static void test_none(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab); /* the only open attempt: ready again, at the advised time */
	stall(&lab);
	lab.wait = USEC_MIN;
	assert_int_equal(lab_settle(&lab, 1, CLASS_RATE_LIMITED, 429), OP_CHANGED);
	assert_int_equal(lab.notes, OP_NOTE_LATE);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.next, lab.now + USEC_MIN);
	assert_int_equal(lab.op.class, CLASS_RATE_LIMITED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_RATE_LIMITED, 429), OP_UNCHANGED);

	lab_init(&lab); /* the verdict of a lower number does not become the last */
	stall(&lab);
	stall(&lab);
	lab_settle(&lab, 1, CLASS_AUTH, 401);
	assert_state(&lab, READY);
	assert_open(&lab, 1);
	lab_settle(&lab, 2, CLASS_AUTH, 401);
	assert_state(&lab, HELD);
	assert_open(&lab, 0);

	lab_init_plain(&lab);
	stall(&lab);
	lab_settle(&lab, 1, CLASS_INVALID, 422);
	assert_state(&lab, FAILED);
}

static void test_none_in_succeeded(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	stall(&lab);
	lab_resolve(&lab, true);
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_CHANGED);
	assert_state(&lab, SUCCEEDED);
	assert_true(lab.op.disputed);
	assert_int_equal(lab.notes, OP_NOTE_LATE | OP_NOTE_DISPUTED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_UNCHANGED);
	assert_int_equal(lab_next(&lab), OP_REFUSED);
}

/* In flight: it waits for the running attempt's end. */
static void test_none_in_flight(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	stall(&lab);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_INVALID, 400);
	assert_state(&lab, ATTEMPTING);
	assert_open(&lab, 0);
	lab_settle(&lab, 2, CLASS_TRANSIENT, 503);
	assert_state(&lab, READY);

	lab_init(&lab);
	stall(&lab);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_INVALID, 400);
	lab_void(&lab, 2); /* the 400 is the last verdict then */
	assert_state(&lab, FAILED);
}

/* The owner's own "may have been applied" after its lease: history, and an end where it says so. */
static void test_possible(void **state)
{
	struct lab lab;
	struct verdict v = verdict_of(CLASS_UNKNOWN, 500);

	(void)state;
	lab_init(&lab);
	stall(&lab);
	v.retry_never = true;
	assert_int_equal(lab_find(&lab, 1, &v), OP_CHANGED);
	assert_state(&lab, UNKNOWN);
	assert_open(&lab, 1);
	assert_string_equal(lab.op.reason, "status-500");
	assert_int_equal(lab_find(&lab, 1, &v), OP_UNCHANGED);
	/* A person had settled it: it does not come back. */
	lab_init_plain(&lab);
	lab.op.limit = 1;
	stall(&lab);
	lab_resolve(&lab, false);
	assert_state(&lab, EXHAUSTED);
	lab_settle(&lab, 1, CLASS_UNKNOWN, 0);
	assert_state(&lab, EXHAUSTED);
	assert_open(&lab, 0);
}

/* Exhausted never becomes ready by itself, though the probe left attempts. */
static void test_exhausted_stays(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	stall(&lab);
	lab_apply(&lab, &(struct op_event){.kind = OP_EV_PROBE, .then_exhausted = true});
	assert_state(&lab, EXHAUSTED);
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	assert_state(&lab, EXHAUSTED);
	lab_init_plain(&lab);
	stall(&lab);
	lab_apply(&lab, &(struct op_event){.kind = OP_EV_PROBE, .then_exhausted = true});
	lab_settle(&lab, 1, CLASS_INVALID, 400);
	assert_state(&lab, FAILED);
}

/* A rule's `resolves` that comes late speaks for what was sent before it. */
static void test_late_resolves(void **state)
{
	struct lab lab;
	struct verdict v = verdict_of(CLASS_TRANSIENT, 503);

	(void)state;
	v.resolves = true;
	lab_init(&lab);
	stall(&lab);
	stall(&lab);
	stall(&lab);
	assert_open(&lab, 3);
	lab_find(&lab, 2, &v);
	assert_open(&lab, 1);
	assert_true(op_set_has(&lab.op.unresolved, 3));
	assert_true(lab.op.settled_by_hand);
}

static void test_late_already_gone(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.is_delete = true;
	stall(&lab);
	stall(&lab);
	lab_settle(&lab, 2, CLASS_INVALID, 404);
	assert_state(&lab, SUCCEEDED);
	assert_string_equal(lab.op.reason, "already-gone");
	lab_init(&lab);
	lab.is_delete = true;
	stall(&lab);
	lab_settle(&lab, 1, CLASS_INVALID, 404);
	assert_state(&lab, FAILED);
}

/* Section 7, lost replies: a late effect none, and the charge goes back. */
static void test_void(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	stall(&lab);
	assert_state(&lab, UNKNOWN);
	assert_int_equal(lab_void(&lab, 1), OP_CHANGED);
	assert_int_equal(lab.notes, OP_NOTE_LATE);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.attempts, 0);
	assert_int_equal(lab.op.deadline, 0);
	assert_int_equal(lab.op.class, CLASS_NONE);
	assert_int_equal(lab_void(&lab, 1), OP_STRANGER);
	assert_int_equal(lab_settle(&lab, 1, CLASS_SUCCESS, 200), OP_STRANGER);
	assert_int_equal(lab_claim(&lab), OP_CHANGED);

	/* The verdict before it counts again. */
	lab_init_plain(&lab);
	lab_next(&lab);
	lab_settle(&lab, 1, CLASS_RATE_LIMITED, 429);
	stall(&lab);
	lab_void(&lab, 2);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.attempts, 1);
	assert_int_equal(lab.op.class, CLASS_RATE_LIMITED);
	assert_string_equal(lab.op.reason, "status-429");
	/* One that was settled was sent. */
	stall(&lab);
	lab_settle(&lab, 2, CLASS_UNKNOWN, 0);
	assert_int_equal(lab_void(&lab, 2), OP_REFUSED);
}

/* Attempt 1 is struck while attempt 2 exists: no number is used twice. */
static void test_void_below(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	stall(&lab);
	lab_next(&lab);
	assert_int_equal(lab_void(&lab, 1), OP_CHANGED);
	assert_state(&lab, ATTEMPTING);
	assert_int_equal(lab.op.attempts, 1);
	lab_settle(&lab, 2, CLASS_UNKNOWN, 0);
	assert_state(&lab, READY);
	assert_int_equal(lab_next(&lab), OP_CHANGED);
	assert_int_equal(op_running(&lab.op), 3);
	assert_int_equal(lab.op.attempts, 2);
	assert_open(&lab, 1);
	assert_int_equal(lab_settle(&lab, 2, CLASS_TRANSIENT, 503), OP_CHANGED);
	assert_open(&lab, 0);
	lab_void(&lab, 3);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.attempts, 1);
	/* Struck while the other is in flight and then void too: as if nothing had been. */
	lab_init(&lab);
	stall(&lab);
	lab_next(&lab);
	lab_void(&lab, 1);
	lab_void(&lab, 2);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.attempts, 0);
	assert_int_equal(lab.op.deadline, 0);
}

static void test_void_in_succeeded(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	stall(&lab);
	lab_resolve(&lab, true);
	lab_void(&lab, 1);
	assert_state(&lab, SUCCEEDED);
	assert_true(lab.op.disputed);
	assert_int_equal(lab.op.attempts, 0);
}

/* The window does not run while the operation is held, for a late finding neither. */
static void test_held_window(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	stall(&lab);
	lab_do(&lab, OP_EV_HOLD);
	assert_state(&lab, HELD);
	lab.now += 10 * USEC_HOUR;
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	assert_state(&lab, HELD);
	lab_do(&lab, OP_EV_RELEASE);
	assert_state(&lab, READY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_success_from_every_state),
		cmocka_unit_test(test_success_in_flight),
		cmocka_unit_test(test_evicted),
		cmocka_unit_test(test_tombstone),
		cmocka_unit_test(test_success_in_failed),
		cmocka_unit_test(test_success_against_resolves),
		cmocka_unit_test(test_success_confirms),
		cmocka_unit_test(test_duplicate_effect),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_none_in_succeeded),
		cmocka_unit_test(test_none_in_flight),
		cmocka_unit_test(test_possible),
		cmocka_unit_test(test_exhausted_stays),
		cmocka_unit_test(test_late_resolves),
		cmocka_unit_test(test_late_already_gone),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_void_below),
		cmocka_unit_test(test_void_in_succeeded),
		cmocka_unit_test(test_held_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
