/* The operations that deliveries of this process are working on right now: one delivery a key
 * owns it, the others join and are told how it ended. Shared by all workers. */
#ifndef STINT_PROXY_LIVE_H
#define STINT_PROXY_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "budget/ledger.h"
#include "proxy/loop.h"

struct live;
struct live_entry;

/* How the owner left it: counted, shared by the joiners. */
struct live_result {
	atomic_int refs;
	struct op op;
	struct ledger_reply *reply; /* or NULL */
};

void live_result_unref(struct live_result *result); /* NULL is fine */

/* One who joins. Embedded in its owner. `task` is posted to `loop` when the owner left; then
 * `result` (a reference, or NULL: the key is free, enter again) is set. */
struct live_waiter {
	struct loop_task task;
	struct loop *loop;
	struct live_waiter *next;
	uint64_t hash;
	uint8_t fingerprint[OP_FINGERPRINT_LEN];
	struct live_entry *entry; /* NULL: not waiting */
	struct live_result *result;
};

struct live *live_new(void);
void live_free(struct live *live);

enum live_answer { LIVE_OWNER, LIVE_BUSY, LIVE_MEMORY };

/* Enters under `name`. LIVE_OWNER: ret_entry is the caller's until live_leave(). LIVE_BUSY: another
 * one has it; ret_op is its record as last known, without the ring of attempts (ret_known false: not
 * known yet); ret_same is false where the record has another fingerprint. While the record is not
 * known nobody can say whose fingerprint is the wrong one. With ret_same and `join` the waiter is
 * queued. */
enum live_answer live_enter(struct live *live, const struct op_name *name,
			    const uint8_t fingerprint[OP_FINGERPRINT_LEN],
			    struct live_waiter *waiter, bool join, struct live_entry **ret_entry,
			    bool *ret_same, bool *ret_known, struct op *ret_op);
/* The owner's record as it now stands. When it becomes known, those who wait with another fingerprint
 * are sent to enter again, and learn it. */
void live_update(struct live *live, struct live_entry *entry, const struct op *op);
/* The owner ends. `op` (may be NULL) and `reply` (may be NULL; a reference is taken) go to the
 * joiners if the state is one that they are answered from; else they enter again. */
void live_leave(struct live *live, struct live_entry *entry, const struct op *op,
		struct ledger_reply *reply);
/* Takes a waiter out, one that was queued. true: its task was not posted and will not be. false: it
 * was, and will still run. */
bool live_forget(struct live *live, struct live_waiter *waiter);
/* Whether somebody of this process works on it (its lease is not swept). */
bool live_has(struct live *live, const struct op_name *name);

#endif
