#include "proxy/command.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/config.h"
#include "proxy/demo.h"
#include "proxy/explain.h"
#include "proxy/ops.h"
#include "proxy/preset.h"
#include "proxy/serve.h"
#include "proxy/version.h"

#define DEFAULT_CONFIG "/etc/stint/stint.yaml"

struct arguments {
	const char *config;
	bool json;
	bool sample;
	const char *preset;
};

static const char usage[] =
	"stint: an HTTP reverse proxy that owns the retry budget\n"
	"\n"
	"  stint serve [-c FILE]            run (SIGTERM drains and stops)\n"
	"  stint check [-c FILE] [--json]   read a configuration and say all that is wrong with "
	"it\n"
	"  stint check --sample             print a commented sample configuration\n"
	"  stint check --preset NAME        print what is known of a provider; NAME is `list`: all "
	"names\n"
	"  stint explain [-c FILE] --provider NAME | --preset NAME  --status N | --reply FILE | "
	"--fault NAME\n"
	"                                   say what a reply would mean, and why; --help has the "
	"rest\n"
	"  stint ops release KEY ...        let a held operation go on; `stint ops --help` has the "
	"rest\n"
	"  stint demo                       play three stories against a provider of its own\n"
	"  stint version [--json]           print the version\n"
	"  stint help                       this text, and every option of the configuration\n"
	"\n"
	"FILE is " DEFAULT_CONFIG " unless given.\n";

static int usage_error(const char *what, const char *word)
{
	(void)fprintf(stderr, "stint: %s \"%s\"; `stint help` lists what there is\n", what, word);
	return 2;
}

static int help(const struct arguments *arguments)
{
	(void)arguments;
	(void)fputs(usage, stdout);
	(void)fputs("\nOptions of the configuration:\n\n", stdout);
	config_help(stdout);
	return 0;
}

static int version(const struct arguments *arguments)
{
	if (arguments->json)
		(void)printf("{\"version\": \"%s\", \"revision\": \"%s\"}\n", stint_version(),
			     stint_revision());
	else
		(void)printf("stint %s (%s)\n", stint_version(), stint_revision());
	return 0;
}

static int serve(const struct arguments *arguments)
{
	return serve_run(arguments->config);
}

static int demo(const struct arguments *arguments)
{
	(void)arguments;
	return demo_run();
}

static int print_problems_json(const struct config_problems *problems, const char *file)
{
	json_t *list = json_array();
	json_t *root = json_pack("{s:s, s:o}", "file", file, "problems", list);
	char *text;

	for (size_t i = 0; root != NULL && i < problems->count; i++) {
		const struct config_problem *p = &problems->items[i];

		json_array_append_new(list, json_pack("{s:i, s:i, s:s, s:s}", "line", p->line,
						      "column", p->column, "severity",
						      p->warning ? "warning" : "error", "message",
						      p->message));
	}
	text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
	json_decref(root);
	if (text == NULL)
		return 1;
	(void)puts(text);
	free(text);
	return 0;
}

static int print_preset(const char *name)
{
	const struct preset *preset = preset_find(name);

	if (strcmp(name, "list") == 0) {
		for (size_t i = 0; i < preset_count; i++)
			(void)puts(presets[i].name);
		return 0;
	}
	if (preset == NULL) {
		char names[512];

		preset_names(names, sizeof(names));
		(void)fprintf(stderr, "stint: there is no preset \"%s\"; there are %s\n", name,
			      names);
		return 2;
	}
	(void)fputs(preset->text, stdout);
	return 0;
}

static int check(const struct arguments *arguments)
{
	struct config_problems problems;
	struct config *config;

	if (arguments->sample) {
		config_sample(stdout);
		return 0;
	}
	if (arguments->preset != NULL)
		return print_preset(arguments->preset);
	config = config_load(arguments->config, NULL, &problems);
	if (arguments->json)
		(void)print_problems_json(&problems, arguments->config);
	else
		(void)config_problems_print(&problems, arguments->config, stderr);
	if (config != NULL && !arguments->json)
		(void)printf("%s: good: %zu provider%s\n", arguments->config,
			     config->provider_count, config->provider_count == 1 ? "" : "s");
	config_problems_done(&problems);
	if (config == NULL)
		return 1;
	config_free(config);
	return 0;
}

/* Which flags a command takes. */
enum { TAKES_CONFIG = 1, TAKES_JSON = 2, TAKES_SAMPLE = 4, TAKES_PRESET = 8 };

static const struct command {
	const char *name;
	unsigned takes;
	int (*run)(const struct arguments *arguments);
} commands[] = {
	{"serve", TAKES_CONFIG, serve},
	{"check", TAKES_CONFIG | TAKES_JSON | TAKES_SAMPLE | TAKES_PRESET, check},
	{"demo", 0, demo},
	{"version", TAKES_JSON, version},
	{"--version", 0, version},
	{"help", 0, help},
	{"--help", 0, help},
	{"-h", 0, help},
};

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* 0, or the exit status of a wrong command line. */
static int parse(const struct command *command, int argc, char **argv,
		 struct arguments *ret_arguments)
{
	ret_arguments->config = DEFAULT_CONFIG;
	for (int i = 2; i < argc; i++) {
		bool config = strcmp(argv[i], "-c") == 0 || strcmp(argv[i], "--config") == 0;

		if (config && (command->takes & TAKES_CONFIG) != 0) {
			if (++i == argc)
				return usage_error("a file must follow", argv[i - 1]);
			ret_arguments->config = argv[i];
		} else if (strcmp(argv[i], "--json") == 0 && (command->takes & TAKES_JSON) != 0) {
			ret_arguments->json = true;
		} else if (strcmp(argv[i], "--sample") == 0 &&
			   (command->takes & TAKES_SAMPLE) != 0) {
			ret_arguments->sample = true;
		} else if (strcmp(argv[i], "--preset") == 0 &&
			   (command->takes & TAKES_PRESET) != 0) {
			if (++i == argc)
				return usage_error("a preset's name must follow", argv[i - 1]);
			ret_arguments->preset = argv[i];
		} else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			(void)fputs(usage, stdout);
			exit(0);
		} else {
			return usage_error("this command does not take", argv[i]);
		}
	}
	return 0;
}

int command_run(int argc, char **argv)
{
	struct arguments arguments = {0};
	const struct command *command;
	int status;

	if (argc < 2) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (strcmp(argv[1], "ops") == 0)
		return ops_run(argc - 2, argv + 2, DEFAULT_CONFIG);
	if (strcmp(argv[1], "explain") == 0)
		return explain_run(argc - 2, argv + 2, DEFAULT_CONFIG);
	command = find_command(argv[1]);
	if (command == NULL)
		return usage_error("there is no command", argv[1]);
	status = parse(command, argc, argv, &arguments);
	return status != 0 ? status : command->run(&arguments);
}
