/* Rules, advice, stop, refusal, sdk, and the layer of a preset: what they are stored as, and each
 * way of getting them wrong. */
#include "tests/unit/config_fixture.h"

#include "classify/classify.h"
#include "proxy/config_tree.h"
#include "proxy/preset.h"

#define RULES PROVIDER "    rules:\n" /* 6 */
#define RULE(rest) RULES "      - {name: a, " rest "}\n"
#define WHEN(rest) RULE("class: transient, when: {" rest "}")
#define PRESET(name) "providers:\n  a:\n    route: /a\n    preset: " name "\n" /* 5 */

static void test_all_of_a_rule(void **state)
{
	struct config *config = config_good(
		PROVIDER
		"    inspect: {body: 1KiB, on: 2xx}\n"
		"    rules:\n"
		"      - name: all-of-it\n"
		"        when:\n"
		"          status: [409, 500-504]\n"
		"          header: {X-A: \"1\", X-B: [b, c], X-C: {prefix: z}, X-D: {present: "
		"true}}\n"
		"          json: {/a: 1, /b/0: [x, \"\"], /c: {present: true}}\n"
		"          fault: [none, head-too-large]\n"
		"          method: [POST, PATCH]\n"
		"          path: /v1\n"
		"        class: deferred\n"
		"        effect: none\n"
		"        wait: 15m\n"
		"        resolves: true\n"
		"      - {name: b, when: {status: 5xx}, class: unknown, effect: possible, retry: "
		"never}\n"
		"      - {name: c, when: {fault: connect}, class: transient, wait: advice, "
		"resolves: "
		"false}\n"
		"    advice: [{header: X-Reset, unit: epoch}, {header: RateLimit, unit: "
		"ratelimit}, {json: /error/wait, unit: go-duration}]\n");
	const struct ruleset *set = &config->providers[0].ruleset;
	const struct rule *rule = set->rules;

	(void)state;
	assert_int_equal(set->count, 3);
	assert_int_equal(set->inspect_max, 1024);
	assert_true(set->inspect_2xx);
	assert_string_equal(rule->name, "all-of-it");
	assert_int_equal(rule->status_count, 2);
	assert_int_equal(rule->statuses[1].first, 500);
	assert_int_equal(rule->statuses[1].last, 504);
	assert_int_equal(rule->header_count, 4);
	assert_string_equal(rule->headers[1].name, "X-B");
	assert_int_equal(rule->headers[1].value_count, 2);
	assert_string_equal(rule->headers[1].values[1], "c");
	assert_true(rule->headers[2].prefix);
	assert_false(rule->headers[1].prefix);
	assert_int_equal(rule->headers[3].value_count, 0);
	assert_int_equal(rule->json_count, 3);
	assert_string_equal(rule->jsons[1].pointer, "/b/0");
	assert_string_equal(rule->jsons[1].values[1], "");
	assert_int_equal(rule->jsons[2].value_count, 0);
	assert_int_equal(rule->faults, RULE_FAULT(FAULT_NONE) | RULE_FAULT(FAULT_HEAD_TOO_LARGE));
	assert_int_equal(rule->method_count, 2);
	assert_string_equal(rule->path, "/v1");
	assert_int_equal(rule->class, CLASS_DEFERRED);
	assert_int_equal(rule->effect, EFFECT_NONE);
	assert_int_equal(rule->wait, 15 * USEC_MIN);
	assert_true(rule->resolves);
	assert_false(rule->retry_never);
	assert_int_equal(rule[1].effect, EFFECT_POSSIBLE);
	assert_true(rule[1].retry_never);
	assert_true(rule[2].wait_advice);
	assert_false(rule[2].resolves);
	assert_int_equal(set->source_count, 3);
	assert_string_equal(set->sources[0].header, "X-Reset");
	assert_int_equal(set->sources[1].unit, ADVICE_UNIT_RATELIMIT);
	assert_null(set->sources[1].pointer);
	assert_null(set->sources[2].header);
	assert_string_equal(set->sources[2].pointer, "/error/wait");
	assert_int_equal(set->sources[2].unit, ADVICE_UNIT_GO_DURATION);
	config_free(config);
}

