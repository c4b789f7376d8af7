/* What a scenario sets up:
 *
 *   provider NAME [attempts=N] [window=T] [schedule=T,T,...] [first=T] [factor=N] [max=T]
 *           [jitter=none|equal|full] [hold=T] [timeout=T] [connect=T] [idle=T] [total=T] [least=T]
 *           [lease=T] [cap=T] [beyond=probe|stop] [forwards=yes|no] [retention=T]
 *           [repeat=any-time] [in-flight=join|refuse] [limit=N] [retain-for=T] [retain-key=T]
 *           [breaker=N] [breaker-open=T] [breaker-max=T] [ramp=T]
 *           (named again: changed)
 *   script PATTERN STEP | STEP ...  [provider=P before the first step]
 *           the last step repeats; PATTERN is a key, or a delivery's name where it has none, or
 *           ends in *; a step is a status or silent, refused, resolve, tls, no-connect, reset,
 *           closed, cut STATUS, stall STATUS, head STATUS, then [after=T] [connect=T] [body=T]
 *           [retry-after=V] [header=NAME:VALUE] [remote-id=ID] [applied] [stream] [large]
 *   rule NAME [provider=P] status=N[-N] [header=NAME] class=C [wait=T] [never] [resolves]
 *   store VERB FAULT [for=T] [times=N] [via=INSTANCE]
 *           VERB: get, claim, settle, renew, void, change, all; FAULT: ok, away, lost, late, slow,
 *           ghost (sim.h) */
#include "tests/scenario/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classify/table.h"

static struct sim_provider *named_provider(struct script *script)
{
	const char *name = script_option(script, "provider");
	struct sim *sim = &script->sim;

	if (name != NULL)
		return sim_find_provider(sim, name);
	return sim->provider_count > 0 ? &sim->providers[0] : NULL;
}

/* --- provider ------------------------------------------------------------------------------------ */

static bool read_schedule(struct script *script, struct sim_provider *provider)
{
	const char *text = script_option(script, "schedule");
	char part[32];
	size_t count = 0;

	while (text != NULL && *text != '\0') {
		size_t len = strcspn(text, ",");

		if (count == SCHEDULE_MAX || len >= sizeof(part))
			return script_fail(script, "schedule is too long");
		memcpy(part, text, len);
		part[len] = '\0';
		if (!script_parse_time(part, &provider->schedule[count++]))
			return script_fail(script, "schedule: %s is no time", part);
		text += len + (text[len] == ',');
	}
	if (count == 0)
		return true;
	provider->policy.backoff.schedule = provider->schedule;
	provider->policy.backoff.schedule_len = count;
	provider->policy.attempts = (int)count + 1;
	return true;
}

/* One word of a few; false: another one. */
static bool read_choice(struct script *script, const char *name, const char *const *words,
			int *ret_choice)
{
	const char *text = script_option(script, name);

	if (text == NULL)
		return true;
	for (int i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], text) == 0) {
			*ret_choice = i;
			return true;
		}
	}
	return script_fail(script, "%s=%s", name, text);
}

static bool read_times(struct script *script, struct policy *policy)
{
	bool lease = script_time(script, "lease", &policy->lease);

	(void)script_time(script, "window", &policy->window);
	(void)script_time(script, "first", &policy->backoff.first);
	(void)script_time(script, "max", &policy->backoff.max);
	(void)script_time(script, "hold", &policy->hold);
	(void)script_time(script, "timeout", &policy->attempt_timeout);
	(void)script_time(script, "connect", &policy->attempt_connect);
	(void)script_time(script, "idle", &policy->attempt_idle);
	(void)script_time(script, "total", &policy->attempt_total);
	(void)script_time(script, "least", &policy->attempt_least);
	(void)script_time(script, "cap", &policy->retry_after_max);
	(void)script_time(script, "retention", &policy->key_retention);
	(void)script_time(script, "retain-for", &policy->retain_for);
	(void)script_time(script, "retain-key", &policy->retain_key);
	if (!lease)
		policy->lease = policy->attempt_connect + policy->attempt_timeout + 2 * USEC_SEC;
	return script->error[0] == '\0';
}

static bool read_choices(struct script *script, struct policy *policy)
{
	static const char *const jitters[] = {"none", "equal", "full", NULL};
	static const char *const beyonds[] = {"probe", "stop", NULL};
	static const char *const in_flights[] = {"join", "refuse", NULL};
	static const char *const repeats[] = {"by-rule", "any-time", NULL};
	int jitter = (int)policy->backoff.jitter, beyond = (int)policy->beyond;
	int in_flight = (int)policy->in_flight, repeat = policy->repeat_any_time, factor;

	if (!read_choice(script, "jitter", jitters, &jitter) ||
	    !read_choice(script, "beyond", beyonds, &beyond) ||
	    !read_choice(script, "in-flight", in_flights, &in_flight) ||
	    !read_choice(script, "repeat", repeats, &repeat))
		return false;
	policy->backoff.jitter = (enum jitter)jitter;
	policy->beyond = (enum beyond)beyond;
	policy->in_flight = (enum in_flight)in_flight;
	policy->repeat_any_time = repeat == 1;
	if (script_number(script, "factor", &factor))
		policy->backoff.factor = factor;
	(void)script_number(script, "attempts", &policy->attempts);
	(void)script_bool(script, "forwards", &policy->forwards_key);
	return true;
}

