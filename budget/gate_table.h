/* The gates of one provider by bucket: one for all, or one for each credential or named bucket
 * (gate.by), in a bounded table. Pure; the memory is the caller's. */
#ifndef STINT_BUDGET_GATE_TABLE_H
#define STINT_BUDGET_GATE_TABLE_H

#include <stddef.h>

#include "budget/gate.h"

#define GATE_BUCKETS_MAX 1000
#define GATE_HEADS 1024

struct gate_slot {
	struct gate gate;
	uint64_t bucket;
	usec_t used_at;
	int next;            /* in its chain; 0: the last */
	int64_t turned_away; /* since it is closed until `closed_until` */
	usec_t closed_until;
	int waiting; /* who waits for its probe: it is not replaced meanwhile */
	/* What the ledger knows of the block; the keeper's (proxy/keeper.c). */
	struct gate_block kept; /* as last handed over to be written */
	bool stored;            /* the ledger has a row, or may have */
	bool writing;
	bool again; /* writing it failed */
};

struct gate_table {
	struct gate_slot *slots; /* slots[0] is the shared one */
	int size, count;
	int limit;
	struct gate_policy policy;
	int heads[GATE_HEADS];
};

/* slots: room for `size` of them, 1 to GATE_BUCKETS_MAX + 1; with 1 all share one gate. */
void gate_table_init(struct gate_table *table, struct gate_slot *slots, int size, int limit,
		     const struct gate_policy *policy);

/* The slot of a bucket, made where there is none; bucket 0 is the shared one. A full table gives up
 * the one that was idle the longest; where none is idle, the newcomer shares slot 0. The bucket is
 * taken as a hash that its owner cannot choose. */
struct gate_slot *gate_table_at(struct gate_table *table, uint64_t bucket, usec_t now);

static inline int gate_table_index(const struct gate_table *table, const struct gate_slot *slot)
{
	return (int)(slot - table->slots);
}

#endif
