/* pure-test */
/* A random walk over legal and illegal events, beside a model that knows nothing of the machine's
 * code (operation_model.h) and says after each step what design sections 4 and 13 allow the record
 * to be.
 *
 * STINT_PROPERTY_STEPS (200000) and STINT_PROPERTY_SEED choose the walk; the seed is printed. */
#include "operation_model.h"

/* What must hold of the record after every step, whatever the step was. */
static void check_step(struct walk *w)
{
	const struct model *m = &w->m;
	const struct op *op = &w->op;
	const char *problem = op_check(op);

	if (problem)
		die(w, problem);
	MUST(w, op->attempts == model_charged(m));
	MUST(w, model_sent(m) <= op->attempts);
	MUST(w, op->attempts <= op->limit && op->limit <= CEILING && op->limit == m->limit);
	for (int n = 1; n <= CEILING; n++)
		MUST(w, op_set_has(&op->unresolved, n) == m->open[n]);
	if (model_open(m) > 0)
		MUST(w, op->state != OP_FAILED && op->state != OP_EXHAUSTED &&
				op->state != OP_SUCCEEDED);
	else
		MUST(w, op->state != OP_UNKNOWN);
	MUST(w, (op->state == OP_ATTEMPTING) == (m->running != 0));
	if (m->running)
		MUST(w, memcmp(op->token, m->token[m->running], OP_TOKEN_LEN) == 0);
	if (m->success && !m->running)
		MUST(w, op->state == OP_SUCCEEDED);
	if (!m->held)
		MUST(w, op->deadline == m->deadline);
	if (op->disputed)
		MUST(w, op_is_terminal(op) || op->state == OP_ATTEMPTING);
}

/* --- applying -------------------------------------------------------------------------------- */

static enum op_result apply(struct walk *w, struct op_event *event, const char *text)
{
	struct model *m = &w->m;
	struct op after;
	unsigned notes = ~0u;
	enum op_result result;
	bool was_terminal = op_is_terminal(&w->op);

	event->now = w->now;
	memset(&after, 0xa5, sizeof(after));
	say(w, text);
	result = op_apply(&w->op, &m->policy, event, &after, &notes);
	if (result != OP_CHANGED) {
		MUST(w, notes == 0);
		if (result == OP_UNCHANGED)
			MUST(w, memcmp(&after, &w->op, sizeof(after)) == 0);
		else
			w->refused[event->kind]++;
		return result;
	}
	MUST(w, after.counter == w->op.counter + 1);
	MUST(w, !(notes & OP_NOTE_DISPUTED) || (after.disputed && !w->op.disputed));
	w->changed[event->kind]++;
	w->late += notes & OP_NOTE_LATE ? 1 : 0;
	w->disputed += notes & OP_NOTE_DISPUTED ? 1 : 0;
	w->duplicate += notes & OP_NOTE_DUPLICATE_EFFECT ? 1 : 0;
	/* A terminal state is left by a person alone, or by late truth for another terminal one. */
	if (was_terminal && !op_is_terminal(&after))
		MUST(w, event->kind == OP_EV_REOPEN || event->kind == OP_EV_RESOLVE);
	w->op = after;
	m->closed = op_is_terminal(&after);
	m->flagged = after.quarantined;
	w->reached[after.state]++;
	return result;
}

/* The window stands still while the record is held. */
static void model_follow_hold(struct walk *w)
{
	struct model *m = &w->m;
	bool held = w->op.state == OP_HELD;

	if (held && !m->held)
		m->held_since = w->now;
	if (!held && m->held && m->deadline)
		m->deadline += w->now - m->held_since;
	m->held = held;
}

/* --- events ---------------------------------------------------------------------------------- */

static void claim(struct walk *w)
{
	uint8_t token[OP_TOKEN_LEN] = {0};
	struct op_event event = {.kind = OP_EV_CLAIM, .token = token, .instance = "one"};
	enum op_result result;
	int again = w->m.highest && chance(w, 5) ? 1 + pick(w, w->m.highest) : 0;

	if (again && w->m.learnt[again] >= RUNNING && !w->m.gone[again])
		memcpy(token, w->m.token[again], OP_TOKEN_LEN);
	else {
		again = 0;
		snprintf((char *)token, sizeof(token), "t%u", ++w->tokens);
	}
	event.repeat = w->m.rule;
	event.hold_until = w->now + w->m.policy.hold;
	result = apply(w, &event, "claim");
	if (result == OP_CHANGED) {
		MUST(w, !again);
		model_claimed(w, event.hold_until, token);
		MUST(w, op_find_attempt(&w->op, w->m.highest) != NULL);
	} else {
		MUST(w, result == OP_REFUSED || (again && again == w->m.running));
	}
}

