/* pure-test */
/* Claim, settle, expiry, void, renewal, time. Late findings: test_operation_late.c; people and
 * probes: test_operation_hand.c; the worked cases: test_operation_worked.c. */
#include "operation_fixture.h"

static void test_init(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.attempts, 0);
	assert_int_equal(lab.op.limit, 5);
	assert_int_equal(lab.op.deadline, 0);
	assert_int_equal(lab.op.created, T0);
	assert_null(op_check(&lab.op));
	lab.policy.attempts = 1000;
	op_init(&lab.op, &lab.policy, lab.op.incarnation, (uint8_t[32]){0}, T0);
	assert_int_equal(lab.op.limit, ATTEMPTS_CEILING);
}

static void test_claim(void **state)
{
	struct lab lab;
	const struct op_attempt *entry;

	(void)state;
	lab_init(&lab);
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	assert_state(&lab, ATTEMPTING);
	assert_int_equal(lab.op.attempts, 1);
	assert_int_equal(lab.op.deadline, T0 + USEC_HOUR);
	assert_int_equal(lab.op.lease_until, T0 + 15 * USEC_SEC);
	assert_string_equal(lab.op.owner, "here");
	entry = op_find_attempt(&lab.op, 1);
	assert_non_null(entry);
	assert_int_equal(entry->start, T0);
	assert_int_equal(entry->class, CLASS_NONE);
	assert_null(op_find_attempt(&lab.op, 2));
	assert_null(op_find_attempt(&lab.op, 17));
	assert_null(op_find_attempt(&lab.op, 0));
	/* The same claim again changes nothing; another one is refused. */
	assert_int_equal(lab_apply(&lab, &(struct op_event){.kind = OP_EV_CLAIM,
							    .token = lab.token[1],
							    .instance = "here"}),
			 OP_UNCHANGED);
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	assert_int_equal(lab_settle(&lab, 1, CLASS_TRANSIENT, 503), OP_CHANGED);
	lab.now = lab.op.next;
	assert_int_equal(
		lab_apply(&lab, &(struct op_event){.kind = OP_EV_CLAIM, .token = lab.token[1]}),
		OP_REFUSED);
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	assert_int_equal(lab.op.deadline, T0 + USEC_HOUR);
}

static void test_claim_by_state(void **state)
{
	(void)state;
	for (int place = 0; place < AT_COUNT; place++) {
		struct lab lab;

		lab_at(&lab, (enum lab_place)place);
		lab.now = usec_max(lab.now, lab.op.next);
		assert_int_equal(lab_claim(&lab), place == AT_READY || place == AT_READY_OPEN
							  ? OP_CHANGED
							  : OP_REFUSED);
	}
}

static void test_claim_refused(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_RATE_LIMITED, 429);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.next, T0 + USEC_SEC);
	lab.now = lab.op.next - 1;
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	lab.now = lab.op.deadline - 500 * USEC_MS + 1;
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	lab.now--;
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	/* Something open, and the time in which a repeat is safe is over. */
	lab_at(&lab, AT_READY_OPEN);
	lab.now = lab.op.next;
	lab.op.repeat_until = lab.now;
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	lab.op.repeat_until++;
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
}

/* A remainder at or below zero is no attempt, though `least` asks for nothing. */
static void test_no_time_at_all(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.policy.attempt_least = 0;
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	lab.now = lab.op.deadline;
	assert_false(op_has_budget(&lab.op, &lab.policy, lab.now));
	assert_int_equal(lab_claim(&lab), OP_REFUSED);
	assert_true(op_has_budget(&lab.op, &lab.policy, lab.now - 1));
}

