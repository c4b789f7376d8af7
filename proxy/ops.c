#include "proxy/ops.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/admin_client.h"

enum { OPS_DONE = 0, OPS_REFUSED = 1, OPS_USAGE = 2 };

struct ops_arguments {
	const char *key, *provider, *tenant, *scope;
	const char *actor, *reason;
	struct admin_target target;
	bool json;
};

static const char usage[] =
	"stint ops release KEY --provider NAME --reason TEXT [--tenant T] [--scope S]\n"
	"                  [--actor A] [-c FILE | --admin URL] [--token-file FILE] [--json]\n"
	"\n"
	"Releases an operation that is held for its credentials, its quota or by a person. "
	"Nothing\n"
	"is sent by it: the operation goes on with its next delivery. The actor is $USER unless\n"
	"given; the reason goes into the operation's history.\n"
	"\n"
	"  -c FILE             the running stint's configuration: where it listens, its token\n"
	"  --admin URL         where it listens: http://HOST:PORT or unix:/PATH\n"
	"  --token-file FILE   the admin token, where one is needed\n"
	"  --json              print the operation, or the problem, as JSON\n";

static int usage_error(const char *what, const char *word)
{
	(void)fprintf(stderr, "stint ops: %s%s%s; `stint ops --help` lists what there is\n", what,
		      word != NULL ? " " : "", word != NULL ? word : "");
	return OPS_USAGE;
}

/* --- the command line ---------------------------------------------------------------------------- */

/* Where the value of an option goes; NULL: there is no such option. */
static const char **place_of(struct ops_arguments *arguments, const char *option)
{
	const struct {
		const char *name;
		const char **place;
	} places[] = {
		{"--provider", &arguments->provider},
		{"--tenant", &arguments->tenant},
		{"--scope", &arguments->scope},
		{"--actor", &arguments->actor},
		{"--reason", &arguments->reason},
		{"-c", &arguments->target.config},
		{"--config", &arguments->target.config},
		{"--admin", &arguments->target.admin},
		{"--token-file", &arguments->target.token_file},
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (strcmp(option, places[i].name) == 0)
			return places[i].place;
	}
	return NULL;
}

static int take_word(struct ops_arguments *arguments, const char *word)
{
	if (arguments->key != NULL)
		return usage_error("there is one KEY; this is too many:", word);
	arguments->key = word;
	return 0;
}

static int parse(int argc, char **argv, struct ops_arguments *arguments)
{
	bool words = false;

	for (int i = 0; i < argc; i++) {
		const char **place = place_of(arguments, argv[i]);

		if (words || argv[i][0] != '-') {
			if (take_word(arguments, argv[i]) != 0)
				return OPS_USAGE;
		} else if (strcmp(argv[i], "--") == 0) {
			words = true;
		} else if (strcmp(argv[i], "--json") == 0) {
			arguments->json = true;
		} else if (place == NULL) {
			return usage_error("there is no option", argv[i]);
		} else if (*place != NULL) {
			return usage_error("given twice:", argv[i]);
		} else if (++i == argc) {
			return usage_error("a value must follow", argv[i - 1]);
		} else {
			*place = argv[i];
		}
	}
	return 0;
}

static int check(struct ops_arguments *arguments, const char *config)
{
	if (arguments->key == NULL || arguments->key[0] == '\0')
		return usage_error("say which operation: KEY", NULL);
	if (arguments->provider == NULL || arguments->provider[0] == '\0')
		return usage_error("say whose operation it is: --provider NAME", NULL);
	if (arguments->actor == NULL)
		arguments->actor = getenv("USER");
	if (arguments->actor == NULL || arguments->actor[0] == '\0')
		return usage_error("say who you are: --actor A", NULL);
	if (arguments->reason == NULL || arguments->reason[0] == '\0')
		return usage_error("say why: --reason TEXT", NULL);
	if (arguments->target.config != NULL && arguments->target.admin != NULL)
		return usage_error("-c and --admin exclude each other", NULL);
	if (arguments->target.config == NULL)
		arguments->target.config = config;
	return 0;
}

/* --- the request --------------------------------------------------------------------------------- */

static void print_json(const json_t *value)
{
	char *text = value != NULL ? json_dumps(value, JSON_INDENT(2)) : NULL;

	if (text != NULL)
		(void)puts(text);
	free(text);
}

