/* One provider at run time: its configuration, and what all workers of this process share of it:
 * the gate with its queue, and the metrics. */
#ifndef STINT_PROXY_PROVIDER_H
#define STINT_PROXY_PROVIDER_H

#include <pthread.h>
#include <stdbool.h>

#include "budget/gate.h"
#include "proxy/body.h"
#include "proxy/config.h"
#include "proxy/loop.h"
#include "proxy/metrics.h"

/* One who waits for a slot. Embedded in its owner; `task` is posted to `loop` when the slot was
 * granted, and then `granted` and `ticket` are set. */
struct gate_waiter {
	struct loop_task task;
	struct loop *loop;
	struct gate_waiter *prev, *next;
	bool queued; /* under the provider's lock */
	bool granted;
	uint64_t ticket;
};

struct provider {
	const struct provider_config *config;
	struct policy plain; /* of mode off: one attempt */
	struct body_limits limits;
	struct provider_metrics metrics;
	_Atomic int64_t unresolved_keyed; /* for unknown.max; refreshed from the ledger's counts */

	pthread_mutex_t lock;
	struct gate gate;
	struct gate_waiter *head, *tail; /* first come, first served */
};

int provider_init(struct provider *provider, const struct provider_config *config,
		  const struct config *all, atomic_size_t *replay_pool);
void provider_done(struct provider *provider);

/* Asks for a slot. Open: the answer's ticket. Closed for want of a slot: the waiter is queued (until
 * granted or provider_forget()). Closed by a block: not queued, the answer's `until` says when to
 * ask again. */
struct gate_answer provider_enter(struct provider *provider, struct gate_waiter *waiter,
				  usec_t now);
/* Takes a waiter out of the queue. Returns a ticket that had been granted meanwhile (the caller
 * gives it back), or 0. After it the waiter's task will not run any more if it had not been posted;
 * `granted` tells whether it had. */
uint64_t provider_forget(struct provider *provider, struct gate_waiter *waiter);
/* Gives a slot back, without or with an outcome, and grants it to the next in the queue. */
void provider_release(struct provider *provider, uint64_t ticket, usec_t now);
void provider_settle(struct provider *provider, uint64_t ticket, const struct gate_outcome *outcome,
		     usec_t now);
/* The pre-request check of the block; true: may go. */
bool provider_may_send(struct provider *provider, uint64_t ticket, usec_t now);
/* For metrics and the API: time the block still lasts, slots used. */
void provider_look(struct provider *provider, usec_t now, usec_t *ret_blocked, int *ret_used,
		   int *ret_waiting);

#endif
