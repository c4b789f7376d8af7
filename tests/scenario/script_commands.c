/* Deliveries, callers, instances, people and findings: the commands that make things happen. */
#include "tests/scenario/script.h"

#include <stdio.h>
#include <string.h>

/* --- finding things ------------------------------------------------------------------------------ */

static struct sim_record *need_record(struct script *script)
{
	const char *key = script_word(script);
	struct sim_record *record = key != NULL ? sim_find_record(&script->sim, key) : NULL;

	if (record == NULL || !record->present) {
		script_fail(script, "no operation %s", key != NULL ? key : "is named");
		return NULL;
	}
	return record;
}

static struct sim_instance *need_instance(struct script *script)
{
	const char *name = script_word(script);
	struct sim_instance *instance = name != NULL ? sim_find_instance(&script->sim, name) : NULL;

	if (instance == NULL)
		script_fail(script, "no instance %s", name != NULL ? name : "is named");
	return instance;
}

/* --- commands ------------------------------------------------------------------------------------ */

bool script_instances(struct script *script)
{
	struct sim *sim = &script->sim;
	const char *name;

	(void)script_bool(script, "dead-ids", &sim->dead_ids_known);
	while ((name = script_word(script)) != NULL) {
		if (sim_find_instance(sim, name) != NULL || sim_add_instance(sim, name) == NULL)
			return script_fail(script, "instance %s is one too many", name);
	}
	return true;
}

/* Replaces {n} by a number. */
static void expand(const char *from, int n, char *to, size_t size)
{
	const char *mark = strstr(from, "{n}");

	if (mark == NULL)
		(void)snprintf(to, size, "%s", from);
	else
		(void)snprintf(to, size, "%.*s%d%s", (int)(mark - from), from, n, mark + 3);
}

static bool read_request(struct script *script, struct sim_request *request)
{
	struct sim *sim = &script->sim;
	const char *text;
	int number;

	memset(request, 0, sizeof(*request));
	request->hint_deadline = -1;
	request->instance = &sim->instances[0];
	request->provider = &sim->providers[0];
	if ((text = script_option(script, "via")) != NULL)
		request->instance = sim_find_instance(sim, text);
	if ((text = script_option(script, "provider")) != NULL)
		request->provider = sim_find_provider(sim, text);
	if (request->instance == NULL || request->provider == NULL || sim->provider_count == 0 ||
	    !request->instance->alive)
		return script_fail(script, "no such instance or provider");
	text = script_option(script, "method");
	(void)snprintf(request->method, sizeof(request->method), "%s", text ? text : "POST");
	if (script_number(script, "body", &number))
		request->body = (unsigned)number;
	if (script_number(script, "credential", &number))
		request->credential = (unsigned)number;
	(void)script_number(script, "hint-attempts", &request->hint_attempts);
	(void)script_time(script, "hint-deadline", &request->hint_deadline);
	(void)script_time(script, "upload", &request->upload);
	request->streamed = script_flag(script, "streamed");
	if ((text = script_option(script, "corrects")) != NULL)
		(void)snprintf(request->corrects, sizeof(request->corrects), "%s", text);
	return true;
}

static bool deliver(struct script *script, int again)
{
	struct sim_request request;
	const char *name = script_word(script), *key = script_option(script, "key");
	int times = 1;
	bool many = script_number(script, "times", &times) || again > 0;

	if (name == NULL)
		return script_fail(script, "a delivery needs a name");
	if (!read_request(script, &request))
		return false;
	request.again = again;
	for (int n = 1; n <= times; n++) {
		if (many)
			(void)snprintf(request.name, sizeof(request.name), "%s.%d", name, n);
		else
			(void)snprintf(request.name, sizeof(request.name), "%s", name);
		expand(key != NULL ? key : "", n, request.key, sizeof(request.key));
		(void)sim_deliver(&script->sim, &request);
	}
	return true;
}

bool script_deliver(struct script *script)
{
	return deliver(script, 0);
}

bool script_queue(struct script *script)
{
	return deliver(script, 1000);
}

static bool each_caller(struct script *script,
			void (*action)(struct sim *sim, struct sim_delivery *x))
{
	const char *name = script_word(script);
	bool found = false;

	for (struct sim_delivery *x = script->sim.deliveries; x != NULL && name != NULL;
	     x = x->next) {
		if (!sim_matches(name, x->request.name))
			continue;
		found = true;
		action(&script->sim, x);
	}
	return found || script_fail(script, "no delivery %s", name != NULL ? name : "is named");
}

