/* Every preset against replies as its provider writes them: tests/presets/NAME.replies, through
 * config_load() and classify(), as the proxy does it. A file is a list of cases:
 *
 *	> METHOD PATH             begins a case
 *	! FAULT                   or `! FAULT unsent`; needs no status
 *	< STATUS                  header lines follow, then an empty line and the body
 *	= class effect reason     and, where they are not absent: retry=never, wait=TIME, advice=TIME
 *
 * Replies arrive on 2026-10-21 at 07:28:00 UTC. Lines that begin with # are comments. */
#include "tests/unit/config_fixture.h"

#include <ctype.h>
#include <dirent.h>

#include "classify/classify.h"
#include "proxy/config_value.h"
#include "proxy/preset.h"

#define NOW ((usec_t)1792567680 * USEC_SEC)
#define HEADERS_MAX 32
#define RULES_SEEN 100

struct reply {
	char method[16], path[256];
	struct header_view headers[HEADERS_MAX];
	struct facts facts;
	char *body;
	size_t body_size;
	char *lines[HEADERS_MAX]; /* what the views point to */
};

struct run {
	const char *file;
	int line, cases;
	const struct ruleset *rules;
	bool seen[RULES_SEEN];
	struct reply reply;
};

static void reply_done(struct reply *reply)
{
	for (size_t i = 0; i < reply->facts.header_count; i++)
		free(reply->lines[i]);
	free(reply->body);
	*reply = (struct reply){0};
}

static void bad(const struct run *run, const char *what, const char *text)
{
	fail_msg("%s:%d: %s: %s", run->file, run->line, what, text);
}

static void begin(struct run *run, const char *text)
{
	struct reply *reply = &run->reply;

	reply_done(reply);
	if (sscanf(text, "%15s %255s", reply->method, reply->path) != 2)
		bad(run, "write > METHOD PATH", text);
	reply->facts = (struct facts){.method = reply->method,
				      .path = reply->path,
				      .sent = true,
				      .headers = reply->headers,
				      .received_wall = NOW};
}

static void read_fault(struct run *run, const char *text)
{
	char name[32], sent[16] = "";

	if (sscanf(text, "%31s %15s", name, sent) < 1 ||
	    !fault_parse(name, &run->reply.facts.fault))
		bad(run, "no fault", text);
	run->reply.facts.sent = strcmp(sent, "unsent") != 0;
}

static void add_header(struct run *run, const char *text)
{
	struct facts *facts = &run->reply.facts;
	const char *colon = strchr(text, ':');

	if (colon == NULL || facts->header_count == HEADERS_MAX) {
		bad(run, "no header", text);
		return;
	}
	char *line = strdup(text);
	size_t name = (size_t)(colon - text);

	assert_non_null(line);
	run->reply.lines[facts->header_count] = line;
	run->reply.headers[facts->header_count++] =
		(struct header_view){line, name, line + name + 1, strlen(line) - name - 1};
}

static void add_body(struct run *run, const char *text)
{
	struct reply *reply = &run->reply;
	size_t len = strlen(text);
	char *body = realloc(reply->body, reply->facts.body_len + len + 1);

	assert_non_null(body);
	memcpy(body + reply->facts.body_len, text, len);
	reply->body = body;
	reply->facts.body = body;
	reply->facts.body_len += len;
	body[reply->facts.body_len++] = '\n';
}

static void print_time(usec_t value, const char *name, char *ret_text, size_t len)
{
	char text[VALUE_TEXT];

	ret_text[0] = '\0';
	if (value < 0)
		return;
	value_print_duration(value, text);
	snprintf(ret_text, len, " %s=%s", name, text);
}

static void check(struct run *run, const char *expected)
{
	struct verdict verdict;
	char wait[64], advice[64], actual[256];
	const struct rule *rule = rules_match(run->rules, &run->reply.facts);

	classify(&run->reply.facts, run->rules, &verdict);
	print_time(verdict.rule_wait, "wait", wait, sizeof(wait));
	print_time(verdict.advice, "advice", advice, sizeof(advice));
	snprintf(actual, sizeof(actual), "%s %s %s%s%s%s%s", outcome_class_name(verdict.class),
		 effect_name(verdict.effect), verdict.reason,
		 verdict.retry_never ? " retry=never" : "", wait, advice,
		 verdict.resolves ? " resolves" : "");
	if (strcmp(actual, expected) != 0)
		print_error("%s:%d:\n", run->file, run->line);
	assert_string_equal(actual, expected);
	if (rule != NULL)
		run->seen[rule - run->rules->rules] = true;
	run->cases++;
}

