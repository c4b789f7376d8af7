/* pure-test */
/* Random walks over whole worlds: several instances, providers, keys and deliveries, a store and
 * providers that misbehave, people who interfere; the invariants of design section 13 are checked
 * after every step by the world of the scenario runner, and when nothing runs any more.
 *
 * STINT_PROPERTY_STEPS (1000000) and STINT_PROPERTY_SEED choose the walk; a failure prints the seed
 * of its world, which alone brings it back. STINT_SCENARIO_TRACE=1 shows each step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenario/sim.c"
#include "tests/scenario/sim_attempt.c"
#include "tests/scenario/sim_check.c"
#include "tests/scenario/sim_exchange.c"
#include "tests/scenario/sim_exchange_store.c"
#include "tests/scenario/sim_gate.c"
#include "tests/scenario/sim_store.c"
#include "tests/scenario/sim_update.c"

#define KEYS 5
#define TURNS 150 /* actions of one world */

/* How often each thing really happened: a walk that reaches nothing proves nothing. */
struct reached {
	unsigned long worlds, steps, deliveries, sends, answers, streamed, replayed, gone;
	unsigned long states[OP_STATE_COUNT], problems[8], late, disputed, struck, crashes, drains;
};

static const char *const problem_names[] = {"waiting",         "key-reuse",  "in-progress",
					    "exhausted",       "unknown",    "held",
					    "unknown-outcome", "ledger-away"};

static uint64_t below(struct sim *sim, uint64_t n)
{
	return sim_random(sim) % n;
}

static bool chance(struct sim *sim, unsigned percent)
{
	return below(sim, 100) < percent;
}

/* Between 0 and `most`, short ones more often. */
static usec_t random_time(struct sim *sim, usec_t most)
{
	usec_t span = most >> below(sim, 10);

	return (usec_t)below(sim, (uint64_t)span + 1);
}

static void random_step(struct sim *sim, struct sim_provider *provider, struct sim_step *step)
{
	static const int statuses[] = {200, 200, 200, 201, 302, 400, 401, 403, 404, 408, 409,
				       410, 413, 422, 429, 429, 429, 500, 502, 503, 503, 504};
	static const enum sim_step_kind kinds[] = {
		STEP_SILENT, STEP_REFUSED, STEP_RESOLVE, STEP_TLS,   STEP_CONNECT,
		STEP_RESET,  STEP_CLOSED,  STEP_CUT,     STEP_STALL, STEP_HEAD};

	(void)provider;
	step->kind = STEP_REPLY;
	step->status = statuses[below(sim, sizeof(statuses) / sizeof(statuses[0]))];
	if (chance(sim, 35))
		step->kind = kinds[below(sim, sizeof(kinds) / sizeof(kinds[0]))];
	if (chance(sim, 40))
		step->after = random_time(sim, 20 * USEC_SEC);
	if (chance(sim, 15))
		step->connect = random_time(sim, 4 * USEC_SEC);
	if (chance(sim, 15))
		step->body = random_time(sim, 5 * USEC_SEC);
	step->applied = chance(sim, 30);
	step->stream = chance(sim, 5);
	step->large = chance(sim, 5);
	if (chance(sim, 25)) {
		step->header_count = 1;
		(void)snprintf(step->header_name[0], sizeof(step->header_name[0]), "Retry-After");
		(void)snprintf(step->header_value[0], sizeof(step->header_value[0]), "%u",
			       (unsigned)below(sim, chance(sim, 10) ? 5000 : 12));
	}
}