bool script_gone(struct script *script)
{
	return each_caller(script, sim_caller_gone);
}

bool script_half(struct script *script)
{
	return each_caller(script, sim_caller_half);
}

static bool each_instance(struct script *script,
			  void (*action)(struct sim *sim, struct sim_instance *instance))
{
	struct sim_instance *instance = need_instance(script);

	if (instance == NULL)
		return false;
	action(&script->sim, instance);
	return true;
}

bool script_crash(struct script *script)
{
	return each_instance(script, sim_crash);
}

bool script_start(struct script *script)
{
	return each_instance(script, sim_start);
}

bool script_drain(struct script *script)
{
	return each_instance(script, sim_drain);
}

/* --- people, probes, late findings --------------------------------------------------------------- */

static bool operate(struct script *script, struct op_event *event)
{
	bool refused = script_flag(script, "refused"), unchanged = script_flag(script, "unchanged");
	struct sim_record *record;
	enum op_result result;

	event->reopen = script_flag(script, "reopen");
	event->new_key = script_flag(script, "new-key");
	event->then_exhausted = script_flag(script, "then-exhausted");
	event->remote_id = script_option(script, "remote-id");
	(void)script_number(script, "more", &event->more);
	record = need_record(script);
	if (record == NULL)
		return false;
	result = sim_operate(&script->sim, record, event);
	if (refused != (result < 0))
		return script_fail(script, "%s was %s", record->key,
				   result < 0 ? "refused" : "not refused");
	if (unchanged != (result == OP_UNCHANGED))
		return script_fail(script, "%s was %s", record->key,
				   unchanged ? "changed" : "left as it is");
	return true;
}

bool script_hold(struct script *script)
{
	struct op_event event = {.kind = OP_EV_HOLD};

	return operate(script, &event);
}

bool script_release(struct script *script)
{
	struct op_event event = {.kind = OP_EV_RELEASE};

	return operate(script, &event);
}

bool script_reopen(struct script *script)
{
	struct op_event event = {.kind = OP_EV_REOPEN};

	return operate(script, &event);
}

static bool read_applied(struct script *script, struct op_event *event)
{
	event->applied = script_flag(script, "applied");
	if (!event->applied && !script_flag(script, "not-applied"))
		return script_fail(script, "applied or not-applied?");
	return operate(script, event);
}

bool script_resolve(struct script *script)
{
	struct op_event event = {.kind = OP_EV_RESOLVE};

	return read_applied(script, &event);
}

bool script_probe(struct script *script)
{
	struct op_event event = {.kind = OP_EV_PROBE};

	return read_applied(script, &event);
}

bool script_finding(struct script *script)
{
	struct verdict verdict = {.class = CLASS_TRANSIENT, .advice = -1, .rule_wait = -1};
	struct op_event event = {.kind = OP_EV_SETTLE, .verdict = &verdict};
	struct sim_record *record;
	struct sim_update *update;

	if (script_flag(script, "success"))
		verdict.class = CLASS_SUCCESS, verdict.effect = EFFECT_DEFINITE;
	else if (script_flag(script, "possible"))
		verdict.class = CLASS_UNKNOWN, verdict.effect = EFFECT_POSSIBLE;
	else if (!script_flag(script, "none"))
		return script_fail(script, "none, possible or success?");
	(void)script_number(script, "status", &verdict.status);
	(void)snprintf(verdict.reason, sizeof(verdict.reason), "finding");
	if (!script_number(script, "n", &event.n))
		return script_fail(script, "a finding is of attempt n=N");
	record = need_record(script);
	if (record == NULL)
		return false;
	for (size_t i = 0; i < record->charge_count; i++) {
		if (record->charges[i].n == event.n)
			event.token = record->charges[i].token;
	}
	if (event.token == NULL)
		return script_fail(script, "%s has no attempt %d", record->key, event.n);
	event.now = script->sim.now;
	update = sim_update_new(&script->sim, &script->sim.instances[0], record);
	sim_update_set_event(update, &event, record->op.incarnation);
	sim_update_start(&script->sim, update);
	return true;
}

bool script_retain(struct script *script)
{
	sim_retain(&script->sim);
	return true;
}

bool script_pass(struct script *script)
{
	const char *text = script_word(script);
	usec_t time;

	if (text == NULL || !script_parse_time(text, &time) || time < 0)
		return script_fail(script, "run TIME");
	sim_run(&script->sim, usec_add(script->sim.now, time));
	return true;
}
