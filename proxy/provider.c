#include "proxy/provider.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proxy/digest.h"
#include "proxy/headers.h"

/* A ticket is the gate's own with the slot's index below it: a slot with tickets out is never given
 * to another bucket. */
#define INDEX_BITS 10
_Static_assert(GATE_BUCKETS_MAX < 1 << INDEX_BITS, "a slot's index fits into a ticket");

/* How long the one probe after a pause may be out before another may take its place: an attempt's
 * own limits, so that the probe's loss is noticed and not outrun. */
static usec_t probe_lease(const struct provider *provider)
{
	const struct policy *policy = &provider->config->policy;

	return usec_add(policy->attempt_connect, policy->attempt_total);
}

/* A plain proxy keeps nobody back for what others met. */
static struct gate_policy gate_policy_of(const struct provider_config *config)
{
	struct gate_policy none = {0};

	return config->mode == MODE_OFF ? none : config->gate;
}

static int make_bucket_key(uint8_t key[BUCKET_KEY_LEN])
{
	return getrandom(key, BUCKET_KEY_LEN, 0) == BUCKET_KEY_LEN ? 0 : -1;
}

int provider_init(struct provider *provider, const struct provider_config *config,
		  const struct config *all, atomic_size_t *replay_pool)
{
	struct gate_policy policy = gate_policy_of(config);
	int slots = config->gate_header != NULL ? GATE_BUCKETS_MAX + 1 : 1;

	memset(provider, 0, sizeof(*provider));
	provider->config = config;
	provider->plain = config->policy;
	provider->plain.attempts = 1;
	provider->plain.backoff.schedule = NULL;
	provider->plain.backoff.schedule_len = 0;
	provider->limits.memory = config->body_memory;
	provider->limits.max = config->body_max;
	provider->limits.temp_dir = all->temp;
	provider->limits.pool_used = replay_pool;
	provider->limits.pool_max = all->replay_memory;
	provider->slots = calloc((size_t)slots, sizeof(*provider->slots));
	if (config->auth_pause_after > 0)
		provider->auth_pause = auth_pause_new(config->auth_pause_after);
	if (provider->slots == NULL || make_bucket_key(provider->bucket_key) != 0 ||
	    (config->auth_pause_after > 0 && provider->auth_pause == NULL)) {
		auth_pause_free(provider->auth_pause);
		provider->auth_pause = NULL;
		free(provider->slots);
		provider->slots = NULL;
		return -1;
	}
	gate_table_init(&provider->gates, provider->slots, slots, config->concurrency_limit,
			&policy);
	return -pthread_mutex_init(&provider->lock, NULL);
}

void provider_done(struct provider *provider)
{
	pthread_mutex_destroy(&provider->lock);
	auth_pause_free(provider->auth_pause);
	free(provider->slots);
}

/* --- buckets ------------------------------------------------------------------------------------ */

void provider_set_secret(struct provider *provider, const uint8_t secret[BUCKET_KEY_LEN])
{
	memcpy(provider->bucket_key, secret, BUCKET_KEY_LEN);
	provider->buckets_last = true;
}

/* Keyed by a prefix; cut to 64 bits, it cannot be continued by who does not know the key. Over all
 * values in their order. */
uint64_t provider_bucket(const struct provider *provider, const struct header_view *headers,
			 size_t count)
{
	const char *name = provider->config->gate_header;
	uint8_t hash[DIGEST_LEN];
	struct digest digest;
	uint64_t bucket = 0;
	bool found = false;

	if (name == NULL)
		return 0;
	digest_init(&digest);
	digest_bytes(&digest, provider->bucket_key, BUCKET_KEY_LEN);
	digest_text(&digest, "gate.by");
	digest_text(&digest, provider->config->name);
	digest_text(&digest, name);
	for (size_t i = 0; i < count; i++) {
		const char *value;
		size_t len;

		if (!header_is(&headers[i], name))
			continue;
		found = true;
		header_value_trim(headers[i].value, headers[i].value_len, &value, &len);
		digest_field(&digest, value, len);
	}
	digest_done(&digest, hash);
	if (!found)
		return 0;
	memcpy(&bucket, hash, sizeof(bucket));
	return bucket == 0 ? 1 : bucket;
}

