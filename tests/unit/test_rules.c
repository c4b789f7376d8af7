/* pure-test: provider rules: each condition, their order, what they may not do, and shadowing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "classify/classify.h"
#include "classify/rules.h"
#include "classify/table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LINE(n, v)                                                                                 \
	{                                                                                          \
		.name = (n), .name_len = sizeof(n) - 1, .value = (v), .value_len = sizeof(v) - 1   \
	}
#define LIST(...)                                                                                  \
	(const char *const[])                                                                      \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define STATUS(first, last)                                                                        \
	.statuses = (const struct rule_status[]){{(first), (last)}}, .status_count = 1
#define HEADER(...) .headers = (const struct rule_header[]){{__VA_ARGS__}}, .header_count = 1
#define JSON(...) .jsons = (const struct rule_json[]){{__VA_ARGS__}}, .json_count = 1
#define TRANSIENT .class = CLASS_TRANSIENT, .effect = EFFECT_NONE
#define UNKNOWN .class = CLASS_UNKNOWN, .effect = EFFECT_POSSIBLE

static struct facts reply(int status, const char *body)
{
	return (struct facts){.method = "POST",
			      .path = "/v1/charges?expand=all",
			      .status = status,
			      .sent = true,
			      .body = body,
			      .body_len = body != NULL ? strlen(body) : 0};
}

static struct ruleset ruleset(const struct rule *rules, size_t count)
{
	return (struct ruleset){.rules = rules, .count = count, .inspect_max = 16384};
}

static bool matches(struct rule rule, struct facts facts)
{
	struct ruleset rules = ruleset(&rule, 1);

	return rules_match(&rules, &facts) != NULL;
}

/* The rules of the sample configuration. */
static const struct rule sample[] = {
	{.name = "quota",
	 STATUS(429, 429),
	 JSON("/error/code", LIST("insufficient_quota"), 1),
	 .class = CLASS_QUOTA},
	{.name = "catalogue",
	 STATUS(409, 409),
	 JSON("/error", LIST("catalogue_not_active"), 1),
	 .class = CLASS_DEFERRED,
	 .wait = 15 * USEC_MIN},
	{.name = "not-applied",
	 .statuses = (const struct rule_status[]){{503, 503}, {529, 529}},
	 .status_count = 2,
	 HEADER("X-Processed", LIST("false"), 1, false),
	 TRANSIENT},
	{.name = "replayed-500",
	 STATUS(500, 599),
	 HEADER("Idempotent-Replayed", LIST("true"), 1, false),
	 UNKNOWN,
	 .retry_never = true},
};

static struct verdict sample_verdict(struct facts facts)
{
	struct ruleset rules = ruleset(sample, COUNT(sample));
	struct verdict verdict;

	memset(&verdict, 0xa5, sizeof(verdict));
	classify(&facts, &rules, &verdict);
	assert_true(table_pair_legal(verdict.class, verdict.effect));
	return verdict;
}

static void check(struct verdict verdict, enum outcome_class class, const char *reason)
{
	assert_string_equal(outcome_class_name(verdict.class), outcome_class_name(class));
	assert_string_equal(verdict.reason, reason);
}