static void test_repeat_until(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until,
			 T0 + USEC_DAY - USEC_DAY / 100 - 10 * USEC_SEC); /* 1 % is 14.4 min */
	lab_settle(&lab, 1, CLASS_UNKNOWN, 500);
	lab_next(&lab);
	assert_int_equal(lab.op.repeat_until, T0 + USEC_DAY - USEC_DAY / 100 - 10 * USEC_SEC);

	lab_init(&lab);
	lab.policy.key_retention = USEC_HOUR;
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until, T0 + 55 * USEC_MIN - 10 * USEC_SEC);

	lab_init(&lab); /* too short for the margin: never */
	lab.policy.key_retention = 5 * USEC_MIN + 10 * USEC_SEC;
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until, 0);
	lab_settle(&lab, 1, CLASS_UNKNOWN, 500);
	assert_state(&lab, UNKNOWN);

	lab_init_plain(&lab);
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until, 0);
	lab_init(&lab);
	lab.rule = REPEAT_ALWAYS;
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until, USEC_MAX);
}

/* PUT: each claim made while nothing is open writes it, later ones do not move it. */
static void test_repeat_within_hold(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.rule = REPEAT_WITHIN_HOLD;
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until, T0 + 20 * USEC_SEC);
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	lab.now += 5 * USEC_SEC;
	lab_claim(&lab);
	assert_int_equal(lab.op.repeat_until, T0 + 25 * USEC_SEC);
	lab.now += USEC_SEC;
	lab_settle(&lab, 2, CLASS_UNKNOWN, 500);
	assert_state(&lab, READY);
	assert_int_equal(lab_next(&lab), OP_CHANGED);
	assert_int_equal(lab.op.repeat_until, T0 + 25 * USEC_SEC);
	lab.now = T0 + 24 * USEC_SEC; /* the next start would be too late */
	lab_settle(&lab, 3, CLASS_UNKNOWN, 500);
	assert_state(&lab, UNKNOWN);
	assert_open(&lab, 2);
}

/* A key learnt of later, or a shorter retention, never lengthens what stands. */
static void test_repeat_policy_changes(void **state)
{
	struct lab lab;

	(void)state;
	lab_init_plain(&lab);
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	lab.rule = REPEAT_RETENTION;
	lab_next(&lab);
	assert_int_equal(lab.op.repeat_until, 0);

	lab_init(&lab);
	lab.rule = REPEAT_ALWAYS;
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_UNKNOWN, 503);
	lab.rule = REPEAT_RETENTION;
	lab_next(&lab);
	assert_true(lab.op.repeat_until < lab.now + USEC_DAY);
	lab_settle(&lab, 2, CLASS_UNKNOWN, 503);
	lab.rule = REPEAT_NEVER;
	lab_next(&lab);
	assert_int_equal(lab.op.repeat_until, 0);
	lab_settle(&lab, 3, CLASS_TRANSIENT, 503);
	lab.now = lab.op.next;
	assert_state(&lab, UNKNOWN);
	lab_init(&lab);
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_UNKNOWN, 503);
	lab.rule = REPEAT_ALWAYS;
	lab_next(&lab);
	assert_true(lab.op.repeat_until < USEC_MAX);
}

struct settle_row {
	enum outcome_class class;
	bool never; /* retry: never */
	bool last;  /* no attempt left after it */
	bool open;  /* attempt 1 is open before it */
	bool safe;  /* repeating is safe */
	enum op_state to;
};