static struct gate_slot *slot_of(struct provider *provider, uint64_t ticket)
{
	return &provider->slots[ticket & ((1U << INDEX_BITS) - 1)];
}

static uint64_t own_ticket(uint64_t ticket)
{
	return ticket >> INDEX_BITS;
}

/* --- the queues --------------------------------------------------------------------------------- */

static void enqueue(struct gate_queue *queue, struct gate_waiter *waiter)
{
	waiter->granted = false;
	waiter->ticket = 0;
	waiter->queue = queue;
	waiter->next = NULL;
	waiter->prev = queue->tail;
	if (queue->tail != NULL)
		queue->tail->next = waiter;
	else
		queue->head = waiter;
	queue->tail = waiter;
	queue->count++;
}

static void dequeue(struct provider *provider, struct gate_waiter *waiter)
{
	struct gate_queue *queue = waiter->queue;

	if (waiter->prev != NULL)
		waiter->prev->next = waiter->next;
	else
		queue->head = waiter->next;
	if (waiter->next != NULL)
		waiter->next->prev = waiter->prev;
	else
		queue->tail = waiter->prev;
	queue->count--;
	if (queue == &provider->probe)
		provider->slots[waiter->slot].waiting--;
	waiter->queue = NULL;
	waiter->prev = waiter->next = NULL;
}

/* Called with the lock; from here on the waiter is its owner's. */
static void wake(struct provider *provider, struct gate_waiter *waiter, uint64_t ticket)
{
	dequeue(provider, waiter);
	waiter->granted = true;
	waiter->ticket = ticket;
	loop_post(waiter->loop, &waiter->task);
}

/* The end of the pause, for each who is turned away a place later on the ramp that follows. */
static usec_t come_back(struct gate_slot *slot, usec_t until)
{
	if (until != slot->closed_until) {
		slot->closed_until = until;
		slot->turned_away = 0;
	}
	return usec_add(until, gate_ramp_offset(&slot->gate, slot->turned_away++));
}

/* What the gate of this slot says to a newcomer for whom there is a slot, or is not. */
static struct gate_answer ask(struct provider *provider, struct gate_slot *slot, bool is_free,
			      usec_t now)
{
	struct gate_answer answer = {.why = GATE_OPEN};

	if (is_free) {
		answer = gate_take(&slot->gate, now, probe_lease(provider));
	} else {
		answer.why = gate_look(&slot->gate, now, 0, &answer.until);
		answer.rate_limited = gate_is_rate_limited(&slot->gate, answer.why);
		if (answer.why == GATE_OPEN) {
			answer.why = GATE_CONCURRENCY;
			answer.until = USEC_MAX;
		}
	}
	if (answer.why == GATE_OPEN) {
		provider->used++;
		answer.ticket = answer.ticket << INDEX_BITS |
				(uint64_t)gate_table_index(&provider->gates, slot);
	} else if (answer.why == GATE_BLOCKED || answer.why == GATE_BREAKER) {
		answer.until = come_back(slot, answer.until);
	} else if (answer.why == GATE_PROBE_OUT) {
		/* Its lease is an attempt's longest; it mostly comes back much earlier. */
		answer.until = USEC_MAX;
	}
	return answer;
}

static bool has_free_slot(const struct provider *provider)
{
	return provider->used < provider->gates.limit;
}

/* Hands free slots to the queue. Whose gate has closed meanwhile is woken empty-handed: it asks
 * again and learns the time, or waits for the probe. Called with the lock. */
static void grant(struct provider *provider, usec_t now)
{
	while (provider->queue.head != NULL && has_free_slot(provider)) {
		struct gate_waiter *waiter = provider->queue.head;
		struct gate_slot *slot = gate_table_at(&provider->gates, waiter->bucket, now);
		struct gate_answer answer = ask(provider, slot, true, now);

		wake(provider, waiter, answer.why == GATE_OPEN ? answer.ticket : 0);
	}
}

