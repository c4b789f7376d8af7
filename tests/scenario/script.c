/* Commands:
 *
 *   scenario NAME...                        begins one; the one before is finished and judged
 *   [at TIME] COMMAND                       runs the clock to TIME, then the command
 *   run TIME                                lets that much time pass
 *   provider, rule, script, store           script_setup.c
 *   instances NAME... [dead-ids=no]         the first is the default; dead-ids=no: a dead instance's
 *                                           leases run to their end
 *   deliver NAME [key=K] [via=INSTANCE] [provider=P] [method=M] [body=N] [credential=N]
 *           [hint-attempts=N] [hint-deadline=T] [upload=T] [times=N] [corrects=K] [streamed]
 *                                           {n} in NAME (added as .{n}) and K counts the times
 *   queue NAME key=K ...                    the same, again whenever Retry-After says
 *   gone NAME | half NAME                   the caller's connection
 *   crash | start | drain INSTANCE
 *   hold | release | reopen | resolve | probe KEY ... [refused]
 *   finding KEY n=N none|possible|success [status=N]   late truth of attempt N, by its token
 *   retain                                  retention
 *   expect ...                              script_expect.c */
#include "tests/scenario/script.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool script_fail(struct script *script, const char *format, ...)
{
	va_list args;
	int n;

	if (script->error[0] != '\0')
		return false;
	n = snprintf(script->error, sizeof(script->error), "%s:%d: ", script->file, script->line);
	va_start(args, format);
	(void)vsnprintf(script->error + n, sizeof(script->error) - (size_t)n, format, args);
	va_end(args);
	return false;
}

/* --- words --------------------------------------------------------------------------------------- */

const char *script_word(struct script *script)
{
	for (int i = 0; i < script->word_count; i++) {
		if (!script->taken[i] && strchr(script->words[i], '=') == NULL) {
			script->taken[i] = true;
			return script->words[i];
		}
	}
	return NULL;
}

const char *script_option(struct script *script, const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; i < script->word_count; i++) {
		if (!script->taken[i] && strncmp(script->words[i], name, len) == 0 &&
		    script->words[i][len] == '=') {
			script->taken[i] = true;
			return script->words[i] + len + 1;
		}
	}
	return NULL;
}

bool script_flag(struct script *script, const char *name)
{
	for (int i = 0; i < script->word_count; i++) {
		if (!script->taken[i] && strcmp(script->words[i], name) == 0) {
			script->taken[i] = true;
			return true;
		}
	}
	return false;
}

bool script_parse_time(const char *text, usec_t *ret_time)
{
	static const struct {
		const char *unit;
		usec_t size;
	} units[] = {{"us", 1},        {"ms", USEC_MS},  {"s", USEC_SEC},
		     {"m", USEC_MIN},  {"h", USEC_HOUR}, {"d", USEC_DAY},
		     {"", USEC_SEC}};
	char *rest;
	double value;

	if (strcmp(text, "never") == 0) {
		*ret_time = -1;
		return true;
	}
	value = strtod(text, &rest);
	if (rest == text || !(value >= 0) || value > 1e9)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(rest, units[i].unit) == 0) {
			*ret_time = (usec_t)(value * (double)units[i].size + 0.5);
			return true;
		}
	}
	return false;
}

bool script_time(struct script *script, const char *name, usec_t *ret_time)
{
	const char *text = script_option(script, name);

	if (text == NULL)
		return false;
	if (script_parse_time(text, ret_time))
		return true;
	return script_fail(script, "%s=%s is no time", name, text);
}

bool script_number(struct script *script, const char *name, int *ret_number)
{
	const char *text = script_option(script, name);
	char *rest;
	long value;

	if (text == NULL)
		return false;
	value = strtol(text, &rest, 10);
	if (rest == text || *rest != '\0' || value < 0 || value > 1000000)
		return script_fail(script, "%s=%s is no number", name, text);
	*ret_number = (int)value;
	return true;
}

bool script_bool(struct script *script, const char *name, bool *ret_value)
{
	const char *text = script_option(script, name);

	if (text == NULL)
		return false;
	if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
		return script_fail(script, "%s=%s is neither yes nor no", name, text);
	*ret_value = text[0] == 'y';
	return true;
}

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
	struct sim_instance *instance =
		name != NULL ? sim_find_instance(&script->sim, name) : NULL;

	if (instance == NULL)
		script_fail(script, "no instance %s", name != NULL ? name : "is named");
	return instance;
}

/* --- commands ------------------------------------------------------------------------------------ */

static bool do_instances(struct script *script)
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

static bool do_deliver(struct script *script)
{
	return deliver(script, 0);
}

static bool do_queue(struct script *script)
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

static bool do_gone(struct script *script)
{
	return each_caller(script, sim_caller_gone);
}

static bool do_half(struct script *script)
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

static bool do_crash(struct script *script)
{
	return each_instance(script, sim_crash);
}

static bool do_start(struct script *script)
{
	return each_instance(script, sim_start);
}

static bool do_drain(struct script *script)
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

static bool do_hold(struct script *script)
{
	struct op_event event = {.kind = OP_EV_HOLD};

	return operate(script, &event);
}

static bool do_release(struct script *script)
{
	struct op_event event = {.kind = OP_EV_RELEASE};

	return operate(script, &event);
}

static bool do_reopen(struct script *script)
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

static bool do_resolve(struct script *script)
{
	struct op_event event = {.kind = OP_EV_RESOLVE};

	return read_applied(script, &event);
}

static bool do_probe(struct script *script)
{
	struct op_event event = {.kind = OP_EV_PROBE};

	return read_applied(script, &event);
}

