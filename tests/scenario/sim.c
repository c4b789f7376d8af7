#include "tests/scenario/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- small things ------------------------------------------------------------------------------- */

void *sim_alloc(size_t size)
{
	void *block = calloc(1, size);

	if (block == NULL) {
		fputs("out of memory\n", stderr);
		abort();
	}
	return block;
}

uint64_t sim_random(struct sim *sim)
{
	uint64_t x = sim->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

void sim_random_bytes(struct sim *sim, uint8_t *ret_bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		ret_bytes[i] = (uint8_t)sim_random(sim);
}

static void say_time(const struct sim *sim, char *text, size_t size)
{
	(void)snprintf(text, size, "%.6fs", (double)(sim->now - SIM_T0) / (double)USEC_SEC);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
	va_list args;
	char at[32];
	int n;

	if (sim->failure[0] != '\0')
		return;
	say_time(sim, at, sizeof(at));
	n = snprintf(sim->failure, sizeof(sim->failure), "at %s: ", at);
	va_start(args, format);
	(void)vsnprintf(sim->failure + n, sizeof(sim->failure) - (size_t)n, format, args);
	va_end(args);
}

void sim_trace(struct sim *sim, const char *format, ...)
{
	va_list args;
	char at[32];

	if (!sim->trace)
		return;
	say_time(sim, at, sizeof(at));
	fprintf(stderr, "  %12s  ", at);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* A pattern is a text, "*", or a prefix and "*". */
bool sim_matches(const char *pattern, const char *text)
{
	size_t len = strlen(pattern);

	if (len > 0 && pattern[len - 1] == '*')
		return strncmp(pattern, text, len - 1) == 0;
	return strcmp(pattern, text) == 0;
}

/* --- the clock's events, a binary heap by time and order ----------------------------------------- */

static bool is_earlier(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static void swap_events(struct sim_event *a, struct sim_event *b)
{
	struct sim_event c = *a;

	*a = *b;
	*b = c;
}

void sim_post(struct sim *sim, usec_t at, enum sim_event_kind kind, void *object, unsigned stamp)
{
	size_t i = sim->heap_count++;

	if (sim->heap_count > sim->heap_cap) {
		sim->heap_cap = sim->heap_cap == 0 ? 256 : 2 * sim->heap_cap;
		sim->heap = realloc(sim->heap, sim->heap_cap * sizeof(*sim->heap));
		if (sim->heap == NULL)
			abort();
	}
	sim->heap[i] = (struct sim_event){.at = usec_max(at, sim->now),
					  .sequence = sim->sequence++,
					  .kind = kind,
					  .stamp = stamp,
					  .object = object};
	for (; i > 0 && is_earlier(&sim->heap[i], &sim->heap[(i - 1) / 2]); i = (i - 1) / 2)
		swap_events(&sim->heap[i], &sim->heap[(i - 1) / 2]);
}

static struct sim_event take_event(struct sim *sim)
{
	struct sim_event first = sim->heap[0];
	size_t i = 0, child;

	sim->heap[0] = sim->heap[--sim->heap_count];
	for (;;) {
		child = 2 * i + 1;
		if (child >= sim->heap_count)
			break;
		if (child + 1 < sim->heap_count &&
		    is_earlier(&sim->heap[child + 1], &sim->heap[child]))
			child++;
		if (!is_earlier(&sim->heap[child], &sim->heap[i]))
			break;
		swap_events(&sim->heap[i], &sim->heap[child]);
		i = child;
	}
	return first;
}

static void perform(struct sim *sim, const struct sim_event *event)
{
	struct sim_delivery *x = event->object;

	switch (event->kind) {
	case EVENT_WAKE:
		if (event->stamp == x->wake_stamp)
			sim_exchange_wake(sim, x);
		return;
	case EVENT_ATTEMPT:
		if (x->attempt != NULL && event->stamp == x->attempt->stamp)
			sim_attempt_event(sim, x);
		return;
	case EVENT_GRANT:
		sim_exchange_granted(sim, x);
		return;
	case EVENT_OWNER_LEFT:
		sim_exchange_owner_left(sim, x);
		return;
	case EVENT_CALL_EXEC:
		sim_call_exec(sim, event->object);
		return;
	case EVENT_CALL_REPLY:
		sim_call_reply(sim, event->object);
		return;
	case EVENT_SWEEP:
		sim_sweep(sim, event->object);
		return;
	case EVENT_UPDATE:
		sim_update_start(sim, event->object);
		return;
	case EVENT_AGAIN:
		sim_again(sim, x);
		return;
	}
}

bool sim_next(struct sim *sim, usec_t until)
{
	struct sim_event event;

	if (sim->failure[0] != '\0' || sim->heap_count == 0 || sim->heap[0].at > until)
		return false;
	event = take_event(sim);
	if (event.at > sim->now)
		sim->steps_here = 0;
	sim->now = usec_max(sim->now, event.at);
	sim->steps++;
	if (++sim->steps_here > SIM_STEPS_HERE) {
		sim_fail(sim, "goes round in circles without time passing");
		return false;
	}
	perform(sim, &event);
	sim_check(sim);
	return true;
}

void sim_run(struct sim *sim, usec_t until)
{
	while (sim_next(sim, until))
		;
	if (sim->failure[0] == '\0')
		sim->now = usec_max(sim->now, until);
}

static bool is_busy(const struct sim *sim)
{
	if (sim->queued > 0)
		return true;
	for (const struct sim_delivery *x = sim->deliveries; x != NULL; x = x->next) {
		if (x->crashed)
			continue;
		if (!x->ended || x->calls > 0 || x->attempt != NULL || x->join_posted ||
		    x->grant_posted)
			return true;
	}
	for (const struct sim_update *u = sim->updates; u != NULL; u = u->next) {
		if (!u->done && u->instance->alive)
			return true;
	}
	return false;
}

void sim_run_idle(struct sim *sim, usec_t most)
{
	usec_t end = usec_add(sim->now, most);

	while (is_busy(sim)) {
		if (!sim_next(sim, end)) {
			if (sim->failure[0] == '\0')
				sim_fail(sim, "something never ends");
			return;
		}
	}
	/* What is due at the very end, such as the last store's word. */
	sim_run(sim, sim->now);
}

/* --- instances ----------------------------------------------------------------------------------- */

struct sim_provider *sim_find_provider(struct sim *sim, const char *name)
{
	for (size_t i = 0; i < sim->provider_count; i++) {
		if (strcmp(sim->providers[i].name, name) == 0)
			return &sim->providers[i];
	}
	return NULL;
}

struct sim_instance *sim_find_instance(struct sim *sim, const char *name)
{
	for (size_t i = 0; i < sim->instance_count; i++) {
		if (strcmp(sim->instances[i].name, name) == 0)
			return &sim->instances[i];
	}
	return NULL;
}

static void default_policy(struct policy *policy)
{
	*policy = (struct policy){
		.attempts = 5,
		.window = 5 * USEC_MIN,
		.backoff = {.first = USEC_SEC, .factor = 2, .max = USEC_MIN},
		.attempt_timeout = 10 * USEC_SEC,
		.attempt_connect = 2 * USEC_SEC,
		.attempt_idle = 10 * USEC_SEC,
		.attempt_total = 30 * USEC_SEC,
		.attempt_least = 500 * USEC_MS,
		.attempt_reuse = 2 * USEC_SEC,
		.hold = 20 * USEC_SEC,
		.retry_after_max = USEC_HOUR,
		.retain_for = USEC_DAY,
		.retain_key = 30 * USEC_DAY,
		.unknown_unkeyed = 7 * USEC_DAY,
	};
	policy->lease = policy->attempt_connect + policy->attempt_timeout + 2 * USEC_SEC;
}

struct sim_provider *sim_add_provider(struct sim *sim, const char *name)
{
	struct sim_provider *provider;

	if (sim->provider_count == SIM_PROVIDERS)
		return NULL;
	provider = &sim->providers[sim->provider_count++];
	(void)snprintf(provider->name, sizeof(provider->name), "%s", name);
	default_policy(&provider->policy);
	provider->concurrency = 1000;
	provider->ruleset.rules = provider->rules;
	return provider;
}

void sim_start(struct sim *sim, struct sim_instance *instance)
{
	instance->alive = true;
	instance->draining = false;
	(void)snprintf(instance->id, sizeof(instance->id), "%.16s.%u", instance->name,
		       instance->starts++ % 10000);
	for (size_t i = 0; i < SIM_PROVIDERS; i++) {
		memset(&instance->gates[i], 0, sizeof(instance->gates[i]));
		if (i >= sim->provider_count)
			continue;
		gate_init(&instance->gates[i].gate, sim->providers[i].concurrency);
		instance->gates[i].gate.policy = sim->providers[i].gate;
	}
	for (struct sim_record *r = sim->records; r != NULL; r = r->next)
		sim_plan_sweep(sim, r);
}

struct sim_instance *sim_add_instance(struct sim *sim, const char *name)
{
	struct sim_instance *instance;

	if (sim->instance_count == SIM_INSTANCES)
		return NULL;
	instance = &sim->instances[sim->instance_count];
	instance->index = (int)sim->instance_count++;
	(void)snprintf(instance->name, sizeof(instance->name), "%s", name);
	sim_start(sim, instance);
	return instance;
}

/* kill -9: nothing more comes from it; what it had handed to the store or the provider is out. */
void sim_crash(struct sim *sim, struct sim_instance *instance)
{
	instance->alive = false;
	for (struct sim_delivery *x = sim->deliveries; x != NULL; x = x->next) {
		if (x->instance != instance || x->crashed)
			continue;
		x->crashed = true;
		x->wake_stamp++;
		if (x->attempt != NULL) {
			sim_book_ended(sim, x);
			x->attempt = NULL;
		}
	}
	for (struct sim_update *u = sim->updates; u != NULL; u = u->next) {
		if (u->instance == instance && !u->done) {
			u->done = true;
			if (u->pending)
				u->record->pending[instance->index]--;
		}
	}
	for (struct sim_record *r = sim->records; r != NULL; r = r->next) {
		memset(&r->live[instance->index], 0, sizeof(r->live[0]));
		sim_plan_sweep(sim, r);
	}
}

void sim_drain(struct sim *sim, struct sim_instance *instance)
{
	instance->draining = true;
	for (struct sim_delivery *x = sim->deliveries; x != NULL; x = x->next) {
		if (x->instance == instance && !x->crashed && !x->ended)
			sim_exchange_simple(sim, x, DELIVERY_EV_DRAIN);
	}
}

/* --- the world ----------------------------------------------------------------------------------- */

void sim_init(struct sim *sim, uint64_t seed)
{
	memset(sim, 0, sizeof(*sim));
	sim->now = SIM_T0;
	sim->random = seed;
	sim->last_delivery = &sim->deliveries;
	sim->dead_ids_known = true;
}

#define FREE_LIST(type, first)                                                                     \
	do {                                                                                       \
		for (type *item = (first), *after; item != NULL; item = after) {                   \
			after = item->next;                                                        \
			free(item);                                                                \
		}                                                                                  \
	} while (0)

void sim_free(struct sim *sim)
{
	for (struct sim_record *r = sim->records; r != NULL; r = r->next) {
		free(r->charges);
		free(r->sends);
	}
	FREE_LIST(struct sim_record, sim->records);
	FREE_LIST(struct sim_delivery, sim->deliveries);
	FREE_LIST(struct sim_call, sim->calls);
	FREE_LIST(struct sim_update, sim->updates);
	FREE_LIST(struct sim_attempt, sim->attempts);
	free(sim->heap);
	sim->heap = NULL;
}