/* The probe may have come back: who waited for it asks anew. Called with the lock. */
static void wake_probe_waiters(struct provider *provider, struct gate_slot *slot, usec_t now)
{
	int index = gate_table_index(&provider->gates, slot);
	struct gate_waiter *next;
	usec_t until;

	if (slot->waiting == 0 || gate_look(&slot->gate, now, 0, &until) == GATE_PROBE_OUT)
		return;
	for (struct gate_waiter *w = provider->probe.head; w != NULL; w = next) {
		next = w->next;
		if (w->slot == index)
			wake(provider, w, 0);
	}
}

/* --- entering and leaving ----------------------------------------------------------------------- */

struct gate_answer provider_enter(struct provider *provider, struct gate_waiter *waiter, usec_t now)
{
	struct gate_answer answer;
	struct gate_slot *slot;

	pthread_mutex_lock(&provider->lock);
	slot = gate_table_at(&provider->gates, waiter->bucket, now);
	/* Whoever waits comes first: no newcomer takes a slot past the queue. */
	answer = ask(provider, slot, provider->queue.head == NULL && has_free_slot(provider), now);
	if (answer.why == GATE_CONCURRENCY) {
		enqueue(&provider->queue, waiter);
	} else if (answer.why == GATE_PROBE_OUT) {
		waiter->slot = gate_table_index(&provider->gates, slot);
		slot->waiting++;
		enqueue(&provider->probe, waiter);
	}
	pthread_mutex_unlock(&provider->lock);
	return answer;
}

uint64_t provider_forget(struct provider *provider, struct gate_waiter *waiter)
{
	uint64_t ticket;

	pthread_mutex_lock(&provider->lock);
	if (waiter->queue != NULL)
		dequeue(provider, waiter);
	ticket = waiter->ticket;
	waiter->ticket = 0;
	pthread_mutex_unlock(&provider->lock);
	return ticket;
}

/* --- blocks that the ledger keeps --------------------------------------------------------------- */

static bool is_kept(const struct provider *provider, const struct gate_slot *slot)
{
	return slot->bucket == 0 || provider->buckets_last;
}

static bool is_same(const struct gate_block *a, const struct gate_block *b)
{
	return a->until == b->until && a->probing == b->probing &&
	       a->rate_limited == b->rate_limited;
}

static struct gate_block block_of(const struct gate_slot *slot, usec_t now)
{
	struct gate_block none = {0};

	return gate_is_idle(&slot->gate, now) ? none : gate_block_of(&slot->gate, now);
}

static bool is_to_write(const struct provider *provider, const struct gate_slot *slot, usec_t now)
{
	struct gate_block block = block_of(slot, now);

	return is_kept(provider, slot) && !slot->writing &&
	       (slot->again || !is_same(&block, &slot->kept));
}

static void tell_keeper(struct provider *provider, const struct gate_slot *slot, usec_t now)
{
	if (provider->on_block != NULL && is_to_write(provider, slot, now))
		provider->on_block(provider->on_block_data);
}

bool provider_next_block(struct provider *provider, usec_t now, struct provider_block *ret_block)
{
	bool found = false;

	pthread_mutex_lock(&provider->lock);
	for (int i = 0; i < provider->gates.count && !found; i++) {
		struct gate_slot *slot = &provider->slots[i];

		if (!is_to_write(provider, slot, now))
			continue;
		found = true;
		slot->kept = block_of(slot, now);
		slot->stored = slot->writing = true;
		slot->again = false;
		ret_block->bucket = slot->bucket;
		ret_block->block = slot->kept;
	}
	pthread_mutex_unlock(&provider->lock);
	return found;
}

