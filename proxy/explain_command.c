/* The command line of `stint explain`: words and files in, one struct explain_input out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proxy/config_value.h"
#include "proxy/explain_words.h"
#include "proxy/preset.h"

#define METHOD_MAX 32

struct words {
	const char *config, *provider, *preset;
	const char *status, *fault, *attempts;
	const char *body, *body_file, *reply;
	bool not_sent, json;
};

/* --- words -------------------------------------------------------------------------------------- */

static const char *const usage =
	"stint explain [-c FILE] --provider NAME | --preset NAME\n"
	"    [--method POST] [--path /x] [--attempts N]         the attempt; N: made, with this "
	"one\n"
	"    --status N [--header \"Name: value\"]... [--body TEXT | --body-file FILE]\n"
	"    --reply FILE                                       the same as one raw response\n"
	"    --fault NAME [--not-sent]                          it ended without a whole reply\n"
	"    [--json]\n";

/* The options that take a word, and where it goes. */
static const struct {
	const char *name;
	size_t offset;
} word_options[] = {
	{"-c", offsetof(struct words, config)},
	{"--config", offsetof(struct words, config)},
	{"--provider", offsetof(struct words, provider)},
	{"--preset", offsetof(struct words, preset)},
	{"--status", offsetof(struct words, status)},
	{"--fault", offsetof(struct words, fault)},
	{"--attempts", offsetof(struct words, attempts)},
	{"--body", offsetof(struct words, body)},
	{"--body-file", offsetof(struct words, body_file)},
	{"--reply", offsetof(struct words, reply)},
};

static const char **word_at(struct words *words, struct explain_input *input, const char *name)
{
	for (size_t i = 0; i < sizeof(word_options) / sizeof(word_options[0]); i++) {
		if (strcmp(word_options[i].name, name) == 0)
			return (const char **)((char *)words + word_options[i].offset);
	}
	if (strcmp(name, "--method") == 0)
		return &input->method;
	return strcmp(name, "--path") == 0 ? &input->path : NULL;
}

/* Headers go to a list of their own: a reply's file comes first, wherever it stands. */
static int read_words(int argc, char **argv, struct words *words, struct explain_input *input,
		      struct headers *more)
{
	for (int i = 0; i < argc; i++) {
		const char **word = word_at(words, input, argv[i]);
		bool header = strcmp(argv[i], "--header") == 0;
		int rc = 0;

		if (strcmp(argv[i], "--json") == 0)
			words->json = true;
		else if (strcmp(argv[i], "--not-sent") == 0)
			words->not_sent = true;
		else if (word == NULL && !header)
			return explain_bad(
				"it does not take \"%s\"; `stint explain --help` lists what it "
				"takes",
				argv[i]);
		else if (i + 1 == argc)
			return explain_bad("something must follow %s", argv[i]);
		else if (header)
			rc = explain_add_header(more, argv[i + 1], strlen(argv[i + 1]));
		else
			*word = argv[i + 1];
		if (rc != 0)
			return rc;
		i += header || word != NULL;
	}
	return 0;
}

/* What ends before the request is let go cannot have been sent. */
static bool precedes_sending(enum fault fault)
{
	return fault == FAULT_RESOLVE || fault == FAULT_CONNECT || fault == FAULT_CONNECT_TIMEOUT ||
	       fault == FAULT_TLS || fault == FAULT_LOCAL;
}

static int bad_fault(const char *text)
{
	char names[400] = "";
	size_t used = 0;

	for (int i = FAULT_NONE + 1; i < FAULT_COUNT && used < sizeof(names); i++) {
		int n = i == FAULT_GUARD
				? 0
				: snprintf(names + used, sizeof(names) - used, "%s%s",
					   used > 0 ? ", " : "", fault_name((enum fault)i));

		used += n > 0 ? (size_t)n : 0;
	}
	return explain_bad("there is no fault \"%s\"; there are %s", text, names);
}

static int set_fault(const struct words *words, struct explain_input *input)
{
	input->sent = !words->not_sent;
	if (words->fault == NULL) {
		if (words->not_sent)
			return explain_bad("--not-sent goes with --fault");
		return 0;
	}
	/* A guard's "no" takes the claim back: no outcome comes of it. */
	if (!fault_parse(words->fault, &input->fault) || input->fault == FAULT_NONE ||
	    input->fault == FAULT_GUARD)
		return bad_fault(words->fault);
	if (precedes_sending(input->fault))
		input->sent = false;
	if (!input->sent && (words->status != NULL || words->reply != NULL))
		return explain_bad("what was not sent has no reply: leave %s out",
				   words->status != NULL ? "--status" : "--reply");
	return 0;
}

static int set_number(const char *text, const char *name, int64_t min, int64_t max, int *ret_number)
{
	int64_t value;

	if (value_int(text, &value) != 0 || value < min || value > max)
		return explain_bad("%s is \"%s\": write %lld to %lld", name, text, (long long)min,
				   (long long)max);
	*ret_number = (int)value;
	return 0;
}