static void random_policy(struct sim *sim, struct sim_provider *provider)
{
	struct policy *p = &provider->policy;

	p->attempts = 1 + (int)below(sim, 6);
	p->window = usec_max(random_time(sim, USEC_HOUR), USEC_SEC);
	p->backoff.first = usec_max(random_time(sim, 10 * USEC_SEC), 1);
	p->backoff.jitter = (enum jitter)below(sim, 3);
	p->hold = chance(sim, 10) ? 0 : random_time(sim, 30 * USEC_SEC);
	p->attempt_timeout = USEC_SEC + random_time(sim, 10 * USEC_SEC);
	p->attempt_connect = USEC_SEC + random_time(sim, 3 * USEC_SEC);
	p->attempt_total =
		p->attempt_connect + p->attempt_timeout + random_time(sim, 20 * USEC_SEC);
	p->attempt_least = 1 + random_time(sim, 2 * USEC_SEC);
	p->lease = p->attempt_connect + p->attempt_timeout + 2 * USEC_SEC;
	if (chance(sim, 30))
		p->lease = random_time(sim, 4 * USEC_SEC);
	p->retry_after_max = random_time(sim, USEC_MIN) + 1;
	p->beyond = chance(sim, 20) ? BEYOND_STOP : BEYOND_PROBE;
	p->in_flight = chance(sim, 20) ? IN_FLIGHT_REFUSE : IN_FLIGHT_JOIN;
	p->forwards_key = chance(sim, 50);
	p->key_retention = p->forwards_key && chance(sim, 70) ? USEC_DAY : 0;
	p->repeat_any_time = chance(sim, 10);
	provider->concurrency = chance(sim, 30) ? 1 + (int)below(sim, 2) : 100;
	if (chance(sim, 40)) {
		provider->gate.failures = 1 + (int)below(sim, 4);
		provider->gate.open = 1 + random_time(sim, 10 * USEC_SEC);
		provider->gate.max = provider->gate.open + random_time(sim, USEC_MIN);
		provider->gate.ramp = random_time(sim, USEC_SEC);
	}
}

static void begin(struct sim *sim, uint64_t seed)
{
	static const char *const instances[] = {"a", "b", "c"};
	static const char *const providers[] = {"p", "q"};

	sim_init(sim, seed);
	sim->trace = getenv("STINT_SCENARIO_TRACE") != NULL;
	sim->pick = random_step;
	sim->dead_ids_known = chance(sim, 60);
	for (uint64_t n = 1 + below(sim, 2), i = 0; i < n; i++)
		random_policy(sim, sim_add_provider(sim, providers[i]));
	for (uint64_t n = 1 + below(sim, 3), i = 0; i < n; i++)
		(void)sim_add_instance(sim, instances[i]);
}

static struct sim_instance *some_instance(struct sim *sim)
{
	return &sim->instances[below(sim, sim->instance_count)];
}

static void deliver(struct sim *sim, unsigned number)
{
	static const char *const methods[] = {"POST", "POST", "POST", "PUT", "DELETE", "GET"};
	struct sim_request request = {.hint_deadline = -1};
	/* A few keys at a time; old ones are left for new ones as the world goes on. */
	uint64_t kind = below(sim, KEYS), key = kind + KEYS * (number / 20);

	request.instance = some_instance(sim);
	request.provider = &sim->providers[below(sim, sim->provider_count)];
	if (!request.instance->alive)
		return;
	(void)snprintf(request.name, sizeof(request.name), "d%u.", number);
	if (chance(sim, 90))
		(void)snprintf(request.key, sizeof(request.key), "%s:%u", request.provider->name,
			       (unsigned)key);
	/* One method a key, as an application would do. */
	(void)snprintf(request.method, sizeof(request.method), "%s", methods[kind]);
	if (chance(sim, 10))
		(void)snprintf(request.method, sizeof(request.method), "GET");
	request.body = chance(sim, 5) ? 1 : 0;
	request.credential = (unsigned)below(sim, 4);
	if (chance(sim, 15))
		request.hint_attempts = 1 + (int)below(sim, 3);
	if (chance(sim, 15))
		request.hint_deadline = random_time(sim, 20 * USEC_SEC);
	request.upload = chance(sim, 10) ? random_time(sim, USEC_SEC) : 0;
	request.streamed = chance(sim, 3);
	request.again = chance(sim, 30) ? 5 : 0;
	if (chance(sim, 3))
		(void)snprintf(request.corrects, sizeof(request.corrects), "%s:%u",
			       request.provider->name, (unsigned)kind);
	(void)sim_deliver(sim, &request);
}

static struct sim_delivery *some_delivery(struct sim *sim)
{
	struct sim_delivery *picked = NULL;
	uint64_t n = 0;

	for (struct sim_delivery *x = sim->deliveries; x != NULL; x = x->next) {
		if (!x->crashed && !x->ended && below(sim, ++n) == 0)
			picked = x;
	}
	return picked;
}