static void test_sample(void **state)
{
	static const struct header_view no[] = {LINE("x-processed", " false ")};
	static const struct header_view yes[] = {LINE("x-processed", "true")};
	static const struct header_view replayed[] = {LINE("Idempotent-Replayed", "true")};
	struct facts facts;
	struct verdict verdict;

	(void)state;
	check(sample_verdict(reply(429, "{\"error\":{\"code\":\"insufficient_quota\"}}")),
	      CLASS_QUOTA, "quota");
	check(sample_verdict(reply(429, "{\"error\":{\"code\":\"slow_down\"}}")),
	      CLASS_RATE_LIMITED, "status-429");
	verdict = sample_verdict(reply(409, "{\"error\":\"catalogue_not_active\"}"));
	check(verdict, CLASS_DEFERRED, "catalogue");
	assert_int_equal(verdict.rule_wait, 15 * USEC_MIN);
	check(sample_verdict(reply(409, "{\"error\":\"other\"}")), CLASS_INVALID, "status-409");

	facts = reply(529, NULL);
	facts.headers = no;
	facts.header_count = 1;
	check(sample_verdict(facts), CLASS_TRANSIENT, "not-applied");
	facts.status = 500;
	check(sample_verdict(facts), CLASS_UNKNOWN, "status-500");
	facts.status = 503;
	facts.headers = yes;
	check(sample_verdict(facts), CLASS_UNKNOWN, "status-503");
	facts.headers = replayed;
	verdict = sample_verdict(facts);
	check(verdict, CLASS_UNKNOWN, "replayed-500");
	assert_true(verdict.retry_never);
	assert_int_equal(verdict.rule_wait, -1);
}

