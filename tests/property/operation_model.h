/* The model that property_operation.c walks beside the machine: it knows nothing of the machine's
 * code, and keeps by attempt number what was claimed, sent and learnt. */
#ifndef STINT_TESTS_OPERATION_MODEL_H
#define STINT_TESTS_OPERATION_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/operation.h"

#define CEILING 100
#define HISTORY 40

enum learnt { NOTHING, STRUCK, RUNNING, EXPIRED, POSSIBLE, NOT_APPLIED, APPLIED };

struct model {
	struct policy policy;
	enum repeat_rule rule;
	bool is_delete;

	enum learnt learnt[CEILING + 2];
	bool open[CEILING + 2];
	bool sent[CEILING + 2];
	bool gone[CEILING + 2]; /* from the history: a later one took its place */
	int status[CEILING + 2];
	uint8_t token[CEILING + 2][OP_TOKEN_LEN];
	int highest, running, limit;
	bool success; /* the provider's own, of any attempt */
	bool closed;  /* terminal, and nobody has opened it again */
	bool flagged, held;
	usec_t held_since;
	usec_t deadline;   /* 0: never charged */
	usec_t safe_until; /* of repeats, by the rule */
	int generation_first;
	usec_t not_before; /* by the last in-time end of an attempt */
};

struct walk {
	uint64_t seed, random;
	uint64_t step;
	unsigned tokens;
	usec_t now;
	struct op op;
	struct model m;
	char history[HISTORY][96];
	unsigned lines;
	/* How often each thing really happened: a walk that reaches nothing proves nothing. */
	unsigned long reached[OP_STATE_COUNT], changed[OP_EV_PROBE + 1], refused[OP_EV_PROBE + 1];
	unsigned long late, disputed, duplicate, ceiling;
};

static uint64_t next_random(struct walk *w)
{
	uint64_t x = w->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static int pick(struct walk *w, int n)
{
	return (int)(next_random(w) % (uint64_t)n);
}

static bool chance(struct walk *w, int percent)
{
	return pick(w, 100) < percent;
}

static void say(struct walk *w, const char *text)
{
	snprintf(w->history[w->lines++ % HISTORY], sizeof(w->history[0]), "%llu: +%.3f %s [%s]",
		 (unsigned long long)w->step, (double)(w->now - w->op.created) / 1e6, text,
		 op_state_name(w->op.state));
}

static void die(struct walk *w, const char *why)
{
	unsigned from = w->lines > HISTORY ? w->lines - HISTORY : 0;

	for (unsigned i = from; i < w->lines; i++)
		printf("  %s\n", w->history[i % HISTORY]);
	printf("property_operation: seed %llu step %llu: %s\n", (unsigned long long)w->seed,
	       (unsigned long long)w->step, why);
	printf("  state %s attempts %d/%d open %d class %s\n", op_state_name(w->op.state),
	       w->op.attempts, w->op.limit, op_set_count(&w->op.unresolved),
	       outcome_class_name(w->op.class));
	printf("0 passed, 1 failed\n");
	exit(1);
}

#define MUST(w, condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			die(w, #condition);                                                        \
	} while (0)

/* --- the model ------------------------------------------------------------------------------- */

static int model_open(const struct model *m)
{
	int count = 0;

	for (int n = 1; n <= CEILING; n++)
		count += m->open[n];
	return count;
}

static int model_charged(const struct model *m)
{
	int count = 0;

	for (int n = 1; n <= CEILING; n++)
		count += m->learnt[n] >= RUNNING;
	return count;
}

static int model_sent(const struct model *m)
{
	int count = 0;

	for (int n = 1; n <= CEILING; n++)
		count += m->sent[n];
	return count;
}

static void model_empty(struct model *m, int up_to)
{
	for (int n = 1; n <= up_to; n++)
		m->open[n] = false;
}

static void model_strike(struct model *m, int n)
{
	m->learnt[n] = STRUCK;
	m->open[n] = false;
	while (m->highest > m->generation_first && m->learnt[m->highest] == STRUCK)
		m->highest--;
	if (model_charged(m) == 0)
		m->deadline = 0;
}

