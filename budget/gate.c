#include "budget/gate.h"

#include <assert.h>

/* A block's life:
 *
 *   open --advice <= cap--> blocked for advice ----------------------------> open, ramp
 *   open --advice >  cap--> blocked for cap --> probing, slot free
 *   probing, slot free --take--> probing, probe out --answered well--> open, ramp
 *   probe out --released, or its lease over--> slot free
 *   probe out --fresh advice--> as from open
 *   probe out --anything else--> blocked for cap again
 *
 * The time of a block is never shortened: an answer to an attempt that was under way before the
 * block says nothing about the provider after it (design section 13, invariant 6).
 *
 * The breaker's:
 *
 *   closed (lets through) --so many failures in a row--> open for `open`
 *   open --its pause is over--> half-open, slot free --take--> probe out
 *   probe out --failure--> open for twice as long, at most `max`
 *   probe out --any other answer--> closed, ramp
 *   probe out --released, its lease over, nothing learnt--> half-open, slot free
 *   any --success--> closed, ramp
 *
 * Attempts that were under way when it opened neither lengthen nor double its pause. Block and
 * breaker share the probe's slot: one attempt answers both.
 *
 * The ramp: the first start after a block or an open breaker begins it. In step n (from 0) at most
 * 2^n attempts start; it is over when that reaches the concurrency limit. */

void gate_init(struct gate *gate, int limit)
{
	assert(limit > 0);
	*gate = (struct gate){.limit = limit};
}

/* --- looking ------------------------------------------------------------------------------------ */

static bool probe_is_out(const struct gate *gate, usec_t now)
{
	return gate->probe_ticket != 0 && now < gate->probe_until;
}

static bool wants_probe(const struct gate *gate)
{
	return gate->probing || gate->breaker_wait != 0;
}

/* The step at `now`, and how many may start in it; USEC_MAX: any number. */
static int64_t ramp_at(const struct gate *gate, usec_t now, int64_t *ret_step)
{
	int64_t step = now > gate->ramp_from ? (now - gate->ramp_from) / gate->policy.ramp : 0;

	*ret_step = step;
	return step < 31 && ((int64_t)1 << step) < gate->limit ? (int64_t)1 << step : USEC_MAX;
}

static bool ramp_is_full(const struct gate *gate, usec_t now, usec_t *ret_until)
{
	int64_t step, starts;

	if (gate->ramp_from == 0 || gate->policy.ramp <= 0)
		return false;
	if (ramp_at(gate, now, &step) == USEC_MAX)
		return false;
	starts = step == gate->ramp_step ? gate->ramp_starts : 0;
	if (starts < (int64_t)1 << step)
		return false;
	*ret_until = usec_add(gate->ramp_from, usec_mul(gate->policy.ramp, step + 1));
	return true;
}

usec_t gate_ramp_offset(const struct gate *gate, int64_t before)
{
	int64_t step = 0;

	while (((int64_t)1 << step) < gate->limit && ((int64_t)2 << step) - 1 <= before)
		step++;
	return usec_mul(gate->policy.ramp, step);
}

enum gate_why gate_look(const struct gate *gate, usec_t now, uint64_t ticket, usec_t *ret_until)
{
	*ret_until = now;
	if (gate->blocked_until > now && gate->blocked_until >= gate->breaker_until) {
		*ret_until = gate->blocked_until;
		return GATE_BLOCKED;
	}
	if (gate->breaker_until > now) {
		*ret_until = gate->breaker_until;
		return GATE_BREAKER;
	}
	if (wants_probe(gate) && (ticket == 0 || ticket != gate->probe_ticket)) {
		if (probe_is_out(gate, now)) {
			*ret_until = gate->probe_until;
			return GATE_PROBE_OUT;
		}
		/* The probe's slot is free, but a ticket taken before the block is not it. */
		if (ticket != 0)
			return GATE_PROBE_OUT;
	}
	if (ticket != 0)
		return GATE_OPEN;
	if (!wants_probe(gate) && ramp_is_full(gate, now, ret_until))
		return GATE_RAMP;
	if (gate->used >= gate->limit) {
		*ret_until = USEC_MAX;
		return GATE_CONCURRENCY;
	}
	return GATE_OPEN;
}