static void run_file(struct run *run, FILE *in)
{
	enum { OUTSIDE, HEAD, BODY } part = OUTSIDE;
	char line[4096];

	while (fgets(line, sizeof(line), in) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		run->line++;
		if (line[0] == '#' || (line[0] == '\0' && part == OUTSIDE)) {
			continue;
		} else if (strncmp(line, "= ", 2) == 0) {
			check(run, line + 2);
			part = OUTSIDE;
		} else if (part == OUTSIDE && strncmp(line, "> ", 2) == 0) {
			begin(run, line + 2);
		} else if (part == OUTSIDE && strncmp(line, "! ", 2) == 0) {
			read_fault(run, line + 2);
		} else if (part == OUTSIDE && strncmp(line, "< ", 2) == 0) {
			run->reply.facts.status = (int)strtol(line + 2, NULL, 10);
			part = HEAD;
		} else if (part == HEAD && line[0] == '\0') {
			part = BODY;
		} else if (part == HEAD) {
			add_header(run, line);
		} else if (part == BODY) {
			add_body(run, line);
		} else {
			bad(run, "neither >, !, < nor =", line);
		}
	}
	reply_done(&run->reply);
}

/* A provider that says nothing but the preset's name, an upstream and its route. */
static struct config *load_preset(const char *name)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "providers:\n  a: {preset: %s, route: /a, upstream: \"http://h\"}\n", name);
	return config_good(text);
}

static void test_replies(void **state)
{
	(void)state;
	for (size_t i = 0; i < preset_count; i++) {
		char path[128];
		struct config *config = load_preset(presets[i].name);
		struct run run = {.file = path, .rules = &config->providers[0].ruleset};

		snprintf(path, sizeof(path), "tests/presets/%s.replies", presets[i].name);
		FILE *in = fopen(path, "r");

		if (in == NULL)
			fail_msg("%s is missing", path);
		run_file(&run, in);
		fclose(in);
		assert_true(run.cases >= 4);
		/* no rule stands there that nothing was said about */
		for (size_t k = 0; k < run.rules->count; k++)
			if (!run.seen[k])
				fail_msg("%s: no reply for rule %s", path,
					 run.rules->rules[k].name);
		config_free(config);
	}
}

static void test_no_strays(void **state)
{
	DIR *directory = opendir("tests/presets");
	struct dirent *entry;

	(void)state;
	assert_non_null(directory);
	while ((entry = readdir(directory)) != NULL) {
		char *dot = strrchr(entry->d_name, '.');

		if (dot == NULL || strcmp(dot, ".replies") != 0)
			continue;
		*dot = '\0';
		if (preset_find(entry->d_name) == NULL)
			fail_msg("no preset %s", entry->d_name);
	}
	closedir(directory);
}

/* The build carries each file as it is, in the order of names. */
static void test_embedded(void **state)
{
	static const char *const names[] = {
		"adyen",   "anthropic", "azure-openai", "discord", "generic", "github",
		"google",  "hubspot",   "mailgun",      "openai",  "paypal",  "sendgrid",
		"shopify", "slack",     "square",       "stripe",  "twilio",
	};

	(void)state;
	assert_int_equal(preset_count, sizeof(names) / sizeof(names[0]));
	for (size_t i = 0; i < preset_count; i++) {
		char path[128], text[16384] = "";

		assert_string_equal(presets[i].name, names[i]);
		snprintf(path, sizeof(path), "deploy/presets/%s.yaml", presets[i].name);
		FILE *in = fopen(path, "r");

		assert_non_null(in);
		assert_true(fread(text, 1, sizeof(text) - 1, in) > 0);
		fclose(in);
		assert_string_equal(presets[i].text, text);
		/* where its facts come from */
		assert_int_equal(text[0], '#');
		assert_non_null(strstr(text, "# Source"));
	}
	assert_null(preset_find("Stripe"));
	assert_null(preset_find(""));
}

/* Facts, and never a decision about money: what is policy stays as it is without the preset. */
static void test_policy(void **state)
{
	struct config *plain = config_good("providers: {a: {route: /a, upstream: \"http://h\"}}\n");
	const struct policy *want = &plain->providers[0].policy;

	(void)state;
	for (size_t i = 0; i < preset_count; i++) {
		struct config *config = load_preset(presets[i].name);
		const struct provider_config *provider = &config->providers[0];
		bool has_key = false;

		assert_string_equal(provider->preset, presets[i].name);
		assert_int_equal(provider->policy.attempts, want->attempts);
		assert_int_equal(provider->policy.window, want->window);
		assert_int_equal(provider->policy.backoff.first, want->backoff.first);
		assert_int_equal(provider->policy.backoff.max, want->backoff.max);
		assert_int_equal(provider->policy.hold, want->hold);
		assert_int_equal(provider->policy.retry_after_max, want->retry_after_max);
		for (size_t k = 0; k < provider->key_from_count; k++)
			has_key = has_key ||
				  (provider->key_from[k].kind == KEY_HEADER &&
				   strcmp(provider->key_from[k].name, "Idempotency-Key") == 0);
		assert_true(has_key);
		config_free(config);
	}
	config_free(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replies),
		cmocka_unit_test(test_no_strays),
		cmocka_unit_test(test_embedded),
		cmocka_unit_test(test_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
