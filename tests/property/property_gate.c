/* pure-test */
/* A random walk of one gate beside a model that keeps the attempts and the starts themselves, and
 * says from these what design sections 5 and 6 allow: who may start, and when to ask again.
 *
 * STINT_PROPERTY_STEPS (200000) and STINT_PROPERTY_SEED choose the walk; the seed is printed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/gate.h"

#define T0 (20000 * USEC_DAY)
#define OUT_MAX 40
#define STARTS_MAX 4096
#define WALK 2000 /* steps under one policy */

struct attempt {
	uint64_t ticket;
	bool asked_by_breaker; /* taken while the breaker asked for a probe */
};

struct model {
	int limit;
	struct gate_policy policy;
	usec_t cap, lease;
	struct attempt out[OUT_MAX];
	int out_count;

	usec_t block_end;
	bool doubt; /* one probe has to say that the block is over */
	bool block_limits;
	int row;   /* failures since the last success */
	int pause; /* how often in a row the breaker has opened; 0: it lets through */
	usec_t pause_end;
	uint64_t probe; /* the ticket that is out as the probe; 0: none */
	usec_t probe_end;

	bool climbs; /* something closed it: what starts is counted */
	bool climb_limits;
	usec_t starts[STARTS_MAX];
	int start_count;
};

struct walk {
	struct gate gate;
	struct model m;
	usec_t now;
	uint64_t random;
	uint64_t step;
	unsigned why[GATE_RAMP + 1], probes, opened, reopened, lifted;
};

static _Noreturn void die(const struct walk *w, const char *text, int line)
{
	fprintf(stderr, "step %" PRIu64 ", line %d: %s does not hold\n", w->step, line, text);
	exit(1);
}

#define MUST(w, condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			die(w, #condition, __LINE__);                                              \
	} while (0)

static uint64_t draw(struct walk *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random * 0x2545f4914f6cdd1dU >> 16;
}

static int pick(struct walk *w, int below)
{
	return (int)(draw(w) % (uint64_t)below);
}

/* --- the model ---------------------------------------------------------------------------------- */

static usec_t pause_of(const struct model *m)
{
	usec_t pause = m->policy.open;

	for (int i = 1; i < m->pause && pause < m->policy.max; i++)
		pause *= 2;
	return pause < m->policy.max ? pause : m->policy.max;
}

static bool model_asks_probe(const struct model *m)
{
	return m->doubt || m->pause > 0;
}

/* How many starts lie in the same step of the ramp as `now`, and how many may. */
static bool model_ramp_full(const struct model *m, usec_t now, usec_t *ret_until)
{
	usec_t first, from, to;
	int64_t n, in_step = 0, allowed = 1;

	if (!m->climbs || m->start_count == 0 || m->policy.ramp == 0)
		return false;
	first = m->starts[0];
	n = (now - first) / m->policy.ramp;
	for (int64_t i = 0; i < n && allowed < m->limit; i++)
		allowed *= 2;
	if (allowed >= m->limit)
		return false;
	from = first + n * m->policy.ramp;
	to = from + m->policy.ramp;
	for (int i = 0; i < m->start_count; i++)
		in_step += m->starts[i] >= from && m->starts[i] < to;
	if (in_step < allowed)
		return false;
	*ret_until = to;
	return true;
}

static enum gate_why model_why(const struct model *m, usec_t now, usec_t *ret_until)
{
	bool paused = m->pause > 0 && m->pause_end > now;
	usec_t pause_end = m->pause > 0 ? m->pause_end : 0;

	*ret_until = now;
	if (m->block_end > now && m->block_end >= pause_end) {
		*ret_until = m->block_end;
		return GATE_BLOCKED;
	}
	if (paused) {
		*ret_until = m->pause_end;
		return GATE_BREAKER;
	}
	if (model_asks_probe(m) && m->probe != 0 && m->probe_end > now) {
		*ret_until = m->probe_end;
		return GATE_PROBE_OUT;
	}
	if (!model_asks_probe(m) && model_ramp_full(m, now, ret_until))
		return GATE_RAMP;
	if (m->out_count >= m->limit) {
		*ret_until = USEC_MAX;
		return GATE_CONCURRENCY;
	}
	return GATE_OPEN;
}

static void model_close(struct model *m, bool limits)
{
	m->climbs = true;
	m->climb_limits = limits;
	m->start_count = 0;
}

static void model_block(struct model *m, usec_t end, bool doubt, bool limits)
{
	if (end >= m->block_end) {
		m->block_end = end;
		m->block_limits = limits;
		model_close(m, limits);
	}
	if (doubt) {
		m->doubt = true;
		m->probe = 0;
	}
}

