/* The command line of `stint explain`: words and files in, one struct explain_input out. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "proxy/config_value.h"
#include "proxy/explain.h"
#include "proxy/preset.h"

#define FILE_MAX_BYTES (16 * 1024 * 1024)
#define METHOD_MAX 32

struct words {
	const char *config, *provider, *preset;
	const char *status, *fault, *attempts;
	const char *body, *body_file, *reply;
	bool not_sent, json;
};

__attribute__((format(printf, 1, 2))) static int bad(const char *format, ...)
{
	va_list arguments;

	(void)fputs("stint: explain: ", stderr);
	va_start(arguments, format);
	(void)vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void)fputc('\n', stderr);
	return 2;
}

static int no_memory(void)
{
	(void)fputs("stint: explain: out of memory\n", stderr);
	return 1;
}

/* --- files -------------------------------------------------------------------------------------- */

/* The whole file, malloc'ed, with a NUL behind it. 0, or the exit status. */
static int read_file(const char *name, char **ret_text, size_t *ret_len)
{
	FILE *in = fopen(name, "rb");
	struct stat stat;
	char *text;
	size_t len;
	bool whole;

	if (in == NULL)
		return bad("%s: %s", name, strerror(errno));
	if (fstat(fileno(in), &stat) != 0 || S_ISDIR(stat.st_mode)) {
		(void)fclose(in);
		return bad("%s: this is no file to read", name);
	}
	text = malloc(FILE_MAX_BYTES + 2);
	if (text == NULL) {
		(void)fclose(in);
		return no_memory();
	}
	len = fread(text, 1, FILE_MAX_BYTES + 1, in);
	whole = !ferror(in);
	(void)fclose(in);
	if (!whole || len > FILE_MAX_BYTES) {
		free(text);
		return bad("%s: %s", name,
			   whole ? "it is longer than 16 MiB" : "it cannot be read");
	}
	text[len] = '\0';
	*ret_text = text;
	*ret_len = len;
	return 0;
}

static int add_header(struct headers *headers, const char *text, size_t len)
{
	const char *colon = memchr(text, ':', len);
	const char *value;
	size_t value_len;
	enum headers_result result = HEADERS_REFUSED;

	if (colon != NULL) {
		header_value_trim(colon + 1, len - (size_t)(colon + 1 - text), &value, &value_len);
		result = headers_add(headers, text, (size_t)(colon - text), value, value_len);
	}
	if (result == HEADERS_MEMORY)
		return no_memory();
	if (result != HEADERS_OK)
		return bad("\"%.*s\" is no header: write \"Name: value\"", len < 60 ? (int)len : 60,
			   text);
	return 0;
}

/* "HTTP/1.1 429 Too Many Requests", "HTTP/2 429". 0: it is none. */
static int status_of_line(const char *text, size_t len)
{
	const char *space = memchr(text, ' ', len);
	size_t left = space != NULL ? len - (size_t)(space + 1 - text) : 0;
	int status = 0;

	if (len < 5 || memcmp(text, "HTTP/", 5) != 0 || left < 3 || (left > 3 && space[4] != ' '))
		return 0;
	for (int i = 1; i <= 3; i++) {
		if (space[i] < '0' || space[i] > '9')
			return 0;
		status = status * 10 + (space[i] - '0');
	}
	return status >= 100 ? status : 0;
}

/* One line off the front of the text, its CR and LF left out. False: the text is over. */
static bool next_line(const char **at, const char *end, const char **ret_line, size_t *ret_len)
{
	const char *line = *at;
	const char *feed;
	size_t len;

	if (line == end)
		return false;
	feed = memchr(line, '\n', (size_t)(end - line));
	*at = feed != NULL ? feed + 1 : end;
	len = (size_t)((feed != NULL ? feed : end) - line);
	if (len > 0 && line[len - 1] == '\r')
		len--;
	*ret_line = line;
	*ret_len = len;
	return true;
}

/* A status line, header lines, an empty line and the body; the interim replies before it (1xx) are
 * passed over. */
static int parse_reply(const char *name, const char *text, size_t len, struct explain_input *input)
{
	const char *at = text, *end = text + len;
	const char *line;
	size_t line_len;
	int rc;

	do {
		headers_clear(&input->headers);
		input->status =
			next_line(&at, end, &line, &line_len) ? status_of_line(line, line_len) : 0;
		if (input->status == 0)
			return bad("%s: it does not begin with a status line such as HTTP/1.1 429 "
				   "Too Many Requests",
				   name);
		while (next_line(&at, end, &line, &line_len) && line_len > 0) {
			rc = add_header(&input->headers, line, line_len);
			if (rc != 0)
				return rc;
		}
	} while (input->status < 200);
	input->body_len = (size_t)(end - at);
	input->body = malloc(input->body_len + 1);
	if (input->body == NULL)
		return no_memory();
	memcpy(input->body, at, input->body_len);
	input->body[input->body_len] = '\0';
	return 0;
}