/* "One function picks the state", row by row. */
static const struct settle_row settle_rows[] = {
	{CLASS_SUCCESS, false, false, false, true, OP_SUCCEEDED},
	{CLASS_SUCCESS, false, true, true, true, OP_SUCCEEDED},
	{CLASS_INVALID, false, false, false, true, OP_FAILED},
	{CLASS_INVALID, false, true, false, true, OP_FAILED},
	{CLASS_INVALID, false, false, true, true, OP_UNKNOWN},
	{CLASS_AUTH, false, false, false, true, OP_HELD},
	{CLASS_AUTH, false, true, false, true, OP_HELD},
	{CLASS_AUTH, false, false, true, true, OP_HELD},
	{CLASS_QUOTA, false, false, false, true, OP_HELD},
	{CLASS_QUOTA, false, true, true, true, OP_HELD},
	{CLASS_RATE_LIMITED, false, false, false, true, OP_READY},
	{CLASS_RATE_LIMITED, false, true, false, true, OP_EXHAUSTED},
	{CLASS_RATE_LIMITED, false, false, true, true, OP_READY},
	{CLASS_RATE_LIMITED, false, true, true, true, OP_UNKNOWN},
	{CLASS_TRANSIENT, false, false, false, false, OP_READY},
	{CLASS_TRANSIENT, true, false, false, true, OP_EXHAUSTED},
	{CLASS_TRANSIENT, true, false, true, true, OP_UNKNOWN},
	{CLASS_DEFERRED, false, false, false, true, OP_READY},
	{CLASS_DEFERRED, false, false, true, true, OP_READY},
	{CLASS_UNKNOWN, false, false, false, true, OP_READY},
	{CLASS_UNKNOWN, false, false, false, false, OP_UNKNOWN},
	{CLASS_UNKNOWN, true, false, false, true, OP_UNKNOWN},
	{CLASS_UNKNOWN, false, true, false, true, OP_UNKNOWN},
	{CLASS_UNKNOWN, false, false, true, true, OP_READY},
};

static void test_settle_rows(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(settle_rows) / sizeof(settle_rows[0]); i++) {
		const struct settle_row *row = &settle_rows[i];
		struct verdict v = verdict_of(row->class, row->class == CLASS_UNKNOWN ? 0 : 418);
		struct lab lab;
		int n = row->open ? 2 : 1;

		lab_init(&lab);
		if (row->open) {
			lab_claim(&lab);
			lab_settle(&lab, 1, CLASS_UNKNOWN, 0);
		}
		if (row->last)
			lab.op.limit = n;
		if (!row->safe)
			lab.rule = REPEAT_NEVER;
		assert_int_equal(lab_next(&lab), OP_CHANGED);
		v.retry_never = row->never;
		lab.now += 123 * USEC_MS;
		assert_int_equal(lab_find(&lab, n, &v), OP_CHANGED);
		assert_string_equal(op_state_name(lab.op.state), op_state_name(row->to));
		assert_int_equal(op_find_attempt(&lab.op, n)->ms, 123);
		assert_int_equal(op_find_attempt(&lab.op, n)->class, row->class);
		assert_int_equal(lab.op.class, row->class);
		assert_string_equal(lab.op.reason, v.reason);
		assert_int_equal(lab.op.terminal, op_is_terminal(&lab.op) ? lab.now : 0);
		assert_int_equal(lab.op.held_since, row->to == OP_HELD ? lab.now : 0);
		assert_int_equal(lab.op.last_end, lab.now);
		assert_int_equal(lab.op.lease_until, 0);
		if (row->to == OP_READY)
			assert_int_equal(lab.op.next, lab.now + USEC_SEC);
		assert_open(&lab, row->class == CLASS_SUCCESS
					  ? 0
					  : (row->open ? 1 : 0) + (row->class == CLASS_UNKNOWN));
		/* The same settle again changes nothing, whatever came of it. */
		assert_int_equal(lab_find(&lab, n, &v), OP_UNCHANGED);
		assert_int_equal(lab.notes, 0);
	}
}

static void test_settle_strangers(void **state)
{
	struct lab lab;
	struct verdict v = verdict_of(CLASS_SUCCESS, 200);

	(void)state;
	lab_init(&lab);
	lab_claim(&lab);
	memcpy(lab.token[2], "someone else's..", OP_TOKEN_LEN);
	assert_int_equal(lab_settle(&lab, 2, CLASS_SUCCESS, 200), OP_STRANGER);
	assert_int_equal(lab_apply(&lab, &(struct op_event){.kind = OP_EV_SETTLE,
							    .token = lab.token[2],
							    .n = 1,
							    .verdict = &v}),
			 OP_STRANGER);
	/* A pair that no rule may make. */
	v.effect = EFFECT_POSSIBLE;
	assert_int_equal(lab_find(&lab, 1, &v), OP_REFUSED);
	assert_state(&lab, ATTEMPTING);
	assert_int_equal(op_running(&lab.op), 1);
	/* The token alone says which attempt it is. */
	v.effect = EFFECT_DEFINITE;
	assert_int_equal(lab_apply(&lab, &(struct op_event){.kind = OP_EV_SETTLE,
							    .token = lab.token[1],
							    .n = 7,
							    .verdict = &v}),
			 OP_CHANGED);
	assert_state(&lab, SUCCEEDED);
	assert_int_equal(op_running(&lab.op), 0);
}