static int refused(const struct ops_arguments *arguments, const struct admin_answer *answer)
{
	const char *state = json_string_value(json_object_get(answer->json, "state"));

	if (arguments->json)
		print_json(answer->json);
	(void)fprintf(stderr, "stint ops: %s %s: ", arguments->provider, arguments->key);
	if (state != NULL)
		(void)fprintf(stderr, "it is %s: ", state);
	(void)fprintf(stderr, "%s (%d)\n", admin_answer_detail(answer), answer->status);
	return OPS_REFUSED;
}

/* One request about the operation: `action` is "" for reading it. False: nothing was answered, or it
 * was not 200, and that has been said. */
static bool ask(struct admin_client *client, const struct ops_arguments *arguments,
		const char *action, const json_t *body, struct admin_answer *ret_answer)
{
	char error[ADMIN_CLIENT_ERROR_MAX] = "out of memory";
	char *path = admin_client_operation_path(arguments->provider, arguments->key, action,
						 arguments->tenant, arguments->scope);
	int rc = path == NULL ? -1
			      : admin_client_ask(client, body != NULL ? "POST" : "GET", path, body,
						 error, ret_answer);

	free(path);
	if (rc != 0) {
		(void)fprintf(stderr, "stint ops: %s\n", error);
		if (body != NULL)
			(void)fputs(
				"stint ops: whether it was done, the operation's history says\n",
				stderr);
		return false;
	}
	if (ret_answer->status == 200 && json_is_object(ret_answer->json))
		return true;
	(void)refused(arguments, ret_answer);
	return false;
}

static void print_released(const struct ops_arguments *arguments, const json_t *operation)
{
	const char *state = json_string_value(json_object_get(operation, "state"));
	const char *deadline = json_string_value(json_object_get(operation, "deadline"));

	if (arguments->json) {
		print_json(operation);
		return;
	}
	state = state != NULL ? state : "released";
	(void)printf("%s %s: released, and now %s, %lld of %lld attempts made", arguments->provider,
		     arguments->key, state,
		     (long long)json_integer_value(json_object_get(operation, "attempts")),
		     (long long)json_integer_value(json_object_get(operation, "limit")));
	if (strcmp(state, "ready") == 0)
		(void)printf("; it goes on with its next delivery%s%s",
			     deadline != NULL ? ", until " : "", deadline != NULL ? deadline : "");
	(void)putchar('\n');
}

static int release_with(struct admin_client *client, const struct ops_arguments *arguments)
{
	struct admin_answer before = {.json = NULL}, after = {.json = NULL};
	json_t *body = NULL;
	int status = OPS_REFUSED;

	if (!ask(client, arguments, "", NULL, &before))
		goto done;
	body = json_pack("{s:O?, s:s, s:s}", "version", json_object_get(before.json, "version"),
			 "actor", arguments->actor, "reason", arguments->reason);
	if (body == NULL) {
		(void)fputs("stint ops: actor and reason must be UTF-8\n", stderr);
		status = OPS_USAGE;
		goto done;
	}
	if (!ask(client, arguments, "/release", body, &after))
		goto done;
	print_released(arguments, after.json);
	status = OPS_DONE;
done:
	json_decref(body);
	admin_answer_done(&before);
	admin_answer_done(&after);
	return status;
}

static int release(const struct ops_arguments *arguments)
{
	char error[ADMIN_CLIENT_ERROR_MAX];
	struct admin_client *client;
	int status;

	if (admin_client_new(&arguments->target, error, &client) != 0) {
		(void)fprintf(stderr, "stint ops: %s\n", error);
		return OPS_USAGE;
	}
	status = release_with(client, arguments);
	admin_client_free(client);
	return status;
}

static const struct {
	const char *name;
	int (*run)(const struct ops_arguments *arguments);
} actions[] = {
	{"release", release},
};

int ops_run(int argc, char **argv, const char *config)
{
	struct ops_arguments arguments = {.key = NULL};
	int status;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			break;
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			(void)fputs(usage, stdout);
			return OPS_DONE;
		}
	}
	if (argc < 1) {
		(void)fputs(usage, stderr);
		return OPS_USAGE;
	}
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (strcmp(argv[0], actions[i].name) != 0)
			continue;
		status = parse(argc - 1, argv + 1, &arguments);
		if (status == 0)
			status = check(&arguments, config);
		return status != 0 ? status : actions[i].run(&arguments);
	}
	return usage_error("there is no", argv[0]);
}