static void set_gate(struct gate *gate, const struct sim_provider *provider)
{
	if (gate->limit == 0)
		gate_init(gate, provider->concurrency);
	gate->limit = provider->concurrency;
	gate->policy = provider->gate;
}

bool script_provider(struct script *script)
{
	struct sim *sim = &script->sim;
	const char *name = script_word(script);
	struct sim_provider *provider;

	if (name == NULL)
		return script_fail(script, "provider NAME");
	provider = sim_find_provider(sim, name);
	if (provider == NULL)
		provider = sim_add_provider(sim, name);
	if (provider == NULL)
		return script_fail(script, "one provider too many");
	if (!read_schedule(script, provider) || !read_choices(script, &provider->policy) ||
	    !read_times(script, &provider->policy))
		return false;
	(void)script_number(script, "limit", &provider->concurrency);
	(void)script_number(script, "breaker", &provider->gate.failures);
	(void)script_time(script, "breaker-open", &provider->gate.open);
	(void)script_time(script, "breaker-max", &provider->gate.max);
	(void)script_time(script, "ramp", &provider->gate.ramp);
	for (size_t i = 0; i < sim->instance_count; i++) {
		set_gate(&sim->instances[i].gates[provider - sim->providers].gate, provider);
	}
	return script->error[0] == '\0';
}

/* --- script -------------------------------------------------------------------------------------- */

static bool add_header(struct sim_step *step, const char *name, size_t name_len, const char *value)
{
	size_t i = step->header_count;

	if (i == SIM_HEADERS || name_len >= sizeof(step->header_name[0]) ||
	    strlen(value) >= sizeof(step->header_value[0]))
		return false;
	memcpy(step->header_name[i], name, name_len);
	step->header_name[i][name_len] = '\0';
	(void)snprintf(step->header_value[i], sizeof(step->header_value[i]), "%s", value);
	/* A value with blanks is written with underscores. */
	for (char *c = step->header_value[i]; *c != '\0'; c++)
		*c = *c == '_' ? ' ' : *c;
	step->header_count++;
	return true;
}

static bool step_option(struct sim_step *step, const char *word)
{
	size_t len = strcspn(word, "=");
	const char *value = word[len] == '=' ? word + len + 1 : NULL;
	usec_t *time = NULL;

	if (value == NULL) {
		step->applied = step->applied || strcmp(word, "applied") == 0;
		step->stream = step->stream || strcmp(word, "stream") == 0;
		step->large = step->large || strcmp(word, "large") == 0;
		return strcmp(word, "applied") == 0 || strcmp(word, "stream") == 0 ||
		       strcmp(word, "large") == 0;
	}
	if (strncmp(word, "retry-after=", len + 1) == 0)
		return add_header(step, "Retry-After", strlen("Retry-After"), value);
	if (strncmp(word, "header=", len + 1) == 0) {
		size_t name_len = strcspn(value, ":");

		return value[name_len] == ':' &&
		       add_header(step, value, name_len, value + name_len + 1);
	}
	if (strncmp(word, "remote-id=", len + 1) == 0) {
		(void)snprintf(step->remote_id, sizeof(step->remote_id), "%s", value);
		return true;
	}
	if (strncmp(word, "after=", len + 1) == 0)
		time = &step->after;
	else if (strncmp(word, "connect=", len + 1) == 0)
		time = &step->connect;
	else if (strncmp(word, "body=", len + 1) == 0)
		time = &step->body;
	return time != NULL && script_parse_time(value, time);
}

static bool read_status(const char *word, int *ret_status)
{
	char *rest;
	long value = strtol(word, &rest, 10);

	if (rest == word || *rest != '\0' || value < 100 || value > 999)
		return false;
	*ret_status = (int)value;
	return true;
}

/* Reads words [*at, end) as a step's kind. */
static bool step_kind(struct script *script, int *at, int end, struct sim_step *step)
{
	static const struct {
		const char *name;
		enum sim_step_kind kind;
		bool status;
	} kinds[] = {
		{"silent", STEP_SILENT, false},      {"refused", STEP_REFUSED, false},
		{"resolve", STEP_RESOLVE, false},    {"tls", STEP_TLS, false},
		{"no-connect", STEP_CONNECT, false}, {"reset", STEP_RESET, false},
		{"closed", STEP_CLOSED, false},      {"cut", STEP_CUT, true},
		{"stall", STEP_STALL, true},         {"head", STEP_HEAD, true},
	};
	const char *word = *at < end ? script->words[(*at)++] : "";

	step->kind = STEP_REPLY;
	if (read_status(word, &step->status))
		return true;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, word) != 0)
			continue;
		step->kind = kinds[i].kind;
		return !kinds[i].status ||
		       (*at < end && read_status(script->words[(*at)++], &step->status));
	}
	return false;
}