static void model_breaker(struct walk *w, const struct gate_outcome *o, bool its_probe)
{
	struct model *m = &w->m;

	if (m->policy.failures == 0)
		return;
	if (o->answered_well || (its_probe && o->answered && !o->breaker_failure)) {
		m->row = m->pause = 0;
		if (!m->doubt)
			m->probe = 0;
		for (int i = 0; i < m->out_count; i++)
			m->out[i].asked_by_breaker = false;
		return;
	}
	if (!o->breaker_failure)
		return;
	if (m->pause > 0 && !its_probe)
		return;
	if (m->pause == 0 && ++m->row < m->policy.failures)
		return;
	w->opened += m->pause == 0;
	w->reopened += m->pause > 0;
	m->row = 0;
	m->pause++;
	m->pause_end = w->now + pause_of(m);
	model_close(m, false);
}

static void model_settle(struct walk *w, int index, const struct gate_outcome *o)
{
	struct model *m = &w->m;
	struct attempt a = m->out[index];
	bool is_probe = a.ticket == m->probe;
	bool advised = o->repeatable_class && o->advice > 0;

	m->out[index] = m->out[--m->out_count];
	model_breaker(w, o, is_probe && a.asked_by_breaker);
	if (is_probe) {
		m->probe = 0;
		if (m->doubt && o->answered_well) {
			m->doubt = false;
			w->lifted++;
		} else if (m->doubt && advised && o->advice <= m->cap && !o->possible) {
			m->doubt = false;
		} else if (m->doubt && !advised) {
			model_block(m, w->now + m->cap, true, o->rate_limited);
		}
	}
	if (advised)
		model_block(m, w->now + (o->advice < m->cap ? o->advice : m->cap),
			    o->advice > m->cap, o->rate_limited);
}

/* --- the walk ----------------------------------------------------------------------------------- */

static void ask(struct walk *w)
{
	struct model *m = &w->m;
	usec_t until, seen;
	enum gate_why why = model_why(m, w->now, &until);
	bool probe = why == GATE_OPEN && model_asks_probe(m);
	struct gate_answer answer;

	MUST(w, gate_look(&w->gate, w->now, 0, &seen) == why);
	MUST(w, seen == until);
	answer = gate_take(&w->gate, w->now, m->lease);
	MUST(w, answer.why == why);
	w->why[why]++;
	if (why != GATE_OPEN) {
		MUST(w, answer.ticket == 0 && answer.until == until && until > w->now);
		MUST(w, answer.rate_limited ==
				((why == GATE_BLOCKED && m->block_limits) ||
				 (why == GATE_PROBE_OUT && m->doubt && m->block_limits) ||
				 (why == GATE_RAMP && m->climb_limits)));
		return;
	}
	MUST(w, answer.ticket != 0 && answer.probe == probe && !answer.rate_limited);
	for (int i = 0; i < m->out_count; i++)
		MUST(w, m->out[i].ticket != answer.ticket);
	m->out[m->out_count++] = (struct attempt){answer.ticket, m->pause > 0};
	if (probe) {
		w->probes++;
		m->probe = answer.ticket;
		m->probe_end = w->now + m->lease;
	} else if (m->start_count < STARTS_MAX) {
		m->starts[m->start_count++] = w->now;
	}
}

static struct gate_outcome random_outcome(struct walk *w)
{
	struct gate_outcome o = {.advice = -1};

	switch (pick(w, 8)) {
	case 0:
	case 1:
		o.answered_well = o.answered = true;
		break;
	case 2:
	case 3:
	case 4:
		o.repeatable_class = o.breaker_failure = true;
		o.possible = pick(w, 2);
		o.answered = pick(w, 2);
		break;
	case 5:
		o.repeatable_class = o.answered = o.rate_limited = true;
		break;
	case 6:
		o.repeatable_class = o.possible = o.answered = true;
		break;
	default:
		o.repeatable_class = true;
		o.possible = pick(w, 2);
	}
	if (pick(w, 4) == 0)
		o.advice = 1 + pick(w, (int)(w->m.cap + w->m.cap / 2));
	return o;
}

static void settle(struct walk *w)
{
	struct gate_outcome o = random_outcome(w);
	int index;

	if (w->m.out_count == 0)
		return;
	index = pick(w, w->m.out_count);
	gate_settle(&w->gate, w->m.out[index].ticket, &o, w->m.cap, w->now);
	model_settle(w, index, &o);
}