bool gate_is_rate_limited(const struct gate *gate, enum gate_why why)
{
	switch (why) {
	case GATE_BLOCKED:
		return gate->block_is_rate_limit;
	case GATE_PROBE_OUT:
		return gate->probing && gate->block_is_rate_limit;
	case GATE_RAMP:
		return gate->ramp_is_rate_limit;
	default:
		return false;
	}
}

/* --- taking and giving back --------------------------------------------------------------------- */

static void count_start(struct gate *gate, usec_t now)
{
	int64_t step;

	if (gate->ramp_due) {
		gate->ramp_due = false;
		gate->ramp_from = gate->policy.ramp > 0 ? now : 0;
		gate->ramp_step = gate->ramp_starts = 0;
	}
	if (gate->ramp_from == 0)
		return;
	if (ramp_at(gate, now, &step) == USEC_MAX) {
		gate->ramp_from = 0;
		return;
	}
	if (step != gate->ramp_step) {
		gate->ramp_step = step;
		gate->ramp_starts = 0;
	}
	gate->ramp_starts++;
}

struct gate_answer gate_take(struct gate *gate, usec_t now, usec_t probe_lease)
{
	struct gate_answer answer = {.why = GATE_OPEN};

	answer.why = gate_look(gate, now, 0, &answer.until);
	if (answer.why != GATE_OPEN) {
		answer.rate_limited = gate_is_rate_limited(gate, answer.why);
		return answer;
	}
	answer.ticket = ++gate->last_ticket;
	gate->used++;
	if (wants_probe(gate)) {
		answer.probe = true;
		gate->probe_ticket = answer.ticket;
		gate->probe_until = usec_add(now, probe_lease);
		gate->probe_tests_breaker = gate->breaker_wait != 0;
	} else {
		count_start(gate, now);
	}
	return answer;
}

static void give_back(struct gate *gate)
{
	assert(gate->used > 0);
	if (gate->used > 0)
		gate->used--;
}

static void forget_probe(struct gate *gate)
{
	gate->probe_ticket = 0;
	gate->probe_until = 0;
	gate->probe_tests_breaker = false;
}

void gate_release(struct gate *gate, uint64_t ticket)
{
	assert(ticket != 0);
	give_back(gate);
	if (ticket == gate->probe_ticket)
		forget_probe(gate);
}

static void want_ramp(struct gate *gate, bool rate_limited)
{
	gate->ramp_due = true;
	gate->ramp_is_rate_limit = rate_limited;
	gate->ramp_from = 0;
}

/* --- the block ---------------------------------------------------------------------------------- */

/* Closes for `wait`; beyond_cap: the provider wanted longer, so one probe decides afterwards. */
static void block(struct gate *gate, usec_t now, usec_t wait, bool beyond_cap, bool rate_limited)
{
	usec_t until = usec_add(now, wait);

	if (until >= gate->blocked_until) {
		gate->blocked_until = until;
		gate->block_is_rate_limit = rate_limited;
		want_ramp(gate, rate_limited);
	}
	if (beyond_cap) {
		gate->probing = true;
		/* A probe of an earlier block that is still out decides nothing about this one. */
		forget_probe(gate);
	}
}

/* The probe has come back: whatever it says, its slot is free. */
static void settle_probe(struct gate *gate, const struct gate_outcome *outcome, bool advised,
			 usec_t cap, usec_t now)
{
	forget_probe(gate);
	if (!gate->probing)
		return;
	if (outcome->answered_well) {
		gate->probing = false;
		if (gate->blocked_until <= now)
			gate->blocked_until = 0;
	} else if (advised && outcome->advice <= cap && !outcome->possible) {
		/* The newest word of the provider stands instead of the one that was probed. */
		gate->probing = false;
	} else if (!advised) {
		block(gate, now, cap, true, outcome->rate_limited);
	}
}