static struct verdict random_verdict(struct walk *w)
{
	static const int statuses[] = {0, 200, 404, 410, 409, 429, 500, 503};
	struct verdict v = {.class = (enum outcome_class)(1 + pick(w, CLASS_COUNT - 1)),
			    .advice = -1,
			    .rule_wait = -1};

	bool stubborn = w->m.policy.attempts > 20 && !chance(w, 2); /* reaches the ceiling */

	if (stubborn || (v.class == CLASS_SUCCESS && chance(w, 50)))
		v.class = chance(w, 50) ? CLASS_UNKNOWN : CLASS_RATE_LIMITED;
	v.effect = v.class == CLASS_SUCCESS   ? EFFECT_DEFINITE
		   : v.class == CLASS_UNKNOWN ? EFFECT_POSSIBLE
					      : EFFECT_NONE;
	v.status = statuses[pick(w, 8)];
	v.fault = v.status ? FAULT_NONE : FAULT_TIMEOUT;
	v.retry_never = !stubborn && chance(w, 5);
	v.resolves = chance(w, 5);
	v.advice = chance(w, 20) ? pick(w, 600) * USEC_SEC : -1;
	snprintf(v.reason, sizeof(v.reason), "status-%d", v.status);
	return v;
}

static bool repeats(enum outcome_class class)
{
	return class != CLASS_SUCCESS && class != CLASS_INVALID && class != CLASS_AUTH &&
	       class != CLASS_QUOTA;
}

/* The end of the attempt in flight: the state is foreseen in full. */
static void settle_running(struct walk *w, struct op_event *event)
{
	struct model *m = &w->m;
	int n = m->running;
	const struct verdict *v = event->verdict;
	enum outcome_class class = v->class;
	usec_t start;
	enum op_state want;

	m->sent[n] = m->sent[n] || v->effect != EFFECT_NONE;
	MUST(w, apply(w, event, outcome_class_name(v->class)) == OP_CHANGED);
	model_learn(w, OP_ATTEMPTING, n, v);
	if (repeats(class))
		m->not_before = w->now + event->wait;
	start = w->now > m->not_before ? w->now : m->not_before;
	want = model_state(w, class, v->retry_never, start);
	model_follow_hold(w);
	MUST(w, w->op.state == want);
	MUST(w, w->op.last_end == w->now);
}

static void settle(struct walk *w)
{
	struct model *m = &w->m;
	struct verdict v = random_verdict(w);
	uint8_t bogus[OP_TOKEN_LEN] = "bogus";
	int n = m->running && chance(w, 70) ? m->running : 1 + pick(w, m->highest + 1);
	struct op_event event = {.kind = OP_EV_SETTLE,
				 .token = m->token[n],
				 .n = n,
				 .verdict = &v,
				 .wait = pick(w, 3) ? pick(w, 20) * USEC_SEC
						    : pick(w, 4000) * USEC_SEC,
				 .is_delete = m->is_delete,
				 .repeatable = chance(w, 50)};
	enum op_result result;
	enum op_state before = w->op.state;
	bool evicted = m->gone[n];

	if (chance(w, 4))
		event.token = bogus;
	else if (!evicted && m->learnt[n] >= RUNNING && chance(w, 4))
		event.n = pick(w, CEILING); /* the token says better which it is */
	if (chance(w, 2))
		v.effect = (enum effect)((v.effect + 1) % 3);
	if (v.effect != (v.class == CLASS_SUCCESS   ? EFFECT_DEFINITE
			 : v.class == CLASS_UNKNOWN ? EFFECT_POSSIBLE
						    : EFFECT_NONE)) {
		MUST(w, apply(w, &event, "illegal pair") == OP_REFUSED);
		return;
	}
	if (n == m->running && event.token != bogus) {
		settle_running(w, &event);
		return;
	}
	/* Struck: nothing was sent under it, so its owner has no finding. Gone, settled, and what took
	 * its place was struck: nothing in the record is left of it. */
	if ((m->learnt[n] == STRUCK && (evicted || n + OP_RING - 1 <= m->highest)) ||
	    (evicted && !m->open[n] && n + OP_RING - 1 > m->highest))
		return;
	if ((event.token == bogus && !evicted) || n > m->highest ||
	    (m->learnt[n] < RUNNING && !evicted)) {
		MUST(w, apply(w, &event, "stranger") == OP_STRANGER);
		return;
	}
	if (!model_is_news(w, n, &v)) {
		result = apply(w, &event, "known");
		MUST(w, result == OP_UNCHANGED);
		return;
	}
	MUST(w, apply(w, &event, "late finding") == OP_CHANGED);
	model_learn(w, before, n, &v);
	m->sent[n] = m->sent[n] || v.effect != EFFECT_NONE;
	m->not_before = 0;
	if (before == OP_SUCCEEDED || before == OP_FAILED || before == OP_ATTEMPTING)
		MUST(w, w->op.state == before);
	if (before == OP_EXHAUSTED)
		MUST(w, op_is_terminal(&w->op));
	model_follow_hold(w);
}