static struct sim_record *some_record(struct sim *sim)
{
	struct sim_record *picked = NULL;
	uint64_t n = 0;

	for (struct sim_record *r = sim->records; r != NULL; r = r->next) {
		if (r->present && below(sim, ++n) == 0)
			picked = r;
	}
	return picked;
}

static void operate(struct sim *sim)
{
	static const enum op_event_kind kinds[] = {OP_EV_HOLD,   OP_EV_RELEASE, OP_EV_RELEASE,
						   OP_EV_REOPEN, OP_EV_RESOLVE, OP_EV_PROBE};
	struct op_event event = {.kind = kinds[below(sim, 6)]};
	struct sim_record *record = some_record(sim);

	if (record == NULL)
		return;
	event.applied = chance(sim, 30);
	event.reopen = chance(sim, 30);
	event.new_key = chance(sim, 20);
	event.then_exhausted = chance(sim, 30);
	event.more = (int)below(sim, 4);
	(void)sim_operate(sim, record, &event);
}

/* An old finding comes again, or the truth about an attempt that may have been applied. */
static void find(struct sim *sim)
{
	struct verdict verdict = {.class = CLASS_TRANSIENT, .advice = -1, .rule_wait = -1};
	struct op_event event = {.kind = OP_EV_SETTLE, .now = sim->now, .verdict = &verdict};
	struct sim_record *record = some_record(sim);
	const struct sim_charge *charge;
	struct sim_update *update;
	struct sim_instance *instance = some_instance(sim);

	if (record == NULL || record->charge_count == 0 || !instance->alive)
		return;
	charge = &record->charges[below(sim, record->charge_count)];
	/* Nobody but its owner knows of an attempt that still runs. */
	if (!charge->sent || charge->running != NULL || record->op.state == OP_ATTEMPTING)
		return;
	if (chance(sim, 40))
		verdict.class = CLASS_SUCCESS, verdict.effect = EFFECT_DEFINITE;
	event.token = charge->token;
	event.n = charge->n;
	update = sim_update_new(sim, instance, record);
	sim_update_set_event(update, &event, record->op.incarnation);
	sim_update_start(sim, update);
}

static void disturb_store(struct sim *sim)
{
	struct sim_store_script script = {.fault = (enum sim_store_fault)below(sim, 6)};

	script.left = chance(sim, 70) ? 1 + (int)below(sim, 3) : -1;
	script.time = random_time(sim, 30 * USEC_SEC);
	script.instance = chance(sim, 50) ? some_instance(sim) : NULL;
	if (chance(sim, 80))
		sim->store[below(sim, VERB_COUNT)] = script;
	else
		for (int i = 0; i < VERB_COUNT; i++)
			sim->store[i] = script;
}

static void heal_store(struct sim *sim)
{
	memset(sim->store, 0, sizeof(sim->store));
}

static void stop_or_start(struct sim *sim, struct reached *r)
{
	struct sim_instance *instance = some_instance(sim);

	if (!instance->alive) {
		sim_start(sim, instance);
	} else if (instance->draining) {
		sim_crash(sim, instance);
	} else if (chance(sim, 70)) {
		sim_crash(sim, instance);
		r->crashes++;
	} else {
		sim_drain(sim, instance);
		r->drains++;
	}
}

static void pass_time(struct sim *sim)
{
	if (chance(sim, 50)) {
		for (uint64_t n = below(sim, 12); n > 0; n--)
			(void)sim_next(sim, usec_add(sim->now, USEC_MIN));
		return;
	}
	sim_run(sim, usec_add(sim->now, random_time(sim, 2 * USEC_MIN)));
}

static void act(struct sim *sim, unsigned turn, struct reached *r)
{
	uint64_t what = below(sim, 100);
	struct sim_delivery *x;

	if (what < 32) {
		deliver(sim, turn);
		r->deliveries++;
	} else if (what < 74) {
		pass_time(sim);
	} else if (what < 80) {
		x = some_delivery(sim);
		if (x != NULL && chance(sim, 60))
			sim_caller_gone(sim, x), r->gone++;
		else if (x != NULL)
			sim_caller_half(sim, x);
	} else if (what < 85) {
		operate(sim);
	} else if (what < 88) {
		find(sim);
	} else if (what < 92) {
		disturb_store(sim);
	} else if (what < 97) {
		heal_store(sim);
	} else if (what < 99) {
		stop_or_start(sim, r);
	} else {
		sim_retain(sim);
	}
	sim_check(sim);
}

