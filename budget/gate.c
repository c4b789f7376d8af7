#include "budget/gate.h"

#include <assert.h>

/* A block's life:
 *
 *   open --advice <= cap--> blocked for advice ----------------------------> open
 *   open --advice >  cap--> blocked for cap --> probing, slot free
 *   probing, slot free --take--> probing, probe out --answered well--> open
 *   probe out --released, or its lease over--> slot free
 *   probe out --fresh advice--> as from open
 *   probe out --anything else--> blocked for cap again
 *
 * The time of a block is never shortened: an answer to an attempt that was under way before the
 * block says nothing about the provider after it (design section 13, invariant 6). */

void gate_init(struct gate *gate, int limit)
{
	assert(limit > 0);
	*gate = (struct gate){.limit = limit};
}

static bool probe_is_out(const struct gate *gate, usec_t now)
{
	return gate->probe_ticket != 0 && now < gate->probe_until;
}

enum gate_why gate_look(const struct gate *gate, usec_t now, uint64_t ticket, usec_t *ret_until)
{
	*ret_until = now;
	if (gate->blocked_until > now) {
		*ret_until = gate->blocked_until;
		return GATE_BLOCKED;
	}
	if (gate->probing && (ticket == 0 || ticket != gate->probe_ticket)) {
		if (probe_is_out(gate, now)) {
			*ret_until = gate->probe_until;
			return GATE_PROBE_OUT;
		}
		/* The probe's slot is free, but a ticket taken before the block is not it. */
		if (ticket != 0)
			return GATE_PROBE_OUT;
	}
	if (ticket == 0 && gate->used >= gate->limit) {
		*ret_until = USEC_MAX;
		return GATE_CONCURRENCY;
	}
	return GATE_OPEN;
}

struct gate_answer gate_take(struct gate *gate, usec_t now, usec_t probe_lease)
{
	struct gate_answer answer = {.why = GATE_OPEN};

	answer.why = gate_look(gate, now, 0, &answer.until);
	if (answer.why != GATE_OPEN)
		return answer;

	answer.ticket = ++gate->last_ticket;
	gate->used++;
	if (gate->probing) {
		answer.probe = true;
		gate->probe_ticket = answer.ticket;
		gate->probe_until = usec_add(now, probe_lease);
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
}

void gate_release(struct gate *gate, uint64_t ticket)
{
	assert(ticket != 0);
	give_back(gate);
	if (ticket == gate->probe_ticket)
		forget_probe(gate);
}

/* Closes for `wait`; beyond_cap: the provider wanted longer, so one probe decides afterwards. */
static void block(struct gate *gate, usec_t now, usec_t wait, bool beyond_cap, bool rate_limited)
{
	usec_t until = usec_add(now, wait);

	if (until >= gate->blocked_until) {
		gate->blocked_until = until;
		gate->block_is_rate_limit = rate_limited;
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

void gate_settle(struct gate *gate, uint64_t ticket, const struct gate_outcome *outcome, usec_t cap,
		 usec_t now)
{
	bool advised = outcome->repeatable_class && outcome->advice > 0;

	assert(ticket != 0);
	give_back(gate);
	if (ticket == gate->probe_ticket)
		settle_probe(gate, outcome, advised, cap, now);
	if (advised)
		block(gate, now, usec_min(outcome->advice, cap), outcome->advice > cap,
		      outcome->rate_limited);
}

usec_t gate_blocked_for(const struct gate *gate, usec_t now)
{
	if (gate->blocked_until > now)
		return gate->blocked_until - now;
	if (gate->probing && probe_is_out(gate, now))
		return gate->probe_until - now;
	return 0;
}