static void test_nothing_given(void **state)
{
	struct config *config = config_good(PROVIDER "    rules: []\n    advice: []\n");
	const struct provider_config *provider = &config->providers[0];

	(void)state;
	assert_int_equal(provider->ruleset.count, 0);
	assert_int_equal(provider->ruleset.source_count, 0);
	assert_int_equal(provider->ruleset.inspect_max, 16 * 1024);
	assert_false(provider->ruleset.inspect_2xx);
	assert_null(provider->preset);
	assert_null(provider->stop_header);
	assert_null(provider->stop_value);
	assert_int_equal(provider->refusal_status, 0);
	assert_null(provider->refusal_body);
	assert_null(provider->sdk_timeout_header);
	assert_null(provider->sdk_retries_header);
	config_free(config);
}

/* The same reply with the rule and without it (W13). */
static void test_deferred(void **state)
{
	static const char body[] = "{\"error\": \"catalogue_not_active\"}";
	struct facts facts = {.method = "POST",
			      .path = "/",
			      .status = 422,
			      .sent = true,
			      .body = body,
			      .body_len = sizeof(body) - 1};
	struct config *config =
		config_good(RULE("when: {status: 422, json: {/error: catalogue_not_active}}, "
				 "class: deferred, wait: 15m"));
	struct verdict verdict;

	(void)state;
	classify(&facts, &config->providers[0].ruleset, &verdict);
	assert_int_equal(verdict.class, CLASS_DEFERRED);
	assert_int_equal(verdict.effect, EFFECT_NONE);
	assert_int_equal(verdict.rule_wait, 15 * USEC_MIN);
	assert_string_equal(verdict.reason, "a");
	classify(&facts, NULL, &verdict);
	assert_int_equal(verdict.class, CLASS_INVALID);
	config_free(config);
}