static void expire(struct walk *w)
{
	struct model *m = &w->m;
	struct op_event event = {.kind = OP_EV_EXPIRE, .wait = pick(w, 30) * USEC_SEC};
	bool dead = chance(w, 10);
	int n = m->running;
	usec_t lease = w->op.lease_until;
	enum op_state want;

	event.instance = dead ? "one" : chance(w, 50) ? "two" : NULL;
	if (!n || (w->now < lease && !dead)) {
		MUST(w, apply(w, &event, "early expiry") == OP_UNCHANGED);
		return;
	}
	MUST(w, apply(w, &event, "expire") == OP_CHANGED);
	m->learnt[n] = EXPIRED;
	m->sent[n] = chance(w, 50);
	m->open[n] = !m->success;
	m->running = 0;
	if (m->success)
		model_empty(m, CEILING);
	m->not_before = w->now + event.wait;
	want = model_state(w, CLASS_UNKNOWN, false, m->not_before);
	model_follow_hold(w);
	MUST(w, w->op.state == want);
}

static void strike(struct walk *w)
{
	struct model *m = &w->m;
	int n = m->running && chance(w, 60) ? m->running : 1 + pick(w, m->highest + 1);
	struct op_event event = {.kind = OP_EV_VOID, .token = m->token[n]};
	bool in_time = n == m->running;
	bool known = !m->gone[n] && n <= m->highest && m->learnt[n] >= RUNNING;
	enum op_state before = w->op.state;

	if (m->sent[n] && known && (in_time || m->learnt[n] == EXPIRED))
		return; /* void speaks of claims that led to no send */
	if (!known) {
		MUST(w, apply(w, &event, "void of nothing") == OP_STRANGER);
		return;
	}
	if (!in_time && m->learnt[n] != EXPIRED) {
		MUST(w, apply(w, &event, "void of a settled one") == OP_REFUSED);
		return;
	}
	MUST(w, apply(w, &event, "void") == OP_CHANGED);
	if (in_time)
		m->running = 0;
	model_strike(m, n);
	if (m->success && !m->running)
		model_empty(m, CEILING);
	m->not_before = 0;
	if (!in_time && (before == OP_SUCCEEDED || before == OP_FAILED || before == OP_EXHAUSTED))
		MUST(w, w->op.state == before);
	model_follow_hold(w);
}