/* The human's words never decide: only structured fields do. */
static void test_message_is_not_read(void **state)
{
	static const char *const bodies[] = {
		"{\"error\":\"INSUFFICIENT QUOTA\",\"message\":\"insufficient_quota\"}",
		"{\"error\":{\"message\":\"code: insufficient_quota\",\"code\":null}}",
		"<html>insufficient_quota</html>",
		"",
		"{\"error\":{\"code\":\"insufficient_quota\"}",
		"{\"error\":{\"code\":\"insufficient_quota\"}}trailing",
		"{\"error\":{\"code\":\"insufficient_quota\",\"code\":\"slow_down\"}}",
		"{\"error\":{\"code\":[\"insufficient_quota\"]}}",
		"{\"error\":{\"code\":\"insufficient_quota\xff\"}}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bodies); i++)
		check(sample_verdict(reply(429, bodies[i])), CLASS_RATE_LIMITED, "status-429");
	check(sample_verdict(reply(429, NULL)), CLASS_RATE_LIMITED, "status-429");
}

/* A body that is not all there, or longer than is looked into: the status alone. */
static void test_body_bounds(void **state)
{
	static const char body[] = "{\"error\":{\"code\":\"insufficient_quota\"}}";
	struct ruleset rules = ruleset(sample, COUNT(sample));
	struct facts facts = reply(429, body);

	(void)state;
	rules.inspect_max = sizeof(body) - 1;
	assert_ptr_equal(rules_match(&rules, &facts), &sample[0]);
	rules.inspect_max = sizeof(body) - 2;
	assert_null(rules_match(&rules, &facts));
	rules.inspect_max = 0;
	assert_null(rules_match(&rules, &facts));
	rules.inspect_max = 16384;
	facts.body_truncated = true;
	assert_null(rules_match(&rules, &facts));
}

/* A throttle inside a 200, where success bodies are looked into and where not. */
static void test_success_bodies(void **state)
{
	const struct rule throttled = {.name = "throttled",
				       STATUS(200, 200),
				       JSON("/errors/0/extensions/code", LIST("THROTTLED"), 1),
				       .class = CLASS_RATE_LIMITED};
	static const char body[] = "{\"errors\":[{\"message\":\"Throttled\",\"extensions\":"
				   "{\"code\":\"THROTTLED\"}}]}";
	struct ruleset rules = ruleset(&throttled, 1);
	struct facts facts = reply(200, body);
	struct verdict verdict;

	(void)state;
	classify(&facts, &rules, &verdict);
	check(verdict, CLASS_SUCCESS, "status-200");
	rules.inspect_2xx = true;
	classify(&facts, &rules, &verdict);
	check(verdict, CLASS_RATE_LIMITED, "throttled");
	assert_int_equal(verdict.effect, EFFECT_NONE);
	facts = reply(200, "{\"errors\":[{\"message\":\"Throttled\"}]}");
	classify(&facts, &rules, &verdict);
	check(verdict, CLASS_SUCCESS, "status-200");
}

static void test_status_conditions(void **state)
{
	const struct rule_status statuses[] = {{500, 504}, {529, 529}};
	struct rule rule = {.statuses = statuses, .status_count = 2, TRANSIENT};

	(void)state;
	assert_true(matches(rule, reply(500, NULL)));
	assert_true(matches(rule, reply(504, NULL)));
	assert_true(matches(rule, reply(529, NULL)));
	assert_false(matches(rule, reply(499, NULL)));
	assert_false(matches(rule, reply(505, NULL)));
	assert_false(matches(rule, reply(0, NULL)));
}

static void test_header_conditions(void **state)
{
	static const struct header_view one[] = {LINE("x-policy", "\tDAILY_LIMIT "),
						 LINE("Other", "1")};
	static const struct header_view two[] = {LINE("X-Policy", "DAILY"),
						 LINE("x-policy", "HOURLY")};
	struct facts facts = reply(429, NULL);

	(void)state;
	facts.headers = one;
	facts.header_count = 2;
#define HOLDS(...) matches((struct rule){HEADER(__VA_ARGS__), TRANSIENT}, facts)
	assert_true(HOLDS("X-Policy", NULL, 0, false));
	assert_false(HOLDS("X-Policies", NULL, 0, false));
	assert_false(HOLDS("X-Polic", NULL, 0, false));
	assert_true(HOLDS("X-Policy", LIST("DAILY_LIMIT"), 1, false));
	assert_true(HOLDS("X-Policy", LIST("A", "DAILY_LIMIT"), 2, false));
	assert_false(HOLDS("X-Policy", LIST("daily_limit"), 1, false));
	assert_false(HOLDS("X-Policy", LIST("DAILY"), 1, false));
	assert_true(HOLDS("X-Policy", LIST("DAILY"), 1, true));
	assert_false(HOLDS("X-Policy", LIST("DAILY_LIMITS"), 1, true));
	/* Lines that disagree prove nothing. */
	facts.headers = two;
	assert_false(HOLDS("X-Policy", LIST("DAILY"), 1, false));
	assert_true(HOLDS("X-Policy", LIST("HOURLY", "DAILY"), 2, false));
	assert_true(HOLDS("X-Policy", NULL, 0, false));
	facts.header_count = 0;
	assert_false(HOLDS("X-Policy", NULL, 0, false));
#undef HOLDS
}

static void test_json_conditions(void **state)
{
	struct facts facts = reply(400, "{\"code\":20429,\"ok\":false,\"none\":null,\"s\":\"b\"}");

	(void)state;
#define HOLDS(...) matches((struct rule){JSON(__VA_ARGS__), TRANSIENT}, facts)
	assert_true(HOLDS("/code", LIST("20429"), 1));
	assert_true(HOLDS("/ok", LIST("false"), 1));
	assert_true(HOLDS("/s", LIST("a", "b", "c"), 3));
	assert_false(HOLDS("/s", LIST("a", "c"), 2));
	assert_true(HOLDS("/none", NULL, 0));
	assert_true(HOLDS("", NULL, 0));
	assert_false(HOLDS("/absent", NULL, 0));
	assert_false(HOLDS("absent", NULL, 0));
#undef HOLDS
}

static void test_method_and_path(void **state)
{
	struct facts facts = reply(404, NULL);

	(void)state;
#define HOLDS(...) matches((struct rule){TRANSIENT, __VA_ARGS__}, facts)
	assert_true(HOLDS(.methods = LIST("PUT", "POST"), .method_count = 2));
	assert_false(HOLDS(.methods = LIST("PUT", "POS"), .method_count = 2));
	assert_true(HOLDS(.path = ""));
	assert_true(HOLDS(.path = "/"));
	assert_true(HOLDS(.path = "/v1"));
	assert_true(HOLDS(.path = "/v1/"));
	assert_true(HOLDS(.path = "/v1/charges"));
	assert_true(HOLDS(.path = "/v1/charges?expand=all"));
	assert_false(HOLDS(.path = "/v1/charge"));
	assert_false(HOLDS(.path = "/v1/charges/"));
	assert_false(HOLDS(.path = "/V1"));
	facts.method = NULL;
	facts.path = NULL;
	assert_false(HOLDS(.methods = LIST("POST"), .method_count = 1));
	assert_false(HOLDS(.path = "/"));
	assert_true(HOLDS(.method_count = 0));
#undef HOLDS
}

/* What a rule says of a reply does not hold for a piece of one. */
static void test_cut_replies(void **state)
{
	struct rule by_status = {STATUS(200, 599), TRANSIENT};
	struct rule by_fault = {STATUS(503, 503), .faults = RULE_FAULT(FAULT_CUT), TRANSIENT};
	struct facts facts = reply(503, NULL);

	(void)state;
	assert_true(matches(by_status, facts));
	assert_false(matches(by_fault, facts));
	facts.fault = FAULT_CUT;
	assert_false(matches(by_status, facts));
	assert_true(matches(by_fault, facts));
	facts.fault = FAULT_HEAD_TOO_LARGE;
	assert_true(matches(by_status, facts));
	facts.status = 0;
	assert_false(matches((struct rule){TRANSIENT}, facts));
	facts.fault = FAULT_NONE;
	assert_false(matches((struct rule){TRANSIENT}, facts));
}

static void test_faults(void **state)
{
	struct rule rule = {.faults = RULE_FAULT(FAULT_TIMEOUT) | RULE_FAULT(FAULT_CONNECT),
			    UNKNOWN};
	struct facts facts = reply(0, NULL);

	(void)state;
	for (int i = 0; i < FAULT_COUNT; i++) {
		facts.fault = (enum fault)i;
		assert_int_equal(matches(rule, facts), i == FAULT_TIMEOUT || i == FAULT_CONNECT);
	}
	facts.fault = (enum fault)64;
	assert_false(matches(rule, facts));
	/* No rule makes an effect of what never left. */
	facts.fault = FAULT_CONNECT;
	facts.sent = false;
	assert_false(matches(rule, facts));
	rule.class = CLASS_SUCCESS;
	rule.effect = EFFECT_DEFINITE;
	assert_false(matches(rule, facts));
	rule.class = CLASS_DEFERRED;
	rule.effect = EFFECT_NONE;
	assert_true(matches(rule, facts));
}

static void test_all_conditions(void **state)
{
	static const struct header_view lines[] = {LINE("A", "1"), LINE("B", "2")};
	struct rule_header headers[] = {{"a", LIST("1"), 1, false}, {"b", LIST("2"), 1, false}};
	struct rule_json jsons[] = {{"/x", LIST("1"), 1}, {"/y", NULL, 0}};
	struct rule rule = {STATUS(400, 499),  .headers = headers, .header_count = 2,
			    .jsons = jsons,    .json_count = 2,    .methods = LIST("POST"),
			    .method_count = 1, .path = "/v1",      TRANSIENT};
	struct facts facts = reply(400, "{\"x\":1,\"y\":[]}");

	(void)state;
	facts.headers = lines;
	facts.header_count = 2;
	assert_true(matches(rule, facts));
	facts.status = 500;
	assert_false(matches(rule, facts));
	facts.status = 400;
	facts.header_count = 1;
	assert_false(matches(rule, facts));
	facts.header_count = 2;
	facts.method = "GET";
	assert_false(matches(rule, facts));
	facts.method = "POST";
	facts.path = "/v2";
	assert_false(matches(rule, facts));
	facts.path = "/v1";
	jsons[1].pointer = "/z";
	assert_false(matches(rule, facts));
}

static void test_results(void **state)
{
	struct rule rule = {STATUS(404, 404),          .name = "gone",   .class = CLASS_SUCCESS,
			    .effect = EFFECT_DEFINITE, .resolves = true, .retry_never = true};
	static char longest[REASON_MAX + 20];
	struct ruleset rules = ruleset(&rule, 1);
	struct facts facts = reply(404, NULL);
	struct verdict verdict;

	(void)state;
	classify(&facts, &rules, &verdict);
	check(verdict, CLASS_SUCCESS, "gone");
	assert_int_equal(verdict.effect, EFFECT_DEFINITE);
	assert_true(verdict.resolves);
	assert_true(verdict.retry_never);
	assert_int_equal(verdict.rule_wait, -1);
	assert_int_equal(verdict.status, 404);
	memset(longest, 'x', sizeof(longest) - 1);
	rule.name = longest;
	rule.wait = -5;
	classify(&facts, &rules, &verdict);
	assert_int_equal(strlen(verdict.reason), REASON_MAX - 1);
	assert_int_equal(verdict.rule_wait, -1);
	rule.name = NULL;
	classify(&facts, &rules, &verdict);
	assert_string_equal(verdict.reason, "rule");
	/* A pair that `check` would have refused is no rule. */
	rule.effect = EFFECT_NONE;
	classify(&facts, &rules, &verdict);
	check(verdict, CLASS_INVALID, "status-404");
	/* A quota's advice is told, and blocks nothing. */
	assert_false(table_may_repeat(CLASS_QUOTA));
}

static void test_first_match_wins(void **state)
{
	const struct rule list[] = {
		{STATUS(400, 400), TRANSIENT}, {STATUS(400, 499), TRANSIENT}, {TRANSIENT}};
	struct ruleset rules = ruleset(list, COUNT(list));
	struct facts facts = reply(400, NULL);

	(void)state;
	assert_ptr_equal(rules_match(&rules, &facts), &list[0]);
	facts.status = 401;
	assert_ptr_equal(rules_match(&rules, &facts), &list[1]);
	facts.status = 500;
	assert_ptr_equal(rules_match(&rules, &facts), &list[2]);
	rules.count = 0;
	assert_null(rules_match(&rules, &facts));
	assert_null(rules_match(NULL, &facts));
}

static void test_need_body(void **state)
{
	const struct rule list[] = {
		{STATUS(500, 500), TRANSIENT},
		{STATUS(200, 599), JSON("/a", NULL, 0), TRANSIENT},
	};
	struct ruleset rules = ruleset(list, COUNT(list));
	struct facts facts = reply(500, NULL);

	(void)state;
	assert_false(rules_need_body(&rules, &facts));
	facts.status = 501;
	assert_true(rules_need_body(&rules, &facts));
	facts.status = 200;
	assert_false(rules_need_body(&rules, &facts));
	rules.inspect_2xx = true;
	assert_true(rules_need_body(&rules, &facts));
	rules.inspect_max = 0;
	assert_false(rules_need_body(&rules, &facts));
	assert_false(rules_need_body(NULL, &facts));
	rules = ruleset(list, 1);
	facts.status = 404;
	assert_false(rules_need_body(&rules, &facts));
}

/* Waiting advice in the body is waited for where it could be followed. */
static void test_need_body_for_advice(void **state)
{
	static const struct header_view retry_after[] = {LINE("Retry-After", "1")};
	static const struct header_view unreadable[] = {LINE("Retry-After", "soon")};
	static const struct advice_source header = {"X-Reset", ADVICE_UNIT_S, NULL};
	static const struct advice_source body = {NULL, ADVICE_UNIT_S, "/wait"};
	const struct rule list[] = {
		{STATUS(500, 500), .class = CLASS_INVALID, .effect = EFFECT_NONE},
		{STATUS(404, 404), TRANSIENT},
	};
	static const int never[] = {200, 400, 401, 500, 501};
	static const int repeated[] = {404, 408, 429, 503, 599};
	struct ruleset rules = ruleset(list, COUNT(list));
	struct facts facts = reply(429, NULL);

	(void)state;
	assert_false(rules_need_body(&rules, &facts));
	rules.sources = &header;
	rules.source_count = 1;
	assert_false(rules_need_body(&rules, &facts));
	rules.sources = &body;
	for (size_t i = 0; i < COUNT(repeated); i++) {
		facts.status = repeated[i];
		assert_true(rules_need_body(&rules, &facts));
	}
	for (size_t i = 0; i < COUNT(never); i++) {
		facts.status = never[i];
		assert_false(rules_need_body(&rules, &facts));
	}
	facts.status = 429;
	facts.headers = unreadable;
	facts.header_count = 1;
	assert_true(rules_need_body(&rules, &facts));
	facts.headers = retry_after;
	assert_false(rules_need_body(&rules, &facts));
	facts.header_count = 0;
	rules.inspect_max = 0;
	assert_false(rules_need_body(&rules, &facts));
}

static bool shadows(struct rule by, struct rule rule)
{
	struct rule list[] = {{STATUS(1, 1), TRANSIENT}, by, rule};
	struct ruleset rules = ruleset(list, COUNT(list));
	size_t index = 99;
	bool shadowed = rules_shadowed(&rules, 2, &index);

	assert_int_equal(index, shadowed ? 1 : 99);
	assert_false(rules_shadowed(&rules, 0, &index));
	return shadowed;
}

#define RULE(...) ((struct rule){TRANSIENT, __VA_ARGS__})
#define ANY RULE(.name = "any")

static void test_shadowed_statuses(void **state)
{
	const struct rule_status touching[] = {{510, 599}, {400, 450}, {440, 509}};
	const struct rule_status gap[] = {{400, 449}, {451, 599}};

	(void)state;
	assert_true(shadows(ANY, ANY));
	assert_true(shadows(ANY, RULE(STATUS(400, 400))));
	assert_false(shadows(RULE(STATUS(100, 999)), ANY));
	assert_true(shadows(RULE(STATUS(500, 599)), RULE(STATUS(503, 503))));
	assert_false(shadows(RULE(STATUS(503, 503)), RULE(STATUS(500, 599))));
	assert_true(shadows(RULE(.statuses = touching, .status_count = 3), RULE(STATUS(400, 599))));
	assert_false(shadows(RULE(.statuses = gap, .status_count = 2), RULE(STATUS(400, 599))));
	assert_false(shadows(RULE(STATUS(400, 449)), RULE(.statuses = gap, .status_count = 2)));
	assert_true(shadows(RULE(.statuses = gap, .status_count = 2),
			    RULE(.statuses = gap, .status_count = 2)));
}

static void test_shadowed_faults(void **state)
{
	const uint32_t timeout = RULE_FAULT(FAULT_TIMEOUT);
	const uint32_t both = RULE_FAULT(FAULT_TIMEOUT) | RULE_FAULT(FAULT_CONNECT);
	struct rule unknown = {UNKNOWN, .faults = both};
	struct rule illegal = {.class = CLASS_SUCCESS, .effect = EFFECT_NONE};

	(void)state;
	assert_false(shadows(ANY, RULE(.faults = timeout)));
	assert_true(shadows(RULE(.faults = both), RULE(.faults = timeout)));
	assert_false(shadows(RULE(.faults = timeout), RULE(.faults = both)));
	assert_true(shadows(RULE(.faults = RULE_FAULT(FAULT_NONE)), ANY));
	/* `unknown` does not match what was not sent, and then the other does. */
	assert_false(shadows(unknown, RULE(.faults = timeout)));
	assert_true(shadows(unknown, unknown));
	assert_true(shadows((struct rule){UNKNOWN}, RULE(STATUS(400, 400))));
	assert_false(shadows(illegal, ANY));
}

static void test_shadowed_words(void **state)
{
	(void)state;
	assert_false(shadows(RULE(.methods = LIST("PUT"), .method_count = 1), ANY));
	assert_true(shadows(RULE(.methods = LIST("PUT", "POST"), .method_count = 2),
			    RULE(.methods = LIST("POST"), .method_count = 1)));
	assert_false(shadows(RULE(.methods = LIST("POST"), .method_count = 1),
			     RULE(.methods = LIST("PUT", "POST"), .method_count = 2)));
	assert_false(shadows(RULE(.methods = LIST("PUT"), .method_count = 1),
			     RULE(.methods = LIST("POST"), .method_count = 1)));
	assert_true(shadows(RULE(.path = "/v1"), RULE(.path = "/v1/charges")));
	assert_true(shadows(RULE(.path = "/v1/"), RULE(.path = "/v1/charges")));
	assert_true(shadows(RULE(.path = "/v1"), RULE(.path = "/v1")));
	assert_true(shadows(RULE(.path = ""), ANY));
	assert_false(shadows(RULE(.path = "/v1/"), RULE(.path = "/v1")));
	assert_false(shadows(RULE(.path = "/v1"), RULE(.path = "/v10")));
	assert_false(shadows(RULE(.path = "/v1"), ANY));
}

static void test_shadowed_contents(void **state)
{
	const struct rule there = RULE(HEADER("X-A", NULL, 0, false));
	const struct rule one = RULE(HEADER("x-a", LIST("abc"), 1, false));
	const struct rule two = RULE(HEADER("X-A", LIST("abc", "abd"), 2, false));
	const struct rule prefix = RULE(HEADER("X-A", LIST("ab"), 1, true));
	const struct rule longer = RULE(HEADER("X-A", LIST("abc"), 1, true));
	const struct rule json = RULE(JSON("/a", NULL, 0));
	const struct rule json_one = RULE(JSON("/a", LIST("x"), 1));
	const struct rule json_two = RULE(JSON("/a", LIST("y", "x"), 2));

	(void)state;
	assert_false(shadows(there, ANY));
	assert_true(shadows(there, one));
	assert_false(shadows(one, there));
	assert_true(shadows(two, one));
	assert_false(shadows(one, two));
	assert_true(shadows(prefix, two));
	assert_true(shadows(prefix, longer));
	assert_false(shadows(longer, prefix));
	assert_true(shadows(longer, one));
	assert_false(shadows(one, longer));
	assert_false(shadows(there, RULE(HEADER("X-B", NULL, 0, false))));
	assert_true(shadows(json, json_one));
	assert_true(shadows(json_two, json_one));
	assert_false(shadows(json_one, json_two));
	assert_false(shadows(json_one, json));
	assert_false(shadows(json, RULE(JSON("/b", LIST("x"), 1))));
	assert_false(shadows(json, ANY));
	assert_true(shadows(ANY, json));
}

/* What is called shadowed is never matched first, over many pairs and facts. */
static void test_shadowing_is_true(void **state)
{
	static const struct header_view lines[] = {LINE("X-A", "abc")};
	static const char *const paths[] = {"/v1", "/v1/x", "/v10", "/", "/v1?q"};
	const struct rule pool[] = {
		ANY,
		RULE(STATUS(400, 499)),
		RULE(STATUS(404, 404)),
		RULE(.path = "/v1"),
		RULE(.path = "/v1/"),
		RULE(STATUS(404, 404), .path = "/v1/x"),
		RULE(HEADER("X-A", NULL, 0, false)),
		RULE(HEADER("X-A", LIST("ab"), 1, true)),
		RULE(HEADER("X-A", LIST("abc"), 1, false), .path = "/v1"),
		RULE(JSON("/a", NULL, 0)),
		RULE(JSON("/a", LIST("1"), 1), STATUS(404, 404)),
		RULE(.faults = RULE_FAULT(FAULT_CUT) | RULE_FAULT(FAULT_CONNECT)),
		{UNKNOWN, .faults = RULE_FAULT(FAULT_CONNECT)},
		{UNKNOWN, .faults = RULE_FAULT(FAULT_NONE) | RULE_FAULT(FAULT_CUT)},
		{UNKNOWN},
	};
	unsigned shadowed = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(pool) * COUNT(pool); i++) {
		struct rule pair[] = {pool[i / COUNT(pool)], pool[i % COUNT(pool)]};
		struct ruleset rules = ruleset(pair, 2);
		size_t by;

		if (!rules_shadowed(&rules, 1, &by))
			continue;
		shadowed++;
		for (unsigned bits = 0; bits < 5 * 4 * 16; bits++) {
			static const int statuses[] = {0, 200, 404, 400};
			struct facts facts =
				reply(statuses[bits / 5 % 4], bits / 20 & 1 ? "{\"a\":1}" : "{}");

			facts.path = paths[bits % 5];
			facts.headers = lines;
			facts.header_count = bits / 40 & 1;
			facts.sent = (bits / 80 & 1) != 0;
			facts.fault = bits / 160 & 1 ? FAULT_CONNECT : FAULT_NONE;
			assert_ptr_not_equal(rules_match(&rules, &facts), &pair[1]);
			facts.fault = bits / 160 & 1 ? FAULT_CUT : FAULT_HEAD_TOO_LARGE;
			assert_ptr_not_equal(rules_match(&rules, &facts), &pair[1]);
		}
	}
	assert_true(shadowed > COUNT(pool));
}