static void test_resolves(void **state)
{
	struct lab lab;
	struct verdict v = verdict_of(CLASS_INVALID, 409);

	(void)state;
	v.resolves = true;
	lab_at(&lab, AT_READY_OPEN);
	lab_next(&lab);
	lab_find(&lab, 2, &v);
	assert_state(&lab, FAILED);
	assert_true(lab.op.settled_by_hand);
	/* With nothing to empty it settles nothing. */
	lab_init(&lab);
	lab_claim(&lab);
	lab_find(&lab, 1, &v);
	assert_state(&lab, FAILED);
	assert_false(lab.op.settled_by_hand);
	/* It empties first: its own effect stays. */
	v = verdict_of(CLASS_UNKNOWN, 500);
	v.resolves = true;
	lab_at(&lab, AT_READY_OPEN);
	lab_next(&lab);
	lab_find(&lab, 2, &v);
	assert_open(&lab, 1);
	assert_true(op_set_has(&lab.op.unresolved, 2));
}

static void test_already_gone(void **state)
{
	static const int statuses[] = {404, 410, 409};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct lab lab;

		lab_at(&lab, AT_READY_OPEN);
		lab.is_delete = true;
		lab_next(&lab);
		lab_settle(&lab, 2, CLASS_INVALID, statuses[i]);
		if (i == 2) {
			assert_state(&lab, UNKNOWN);
			continue;
		}
		assert_state(&lab, SUCCEEDED);
		assert_string_equal(lab.op.reason, "already-gone");
		assert_int_equal(lab.op.class, CLASS_SUCCESS);
		assert_int_equal(lab.op.effect, EFFECT_DEFINITE);
		assert_int_equal(lab_settle(&lab, 2, CLASS_INVALID, statuses[i]), OP_UNCHANGED);
		assert_false(lab.op.disputed);

		/* Nothing open: the input's fault. Not DELETE: it proves nothing. */
		lab_init(&lab);
		lab.is_delete = true;
		lab_claim(&lab);
		lab_settle(&lab, 1, CLASS_INVALID, statuses[i]);
		assert_state(&lab, FAILED);
		lab_at(&lab, AT_READY_OPEN);
		lab_next(&lab);
		lab_settle(&lab, 2, CLASS_INVALID, statuses[i]);
		assert_state(&lab, UNKNOWN);
	}
}

/* B05: the wait that the provider asks for does not fit, and the backoff would have. */
static void test_advice_beyond_deadline(void **state)
{
	struct verdict v = verdict_of(CLASS_RATE_LIMITED, 429);
	struct lab lab;

	(void)state;
	v.advice = 86400 * USEC_SEC;
	lab_init(&lab);
	lab_claim(&lab);
	lab.wait = 86400 * USEC_SEC;
	lab_find(&lab, 1, &v);
	assert_state(&lab, EXHAUSTED);
	assert_string_equal(lab.op.reason, "deadline-before-retry-after");
	assert_int_equal(lab.op.attempts, 1);

	lab_init(&lab); /* no attempt was left anyway */
	lab.op.limit = 1;
	lab_claim(&lab);
	lab.wait = 86400 * USEC_SEC;
	lab_find(&lab, 1, &v);
	assert_state(&lab, EXHAUSTED);
	assert_string_equal(lab.op.reason, "status-429");

	lab_init(&lab); /* the backoff does not fit either */
	lab_claim(&lab);
	lab.now = lab.op.deadline - USEC_SEC;
	lab_find(&lab, 1, &v);
	assert_state(&lab, EXHAUSTED);
	assert_string_equal(lab.op.reason, "status-429");

	v = verdict_of(CLASS_UNKNOWN, 503);
	v.advice = 2 * USEC_HOUR;
	lab_init(&lab);
	lab_claim(&lab);
	lab.wait = 2 * USEC_HOUR;
	lab_find(&lab, 1, &v);
	assert_state(&lab, UNKNOWN);
	assert_string_equal(lab.op.reason, "deadline-before-retry-after");

	lab_init_plain(&lab); /* may not be repeated at all */
	lab_claim(&lab);
	lab.wait = 2 * USEC_HOUR;
	lab_find(&lab, 1, &v);
	assert_state(&lab, UNKNOWN);
	assert_string_equal(lab.op.reason, "status-503");
}