/* Design section 4, "One function picks the state", for the end of the attempt that was in flight. */
static enum op_state model_state(const struct walk *w, enum outcome_class class, bool never,
				 usec_t start)
{
	const struct model *m = &w->m;
	bool open = model_open(m) > 0;
	bool left = model_charged(m) < m->limit && m->highest < CEILING && start < m->deadline &&
		    start + m->policy.attempt_least <= m->deadline;

	if (m->success)
		return OP_SUCCEEDED;
	if (class == CLASS_AUTH || class == CLASS_QUOTA)
		return OP_HELD;
	if (!open) {
		if (class == CLASS_INVALID)
			return OP_FAILED;
		if (never || !left)
			return OP_EXHAUSTED;
	} else if (class == CLASS_INVALID || never || !left || start >= m->safe_until) {
		return OP_UNKNOWN;
	}
	return m->flagged ? OP_HELD : OP_READY;
}

static void model_claimed(struct walk *w, usec_t hold_until, const uint8_t *token)
{
	struct model *m = &w->m;
	int n = m->highest + 1;
	usec_t margin = m->policy.key_retention / 100;

	MUST(w, !m->closed);                  /* invariant 4 */
	MUST(w, m->running == 0);             /* invariant 5 */
	MUST(w, model_charged(m) < m->limit); /* invariant 1 */
	MUST(w, n <= CEILING);
	MUST(w, !m->held && !m->success);
	MUST(w, w->now >= m->not_before);
	MUST(w, m->deadline == 0 || w->now + m->policy.attempt_least <= m->deadline);
	MUST(w, model_open(m) == 0 || w->now < m->safe_until);

	if (m->rule == REPEAT_WITHIN_HOLD && model_open(m) == 0)
		m->safe_until = hold_until;
	if (m->rule == REPEAT_RETENTION && n == m->generation_first + 1)
		m->safe_until = w->now + m->policy.key_retention - m->policy.attempt_timeout -
				(margin > 5 * USEC_MIN ? margin : 5 * USEC_MIN);
	if (m->deadline == 0)
		m->deadline = w->now + m->policy.window;
	m->learnt[n] = RUNNING;
	m->open[n] = false;
	m->sent[n] = false;
	memcpy(m->token[n], token, OP_TOKEN_LEN);
	m->gone[n] = false;
	if (n > OP_RING)
		m->gone[n - OP_RING] = true;
	m->highest = n;
	m->running = n;
}

/* Whether a finding about an attempt that is over is news. */
static bool model_is_news(const struct walk *w, int n, const struct verdict *v)
{
	const struct model *m = &w->m;

	if (m->gone[n]) { /* gone from the history: what the set says */
		if (v->effect == EFFECT_DEFINITE)
			return !m->success && !w->op.disputed;
		return v->effect == EFFECT_NONE && m->open[n];
	}
	switch (m->learnt[n]) {
	case EXPIRED:
		return true;
	case POSSIBLE:
		return v->effect != EFFECT_POSSIBLE;
	case NOT_APPLIED:
		return v->effect == EFFECT_DEFINITE;
	case APPLIED:
		return v->effect == EFFECT_NONE && v->status != m->status[n] &&
		       w->op.state == OP_SUCCEEDED && !w->op.disputed;
	default:
		return false;
	}
}

static void model_learn(struct walk *w, enum op_state before, int n, const struct verdict *raw)
{
	struct model *m = &w->m;
	struct verdict v = *raw;
	bool in_time = n == m->running;
	bool others = model_open(m) - m->open[n] > 0;

	if (v.resolves && (v.effect != EFFECT_DEFINITE || in_time)) {
		model_empty(m, n - 1);
		others = model_open(m) - m->open[n] > 0;
	}
	if (m->is_delete && (v.status == 404 || v.status == 410) && v.effect == EFFECT_NONE &&
	    v.fault == FAULT_NONE && others)
		v.effect = EFFECT_DEFINITE;
	if (m->learnt[n] != APPLIED) {
		m->learnt[n] = v.effect == EFFECT_DEFINITE   ? APPLIED
			       : v.effect == EFFECT_POSSIBLE ? POSSIBLE
							     : NOT_APPLIED;
		m->status[n] = v.status;
	}
	if (v.effect == EFFECT_DEFINITE && before != OP_FAILED)
		m->success = true;
	if (in_time && v.effect == EFFECT_POSSIBLE)
		m->open[n] = true;
	if (v.effect != EFFECT_POSSIBLE)
		m->open[n] = false;
	if (in_time)
		m->running = 0;
	if (m->success && m->running == 0)
		model_empty(m, CEILING);
}

#endif