static void test_status_parse(void **state)
{
	static const char *const bad[] = {
		"",     "5",    "50",       "5000", "xx",   "xxx",     "0xx",     "5XX",
		"5x5",  "099",  "504-500",  "500-", "-500", "500-5xx", "500 504", " 500",
		"500 ", "5xx ", "500-504 ", "a00",  "50a",  "500-50a"};
	struct rule_status status = {-1, -1};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_false(rules_status_parse(bad[i], &status));
		assert_int_equal(status.first, -1);
	}
	assert_true(rules_status_parse("503", &status));
	assert_true(status.first == 503 && status.last == 503);
	assert_true(rules_status_parse("500-504", &status));
	assert_true(status.first == 500 && status.last == 504);
	assert_true(rules_status_parse("5xx", &status));
	assert_true(status.first == 500 && status.last == 599);
	assert_true(rules_status_parse("704", &status));
	assert_true(rules_status_parse("100", &status));
	assert_true(status.first == 100 && status.last == 100);
	assert_true(rules_status_parse("500-500", &status));
}

static void test_names(void **state)
{
	static const char *const bad[] = {"",    "-a",  "a-",    "a--b", "5xx",         "Quota",
					  "a_b", "a b", "a\xc3", "a.b",  "replayed-\n", "a;b"};
	char longest[REASON_MAX + 1];

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_false(rules_name_valid(bad[i]));
	assert_true(rules_name_valid("quota"));
	assert_true(rules_name_valid("replayed-500"));
	memset(longest, 'a', sizeof(longest));
	longest[REASON_MAX] = '\0';
	assert_false(rules_name_valid(longest));
	longest[REASON_MAX - 1] = '\0';
	assert_true(rules_name_valid(longest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_message_is_not_read),
		cmocka_unit_test(test_body_bounds),
		cmocka_unit_test(test_success_bodies),
		cmocka_unit_test(test_status_conditions),
		cmocka_unit_test(test_header_conditions),
		cmocka_unit_test(test_json_conditions),
		cmocka_unit_test(test_method_and_path),
		cmocka_unit_test(test_cut_replies),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_all_conditions),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_first_match_wins),
		cmocka_unit_test(test_need_body),
		cmocka_unit_test(test_need_body_for_advice),
		cmocka_unit_test(test_shadowed_statuses),
		cmocka_unit_test(test_shadowed_faults),
		cmocka_unit_test(test_shadowed_words),
		cmocka_unit_test(test_shadowed_contents),
		cmocka_unit_test(test_shadowing_is_true),
		cmocka_unit_test(test_status_parse),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