static void by_hand(struct walk *w)
{
	static const enum op_event_kind kinds[] = {
		OP_EV_HOLD,    OP_EV_RELEASE, OP_EV_RELEASE_CREDENTIAL, OP_EV_REOPEN, OP_EV_REOPEN,
		OP_EV_RESOLVE, OP_EV_PROBE,
	};
	static const char *const names[] = {"hold",   "release", "credential", "reopen",
					    "reopen", "resolve", "probe"};
	struct model *m = &w->m;
	int i = pick(w, 7);
	struct op_event event = {.kind = kinds[i],
				 .applied = chance(w, 30),
				 .then_exhausted = chance(w, 20),
				 .reopen = chance(w, 20),
				 .more = chance(w, 50) ? pick(w, 120) : 0,
				 .new_key = chance(w, 20)};
	struct op before = w->op;
	bool hand = kinds[i] == OP_EV_RESOLVE || kinds[i] == OP_EV_PROBE;
	bool reopened = kinds[i] == OP_EV_REOPEN ||
			(kinds[i] == OP_EV_RESOLVE && event.reopen && !event.applied);

	if (apply(w, &event, names[i]) != OP_CHANGED) {
		/* What the table allows is not refused, but for "resolve first" and the ceiling. */
		if (kinds[i] == OP_EV_RELEASE)
			MUST(w, before.state != OP_HELD);
		if (kinds[i] == OP_EV_PROBE)
			MUST(w, m->running || model_open(m) == 0);
		if (kinds[i] == OP_EV_HOLD)
			MUST(w, before.quarantined || (before.state != OP_READY && !m->running &&
						       before.state != OP_UNKNOWN));
		return;
	}
	if (hand) {
		MUST(w, !m->running);
		MUST(w, model_open(m) > 0 || before.disputed);
		if (event.applied)
			MUST(w, w->op.state == OP_SUCCEEDED);
		model_empty(m, CEILING);
	}
	if (kinds[i] == OP_EV_REOPEN) {
		MUST(w, before.state == OP_EXHAUSTED || before.state == OP_HELD ||
				before.state == OP_UNKNOWN);
		MUST(w, model_open(m) == 0 || (w->now < m->safe_until && !event.new_key));
	}
	if (kinds[i] == OP_EV_RELEASE_CREDENTIAL)
		MUST(w, before.class == CLASS_AUTH && !before.quarantined);
	if (w->op.generation != before.generation) {
		MUST(w, event.new_key && model_open(m) == 0);
		m->generation_first = m->highest;
		m->safe_until = m->rule == REPEAT_ALWAYS ? USEC_MAX : 0;
	}
	model_follow_hold(w);
	if (reopened) {
		m->limit += event.more ? event.more : m->policy.attempts;
		m->limit = m->limit < CEILING ? m->limit : CEILING;
		if (m->deadline)
			m->deadline = w->now + m->policy.window;
		if (m->held)
			m->held_since = w->now;
	}
	m->not_before = 0;
}

static void time_alone(struct walk *w)
{
	struct op_event event = {.kind = chance(w, 70) ? OP_EV_TICK : OP_EV_SEEN};
	struct model *m = &w->m;
	enum op_state before = w->op.state;
	bool over;

	if (event.kind == OP_EV_SEEN) {
		if (apply(w, &event, "seen") == OP_CHANGED)
			MUST(w, model_charged(m) == 0 && w->op.state == before);
		return;
	}
	over = m->deadline && w->now + m->policy.attempt_least > m->deadline;
	if (apply(w, &event, "tick") != OP_CHANGED) {
		MUST(w, before != OP_READY ||
				(!over && (model_open(m) == 0 || w->now < m->safe_until)));
		return;
	}
	MUST(w, before == OP_READY && m->deadline);
	MUST(w, w->op.state == (model_open(m) > 0 ? OP_UNKNOWN : OP_EXHAUSTED));
}

static void renew(struct walk *w)
{
	struct op_event event = {.kind = OP_EV_RENEW};
	enum op_state before = w->op.state;

	event.token = w->m.token[1 + pick(w, w->m.highest + 1)];
	if (apply(w, &event, "renew") == OP_CHANGED) {
		MUST(w, before == OP_ATTEMPTING && w->op.state == before);
		MUST(w, w->op.lease_until == w->now + w->m.policy.lease);
		MUST(w, memcmp(event.token, w->m.token[w->m.running], OP_TOKEN_LEN) == 0);
	}
}

/* --- walking --------------------------------------------------------------------------------- */