static int read_reply(const char *name, struct explain_input *input)
{
	char *text;
	size_t len;
	int rc = read_file(name, &text, &len);

	if (rc != 0)
		return rc;
	rc = parse_reply(name, text, len, input);
	free(text);
	return rc;
}

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
			return bad("it does not take \"%s\"; `stint explain --help` lists what it "
				   "takes",
				   argv[i]);
		else if (i + 1 == argc)
			return bad("something must follow %s", argv[i]);
		else if (header)
			rc = add_header(more, argv[i + 1], strlen(argv[i + 1]));
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
	return bad("there is no fault \"%s\"; there are %s", text, names);
}

static int set_fault(const struct words *words, struct explain_input *input)
{
	input->sent = !words->not_sent;
	if (words->fault == NULL) {
		if (words->not_sent)
			return bad("--not-sent goes with --fault");
		return 0;
	}
	/* A guard's "no" takes the claim back: no outcome comes of it. */
	if (!fault_parse(words->fault, &input->fault) || input->fault == FAULT_NONE ||
	    input->fault == FAULT_GUARD)
		return bad_fault(words->fault);
	if (precedes_sending(input->fault))
		input->sent = false;
	if (!input->sent && (words->status != NULL || words->reply != NULL))
		return bad("what was not sent has no reply: leave %s out",
			   words->status != NULL ? "--status" : "--reply");
	return 0;
}

static int set_number(const char *text, const char *name, int64_t min, int64_t max, int *ret_number)
{
	int64_t value;

	if (value_int(text, &value) != 0 || value < min || value > max)
		return bad("%s is \"%s\": write %lld to %lld", name, text, (long long)min,
			   (long long)max);
	*ret_number = (int)value;
	return 0;
}

static int set_request(const struct words *words, struct explain_input *input)
{
	size_t len = strlen(input->method);

	if (len == 0 || len > METHOD_MAX ||
	    strspn(input->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != len)
		return bad("--method is \"%s\": write it in upper case, such as POST",
			   input->method);
	if (input->path[0] != '/')
		return bad("--path is \"%s\": write what follows the route, such as /v1/charges",
			   input->path);
	input->attempts = 1;
	if (words->attempts == NULL)
		return 0;
	return set_number(words->attempts, "--attempts", 1, ATTEMPTS_CEILING, &input->attempts);
}

static int set_body(const struct words *words, struct explain_input *input)
{
	if (words->body_file != NULL)
		return read_file(words->body_file, &input->body, &input->body_len);
	if (words->body == NULL)
		return 0;
	input->body = strdup(words->body);
	input->body_len = strlen(words->body);
	return input->body != NULL ? 0 : no_memory();
}

static int set_outcome(const struct words *words, struct explain_input *input)
{
	bool body = words->body != NULL || words->body_file != NULL;
	int rc = set_fault(words, input);

	if (rc != 0)
		return rc;
	if (words->reply != NULL && (words->status != NULL || body))
		return bad("--reply holds status and body: leave %s out",
			   words->status != NULL ? "--status" : "the other body");
	if (words->body != NULL && words->body_file != NULL)
		return bad("--body and --body-file are both there: leave one out");
	if (words->reply != NULL)
		return read_reply(words->reply, input);
	if (words->status == NULL && words->fault == NULL)
		return bad("say what came back: --status N, --reply FILE or --fault NAME");
	if (words->status == NULL && body)
		return bad("a body comes with a status: write --status N too");
	if (words->status != NULL)
		rc = set_number(words->status, "--status", 200, 999, &input->status);
	return rc != 0 ? rc : set_body(words, input);
}

static int add_headers(const struct headers *more, struct explain_input *input)
{
	if (more->count > 0 && input->status == 0)
		return bad("a header comes with a status: write --status N too");
	for (size_t i = 0; i < more->count; i++) {
		const struct header_view *line = &more->items[i];

		if (headers_add(&input->headers, line->name, line->name_len, line->value,
				line->value_len) != HEADERS_OK)
			return no_memory();
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
		return bad("there is no preset \"%s\"; there are %s", name, names);
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
		return bad("write --provider NAME; %s has %s", file, names);
	return bad("%s has no provider \"%s\"; it has %s", file, name, names);
}

static int find_provider(const struct words *words, const char *fallback,
			 struct config **ret_config, const struct provider_config **ret_provider)
{
	const char *file = words->config != NULL ? words->config : fallback;
	struct config *config;
	int rc;

	if (words->preset != NULL && (words->provider != NULL || words->config != NULL))
		return bad("--preset stands alone: leave %s out",
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
		return no_memory();
	if (!explain(provider, input, e))
		rc = bad("there is no attempt %d: the budget of %s is %d", input->attempts,
			 provider->name, provider->policy.attempts);
	else if (words->json && explain_print_json(e, stdout) != 0)
		rc = no_memory();
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