static void test_nothing_left_boundary(void **state)
{
	(void)state;
	for (usec_t over = 0; over <= 1; over++) {
		struct lab lab;

		lab_init(&lab);
		lab_claim(&lab);
		lab.now = lab.op.deadline - lab.wait - lab.policy.attempt_least + over;
		lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
		if (over)
			assert_state(&lab, EXHAUSTED);
		else
			assert_state(&lab, READY);
	}
}

static void test_expire(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	assert_int_equal(lab_do(&lab, OP_EV_EXPIRE), OP_UNCHANGED);
	lab_claim(&lab);
	lab.now = lab.op.lease_until - 1;
	assert_int_equal(lab_do(&lab, OP_EV_EXPIRE), OP_UNCHANGED);
	lab.now++;
	assert_int_equal(lab_do(&lab, OP_EV_EXPIRE), OP_CHANGED);
	assert_state(&lab, READY);
	assert_open(&lab, 1);
	assert_int_equal(lab.op.attempts, 1);
	assert_int_equal(lab.op.class, CLASS_UNKNOWN);
	assert_string_equal(lab.op.reason, "lease-expired");
	assert_int_equal(lab.op.next, lab.now + USEC_SEC);
	assert_int_equal(lab.op.last_end, T0 + 30 * USEC_SEC); /* start + total */
	assert_false(op_find_attempt(&lab.op, 1)->has_verdict);
	assert_int_equal(lab_do(&lab, OP_EV_EXPIRE), OP_UNCHANGED);

	lab_init_plain(&lab);
	lab.policy.attempt_total = USEC_SEC;
	lab_claim(&lab);
	lab.now = lab.op.lease_until + USEC_MIN;
	lab_expire(&lab);
	assert_state(&lab, UNKNOWN);
	assert_int_equal(lab.op.last_end, T0 + 15 * USEC_SEC); /* the lease's end */
}

/* B25: a dead instance's leases run out at once, and so does a lease of 0. */
static void test_expire_at_once(void **state)
{
	struct lab lab;
	struct op_event event = {.kind = OP_EV_EXPIRE, .instance = "elsewhere"};

	(void)state;
	lab_init_plain(&lab);
	lab_claim(&lab);
	lab.now += USEC_SEC;
	assert_int_equal(lab_apply(&lab, &event), OP_UNCHANGED);
	event.instance = "here";
	assert_int_equal(lab_apply(&lab, &event), OP_CHANGED);
	assert_state(&lab, UNKNOWN);
	assert_int_equal(lab.op.last_end, T0 + 30 * USEC_SEC);

	lab_init_plain(&lab);
	lab.policy.lease = 0;
	lab_claim(&lab);
	assert_int_equal(lab_do(&lab, OP_EV_EXPIRE), OP_CHANGED);
	assert_state(&lab, UNKNOWN);
}