static void count(const struct sim *sim, struct reached *r)
{
	for (const struct sim_delivery *x = sim->deliveries; x != NULL; x = x->next) {
		r->answers += x->answer.there;
		r->streamed += x->answer.streamed;
		r->replayed += x->answer.replayed;
		for (size_t i = 0; i < sizeof(problem_names) / sizeof(problem_names[0]); i++)
			r->problems[i] += strcmp(x->answer.problem, problem_names[i]) == 0;
	}
	for (const struct sim_record *record = sim->records; record != NULL;
	     record = record->next) {
		r->sends += record->send_count;
		r->disputed += record->present && record->op.disputed;
		if (record->present)
			r->states[record->op.state]++;
		for (size_t i = 0; i < record->charge_count; i++)
			r->struck += !record->charges[i].sent;
	}
	r->steps += sim->steps;
	r->worlds++;
}

/* One world from its seed to its rest; false: something did not hold. */
static bool walk(uint64_t seed, struct reached *r)
{
	struct sim *sim = sim_alloc(sizeof(*sim));
	bool good;

	begin(sim, seed);
	for (unsigned i = 0; i < TURNS && sim->failure[0] == '\0'; i++)
		act(sim, i, r);
	count(sim, r);
	heal_store(sim);
	for (size_t i = 0; i < sim->instance_count; i++) {
		if (!sim->instances[i].alive)
			sim_start(sim, &sim->instances[i]);
	}
	for (struct sim_delivery *x = sim->deliveries; x != NULL; x = x->next)
		x->request.again = 0;
	sim_run_idle(sim, 60 * USEC_DAY);
	if (sim->failure[0] == '\0')
		sim_check_idle(sim);
	good = sim->failure[0] == '\0';
	if (!good)
		printf("FAILED with STINT_PROPERTY_SEED=%llu STINT_PROPERTY_STEPS=1: %s\n",
		       (unsigned long long)seed, sim->failure);
	sim_free(sim);
	free(sim);
	return good;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (text == NULL || text[0] == '\0')
		return otherwise;
	value = strtoull(text, &end, 10);
	return *end != '\0' ? otherwise : value;
}

static bool report(const struct reached *r, uint64_t steps)
{
	bool all = r->streamed > 0 && r->replayed > 0 && r->disputed > 0 && r->struck > 0 &&
		   r->crashes > 0 && r->drains > 0;

	printf("  %lu worlds, %lu steps, %lu deliveries, %lu requests, %lu answers\n", r->worlds,
	       r->steps, r->deliveries, r->sends, r->answers);
	printf("  streamed %lu, replayed %lu, gone %lu, disputed %lu, never sent %lu\n",
	       r->streamed, r->replayed, r->gone, r->disputed, r->struck);
	printf("  crashes %lu, drains %lu\n", r->crashes, r->drains);
	for (int i = 0; i < OP_STATE_COUNT; i++) {
		printf("  %-16s %lu\n", op_state_name((enum op_state)i), r->states[i]);
		all = all && r->states[i] > 0;
	}
	for (size_t i = 0; i < sizeof(problem_names) / sizeof(problem_names[0]); i++) {
		printf("  %-16s %lu\n", problem_names[i], r->problems[i]);
		all = all && r->problems[i] > 0;
	}
	if (steps >= 100000 && !all)
		printf("FAILED: the walk did not reach everything\n");
	return steps < 100000 || all;
}

int main(void)
{
	uint64_t steps = number("STINT_PROPERTY_STEPS", 1000000);
	uint64_t seed = number("STINT_PROPERTY_SEED", 20240301);
	struct reached r = {0};
	bool good = true;

	printf("property_delivery: seed %llu, %llu steps\n", (unsigned long long)seed,
	       (unsigned long long)steps);
	for (uint64_t i = 0; r.steps < steps && good; i++)
		good = walk(seed + i, &r);
	good = good && report(&r, steps);
	printf("%d passed, %d failed\n", good ? 1 : 0, good ? 0 : 1);
	return good ? 0 : 1;
}