/* --- the breaker -------------------------------------------------------------------------------- */

static void open_breaker(struct gate *gate, usec_t wait, usec_t now)
{
	gate->breaker_wait = usec_max(usec_min(wait, gate->policy.max), 1);
	gate->breaker_until = usec_add(now, gate->breaker_wait);
	gate->failures = 0;
	want_ramp(gate, false);
}

static void close_breaker(struct gate *gate)
{
	gate->failures = 0;
	gate->breaker_wait = 0;
	gate->breaker_until = 0;
	/* A probe that only it had asked for is an attempt like any other now. */
	gate->probe_tests_breaker = false;
	if (!gate->probing)
		forget_probe(gate);
}

static void tell_breaker(struct gate *gate, const struct gate_outcome *outcome, bool its_probe,
			 usec_t now)
{
	if (gate->policy.failures <= 0)
		return;
	if (outcome->answered_well || (its_probe && outcome->answered && !outcome->breaker_failure))
		close_breaker(gate);
	else if (!outcome->breaker_failure)
		return;
	else if (its_probe)
		open_breaker(gate, usec_mul(gate->breaker_wait, 2), now);
	else if (gate->breaker_wait == 0 && ++gate->failures >= gate->policy.failures)
		open_breaker(gate, gate->policy.open, now);
}

void gate_settle(struct gate *gate, uint64_t ticket, const struct gate_outcome *outcome, usec_t cap,
		 usec_t now)
{
	bool advised = outcome->repeatable_class && outcome->advice > 0;
	bool probe = ticket == gate->probe_ticket;

	assert(ticket != 0);
	give_back(gate);
	tell_breaker(gate, outcome, probe && gate->probe_tests_breaker, now);
	if (probe)
		settle_probe(gate, outcome, advised, cap, now);
	if (advised)
		block(gate, now, usec_min(outcome->advice, cap), outcome->advice > cap,
		      outcome->rate_limited);
}

/* --- for others to see -------------------------------------------------------------------------- */

usec_t gate_blocked_for(const struct gate *gate, usec_t now)
{
	usec_t until = usec_max(gate->blocked_until, gate->breaker_until);

	if (until > now)
		return until - now;
	if (wants_probe(gate) && probe_is_out(gate, now))
		return gate->probe_until - now;
	return 0;
}

enum gate_breaker gate_breaker_state(const struct gate *gate, usec_t now)
{
	if (gate->breaker_wait == 0)
		return GATE_BREAKER_CLOSED;
	return gate->breaker_until > now ? GATE_BREAKER_OPEN : GATE_BREAKER_HALF_OPEN;
}

struct gate_block gate_block_of(const struct gate *gate, usec_t now)
{
	struct gate_block none = {0};
	struct gate_block block = {.until = gate->blocked_until,
				   .probing = gate->probing,
				   .rate_limited = gate->block_is_rate_limit};

	return block.until > now || block.probing ? block : none;
}

void gate_restore(struct gate *gate, const struct gate_block *block, usec_t cap, usec_t now)
{
	usec_t until = usec_min(block->until, usec_add(now, cap));

	if (until <= now && !block->probing)
		return;
	if (until >= gate->blocked_until) {
		gate->blocked_until = usec_max(until, 0);
		gate->block_is_rate_limit = block->rate_limited;
	}
	if (block->probing && !gate->probing) {
		gate->probing = true;
		forget_probe(gate);
	}
	want_ramp(gate, block->rate_limited);
}

bool gate_is_idle(const struct gate *gate, usec_t now)
{
	usec_t until = usec_max(gate->blocked_until, gate->breaker_until);

	if (wants_probe(gate))
		until = usec_add(until, GATE_FORGET);
	return gate->used == 0 && until <= now;
}