static int set_request(const struct words *words, struct explain_input *input)
{
	size_t len = strlen(input->method);

	if (len == 0 || len > METHOD_MAX ||
	    strspn(input->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != len)
		return explain_bad("--method is \"%s\": write it in upper case, such as POST",
				   input->method);
	if (input->path[0] != '/')
		return explain_bad(
			"--path is \"%s\": write what follows the route, such as /v1/charges",
			input->path);
	input->attempts = 1;
	if (words->attempts == NULL)
		return 0;
	return set_number(words->attempts, "--attempts", 1, ATTEMPTS_CEILING, &input->attempts);
}

static int set_body(const struct words *words, struct explain_input *input)
{
	if (words->body_file != NULL)
		return explain_read_file(words->body_file, &input->body, &input->body_len);
	if (words->body == NULL)
		return 0;
	input->body = strdup(words->body);
	input->body_len = strlen(words->body);
	return input->body != NULL ? 0 : explain_no_memory();
}

static int set_outcome(const struct words *words, struct explain_input *input)
{
	bool body = words->body != NULL || words->body_file != NULL;
	int rc = set_fault(words, input);

	if (rc != 0)
		return rc;
	if (words->reply != NULL && (words->status != NULL || body))
		return explain_bad("--reply holds status and body: leave %s out",
				   words->status != NULL ? "--status" : "the other body");
	if (words->body != NULL && words->body_file != NULL)
		return explain_bad("--body and --body-file are both there: leave one out");
	if (words->reply != NULL)
		return explain_read_reply(words->reply, input);
	if (words->status == NULL && words->fault == NULL)
		return explain_bad("say what came back: --status N, --reply FILE or --fault NAME");
	if (words->status == NULL && body)
		return explain_bad("a body comes with a status: write --status N too");
	if (words->status != NULL)
		rc = set_number(words->status, "--status", 200, 999, &input->status);
	return rc != 0 ? rc : set_body(words, input);
}

static int add_headers(const struct headers *more, struct explain_input *input)
{
	if (more->count > 0 && input->status == 0)
		return explain_bad("a header comes with a status: write --status N too");
	for (size_t i = 0; i < more->count; i++) {
		const struct header_view *line = &more->items[i];

		if (headers_add(&input->headers, line->name, line->name_len, line->value,
				line->value_len) != HEADERS_OK)
			return explain_no_memory();
	}
	return 0;
}

/* --- the provider ------------------------------------------------------------------------------- */

static int load(const char *file, const char *text, struct config **ret_config)
{
	struct config_problems problems;

	*ret_config = config_load(file, text, &problems);
	if (*ret_config == NULL)
		(void)config_problems_print(&problems, file, stderr);
	config_problems_done(&problems);
	return *ret_config != NULL ? 0 : 2;
}

/* What the preset alone says, everything else as it is by default. */
static int load_preset(const char *name, struct config **ret_config)
{
	char text[256], names[512];

	if (preset_find(name) == NULL) {
		preset_names(names, sizeof(names));
		return explain_bad("there is no preset \"%s\"; there are %s", name, names);
	}
	(void)snprintf(text, sizeof(text),
		       "providers: {%s: {preset: %s, route: /, upstream: \"http://localhost\"}}\n",
		       name, name);
	return load(name, text, ret_config);
}

static int bad_provider(const struct config *config, const char *file, const char *name)
{
	char names[400] = "";
	size_t used = 0;

	for (size_t i = 0; i < config->provider_count && used < sizeof(names); i++) {
		int n = snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
				 config->providers[i].name);

		used += n > 0 ? (size_t)n : 0;
	}
	if (name == NULL)
		return explain_bad("write --provider NAME; %s has %s", file, names);
	return explain_bad("%s has no provider \"%s\"; it has %s", file, name, names);
}

static int find_provider(const struct words *words, const char *fallback,
			 struct config **ret_config, const struct provider_config **ret_provider)
{
	const char *file = words->config != NULL ? words->config : fallback;
	struct config *config;
	int rc;

	if (words->preset != NULL && (words->provider != NULL || words->config != NULL))
		return explain_bad("--preset stands alone: leave %s out",
				   words->provider != NULL ? "--provider" : "-c");
	rc = words->preset != NULL ? load_preset(words->preset, ret_config)
				   : load(file, NULL, ret_config);
	if (rc != 0)
		return rc;
	config = *ret_config;
	for (size_t i = 0; i < config->provider_count; i++) {
		const char *wanted = words->preset != NULL ? words->preset : words->provider;

		*ret_provider = &config->providers[i];
		if (wanted != NULL ? strcmp((*ret_provider)->name, wanted) == 0
				   : config->provider_count == 1)
			return 0;
	}
	return bad_provider(config, file, words->provider);
}

/* --- all of it ---------------------------------------------------------------------------------- */

static int run(const struct words *words, const struct provider_config *provider,
	       const struct explain_input *input)
{
	struct explanation *e = malloc(sizeof(*e));
	int rc = 0;

	if (e == NULL)
		return explain_no_memory();
	if (!explain(provider, input, e))
		rc = explain_bad("there is no attempt %d: the budget of %s is %d", input->attempts,
				 provider->name, provider->policy.attempts);
	else if (words->json && explain_print_json(e, stdout) != 0)
		rc = explain_no_memory();
	else if (!words->json)
		explain_print(e, stdout);
	free(e);
	return rc;
}

static usec_t wall_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (usec_t)now.tv_sec * USEC_SEC + now.tv_nsec / 1000;
}

int explain_run(int argc, char **argv, const char *fallback)
{
	struct explain_input input = {.method = "POST", .path = "/", .now = wall_now()};
	const struct provider_config *provider = NULL;
	struct config *config = NULL;
	struct words words = {0};
	struct headers more;
	int rc;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			(void)fputs(usage, stdout);
			return 0;
		}
	}
	headers_init(&more);
	headers_init(&input.headers);
	rc = read_words(argc, argv, &words, &input, &more);
	if (rc == 0)
		rc = set_request(&words, &input);
	if (rc == 0)
		rc = set_outcome(&words, &input);
	if (rc == 0)
		rc = add_headers(&more, &input);
	if (rc == 0)
		rc = find_provider(&words, fallback, &config, &provider);
	if (rc == 0)
		rc = run(&words, provider, &input);
	config_free(config);
	free(input.body);
	headers_done(&input.headers);
	headers_done(&more);
	return rc;
}
