#include "budget/gate_table.h"

#include <assert.h>
#include <string.h>

void gate_table_init(struct gate_table *table, struct gate_slot *slots, int size, int limit,
		     const struct gate_policy *policy)
{
	assert(size >= 1 && size <= GATE_BUCKETS_MAX + 1);
	memset(table, 0, sizeof(*table));
	table->slots = slots;
	table->size = size;
	table->limit = limit;
	table->policy = *policy;
	table->count = 1;
	memset(&slots[0], 0, sizeof(slots[0]));
	gate_init(&slots[0].gate, limit);
	slots[0].gate.policy = *policy;
}

static int *head_of(struct gate_table *table, uint64_t bucket)
{
	return &table->heads[bucket % GATE_HEADS];
}

static void unchain(struct gate_table *table, int index)
{
	int *at = head_of(table, table->slots[index].bucket);

	while (*at != index)
		at = &table->slots[*at].next;
	*at = table->slots[index].next;
}

static bool may_go(const struct gate_slot *slot, usec_t now)
{
	return slot->waiting == 0 && !slot->stored && !slot->writing &&
	       gate_is_idle(&slot->gate, now);
}

/* A free index, or that of the idle slot that was not used for the longest time; 0: none. */
static int make_room(struct gate_table *table, usec_t now)
{
	int best = 0;

	if (table->count < table->size)
		return table->count++;
	for (int i = 1; i < table->count; i++) {
		if (may_go(&table->slots[i], now) &&
		    (best == 0 || table->slots[i].used_at < table->slots[best].used_at))
			best = i;
	}
	if (best != 0)
		unchain(table, best);
	return best;
}

struct gate_slot *gate_table_at(struct gate_table *table, uint64_t bucket, usec_t now)
{
	struct gate_slot *slot;
	int *head = head_of(table, bucket);
	int index = 0;

	if (bucket != 0 && table->size > 1) {
		for (index = *head; index != 0; index = table->slots[index].next) {
			if (table->slots[index].bucket == bucket)
				break;
		}
		if (index != 0) {
			table->slots[index].used_at = now;
			return &table->slots[index];
		}
		index = make_room(table, now);
	}
	slot = &table->slots[index];
	if (index == 0)
		return slot;
	memset(slot, 0, sizeof(*slot));
	gate_init(&slot->gate, table->limit);
	slot->gate.policy = table->policy;
	slot->bucket = bucket;
	slot->used_at = now;
	slot->next = *head;
	*head = index;
	return slot;
}