static void begin(struct walk *w)
{
	static const uint8_t incarnation[OP_INCARNATION_LEN] = {9};
	static const uint8_t fingerprint[OP_FINGERPRINT_LEN] = {8};
	struct model *m = &w->m;
	bool stubborn = chance(w, 10);

	memset(m, 0, sizeof(*m));
	m->rule = stubborn ? REPEAT_ALWAYS : (enum repeat_rule)pick(w, 4);
	m->is_delete = chance(w, 20);
	m->policy = (struct policy){
		.attempts = stubborn ? 70 + pick(w, 31) : 1 + pick(w, 6),
		.window = stubborn ? 30 * USEC_DAY : (1 + pick(w, 48)) * 30 * USEC_MIN,
		.backoff = {.first = USEC_SEC, .factor = 2, .max = USEC_MIN},
		.attempt_timeout = 10 * USEC_SEC,
		.attempt_total = 30 * USEC_SEC,
		.attempt_least = pick(w, 3) * USEC_SEC,
		.lease = chance(w, 5) ? 0 : 15 * USEC_SEC,
		.hold = pick(w, 60) * USEC_SEC,
		.key_retention = (1 + pick(w, 24)) * USEC_HOUR,
	};
	m->limit = m->policy.attempts;
	m->safe_until = m->rule == REPEAT_ALWAYS ? USEC_MAX : 0;
	op_init(&w->op, &m->policy, incarnation, fingerprint, w->now);
	w->lines = 0;
}

static void pass_time(struct walk *w)
{
	bool stubborn = w->m.policy.attempts > 20;

	switch (pick(w, 12)) {
	case 0:
		w->now += pick(w, 1000) * USEC_MS;
		break;
	case 1:
		w->now += pick(w, 60) * USEC_SEC;
		break;
	case 2:
		w->now += chance(w, 20) ? pick(w, 600) * USEC_MIN : 0;
		break;
	case 3:
		if (w->op.lease_until > w->now)
			w->now = w->op.lease_until - pick(w, 2);
		break;
	case 4:
	case 5:
	case 6:
		if (w->op.state == OP_READY && w->op.next > w->now)
			w->now = w->op.next - (chance(w, 10) ? 1 : 0);
		break;
	case 7:
		if (chance(w, stubborn ? 0 : 10) && w->op.deadline > w->now)
			w->now = w->op.deadline - w->m.policy.attempt_least + 1 - pick(w, 3);
		break;
	default:
		break;
	}
}

static void step(struct walk *w)
{
	int choice = pick(w, 100);
	usec_t before = w->now;

	pass_time(w);
	if (w->now < before)
		w->now = before;
	if (choice < 35)
		claim(w);
	else if (choice < 65)
		settle(w);
	else if (choice < 77)
		expire(w);
	else if (choice < 85)
		strike(w);
	else if (choice < 93 && (w->m.policy.attempts <= 20 || chance(w, 10)))
		by_hand(w);
	else if (choice < 98)
		time_alone(w);
	else
		renew(w);
	check_step(w);
	if (w->m.highest == CEILING)
		w->ceiling++;
	if (chance(w, w->m.closed                 ? 4
		      : w->m.policy.attempts > 20 ? 0
						  : 1) ||
	    w->m.highest >= CEILING)
		begin(w);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (!text || !*text)
		return otherwise;
	value = strtoull(text, &end, 10);
	return *end ? otherwise : value;
}

int main(void)
{
	static struct walk w;
	uint64_t steps = number("STINT_PROPERTY_STEPS", 200000);

	w.seed = number("STINT_PROPERTY_SEED", 20240229);
	w.random = w.seed;
	w.now = 20000 * USEC_DAY;
	printf("property_operation: seed %llu, %llu steps\n", (unsigned long long)w.seed,
	       (unsigned long long)steps);
	begin(&w);
	for (w.step = 1; w.step <= steps; w.step++)
		step(&w);
	for (int i = 0; i < OP_STATE_COUNT; i++)
		printf("  entered %-10s %lu\n", op_state_name((enum op_state)i), w.reached[i]);
	for (int i = 0; i <= OP_EV_PROBE; i++)
		printf("  event %2d: changed %lu, refused %lu\n", i, w.changed[i], w.refused[i]);
	printf("  late %lu, disputed %lu, duplicate effects %lu, at the ceiling %lu\n", w.late,
	       w.disputed, w.duplicate, w.ceiling);
	if (steps >= 100000) {
		for (int i = 0; i < OP_STATE_COUNT; i++)
			MUST(&w, w.reached[i] > 0);
		for (int i = 0; i <= OP_EV_PROBE; i++)
			MUST(&w, w.changed[i] > 0);
		MUST(&w, w.late > 0 && w.disputed > 0 && w.duplicate > 0 && w.ceiling > 0);
	}
	printf("1 passed, 0 failed\n");
	return 0;
}
