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
	} units[] = {{"us", 1},        {"ms", USEC_MS}, {"s", USEC_SEC}, {"m", USEC_MIN},
		     {"h", USEC_HOUR}, {"d", USEC_DAY}, {"", USEC_SEC}};
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
	{"scenario", do_scenario},       {"run", script_pass},        {"provider", script_provider},
	{"script", script_steps},        {"rule", script_rule},       {"store", script_store},
	{"instances", script_instances}, {"deliver", script_deliver}, {"queue", script_queue},
	{"gone", script_gone},           {"half", script_half},       {"crash", script_crash},
	{"start", script_start},         {"drain", script_drain},     {"hold", script_hold},
	{"release", script_release},     {"reopen", script_reopen},   {"resolve", script_resolve},
	{"probe", script_probe},         {"finding", script_finding}, {"retain", script_retain},
	{"expect", script_expect},
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