/* W31 */
static void test_void(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab_claim(&lab);
	assert_int_equal(lab_void(&lab, 1), OP_CHANGED);
	assert_state(&lab, READY);
	assert_int_equal(lab.op.attempts, 0);
	assert_int_equal(lab.op.deadline, 0);
	assert_null(op_find_attempt(&lab.op, 1));
	assert_int_equal(lab_void(&lab, 1), OP_STRANGER);
	lab.now += USEC_DAY;
	assert_int_equal(lab_claim(&lab), OP_CHANGED);
	assert_int_equal(lab.op.attempts, 1);
	assert_int_equal(lab.op.deadline, lab.now + USEC_HOUR);
	/* The generation's first send is this one. */
	assert_true(lab.op.repeat_until > lab.now + USEC_HOUR);
	lab_settle(&lab, 1, CLASS_TRANSIENT, 503);
	lab_next(&lab);
	assert_int_equal(lab_void(&lab, 2), OP_CHANGED);
	assert_int_equal(lab.op.attempts, 1);
	assert_int_not_equal(lab.op.deadline, 0);
	assert_int_equal(lab.op.class, CLASS_TRANSIENT);
	assert_int_equal(lab_void(&lab, 1), OP_REFUSED); /* that one was sent */
	/* A void after the window's end does not make it ready again. */
	lab_claim(&lab);
	lab.now = lab.op.deadline;
	lab_void(&lab, 2);
	assert_state(&lab, EXHAUSTED);
}

static void test_renew(void **state)
{
	struct lab lab;
	struct op_event event = {.kind = OP_EV_RENEW};

	(void)state;
	lab_init(&lab);
	lab_claim(&lab);
	event.token = lab.token[1];
	assert_int_equal(lab_apply(&lab, &event), OP_UNCHANGED);
	lab.now += 5 * USEC_SEC;
	assert_int_equal(lab_apply(&lab, &event), OP_CHANGED);
	assert_int_equal(lab.op.lease_until, T0 + 20 * USEC_SEC);
	lab.now -= 4 * USEC_SEC; /* never shorter */
	assert_int_equal(lab_apply(&lab, &event), OP_UNCHANGED);
	lab_expire(&lab);
	assert_int_equal(lab_apply(&lab, &event), OP_REFUSED);
	event.token = (const uint8_t *)"nobody's token..";
	assert_int_equal(lab_apply(&lab, &event), OP_STRANGER);
}

static void test_tick(void **state)
{
	struct lab lab;

	(void)state;
	for (int place = 0; place < AT_COUNT; place++) {
		lab_at(&lab, (enum lab_place)place);
		assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_UNCHANGED);
		lab.now += USEC_DAY * 365;
		assert_int_equal(lab_do(&lab, OP_EV_TICK),
				 place == AT_READY_OPEN ? OP_CHANGED : OP_UNCHANGED);
		if (place == AT_READY_OPEN)
			assert_state(&lab, UNKNOWN);
	}
	lab_init(&lab);
	lab_claim(&lab);
	lab_settle(&lab, 1, CLASS_RATE_LIMITED, 429);
	lab.now = lab.op.deadline - lab.policy.attempt_least;
	assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_UNCHANGED);
	lab.now++;
	assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_CHANGED);
	assert_state(&lab, EXHAUSTED);
	assert_int_equal(lab.op.terminal, lab.now);
	assert_int_equal(lab.op.class, CLASS_RATE_LIMITED);
	/* repeat_until alone. */
	lab_at(&lab, AT_READY_OPEN);
	lab.op.repeat_until = T0 + USEC_MIN;
	lab.now = T0 + USEC_MIN - 1;
	assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_UNCHANGED);
	lab.now++;
	assert_int_equal(lab_do(&lab, OP_EV_TICK), OP_CHANGED);
	assert_state(&lab, UNKNOWN);
}

static void test_seen(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	assert_int_equal(lab_do(&lab, OP_EV_SEEN), OP_UNCHANGED);
	lab.now += USEC_DAY;
	assert_int_equal(lab_do(&lab, OP_EV_SEEN), OP_CHANGED);
	assert_int_equal(lab.op.delivered, lab.now);
	lab_claim(&lab);
	lab.now++;
	assert_int_equal(lab_do(&lab, OP_EV_SEEN), OP_UNCHANGED);
}

