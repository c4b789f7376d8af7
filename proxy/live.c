#include "proxy/live.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS 64
#define BUCKETS 256 /* a shard */

struct live_entry {
	struct live_entry *next; /* bucket */
	uint64_t hash;
	struct op_name name; /* its texts follow the struct */
	bool known;
	/* The record without its ring of attempts, which nobody who joins looks at: the ring is most of
	 * it, and there is one entry for each delivery that waits. */
	uint8_t op[offsetof(struct op, ring)];
	struct live_waiter *waiters, **tail;
};

struct live_shard {
	pthread_mutex_t lock;
	struct live_entry *buckets[BUCKETS];
};

struct live {
	struct live_shard shards[SHARDS];
};

struct live *live_new(void)
{
	struct live *live = calloc(1, sizeof(*live));

	if (live == NULL)
		return NULL;
	for (size_t i = 0; i < SHARDS; i++)
		pthread_mutex_init(&live->shards[i].lock, NULL);
	return live;
}

void live_free(struct live *live)
{
	if (live == NULL)
		return;
	for (size_t i = 0; i < SHARDS; i++)
		pthread_mutex_destroy(&live->shards[i].lock);
	free(live);
}

void live_result_unref(struct live_result *result)
{
	if (result == NULL || atomic_fetch_sub(&result->refs, 1) != 1)
		return;
	ledger_reply_unref(result->reply);
	free(result);
}

static struct live_shard *shard_of(struct live *live, uint64_t hash)
{
	return &live->shards[hash % SHARDS];
}

static struct live_entry **bucket_of(struct live_shard *shard, uint64_t hash)
{
	return &shard->buckets[hash / SHARDS % BUCKETS];
}

static struct live_entry *find(struct live_shard *shard, uint64_t hash, const struct op_name *name)
{
	struct live_entry *entry = *bucket_of(shard, hash);

	while (entry != NULL && (entry->hash != hash || !op_name_equal(&entry->name, name)))
		entry = entry->next;
	return entry;
}

static char *put_text(char **end, const char *text)
{
	char *at = *end;
	size_t len = strlen(text) + 1;

	memcpy(at, text, len);
	*end += len;
	return at;
}

static struct live_entry *entry_new(uint64_t hash, const struct op_name *name)
{
	size_t texts = strlen(name->provider) + strlen(name->tenant) + strlen(name->scope) +
		       strlen(name->key) + 4;
	struct live_entry *entry = calloc(1, sizeof(*entry) + texts);
	char *end;

	if (entry == NULL)
		return NULL;
	end = (char *)(entry + 1);
	entry->hash = hash;
	entry->name.provider = put_text(&end, name->provider);
	entry->name.tenant = put_text(&end, name->tenant);
	entry->name.scope = put_text(&end, name->scope);
	entry->name.key = put_text(&end, name->key);
	entry->tail = &entry->waiters;
	return entry;
}

enum live_answer live_enter(struct live *live, const struct op_name *name,
			    const uint8_t fingerprint[OP_FINGERPRINT_LEN],
			    struct live_waiter *waiter, bool join, struct live_entry **ret_entry,
			    bool *ret_same, bool *ret_known, struct op *ret_op)
{
	uint64_t hash = op_name_hash(name);
	struct live_shard *shard = shard_of(live, hash);
	enum live_answer answer = LIVE_BUSY;
	struct live_entry *entry;

	pthread_mutex_lock(&shard->lock);
	entry = find(shard, hash, name);
	if (entry == NULL) {
		entry = entry_new(hash, name);
		if (entry == NULL) {
			answer = LIVE_MEMORY;
			goto unlock;
		}
		entry->next = *bucket_of(shard, hash);
		*bucket_of(shard, hash) = entry;
		*ret_entry = entry;
		answer = LIVE_OWNER;
		goto unlock;
	}
	*ret_same = true;
	*ret_known = entry->known;
	if (entry->known) {
		memset(ret_op, 0, sizeof(*ret_op));
		memcpy(ret_op, entry->op, sizeof(entry->op));
		*ret_same = memcmp(ret_op->fingerprint, fingerprint, OP_FINGERPRINT_LEN) == 0;
	}
	if (*ret_same && join) {
		memcpy(waiter->fingerprint, fingerprint, OP_FINGERPRINT_LEN);
		waiter->hash = hash;
		waiter->entry = entry;
		waiter->next = NULL;
		waiter->result = NULL;
		*entry->tail = waiter;
		entry->tail = &waiter->next;
	}
unlock:
	pthread_mutex_unlock(&shard->lock);
	return answer;
}