static bool do_finding(struct script *script)
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

static bool do_retain(struct script *script)
{
	sim_retain(&script->sim);
	return true;
}

static bool do_run(struct script *script)
{
	const char *text = script_word(script);
	usec_t time;

	if (text == NULL || !script_parse_time(text, &time) || time < 0)
		return script_fail(script, "run TIME");
	sim_run(&script->sim, usec_add(script->sim.now, time));
	return true;
}

/* --- scenarios ----------------------------------------------------------------------------------- */

static void finish(struct script *script)
{
	struct sim *sim = &script->sim;

	if (!script->open)
		return;
	if (script->error[0] == '\0')
		sim_run_idle(sim, 60 * USEC_DAY);
	if (script->error[0] == '\0' && sim->failure[0] == '\0')
		sim_check_idle(sim);
	if (script->error[0] == '\0' && sim->failure[0] != '\0')
		script_fail(script, "%s", sim->failure);
	if (script->error[0] != '\0') {
		printf("FAILED %s\n       %s\n", script->name, script->error);
		script->failed++;
	} else {
		printf("ok     %s\n", script->name);
		script->passed++;
	}
	sim_free(sim);
	script->open = false;
}

static bool do_scenario(struct script *script)
{
	size_t len = 0;

	finish(script);
	script->error[0] = '\0';
	script->name[0] = '\0';
	for (int i = 1; i < script->word_count && len < sizeof(script->name); i++) {
		int n = snprintf(script->name + len, sizeof(script->name) - len, "%s%s",
				 len > 0 ? " " : "", script->words[i]);

		len += n > 0 ? (size_t)n : 0;
		script->taken[i] = true;
	}
	script->open = true;
	sim_init(&script->sim, 1);
	script->sim.trace = getenv("STINT_SCENARIO_TRACE") != NULL;
	return true;
}

static const struct {
	const char *name;
	bool (*run)(struct script *script);
} commands[] = {
	{"scenario", do_scenario}, {"run", do_run},
	{"provider", script_provider}, {"script", script_steps},
	{"rule", script_rule}, {"store", script_store},
	{"instances", do_instances}, {"deliver", do_deliver},
	{"queue", do_queue}, {"gone", do_gone},
	{"half", do_half}, {"crash", do_crash},
	{"start", do_start}, {"drain", do_drain},
	{"hold", do_hold}, {"release", do_release},
	{"reopen", do_reopen}, {"resolve", do_resolve},
	{"probe", do_probe}, {"finding", do_finding},
	{"retain", do_retain}, {"expect", script_expect},
};

static bool run_clock(struct script *script)
{
	struct sim *sim = &script->sim;
	const char *text;
	usec_t time;

	if (strcmp(script->words[0], "at") == 0) {
		(void)script_word(script);
		text = script_word(script);
		if (text == NULL || !script_parse_time(text, &time) || SIM_T0 + time < sim->now)
			return script_fail(script, "at TIME, not before now");
		sim_run(sim, SIM_T0 + time);
	} else {
		sim_run(sim, sim->now);
	}
	return sim->failure[0] == '\0' || script_fail(script, "%s", sim->failure);
}

static bool ensure_instance(struct script *script, const char *command)
{
	if (script->sim.instance_count == 0 && strcmp(command, "provider") != 0 &&
	    strcmp(command, "instances") != 0 && strcmp(command, "rule") != 0 &&
	    strcmp(command, "script") != 0)
		(void)sim_add_instance(&script->sim, "a");
	return true;
}

static bool run_command(struct script *script)
{
	const char *name;

	if (script->open && strcmp(script->words[0], "scenario") != 0) {
		if (!run_clock(script))
			return false;
	} else if (!script->open && strcmp(script->words[0], "scenario") != 0) {
		return script_fail(script, "a scenario begins with: scenario NAME");
	}
	name = script_word(script);
	if (name == NULL)
		return script->word_count == 2; /* at TIME, alone */
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if (strcmp(name, "scenario") != 0)
			ensure_instance(script, name);
		if (!commands[i].run(script))
			return script_fail(script, "%s", name);
		for (int w = 0; w < script->word_count; w++) {
			if (!script->taken[w])
				return script_fail(script, "%s does not know \"%s\"", name,
						   script->words[w]);
		}
		return true;
	}
	return script_fail(script, "unknown command \"%s\"", name);
}

static void split(struct script *script, char *line)
{
	char *at = line;

	script->word_count = 0;
	memset(script->taken, 0, sizeof(script->taken));
	while (script->word_count < SCRIPT_WORDS) {
		while (isspace((unsigned char)*at))
			*at++ = '\0';
		if (*at == '\0' || *at == '#')
			break;
		script->words[script->word_count++] = at;
		while (*at != '\0' && !isspace((unsigned char)*at))
			at++;
	}
	*at = '\0';
}

bool script_run(struct script *script, const char *file)
{
	FILE *in = fopen(file, "r");
	char line[2048];

	if (in == NULL)
		return false;
	script->file = file;
	script->line = 0;
	while (fgets(line, sizeof(line), in) != NULL) {
		script->line++;
		split(script, line);
		if (script->word_count == 0)
			continue;
		/* After a failure nothing more of this scenario is believed. */
		if (script->error[0] != '\0' && strcmp(script->words[0], "scenario") != 0)
			continue;
		(void)run_command(script);
	}
	fclose(in);
	finish(script);
	if (script->error[0] != '\0' && script->name[0] == '\0') {
		printf("FAILED %s\n", script->error);
		script->failed++;
	}
	script->error[0] = script->name[0] = '\0';
	return true;
}