void provider_block_written(struct provider *provider, const struct provider_block *block,
			    bool good, usec_t now)
{
	struct gate_slot *slot;

	pthread_mutex_lock(&provider->lock);
	/* A slot that is being written is not replaced: this finds it. */
	slot = gate_table_at(&provider->gates, block->bucket, now);
	slot->writing = false;
	slot->again = !good;
	slot->stored = !good || block->block.until != 0 || block->block.probing;
	pthread_mutex_unlock(&provider->lock);
}

bool provider_restore(struct provider *provider, const struct provider_block *block, usec_t now)
{
	struct gate_slot *slot;
	bool taken = false;

	if (block->bucket != 0 && !provider->buckets_last)
		return false;
	pthread_mutex_lock(&provider->lock);
	slot = gate_table_at(&provider->gates, block->bucket, now);
	if (slot->bucket == block->bucket) {
		gate_restore(&slot->gate, &block->block, provider->config->policy.retry_after_max,
			     now);
		slot->kept = block->block;
		slot->stored = taken = true;
	}
	pthread_mutex_unlock(&provider->lock);
	return taken;
}

/* --- giving back -------------------------------------------------------------------------------- */

/* `outcome` NULL: without one. */
static void give_back(struct provider *provider, uint64_t ticket,
		      const struct gate_outcome *outcome, usec_t now)
{
	struct gate_slot *slot = slot_of(provider, ticket);

	pthread_mutex_lock(&provider->lock);
	if (outcome == NULL)
		gate_release(&slot->gate, own_ticket(ticket));
	else
		gate_settle(&slot->gate, own_ticket(ticket), outcome,
			    provider->config->policy.retry_after_max, now);
	provider->used--;
	slot->used_at = now;
	tell_keeper(provider, slot, now);
	wake_probe_waiters(provider, slot, now);
	grant(provider, now);
	pthread_mutex_unlock(&provider->lock);
}

void provider_release(struct provider *provider, uint64_t ticket, usec_t now)
{
	give_back(provider, ticket, NULL, now);
}

void provider_settle(struct provider *provider, uint64_t ticket, const struct gate_outcome *outcome,
		     usec_t now)
{
	give_back(provider, ticket, outcome, now);
}

/* --- looking ------------------------------------------------------------------------------------ */

bool provider_may_send(struct provider *provider, uint64_t ticket, usec_t now)
{
	usec_t until;
	enum gate_why why;

	pthread_mutex_lock(&provider->lock);
	why = gate_look(&slot_of(provider, ticket)->gate, now, own_ticket(ticket), &until);
	pthread_mutex_unlock(&provider->lock);
	return why == GATE_OPEN;
}

void provider_look(struct provider *provider, usec_t now, usec_t *ret_blocked, int *ret_used,
		   int *ret_waiting)
{
	usec_t blocked = 0;

	pthread_mutex_lock(&provider->lock);
	for (int i = 0; i < provider->gates.count; i++)
		blocked = usec_max(blocked, gate_blocked_for(&provider->slots[i].gate, now));
	*ret_blocked = blocked;
	*ret_used = provider->used;
	*ret_waiting = provider->queue.count + provider->probe.count;
	pthread_mutex_unlock(&provider->lock);
}

void provider_look_breaker(struct provider *provider, usec_t now, struct provider_breaker *ret_look)
{
	struct provider_breaker look = {.state = GATE_BREAKER_CLOSED};

	pthread_mutex_lock(&provider->lock);
	look.buckets = provider->gates.count;
	for (int i = 0; i < provider->gates.count; i++) {
		const struct gate *gate = &provider->slots[i].gate;
		enum gate_breaker state = gate_breaker_state(gate, now);

		look.failures = gate->failures > look.failures ? gate->failures : look.failures;
		look.open += state != GATE_BREAKER_CLOSED;
		/* Open is worse than half-open. */
		if (state == GATE_BREAKER_OPEN || look.state == GATE_BREAKER_CLOSED)
			look.state = state;
		if (gate->breaker_until > now)
			look.left = usec_max(look.left, gate->breaker_until - now);
	}
	pthread_mutex_unlock(&provider->lock);
	*ret_look = look;
}