/* With the lock. */
static void wake_strangers(struct live_entry *entry, const struct op *op)
{
	struct live_waiter **at = &entry->waiters, *waiter;

	while ((waiter = *at) != NULL) {
		if (memcmp(waiter->fingerprint, op->fingerprint, OP_FINGERPRINT_LEN) == 0) {
			at = &waiter->next;
			continue;
		}
		*at = waiter->next;
		waiter->entry = NULL;
		loop_post(waiter->loop, &waiter->task);
	}
	entry->tail = at;
}

void live_update(struct live *live, struct live_entry *entry, const struct op *op)
{
	struct live_shard *shard = shard_of(live, entry->hash);

	pthread_mutex_lock(&shard->lock);
	memcpy(entry->op, op, sizeof(entry->op));
	if (!entry->known)
		wake_strangers(entry, op);
	entry->known = true;
	pthread_mutex_unlock(&shard->lock);
}

/* A state that joiners are answered from; with any other they try themselves. */
static bool is_answer(const struct op *op)
{
	return op != NULL && op->state != OP_READY && op->state != OP_ATTEMPTING;
}

static struct live_result *result_new(const struct op *op, struct ledger_reply *reply, int refs)
{
	struct live_result *result = calloc(1, sizeof(*result));

	if (result == NULL)
		return NULL; /* the joiners read the ledger instead */
	atomic_init(&result->refs, refs);
	result->op = *op;
	result->reply = reply != NULL ? ledger_reply_ref(reply) : NULL;
	return result;
}

void live_leave(struct live *live, struct live_entry *entry, const struct op *op,
		struct ledger_reply *reply)
{
	struct live_shard *shard = shard_of(live, entry->hash);
	struct live_entry **at = bucket_of(shard, entry->hash);
	struct live_result *result = NULL;
	int count = 0;

	pthread_mutex_lock(&shard->lock);
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	for (struct live_waiter *w = entry->waiters; w != NULL; w = w->next)
		count++;
	if (count > 0 && is_answer(op))
		result = result_new(op, reply, count);
	for (struct live_waiter *w = entry->waiters, *next; w != NULL; w = next) {
		next = w->next;
		w->entry = NULL;
		w->result = result;
		loop_post(w->loop, &w->task);
	}
	pthread_mutex_unlock(&shard->lock);
	free(entry);
}

bool live_forget(struct live *live, struct live_waiter *waiter)
{
	struct live_shard *shard = shard_of(live, waiter->hash);
	struct live_entry *entry;
	struct live_waiter **at;

	pthread_mutex_lock(&shard->lock);
	entry = waiter->entry;
	if (entry != NULL) {
		at = &entry->waiters;
		while (*at != waiter)
			at = &(*at)->next;
		*at = waiter->next;
		if (entry->tail == &waiter->next)
			entry->tail = at;
		waiter->entry = NULL;
	}
	pthread_mutex_unlock(&shard->lock);
	return entry != NULL;
}

bool live_has(struct live *live, const struct op_name *name)
{
	uint64_t hash = op_name_hash(name);
	struct live_shard *shard = shard_of(live, hash);
	bool found;

	pthread_mutex_lock(&shard->lock);
	found = find(shard, hash, name) != NULL;
	pthread_mutex_unlock(&shard->lock);
	return found;
}