static void test_ring(void **state)
{
	struct lab lab;

	(void)state;
	lab_init(&lab);
	lab.op.limit = ATTEMPTS_CEILING;
	lab.policy.window = USEC_DAY;
	for (int n = 1; n <= ATTEMPTS_CEILING; n++) {
		assert_int_equal(lab_next(&lab), OP_CHANGED);
		assert_int_equal(lab_settle(&lab, n, CLASS_UNKNOWN, 500), OP_CHANGED);
		assert_open(&lab, n);
		assert_non_null(op_find_attempt(&lab.op, n));
		if (n > OP_RING) {
			assert_null(op_find_attempt(&lab.op, n - OP_RING));
			assert_non_null(op_find_attempt(&lab.op, n - OP_RING + 1));
		}
	}
	assert_state(&lab, UNKNOWN);
	assert_int_equal(lab_next(&lab), OP_REFUSED);
}

static void test_set(void **state)
{
	struct op_set set = {{0, 0}};

	(void)state;
	for (int n = 1; n <= 100; n += 3)
		op_set_add(&set, n);
	assert_int_equal(op_set_count(&set), 34);
	for (int n = -1; n <= 130; n++)
		assert_int_equal(op_set_has(&set, n), n >= 1 && n <= 100 && n % 3 == 1);
	op_set_remove(&set, 64);
	op_set_remove(&set, 100);
	op_set_remove(&set, 100);
	op_set_remove(&set, 101);
	op_set_remove(&set, 0);
	assert_int_equal(op_set_count(&set), 32);
	assert_false(op_set_has(&set, 64));
	assert_false(op_set_has(&set, 100));
}

static void test_rules(void **state)
{
	static const struct {
		const char *method;
		bool forwards;
		usec_t retention;
		bool any_time;
		enum repeat_rule rule;
	} rows[] = {
		{"GET", false, 0, false, REPEAT_ALWAYS},
		{"HEAD", true, 0, false, REPEAT_ALWAYS},
		{"OPTIONS", false, 0, false, REPEAT_ALWAYS},
		{"POST", false, 0, false, REPEAT_NEVER},
		{"POST", false, 0, true, REPEAT_NEVER},
		{"PATCH", false, USEC_DAY, true, REPEAT_NEVER},
		{"get", false, 0, false, REPEAT_NEVER},
		{"POST", true, USEC_DAY, false, REPEAT_RETENTION},
		{"POST", true, 0, false, REPEAT_WITHIN_HOLD},
		{"POST", true, 0, true, REPEAT_WITHIN_HOLD},
		{"PUT", false, 0, false, REPEAT_WITHIN_HOLD},
		{"DELETE", false, 0, false, REPEAT_WITHIN_HOLD},
		{"TRACE", false, 0, false, REPEAT_WITHIN_HOLD},
		{"PUT", false, 0, true, REPEAT_ALWAYS},
		{"DELETE", true, 0, true, REPEAT_ALWAYS},
		{"PUT", true, USEC_DAY, false, REPEAT_RETENTION},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct policy policy = {.forwards_key = rows[i].forwards,
					.key_retention = rows[i].retention,
					.repeat_any_time = rows[i].any_time};

		assert_int_equal(op_repeat_rule(&policy, rows[i].method), rows[i].rule);
	}
	assert_true(op_method_is_idempotent("GET"));
	assert_false(op_method_is_idempotent("POST"));
	assert_false(op_method_is_safe("TRACE"));
}

static void test_names(void **state)
{
	enum op_state parsed;

	(void)state;
	for (int i = 0; i < OP_STATE_COUNT; i++) {
		assert_true(op_state_parse(op_state_name((enum op_state)i), &parsed));
		assert_int_equal(parsed, i);
	}
	assert_string_equal(op_state_name(OP_EXHAUSTED), "exhausted");
	assert_string_equal(op_state_name((enum op_state)99), "other");
	assert_false(op_state_parse("done", &parsed));
	assert_false(op_state_parse("", &parsed));
}