static bool read_step(struct script *script, int at, int end, struct sim_step *step)
{
	memset(step, 0, sizeof(*step));
	if (!step_kind(script, &at, end, step))
		return script_fail(script, "a step begins with a status or a word for it");
	for (; at < end; at++) {
		if (!step_option(step, script->words[at]))
			return script_fail(script, "a step does not know \"%s\"",
					   script->words[at]);
	}
	return true;
}

bool script_steps(struct script *script)
{
	struct sim_provider *provider = named_provider(script);
	const char *pattern = script_word(script);
	struct sim_script *made;
	int at, end;

	if (provider == NULL || pattern == NULL || provider->script_count == SIM_SCRIPTS)
		return script_fail(script, "script PATTERN STEP | STEP ...");
	made = &provider->scripts[provider->script_count++];
	made->version = ++script->sim.scripts;
	(void)snprintf(made->pattern, sizeof(made->pattern), "%s", pattern);
	for (at = 0; at < script->word_count && script->taken[at]; at++)
		;
	for (; at < script->word_count; at = end + 1) {
		for (end = at; end < script->word_count && strcmp(script->words[end], "|") != 0;
		     end++)
			script->taken[end] = true;
		if (end < script->word_count)
			script->taken[end] = true;
		if (made->count == SIM_STEPS ||
		    !read_step(script, at, end, &made->steps[made->count]))
			return script_fail(script, "too many steps");
		made->count++;
	}
	return made->count > 0 || script_fail(script, "a script without steps");
}

/* --- rule ---------------------------------------------------------------------------------------- */

bool script_rule(struct script *script)
{
	struct sim_provider *provider = named_provider(script);
	const char *name = script_word(script), *status = script_option(script, "status");
	const char *class = script_option(script, "class"), *header;
	struct sim_rule *parts;
	struct rule *rule;

	if (provider == NULL || name == NULL || provider->ruleset.count == SIM_RULES)
		return script_fail(script, "rule NAME ...");
	parts = &provider->rule_parts[provider->ruleset.count];
	rule = &provider->rules[provider->ruleset.count];
	(void)snprintf(parts->name, sizeof(parts->name), "%s", name);
	rule->name = parts->name;
	rule->wait = -1;
	if (status == NULL || !rules_status_parse(status, &parts->status) || class == NULL ||
	    !outcome_class_parse(class, &rule->class))
		return script_fail(script, "a rule needs status= and class=");
	rule->statuses = &parts->status;
	rule->status_count = 1;
	header = script_option(script, "header");
	if (header != NULL) {
		(void)snprintf(parts->header, sizeof(parts->header), "%s", header);
		parts->header_rule.name = parts->header;
		rule->headers = &parts->header_rule;
		rule->header_count = 1;
	}
	rule->effect = table_effect(rule->class);
	(void)script_time(script, "wait", &rule->wait);
	rule->retry_never = script_flag(script, "never");
	rule->resolves = script_flag(script, "resolves");
	provider->ruleset.count++;
	return true;
}

/* --- store --------------------------------------------------------------------------------------- */

static int find_word(const char *const *words, const char *word)
{
	for (int i = 0; word != NULL && words[i] != NULL; i++) {
		if (strcmp(words[i], word) == 0)
			return i;
	}
	return -1;
}

bool script_store(struct script *script)
{
	static const char *const verbs[] = {"get",  "claim",  "settle", "renew",
					    "void", "change", "all",    NULL};
	static const char *const faults[] = {"ok", "away", "lost", "late", "slow", "ghost", NULL};
	int verb = find_word(verbs, script_word(script));
	int fault = find_word(faults, script_word(script));
	const char *via = script_option(script, "via");
	struct sim_store_script made = {.left = -1};

	if (verb < 0 || fault < 0)
		return script_fail(script, "store VERB FAULT");
	made.fault = (enum sim_store_fault)fault;
	(void)script_time(script, "for", &made.time);
	(void)script_number(script, "times", &made.left);
	if (via != NULL) {
		made.instance = sim_find_instance(&script->sim, via);
		if (made.instance == NULL)
			return script_fail(script, "no instance %s", via);
	}
	for (int i = 0; i < VERB_COUNT; i++) {
		if (verb == i || verb == VERB_COUNT)
			script->sim.store[i] = made;
	}
	return true;
}