static void release(struct walk *w)
{
	struct model *m = &w->m;
	int index;

	if (m->out_count == 0)
		return;
	index = pick(w, m->out_count);
	gate_release(&w->gate, m->out[index].ticket);
	if (m->out[index].ticket == m->probe)
		m->probe = 0;
	m->out[index] = m->out[--m->out_count];
}

/* Those that are out and not sent yet: closed for all but the probe. */
static void check_sends(struct walk *w)
{
	const struct model *m = &w->m;
	usec_t until;
	bool closed = m->block_end > w->now || (m->pause > 0 && m->pause_end > w->now);

	for (int i = 0; i < m->out_count; i++) {
		uint64_t ticket = m->out[i].ticket;
		bool open = gate_look(&w->gate, w->now, ticket, &until) == GATE_OPEN;

		MUST(w, open == (!closed && (!model_asks_probe(m) || ticket == m->probe)));
	}
}

static void check(struct walk *w)
{
	const struct model *m = &w->m;
	struct gate_block block = gate_block_of(&w->gate, w->now);
	usec_t end = m->block_end;

	MUST(w, w->gate.used == m->out_count && w->gate.used <= m->limit);
	MUST(w, m->block_end <= w->now ||
			(block.until == m->block_end && block.rate_limited == m->block_limits));
	MUST(w, block.probing == m->doubt);
	MUST(w, (gate_breaker_state(&w->gate, w->now) != GATE_BREAKER_CLOSED) == (m->pause > 0));
	if (m->pause > 0 && m->pause_end > end)
		end = m->pause_end;
	if (end > w->now)
		MUST(w, gate_blocked_for(&w->gate, w->now) == end - w->now);
	check_sends(w);
}

/* Time moves by nothing, a little, a step of the ramp, or right to when the gate said. */
static void pass_time(struct walk *w)
{
	usec_t until;

	switch (pick(w, 8)) {
	case 0:
		(void)gate_look(&w->gate, w->now, 0, &until);
		if (until != USEC_MAX)
			w->now = until - (pick(w, 3) == 0 && until > w->now ? 1 : 0);
		break;
	case 1:
		w->now += pick(w, (int)w->m.cap);
		break;
	case 2:
		w->now += w->m.policy.ramp;
		break;
	default:
		w->now += pick(w, 20 * (int)USEC_MS);
	}
}

static void begin(struct walk *w)
{
	struct model *m = &w->m;

	memset(m, 0, sizeof(*m));
	m->limit = 1 + pick(w, OUT_MAX);
	m->cap = (1 + pick(w, 20)) * 100 * USEC_MS;
	m->lease = (1 + pick(w, 20)) * 100 * USEC_MS;
	m->policy.failures = pick(w, 5);
	m->policy.open = (1 + pick(w, 10)) * 100 * USEC_MS;
	m->policy.max = m->policy.open * (1 + pick(w, 10));
	m->policy.ramp = pick(w, 4) == 0 ? 0 : (1 + pick(w, 10)) * 20 * USEC_MS;
	gate_init(&w->gate, m->limit);
	w->gate.policy = m->policy;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

int main(void)
{
	uint64_t steps = number_from("STINT_PROPERTY_STEPS", 200000);
	uint64_t seed = number_from("STINT_PROPERTY_SEED", 20261130);
	static struct walk w;

	printf("seed %" PRIu64 ", %" PRIu64 " steps\n", seed, steps);
	w.random = seed == 0 ? 1 : seed;
	w.now = T0;
	for (w.step = 0; w.step < steps; w.step++) {
		int what = pick(&w, 10);

		if (w.step % WALK == 0)
			begin(&w);
		pass_time(&w);
		if (what < 5)
			ask(&w);
		else if (what < 9)
			settle(&w);
		else
			release(&w);
		check(&w);
	}
	printf("open %u, blocked %u, probe out %u, concurrency %u, breaker %u, ramp %u; probes %u, "
	       "breakers opened %u, again %u, blocks lifted %u\n",
	       w.why[GATE_OPEN], w.why[GATE_BLOCKED], w.why[GATE_PROBE_OUT],
	       w.why[GATE_CONCURRENCY], w.why[GATE_BREAKER], w.why[GATE_RAMP], w.probes, w.opened,
	       w.reopened, w.lifted);
	/* A walk that never met one of them proves little. */
	for (int why = GATE_OPEN; why <= GATE_RAMP; why++)
		MUST(&w, steps < 100000 || w.why[why] > 0);
	MUST(&w, steps < 100000 || (w.opened > 0 && w.reopened > 0 && w.lifted > 0));
	return 0;
}