/* op_check() can fail: each of these breaks one rule of a good record. */
static void test_check(void **state)
{
	struct lab lab;
	struct op bad;

	(void)state;
#define BREAKS(place, change)                                                                      \
	do {                                                                                       \
		lab_at(&lab, place);                                                               \
		bad = lab.op;                                                                      \
		assert_null(op_check(&bad));                                                       \
		change;                                                                            \
		assert_non_null(op_check(&bad));                                                   \
	} while (0)
	BREAKS(AT_READY, bad.limit = 101);
	BREAKS(AT_READY, bad.limit = 0);
	BREAKS(AT_UNKNOWN, bad.limit = 1);
	BREAKS(AT_READY, op_set_add(&bad.unresolved, 1));
	BREAKS(AT_UNKNOWN, bad.unresolved = (struct op_set){{0}});
	BREAKS(AT_SUCCEEDED, op_set_add(&bad.unresolved, 1));
	BREAKS(AT_FAILED, op_set_add(&bad.unresolved, 1));
	BREAKS(AT_EXHAUSTED, op_set_add(&bad.unresolved, 1));
	BREAKS(AT_UNKNOWN, bad.unresolved.bits[1] = UINT64_C(1) << 36);
	BREAKS(AT_FAILED, bad.class = CLASS_TRANSIENT);
	BREAKS(AT_READY, bad.quarantined = true);
	BREAKS(AT_READY_OPEN, bad.disputed = true);
	BREAKS(AT_EXHAUSTED, bad.disputed = true);
	BREAKS(AT_READY, bad.terminal = 1);
	BREAKS(AT_READY, bad.held_since = 1);
	BREAKS(AT_READY, bad.deadline = 1);
	BREAKS(AT_SUCCEEDED, bad.deadline = 0);
	BREAKS(AT_ATTEMPTING, bad.token[0] ^= 1);
	BREAKS(AT_ATTEMPTING, memset(bad.ring, 0, sizeof(bad.ring)));
	BREAKS(AT_ATTEMPTING, op_set_add(&bad.unresolved, 1));
	BREAKS(AT_ATTEMPTING, bad.last_n = 2);
	BREAKS(AT_SUCCEEDED, bad.token[0] = 1);
	BREAKS(AT_SUCCEEDED, bad.owner[0] = 'x');
	BREAKS(AT_SUCCEEDED, bad.lease_until = 1);
	BREAKS(AT_SUCCEEDED, bad.ring[0].n = 2);
	BREAKS(AT_SUCCEEDED, bad.ring[0].class = CLASS_NONE);
	BREAKS(AT_SUCCEEDED, memset(bad.reason, 'r', sizeof(bad.reason)));
	BREAKS(AT_SUCCEEDED, bad.state = (enum op_state)17);
#undef BREAKS
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_claim),
		cmocka_unit_test(test_claim_by_state),
		cmocka_unit_test(test_claim_refused),
		cmocka_unit_test(test_no_time_at_all),
		cmocka_unit_test(test_repeat_until),
		cmocka_unit_test(test_repeat_within_hold),
		cmocka_unit_test(test_repeat_policy_changes),
		cmocka_unit_test(test_settle_rows),
		cmocka_unit_test(test_settle_strangers),
		cmocka_unit_test(test_resolves),
		cmocka_unit_test(test_already_gone),
		cmocka_unit_test(test_advice_beyond_deadline),
		cmocka_unit_test(test_nothing_left_boundary),
		cmocka_unit_test(test_expire),
		cmocka_unit_test(test_expire_at_once),
		cmocka_unit_test(test_void),
		cmocka_unit_test(test_renew),
		cmocka_unit_test(test_tick),
		cmocka_unit_test(test_seen),
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
