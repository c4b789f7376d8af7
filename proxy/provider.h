/* One provider at run time: its configuration, and what all workers of this process share of it:
 * the gates with their queue, and the metrics. */
#ifndef STINT_PROXY_PROVIDER_H
#define STINT_PROXY_PROVIDER_H

#include <pthread.h>
#include <stdbool.h>

#include "budget/gate_table.h"
#include "proxy/auth_pause.h"
#include "proxy/body.h"
#include "proxy/config.h"
#include "proxy/loop.h"
#include "proxy/metrics.h"

#define BUCKET_KEY_LEN 32

struct gate_queue {
	struct gate_waiter *head, *tail;
	int count;
};

/* One who waits for a slot, or for a probe to come back. Embedded in its owner; `task` is posted to
 * `loop` when the slot was granted, and then `granted` and `ticket` are set; ticket 0: ask again. */
struct gate_waiter {
	struct loop_task task;
	struct loop *loop;
	uint64_t bucket; /* whose gate it asks: provider_bucket(), or 0 */
	struct gate_waiter *prev, *next;
	struct gate_queue *queue; /* NULL: in none; under the provider's lock */
	int slot;                 /* in the probes' queue: whose probe */
	bool granted;
	uint64_t ticket;
};

struct provider {
	const struct provider_config *config;
	struct policy plain; /* of mode off: one attempt */
	struct body_limits limits;
	struct provider_metrics metrics;
	struct auth_pause *auth_pause;    /* auth.pause_after; NULL: off */
	_Atomic int64_t unresolved_keyed; /* for unknown.max; refreshed from the ledger's counts */

	/* Set before workers run. */
	uint8_t bucket_key[BUCKET_KEY_LEN]; /* nobody but us can tell what falls into one bucket */
	bool buckets_last;                  /* it is the ledger's: buckets mean the same tomorrow */
	void (*on_block)(
		void *data); /* a block changed: provider_next_block() has it. With the lock
					 held; may be NULL */
	void *on_block_data;

	pthread_mutex_t lock;
	struct gate_table gates;
	struct gate_slot *slots;
	int used;                /* slots of all gates: concurrency.limit is the provider's */
	struct gate_queue queue; /* for a slot: first come, first served */
	struct gate_queue probe; /* for a probe that is out */
};

int provider_init(struct provider *provider, const struct provider_config *config,
		  const struct config *all, atomic_size_t *replay_pool);
void provider_done(struct provider *provider);
/* Before workers run: hashes buckets under the ledger's secret, so that they last. */
void provider_set_secret(struct provider *provider, const uint8_t secret[BUCKET_KEY_LEN]);

/* The bucket of a request by gate.by: a keyed hash of all values of that header; 0 for `provider` and
 * for a request without it. */
uint64_t provider_bucket(const struct provider *provider, const struct header_view *headers,
			 size_t count);

/* Asks for a slot of the waiter's bucket. Open: the answer's ticket. Closed for want of a slot or
 * while a probe is out: `until` is USEC_MAX, and the waiter is queued (until its task runs or
 * provider_forget()). Closed by block, breaker or ramp: not queued, the answer's `until` says when
 * to ask again; those that a block or the breaker turns away are spread over the ramp. */
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
/* The pre-request check of block and breaker; true: may go. */
bool provider_may_send(struct provider *provider, uint64_t ticket, usec_t now);

/* For metrics and the API: the longest that any of its gates stays closed, slots used, who waits. */
void provider_look(struct provider *provider, usec_t now, usec_t *ret_blocked, int *ret_used,
		   int *ret_waiting);

/* The breakers of its gates: of the worst one its state, its failures in a row and the rest of its
 * pause, and how many do not let through. */
struct provider_breaker {
	enum gate_breaker state;
	int failures;
	usec_t left;
	int open;
	int buckets; /* gates there are */
};
void provider_look_breaker(struct provider *provider, usec_t now,
			   struct provider_breaker *ret_look);

/* One block as the ledger keeps it; all zero `block`: the row may go. */
struct provider_block {
	uint64_t bucket;
	struct gate_block block;
};

/* A block that differs from what the ledger has, and is not being written: it counts as being
 * written from here to provider_block_written(). False: there is none. */
bool provider_next_block(struct provider *provider, usec_t now, struct provider_block *ret_block);
void provider_block_written(struct provider *provider, const struct provider_block *block,
			    bool good, usec_t now);
/* Lays a stored block on its gate. False: no gate of this provider takes it, the row is nobody's. */
bool provider_restore(struct provider *provider, const struct provider_block *block, usec_t now);

#endif
