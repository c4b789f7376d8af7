/* The gate of one provider, or of one credential or bucket of it: what stands between a ready
 * operation and its claim. Pure arithmetic over one struct; the shell holds the lock, keeps the
 * queue and the clock.
 *
 * Here: the block from waiting advice with its cap and its one probe, the breaker, the ramp after
 * either, and the concurrency limit. gate_table.h holds many gates by bucket. */
#ifndef STINT_BUDGET_GATE_H
#define STINT_BUDGET_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "classify/usec.h"

struct verdict; /* classify/outcome.h */

/* The breaker and the ramp; all zero: neither. */
struct gate_policy {
	int failures; /* breaker.failures: so many in a row open it; 0: no breaker */
	usec_t open;  /* breaker.open: the first pause; it doubles each time its probe fails */
	usec_t max;   /* breaker.max: the longest pause */
	usec_t ramp;  /* gate.ramp: one step of the ramp; 0: no ramp */
};

struct gate {
	int limit;                 /* concurrency.limit */
	struct gate_policy policy; /* may be set after gate_init() */
	int used;                  /* slots taken */

	usec_t blocked_until;     /* 0: open */
	bool probing;             /* the block was longer than the cap: one probe decides */
	uint64_t probe_ticket;    /* 0: the probe's slot is free */
	usec_t probe_until;       /* the probe's lease */
	bool probe_tests_breaker; /* taken while the breaker asked for one */
	uint64_t last_ticket;
	bool block_is_rate_limit; /* the block's cause: 429-like (else 503-like) */

	int failures;         /* in a row, while the breaker lets through */
	usec_t breaker_until; /* 0: it lets through */
	usec_t breaker_wait;  /* its pause, 0: it lets through; when the pause is over, one probe */

	bool ramp_due;           /* the next start begins the ramp */
	bool ramp_is_rate_limit; /* the ramp's cause, as of the block */
	usec_t ramp_from;        /* 0: no ramp is under way */
	int64_t ramp_step;       /* of the last start */
	int64_t ramp_starts;     /* in that step */
};

enum gate_why {
	GATE_OPEN,
	GATE_BLOCKED,
	GATE_PROBE_OUT,
	GATE_CONCURRENCY,
	GATE_BREAKER,
	GATE_RAMP,
};

struct gate_answer {
	enum gate_why why;
	usec_t until;      /* closed: when to ask again at the earliest; USEC_MAX: when woken */
	uint64_t ticket;   /* open: give it back to gate_release() or gate_settle(); never 0 */
	bool probe;        /* this attempt is the one probe of the block or the breaker */
	bool rate_limited; /* closed: by what rate limiting caused */
};

void gate_init(struct gate *gate, int limit);

/* Asks for a slot at `now`; takes it when the answer is GATE_OPEN. probe_lease: how long the
 * probe's slot may be out before another may be sent in its place. */
struct gate_answer gate_take(struct gate *gate, usec_t now, usec_t probe_lease);

/* The same question without taking anything (the pre-request check, replies' Retry-After). A holder
 * of the probe's own ticket passes the block that it probes; the ramp and the concurrency limit
 * close for newcomers (ticket 0) alone. */
enum gate_why gate_look(const struct gate *gate, usec_t now, uint64_t ticket, usec_t *ret_until);

/* How long after the first start of a ramp the one comes that has `before` starts before it; at most
 * the ramp's length. Callers that are turned away are told so much more than the block's end, so
 * that they do not return together. */
usec_t gate_ramp_offset(const struct gate *gate, int64_t before);

/* Whether rate limiting is the cause of such a "closed". */
bool gate_is_rate_limited(const struct gate *gate, enum gate_why why);

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
	/* For the breaker: */
	bool breaker_failure; /* not sent, time limit, reset, cut, 502, 503, 504 */
	bool answered;        /* a whole reply came, whatever it says */
};

/* The outcome of an attempt with this verdict. A guard's "no" has none: gate_release(). Faults of
 * our own side and the caller's going say nothing about the provider. */
struct gate_outcome gate_outcome_of(const struct verdict *verdict);

/* Gives the slot back with its outcome: sets, lengthens, probes or lifts the block, and tells the
 * breaker. Advice within `cap` is honoured in full; beyond it the gate closes for `cap`, then one
 * probe decides. */
void gate_settle(struct gate *gate, uint64_t ticket, const struct gate_outcome *outcome, usec_t cap,
		 usec_t now);

/* Whether the gate is closed at `now` for the world by block, breaker or probe (metric): the time
 * left, or 0. */
usec_t gate_blocked_for(const struct gate *gate, usec_t now);

/* The breaker in the usual words: closed lets through, half-open waits for its probe. */
enum gate_breaker { GATE_BREAKER_CLOSED, GATE_BREAKER_OPEN, GATE_BREAKER_HALF_OPEN };
enum gate_breaker gate_breaker_state(const struct gate *gate, usec_t now);

/* What outlives the process: the block, not the breaker, which is each instance's own. */
struct gate_block {
	usec_t until; /* 0: none */
	bool probing;
	bool rate_limited;
};

/* All zero where nothing is left of it at `now`. */
struct gate_block gate_block_of(const struct gate *gate, usec_t now);
/* Lays a stored block on the gate. It never shortens one, and closes for no longer than `cap` from
 * now, whatever was stored. */
void gate_restore(struct gate *gate, const struct gate_block *block, usec_t cap, usec_t now);

#define GATE_FORGET USEC_HOUR
/* Whether nobody would miss it: no slot is out and nothing is closed. A probe that nobody has come
 * for within GATE_FORGET of the pause's end is forgotten. */
bool gate_is_idle(const struct gate *gate, usec_t now);

#endif