static void test_rules(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    rules: {}\n",
		 "f:5:12: rules is a mapping: write a list such as [{name: quota, when: {status: "
		 "429}, class: quota}]\n"},
		{RULES "      - 3\n", "f:6:9: rule 1: it is \"3\": write a mapping such as {name: "
				      "quota, when: {status: 429}, class: quota}\n"},
		{RULES "      - {}\n",
		 "f:6:9: rule 1 has no name: write name: WORD, it becomes the reason\n"
		 "f:6:9: rule 1 has no condition: write when: {status: 429}\n"
		 "f:6:9: rule 1 has no class: write class: transient, or another one\n"},
		{RULES "      - {name: No_Credit, when: {status: 429}, class: quota}\n",
		 "f:6:16: rule 1: name is \"No_Credit\": write at most 63 lower-case letters, "
		 "digits and single hyphens, such as no-credit\n"},
		{RULES "      - {name: a, when: {status: 429}, class: quota}\n"
		       "      - {name: a, when: {status: 409}, class: quota}\n",
		 "f:7:16: rule a: name is \"a\": an earlier rule has it, write another one\n"},
		{RULE("when: {status: 429}, class: quota, clas: x"),
		 "f:6:54: rule a: unknown key clas: known are name, when, class, effect, wait, "
		 "retry, resolves\n"},
		{RULE("when: {status: 429}, class: spent"),
		 "f:6:47: rule a: class is \"spent\": write success, invalid, auth, quota, "
		 "rate_limited, transient, deferred or unknown\n"},
		{RULE("when: {status: 429}, class: none"),
		 "f:6:47: rule a: class is \"none\": write success, invalid, auth, quota, "
		 "rate_limited, transient, deferred or unknown\n"},
		{RULE("when: {status: 503}, class: transient, effect: possible"),
		 "f:6:66: rule a: effect is \"possible\": with class transient leave it out, or "
		 "write none\n"},
		{RULE("when: {status: 503}, effect: none, class: unknown"),
		 "f:6:48: rule a: effect is \"none\": with class unknown leave it out, or write "
		 "possible\n"},
		{RULE("when: {status: 503}, class: unknown, effect: maybe"),
		 "f:6:64: rule a: effect is \"maybe\": leave it out, the class implies it (none, "
		 "possible or definite)\n"},
		{RULE("when: {status: 503}, class: transient, wait: 15"),
		 "f:6:64: rule a: wait is \"15\": write 15s\n"},
		{RULE("when: {status: 503}, class: transient, wait: soon"),
		 "f:6:64: rule a: wait is \"soon\": write a duration such as 15m, or advice\n"},
		{RULE("when: {status: 503}, class: transient, wait: 31d"),
		 "f:6:64: rule a: wait is \"31d\": write 1ms to 30d\n"},
		{RULE("when: {status: 503}, class: transient, wait: 0s"),
		 "f:6:64: rule a: wait is \"0s\": write 1ms to 30d\n"},
		{RULE("when: {status: 503}, class: quota, wait: 15m"),
		 "f:6:60: rule a: wait is \"15m\": class quota is not tried again, leave it out\n"},
		{RULE("when: {status: 503}, class: unknown, retry: once"),
		 "f:6:63: rule a: retry is \"once\": write never, or leave it out\n"},
		{RULE("when: {status: 503}, class: unknown, retry: never, wait: 1s"),
		 "f:6:63: rule a: retry is \"never\": a wait stands beside it, leave one out\n"},
		{RULE("when: {status: 503}, class: unknown, resolves: yes"),
		 "f:6:66: rule a: resolves is \"yes\": write true or false\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_conditions(void **state)
{
	static const struct config_case cases[] = {
		{WHEN(""), "f:6:43: rule a: when is a mapping: write at least one of status, "
			   "header, json, fault, method, path\n"},
		{RULE("class: transient, when: 503"),
		 "f:6:43: rule a: when is \"503\": write at least one of status, header, json, "
		 "fault, method, path\n"},
		{WHEN("code: 503"), "f:6:44: rule a: unknown key code in when: known are status, "
				    "header, json, fault, method, path\n"},
		{WHEN("status: 503, status: 504"),
		 "f:6:57: duplicate key status: it is also on line 6, leave one out\n"},
		{WHEN("status: 504-500"), "f:6:52: rule a: when.status is \"504-500\": the range "
					  "is empty, write 500-504\n"},
		{WHEN("status: 50"), "f:6:52: rule a: when.status is \"50\": write a status such "
				     "as 503, 500-504 or 5xx\n"},
		{WHEN("status: [503, x]"), "f:6:58: rule a: when.status is \"x\": write a status "
					   "such as 503, 500-504 or 5xx\n"},
		{WHEN("status: []"), "f:6:52: rule a: when.status is a list: write 503, 500-504 or "
				     "5xx, or a list of 1 to 64 of them\n"},
		{WHEN("status: [5xx, 503]"), "f:6:58: rule a: when.status is \"503\": the list "
					     "says it twice, leave one out\n"},
		{WHEN("fault: tiemout"),
		 "f:6:51: rule a: when.fault is \"tiemout\": known are none, resolve, connect, "
		 "connect-timeout, tls, timeout, idle-timeout, total-timeout, reset, closed, cut, "
		 "protocol, head-too-large, hidden-resend, guard, deadline, caller-gone, "
		 "upload-cut, refused-stream, local\n"},
		{WHEN("fault: [reset, reset]"), "f:6:59: rule a: when.fault is \"reset\": the list "
						"says it twice, leave one out\n"},
		{WHEN("method: post"), "f:6:52: rule a: when.method is \"post\": write methods in "
				       "upper case, such as POST\n"},
		{WHEN("method: {}"), "f:6:52: rule a: when.method is a mapping: write a value, or "
				     "a list of 1 to 64 of them\n"},
		{WHEN("path: v1"), "f:6:50: rule a: when.path is \"v1\": write a prefix of the "
				   "path behind the route, such as /v1/charges\n"},
		{WHEN("path: \"/a?b\""), "f:6:50: rule a: when.path is \"/a?b\": write a prefix of "
					 "the path behind the route, such as /v1/charges\n"},
		{WHEN("header: X-A"), "f:6:52: rule a: when.header is \"X-A\": write a mapping of "
				      "1 to 16 such as {X-Processed: \"false\"}\n"},
		{WHEN("header: {\"X A\": 1}"),
		 "f:6:53: rule a: X A is no header name: write one such as X-Processed\n"},
		{WHEN("header: {X-A: 1, x-a: 2}"), "f:6:61: rule a: header x-a is there twice: "
						   "write one list of its values\n"},
		{WHEN("header: {X-A: }"),
		 "f:6:53: rule a: when.header.X-A is nothing: write a value, a list of values, "
		 "{prefix: TEXT} or {present: true}\n"},
		{WHEN("header: {X-A: [1, 1]}"), "f:6:62: rule a: when.header.X-A is \"1\": the "
						"list says it twice, leave one out\n"},
		{WHEN("header: {X-A: \" 1\"}"),
		 "f:6:58: rule a: when.header.X-A is \" 1\": it is compared without white space "
		 "around it, leave that out\n"},
		{WHEN("json: {error: x}"), "f:6:51: rule a: error is no JSON pointer: write one "
					   "such as /error/code, with ~0 for ~ and ~1 for / in a "
					   "name\n"},
		{WHEN("json: {/a~2: x}"), "f:6:51: rule a: /a~2 is no JSON pointer: write one such "
					  "as /error/code, with ~0 for ~ and ~1 for / in a name\n"},
		{WHEN("json: {/a: null}"),
		 "f:6:51: rule a: when.json./a is nothing: write a value, a list of values, "
		 "\"null\" in quotes, or {present: true}\n"},
		{WHEN("json: {/a: {prefix: x}}"),
		 "f:6:55: rule a: when.json./a is a mapping: write a value, a list of values, "
		 "\"null\" in quotes, or {present: true}\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_dead_rules(void **state)
{
	static const struct config_case cases[] = {
		{RULES
		 "      - {name: wide, when: {status: 5xx}, class: unknown}\n"
		 "      - {name: narrow, when: {status: 503, method: POST}, class: transient}\n",
		 "f:7:9: rule narrow can never match, rule wide before it covers it: write it "
		 "before wide, or leave it out\n"},
		{WHEN("status: 200, json: {/a: x}"),
		 "f:6:9: rule a reads the body of a success, which is not inspected: write "
		 "inspect: {on: 2xx}\n"},
		{PROVIDER "    inspect: {body: 0B}\n    rules:\n      - {name: a, when: {json: "
			  "{/a: x}}, class: quota}\n",
		 "f:7:9: rule a reads bodies, and inspect.body is 0: write inspect: {body: "
		 "16KiB}\n"},
		/* what a preset brought is reported where the file undoes it */
		{PRESET("shopify") "    upstream: http://h\n    inspect: {on: errors}\n",
		 "f:6:19: rule throttled reads the body of a success, which is not inspected: "
		 "write inspect: {on: 2xx}\n"},
		{PRESET("square") "    body: {over: stream}\n",
		 "f:2:3: this key is read from the body, and a body over body.max is streamed "
		 "without one: write body: {over: refuse}\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_bounds(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct config *config;

	(void)state;
	assert_non_null(out);
	fputs(RULES, out);
	for (int i = 0; i < 101; i++)
		fprintf(out, "      - {name: r%d, when: {status: %d}, class: quota}\n", i, 400 + i);
	assert_int_equal(fclose(out), 0);
	char *problems = config_problems_of(text, &config);

	assert_string_equal(problems, "f:6:7: rules is a list: write at most 100 rules\n");
	free(problems);
	/* one line less is good */
	*strrchr(text, '-') = '#';
	config_free(config_good(text));
	free(text);
}

static void test_advice(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    advice: {header: X}\n",
		 "f:5:13: advice is a mapping: write a list of at most 16 such as [{header: "
		 "X-RateLimit-Reset, unit: epoch}]\n"},
		{PROVIDER "    advice: [X]\n",
		 "f:5:14: advice is \"X\": write {header: NAME, unit: UNIT} or {json: "
		 "POINTER, unit: UNIT}\n"},
		{PROVIDER "    advice: [{header: X}]\n",
		 "f:5:14: advice is a mapping: write {header: NAME, unit: UNIT} or {json: "
		 "POINTER, unit: UNIT}\n"},
		{PROVIDER "    advice: [{header: \"a b\", unit: s}]\n",
		 "f:5:23: advice is \"a b\": write a header name\n"},
		{PROVIDER "    advice: [{header: X, unit: hours}]\n",
		 "f:5:32: advice is \"hours\": write one of s, ms, epoch, epoch-ms, go-duration, "
		 "rfc3339, ratelimit\n"},
		{PROVIDER "    advice: [{json: retryDelay, unit: s}]\n",
		 "f:5:21: advice is \"retryDelay\": write a JSON pointer such as "
		 "/error/retry_after, with ~0 for ~ and ~1 for / in a name\n"},
		{PROVIDER "    advice: [{json: /a~2, unit: s}]\n",
		 "f:5:21: advice is \"/a~2\": write a JSON pointer such as "
		 "/error/retry_after, with ~0 for ~ and ~1 for / in a name\n"},
		{PROVIDER "    advice: [{json: /a, header: X}]\n",
		 "f:5:14: advice is a mapping: write {header: NAME, unit: UNIT} or {json: "
		 "POINTER, unit: UNIT}\n"},
		{PROVIDER "    advice: [{json: /a, unit: s}, {header: a, unit: s}, {json: /a, "
			  "unit: ms}]\n",
		 "f:5:64: advice is \"/a\": it is there twice, leave one out\n"},
		{PROVIDER "    inspect: {body: 0B}\n    advice: [{json: /a, unit: s}]\n",
		 "f:5:21: advice reads bodies, and inspect.body is 0: write inspect: {body: "
		 "16KiB}, or leave /a out\n"},
		{PROVIDER "    advice: [{header: X, unit: s}, {header: x, unit: ms}]\n",
		 "f:5:45: advice is \"x\": it is there twice, leave one out\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_answers(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    stop: {header: x-should-retry}\n",
		 "f:5:20: stop.header without its value: write stop.value too\n"},
		{PROVIDER "    stop: {value: \"false\"}\n",
		 "f:5:19: stop.value without its header: write stop.header too\n"},
		{PROVIDER "    stop: {header: Content-Length, value: 0}\n",
		 "f:5:20: stop.header is written by stint itself: write another one\n"},
		{PROVIDER "    stop: {header: x, value: \"a\\x7fb\"}\n",
		 "f:5:30: a value is one line without control characters\n"},
		{PROVIDER "    stop: {header: x, value: \"${env:STINT_TEST_LINES}\"}\n",
		 "f:5:30: stop.value is \"${env:STINT_TEST_LINES}\": write 1 to 256 visible ASCII "
		 "characters\n"},
		{PROVIDER "    refusal: {status: 100}\n",
		 "f:5:23: refusal.status is \"100\": write 200 to 599 (what a refusal looks like, "
		 "for an SDK that retries other statuses; absent: its own)\n"},
		{PROVIDER "    refusal: {status: 204, body: x}\n",
		 "f:5:23: a reply with status 204 has no body: write another status, or leave "
		 "refusal.body out\n"},
		{PROVIDER "    refusal: {status: 200, body: \"{title}\"}\n",
		 "f:5:34: refusal.body is \"{title}\": {title} is not known, write {problem} or "
		 "{detail}\n"},
		{PROVIDER "    refusal: {status: 200, headers: {Transfer-Encoding: chunked}}\n",
		 "f:5:38: refusal.headers: Transfer-Encoding is written by stint itself: write "
		 "another header, such as Content-Type\n"},
		{PROVIDER "    refusal: {status: 200, headers: {\"a b\": c}}\n",
		 "f:5:38: refusal.headers: a b is no header name: write another header, such as "
		 "Content-Type\n"},
		{PROVIDER "    refusal: {status: 200, headers: {X-A: b, x-a: c}}\n",
		 "f:5:46: refusal.headers: x-a is there twice: leave one out\n"},
		{PROVIDER
		 "    refusal: {status: 200, headers: {X-A: \"${env:STINT_TEST_LINES}\"}}\n",
		 "f:5:43: refusal.headers is \"${env:STINT_TEST_LINES}\": write 1 to 256 visible "
		 "ASCII characters\n"},
		{PROVIDER "    refusal: {status: 200, headers: {Content-Type: application/json; "
			  "charset=utf-8}, body: '{\"error\":{problem}}'}\n",
		 "f:5:92: refusal.body is no JSON, and its Content-Type says so: write JSON, with "
		 "the placeholders inside of quotes\n"},
		{PROVIDER "    sdk: {retries: 3}\n",
		 "f:5:20: sdk.retries is \"3\": write a header name such as "
		 "x-stainless-retry-count\n"},
		{PROVIDER "    sdk: {timeout: 60s x}\n",
		 "f:5:20: sdk.timeout is \"60s x\": write a header name such as "
		 "x-stainless-timeout\n"},
		{PROVIDER "    sdk: {max_retries: 3}\n",
		 "f:5:11: max_retries is not a word here: write `attempts: 4`, the total with the "
		 "first one included (budget.attempts)\n"},
	};

	(void)state;
	setenv("STINT_TEST_LINES", "a\nX-Injected: b", 1);
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_answers_given(void **state)
{
	struct config *config = config_good(
		PROVIDER
		"    stop: {header: x-should-retry, value: \"false\"}\n"
		"    refusal: {status: 200, headers: {Content-Type: application/json, X-A: b}, "
		"body: '{\"ok\":false,\"error\":\"{problem}\",\"why\":\"{detail}\"}'}\n"
		"    sdk: {timeout: X-T, retries: X-R}\n");
	const struct provider_config *provider = &config->providers[0];

	(void)state;
	assert_string_equal(provider->stop_header, "x-should-retry");
	assert_string_equal(provider->stop_value, "false");
	assert_int_equal(provider->refusal_status, 200);
	assert_int_equal(provider->refusal_header_count, 2);
	assert_string_equal(provider->refusal_headers[1].name, "X-A");
	assert_string_equal(provider->refusal_headers[1].value, "b");
	assert_string_equal(provider->refusal_body,
			    "{\"ok\":false,\"error\":\"{problem}\",\"why\":\"{detail}\"}");
	assert_string_equal(provider->sdk_timeout_header, "X-T");
	assert_string_equal(provider->sdk_retries_header, "X-R");
	config_free(config);
}

/* Built-in, the file's defaults, preset, provider; mappings merge, lists replace. */
static void test_layers(void **state)
{
	struct config *config = config_good(
		"defaults:\n"
		"  attempt: {timeout: 7s, connect: 1s}\n"
		"  stop: {header: x-ours, value: \"1\"}\n"
		"providers:\n"
		"  a: {preset: openai, route: /a}\n"
		"  b: {preset: openai, route: /b, attempt: {total: 11m}, stop: {value: \"no\"},\n"
		"      rules: [{name: mine, when: {status: 418}, class: quota}], advice: [],\n"
		"      upstream: \"http://h\", key: {from: [\"header:X-Mine\"]}}\n"
		"  c: {route: /c, upstream: \"http://h\"}\n");
	const struct provider_config *a = &config->providers[0], *b = a + 1, *c = a + 2;

	(void)state;
	assert_string_equal(a->upstream.text, "https://api.openai.com");
	assert_int_equal(a->policy.attempt_timeout, 10 * USEC_MIN);
	assert_int_equal(a->policy.attempt_total, 15 * USEC_MIN);
	assert_int_equal(a->policy.attempt_connect, USEC_SEC);
	assert_int_equal(a->policy.duplicates, DUPLICATES_COST);
	assert_string_equal(a->stop_header, "x-should-retry");
	assert_int_equal(a->ruleset.count, 3);
	assert_int_equal(a->ruleset.source_count, 2);
	assert_string_equal(a->sdk_timeout_header, "x-stainless-timeout");
	assert_string_equal(b->upstream.text, "http://h");
	assert_int_equal(b->policy.attempt_timeout, 10 * USEC_MIN);
	assert_int_equal(b->policy.attempt_total, 11 * USEC_MIN);
	assert_string_equal(b->stop_header, "x-should-retry");
	assert_string_equal(b->stop_value, "no");
	assert_int_equal(b->ruleset.count, 1);
	assert_string_equal(b->ruleset.rules[0].name, "mine");
	assert_int_equal(b->ruleset.source_count, 0);
	assert_int_equal(b->key_from_count, 1);
	assert_int_equal(c->policy.attempt_timeout, 7 * USEC_SEC);
	assert_string_equal(c->stop_header, "x-ours");
	assert_int_equal(c->ruleset.count, 0);
	config_free(config);

	/* an undone mapping */
	config = config_good(PRESET("stripe") "    idempotency: none\n    scope: none\n");
	assert_null(config->providers[0].idempotency_header);
	assert_int_equal(config->providers[0].scope_count, 0);
	config_free(config);
}

static void test_preset_names(void **state)
{
	static const struct config_case cases[] = {
		{PRESET("stripo"),
		 "f:4:13: preset is \"stripo\": write one of adyen, anthropic, azure-openai, "
		 "discord, generic, github, google, hubspot, mailgun, openai, paypal, sendgrid, "
		 "shopify, slack, square, stripe, twilio\n"},
		{PRESET("[stripe]"),
		 "f:4:13: preset is a list: write one of adyen, anthropic, azure-openai, discord, "
		 "generic, github, google, hubspot, mailgun, openai, paypal, sendgrid, shopify, "
		 "slack, square, stripe, twilio\n"},
		{PRESET("generic"),
		 "f:4:13: provider a has no upstream: write upstream: https://HOST\n"},
		/* what the file says over a preset is reported at its place */
		{PRESET("openai") "    attempt: {least: 11m}\n",
		 "f:5:22: attempt.least is longer than attempt.timeout: no attempt would be worth "
		 "its start, write a smaller least\n"},
		{PRESET("stripe") "    retain: {key: 1h, for: 1h}\n",
		 "f:5:19: retain.key is shorter than idempotency.retention: a key would be "
		 "forgotten here while the provider knows it, write a longer retain.key\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

/* A preset that says more than facts is refused; no such one can be shipped. */
static void test_preset_policy(void **state)
{
	static const struct {
		const char *text;
		const char *problem;
	} cases[] = {
		{"budget: {attempts: 9}\n", "budget"},
		{"backoff: {first: 1s}\n", "backoff"},
		{"hold: 1s\n", "hold"},
		{"retry_after: {max: 1h}\n", "retry_after"},
		{"route: /x\n", "route"},
		{"mode: off\n", "mode"},
		{"retain: {key: 1d}\n", "retain"},
		{"body: {max: 1GiB}\n", "body.max"},
		{"key: {missing: reject}\n", "key.missing"},
		{"preset: stripe\n", "preset"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config_problems problems = {0};
		struct loader loader = {.problems = &problems};
		char want[160];

		assert_null(tree_preset(&loader, cases[i].text));
		snprintf(want, sizeof(want),
			 "%s is policy, and a preset holds facts: write it under providers.NAME",
			 cases[i].problem);
		assert_int_equal(problems.count, 1);
		assert_string_equal(problems.items[0].message, want);
		config_problems_done(&problems);
		loader_done(&loader);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_of_a_rule), cmocka_unit_test(test_nothing_given),
		cmocka_unit_test(test_deferred),      cmocka_unit_test(test_rules),
		cmocka_unit_test(test_conditions),    cmocka_unit_test(test_dead_rules),
		cmocka_unit_test(test_bounds),        cmocka_unit_test(test_advice),
		cmocka_unit_test(test_answers),       cmocka_unit_test(test_answers_given),
		cmocka_unit_test(test_layers),        cmocka_unit_test(test_preset_names),
		cmocka_unit_test(test_preset_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
