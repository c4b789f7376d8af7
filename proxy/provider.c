#include "proxy/provider.h"

#include <string.h>

/* How long the one probe after a capped block may be out before another may take its place: an
 * attempt's own limits, so that the probe's loss is noticed and not outrun. */
static usec_t probe_lease(const struct provider *provider)
{
	const struct policy *policy = &provider->config->policy;

	return usec_add(policy->attempt_connect, policy->attempt_total);
}

int provider_init(struct provider *provider, const struct provider_config *config,
		  const struct config *all, atomic_size_t *replay_pool)
{
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
	gate_init(&provider->gate, config->concurrency_limit);
	return -pthread_mutex_init(&provider->lock, NULL);
}

void provider_done(struct provider *provider)
{
	pthread_mutex_destroy(&provider->lock);
}

static void enqueue(struct provider *provider, struct gate_waiter *waiter)
{
	waiter->queued = true;
	waiter->granted = false;
	waiter->ticket = 0;
	waiter->next = NULL;
	waiter->prev = provider->tail;
	if (provider->tail != NULL)
		provider->tail->next = waiter;
	else
		provider->head = waiter;
	provider->tail = waiter;
}

static void dequeue(struct provider *provider, struct gate_waiter *waiter)
{
	if (waiter->prev != NULL)
		waiter->prev->next = waiter->next;
	else
		provider->head = waiter->next;
	if (waiter->next != NULL)
		waiter->next->prev = waiter->prev;
	else
		provider->tail = waiter->prev;
	waiter->queued = false;
	waiter->prev = waiter->next = NULL;
}

/* Hands free slots to the queue. A block that began meanwhile wakes it empty-handed: its members ask
 * again and learn the time. Called with the lock. */
static void grant(struct provider *provider, usec_t now)
{
	while (provider->head != NULL) {
		struct gate_waiter *waiter = provider->head;
		struct gate_answer answer = gate_take(&provider->gate, now, probe_lease(provider));

		if (answer.why == GATE_CONCURRENCY)
			return;
		dequeue(provider, waiter);
		waiter->granted = true;
		waiter->ticket = answer.why == GATE_OPEN ? answer.ticket : 0;
		loop_post(waiter->loop, &waiter->task);
	}
}

struct gate_answer provider_enter(struct provider *provider, struct gate_waiter *waiter, usec_t now)
{
	struct gate_answer answer;

	pthread_mutex_lock(&provider->lock);
	/* Whoever waits comes first: no newcomer takes a slot past the queue. */
	if (provider->head != NULL) {
		usec_t until;
		enum gate_why why = gate_look(&provider->gate, now, 0, &until);

		memset(&answer, 0, sizeof(answer));
		answer.why = why == GATE_OPEN ? GATE_CONCURRENCY : why;
		answer.until = answer.why == GATE_CONCURRENCY ? USEC_MAX : until;
	} else {
		answer = gate_take(&provider->gate, now, probe_lease(provider));
	}
	answer.rate_limited = answer.why != GATE_OPEN && answer.why != GATE_CONCURRENCY &&
			      provider->gate.block_is_rate_limit;
	if (answer.why == GATE_CONCURRENCY)
		enqueue(provider, waiter);
	pthread_mutex_unlock(&provider->lock);
	return answer;
}

uint64_t provider_forget(struct provider *provider, struct gate_waiter *waiter)
{
	uint64_t ticket;

	pthread_mutex_lock(&provider->lock);
	if (waiter->queued)
		dequeue(provider, waiter);
	ticket = waiter->ticket;
	waiter->ticket = 0;
	pthread_mutex_unlock(&provider->lock);
	return ticket;
}

void provider_release(struct provider *provider, uint64_t ticket, usec_t now)
{
	pthread_mutex_lock(&provider->lock);
	gate_release(&provider->gate, ticket);
	grant(provider, now);
	pthread_mutex_unlock(&provider->lock);
}

void provider_settle(struct provider *provider, uint64_t ticket, const struct gate_outcome *outcome,
		     usec_t now)
{
	pthread_mutex_lock(&provider->lock);
	gate_settle(&provider->gate, ticket, outcome, provider->config->policy.retry_after_max,
		    now);
	grant(provider, now);
	pthread_mutex_unlock(&provider->lock);
}

bool provider_may_send(struct provider *provider, uint64_t ticket, usec_t now)
{
	usec_t until;
	enum gate_why why;

	pthread_mutex_lock(&provider->lock);
	why = gate_look(&provider->gate, now, ticket, &until);
	pthread_mutex_unlock(&provider->lock);
	return why == GATE_OPEN || why == GATE_CONCURRENCY; /* its own slot is among the used */
}

void provider_look(struct provider *provider, usec_t now, usec_t *ret_blocked, int *ret_used,
		   int *ret_waiting)
{
	int waiting = 0;

	pthread_mutex_lock(&provider->lock);
	*ret_blocked = gate_blocked_for(&provider->gate, now);
	*ret_used = provider->gate.used;
	for (const struct gate_waiter *w = provider->head; w != NULL; w = w->next)
		waiting++;
	pthread_mutex_unlock(&provider->lock);
	*ret_waiting = waiting;
}
