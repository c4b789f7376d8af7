/* The gate of one provider: what stands between a ready operation and its claim. Pure arithmetic
 * over one struct; the shell holds the lock, keeps the queue and the clock.
 *
 * Here: the block from waiting advice with its cap and its one probe, and the concurrency limit. */
#ifndef STINT_BUDGET_GATE_H
#define STINT_BUDGET_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "classify/usec.h"

struct gate {
	int limit; /* concurrency.limit */
	int used;  /* slots taken */

	usec_t blocked_until;  /* 0: open */
	bool probing;          /* the block was longer than the cap: one probe decides */
	uint64_t probe_ticket; /* 0: the probe's slot is free */
	usec_t probe_until;    /* the probe's lease */
	uint64_t last_ticket;
	bool block_is_rate_limit; /* the block's cause: 429-like (else 503-like) */
};

enum gate_why { GATE_OPEN, GATE_BLOCKED, GATE_PROBE_OUT, GATE_CONCURRENCY };

struct gate_answer {
	enum gate_why why;
	usec_t until;      /* closed: when to ask again at the earliest; USEC_MAX: when woken */
	uint64_t ticket;   /* open: give it back to gate_release() or gate_settle(); never 0 */
	bool probe;        /* this attempt is the block's probe */
	bool rate_limited; /* closed: by a block that rate limiting caused */
};

void gate_init(struct gate *gate, int limit);

/* Asks for a slot at `now`; takes it when the answer is GATE_OPEN. probe_lease: how long the
 * probe's slot may be out before another may be sent in its place. */
struct gate_answer gate_take(struct gate *gate, usec_t now, usec_t probe_lease);

/* The same question without taking anything (the pre-request check, replies' Retry-After). A holder
 * of the probe's own ticket passes the block that it probes. */
enum gate_why gate_look(const struct gate *gate, usec_t now, uint64_t ticket, usec_t *ret_until);

/* Gives a slot back without an outcome (claim refused, void, caller gone before the claim). */
void gate_release(struct gate *gate, uint64_t ticket);

/* What an attempt's outcome says about the provider. */
struct gate_outcome {
	bool answered_well;    /* an answer that speaks for an open provider (not rate_limited, not
			       unknown, not transient) */
	bool possible;         /* unknown outcome: a probe of this kind closes again */
	bool repeatable_class; /* valid advice on any class that may be repeated blocks */
	bool rate_limited;
	usec_t advice; /* the provider's own; -1: none */
};

/* Gives the slot back with its outcome: sets, lengthens, probes or lifts the block. Advice within
 * `cap` is honoured in full; beyond it the gate closes for `cap`, then one probe decides. */
void gate_settle(struct gate *gate, uint64_t ticket, const struct gate_outcome *outcome, usec_t cap,
		 usec_t now);

/* Whether the gate is blocked at `now` for the world (metric): the time left, or 0. */
usec_t gate_blocked_for(const struct gate *gate, usec_t now);

#endif
