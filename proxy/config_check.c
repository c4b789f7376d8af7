/* Checks of one section that need more than one value. Each runs only on values that were usable,
 * so that one mistake is not reported twice. */
#include <stdio.h>
#include <string.h>

#include "budget/schedule.h"
#include "proxy/config_build.h"
#include "proxy/config_value.h"

#define LEASE_SPARE (2 * USEC_SEC)
#define AT(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOWHERE ((const char *const[]){NULL})

static bool is_exponential_given(const struct build *build, const char **ret_path)
{
	static const char *const paths[] = {"backoff.first", "backoff.factor", "backoff.max"};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (build_given(build, paths[i]) != NULL) {
			*ret_path = paths[i];
			return true;
		}
	return false;
}

static void check_schedule(struct build *build, struct policy *policy)
{
	char total[VALUE_TEXT], window[VALUE_TEXT];
	const char *path;
	size_t waits = policy->backoff.schedule_len;
	usec_t sum = 0;

	if (is_exponential_given(build, &path))
		build_problem(build, AT(path), false,
			      "%s and backoff.schedule exclude each other: write one of them",
			      path);
	if (build_given(build, "budget.attempts") == NULL)
		policy->attempts = (int)waits + 1;
	else if (build_ok(build, "budget.attempts") && policy->attempts > (int)waits + 1)
		build_problem(
			build, AT("budget.attempts"), false,
			"budget.attempts is %d, beyond the schedule of %zu wait%s: write %zu, "
			"or one more wait for each attempt",
			policy->attempts, waits, waits == 1 ? "" : "s", waits + 1);
	for (size_t i = 0; i < waits; i++)
		sum = usec_add(sum, policy->backoff.schedule[i]);
	if (build_ok(build, "budget.window") && sum >= policy->window) {
		value_print_duration(sum, total);
		value_print_duration(policy->window, window);
		build_problem(build, AT("backoff.schedule"), false,
			      "backoff.schedule adds up to %s, and budget.window is %s: write "
			      "shorter waits or a longer window",
			      total, window);
	}
}

/* A budget that is spent in a moment does not outlive an outage. */
static void check_spread(struct build *build, const struct policy *policy)
{
	char total[VALUE_TEXT], window[VALUE_TEXT];
	usec_t sum = 0;

	if (policy->attempts < 2 || !build_ok(build, "budget.attempts") ||
	    !build_ok(build, "budget.window") || !build_ok(build, "backoff.schedule") ||
	    !build_ok(build, "backoff.first") || !build_ok(build, "backoff.factor") ||
	    !build_ok(build, "backoff.max"))
		return;
	for (int done = 1; done < policy->attempts; done++)
		sum = usec_add(sum, backoff_base(&policy->backoff, done));
	if (sum > policy->window / 20)
		return;
	value_print_duration(sum, total);
	value_print_duration(policy->window, window);
	build_problem(build,
		      AT("budget.window", "budget.attempts", "backoff.schedule", "backoff.first"),
		      true,
		      "all %d attempts fit into %s, less than a twentieth of the window of %s: "
		      "write longer waits, or a shorter window",
		      policy->attempts, total, window);
}

static void check_budget(struct build *build, struct provider_config *provider)
{
	struct policy *policy = &provider->policy;

	if (policy->backoff.schedule_len > 0 && build_ok(build, "backoff.schedule"))
		check_schedule(build, policy);
	else if (policy->backoff.schedule_len == 0 && build_ok(build, "backoff.first") &&
		 build_ok(build, "backoff.max") && policy->backoff.first > policy->backoff.max)
		build_problem(build, AT("backoff.first", "backoff.max"), false,
			      "backoff.first is longer than backoff.max: write a larger max");
	check_spread(build, policy);
}

static void check_attempt(struct build *build, struct policy *policy)
{
	bool timeout_ok = build_ok(build, "attempt.timeout");
	bool least_ok = build_ok(build, "attempt.least");

	if (timeout_ok && least_ok && policy->attempt_least > policy->attempt_timeout)
		build_problem(build, AT("attempt.least", "attempt.timeout"), false,
			      "attempt.least is longer than attempt.timeout: no attempt would be "
			      "worth its start, write a smaller least");
	if (least_ok && build_ok(build, "budget.window") && policy->attempt_least > policy->window)
		build_problem(build, AT("attempt.least", "budget.window"), false,
			      "attempt.least is longer than budget.window: no attempt would ever "
			      "be made, write a smaller least");
	if (timeout_ok && build_ok(build, "attempt.total") &&
	    policy->attempt_total < policy->attempt_timeout)
		build_problem(
			build, AT("attempt.timeout", "attempt.total"), true,
			"attempt.timeout is longer than attempt.total, which ends the attempt "
			"first: write a larger total");
	if (policy->lease == LEASE_AUTO)
		policy->lease = usec_add(usec_add(policy->attempt_connect, policy->attempt_timeout),
					 LEASE_SPARE);
}

static void check_breaker(struct build *build, const struct gate_policy *gate)
{
	if (build_ok(build, "breaker.open") && build_ok(build, "breaker.max") &&
	    gate->open > gate->max)
		build_problem(build, AT("breaker.open", "breaker.max"), false,
			      "breaker.open is longer than breaker.max: write a larger max");
}

static void check_retain(struct build *build, const struct policy *policy)
{
	if (!build_ok(build, "retain.key"))
		return;
	if (build_ok(build, "idempotency.retention") && policy->retain_key < policy->key_retention)
		build_problem(build, AT("retain.key", "idempotency.retention"), false,
			      "retain.key is shorter than idempotency.retention: a key would be "
			      "forgotten here while the provider knows it, write a longer "
			      "retain.key");
	if (build_ok(build, "retain.for") && policy->retain_for > policy->retain_key)
		build_problem(build, AT("retain.for", "retain.key"), false,
			      "retain.for is longer than retain.key: write a shorter for or a "
			      "longer key");
}

static void check_tls(struct build *build, const char *cert, const char *key)
{
	if (!build_ok(build, "tls.cert") || !build_ok(build, "tls.key"))
		return;
	if (cert != NULL && key == NULL)
		build_problem(build, AT("tls.cert"), false,
			      "tls.cert without its private key: write tls.key too");
	if (key != NULL && cert == NULL)
		build_problem(build, AT("tls.key"), false,
			      "tls.key without its certificate: write tls.cert too");
}

/* A mapping in the place of a word says something only by one certain name. */
static void check_choice(struct build *build, const char *path, const char *child,
			 const char *example)
{
	const struct node *node = build_given(build, path);

	if (node != NULL && node->kind == NODE_MAPPING && node_at(node, child) == NULL)
		build_problem(build, AT(path), false, "%s is a mapping without %s: write %s", path,
			      child, example);
}

static void check_key(struct build *build, const struct provider_config *provider)
{
	const struct node *list = node_at(build->tree, "key.from");

	check_choice(build, "idempotency", "header", "{header: Idempotency-Key, retention: 24h}");
	check_choice(build, "key.fingerprint", "json-except", "{json-except: [/requested_at]}");
	if (list == NULL || !build_ok(build, "key.from") || !build_ok(build, "body.over") ||
	    provider->body_over == BODY_OVER_REFUSE)
		return;
	for (size_t i = 0; i < provider->key_from_count; i++) {
		const struct node *item = list->kind == NODE_LIST ? list->items[i] : list;

		if (key_source_needs_body(&provider->key_from[i]))
			/* a preset's list has no place */
			loader_problem(
				build->loader, item->line > 0 ? item->line : build->line,
				item->line > 0 ? item->column : build->column,
				"this key is read from the body, and a body over body.max is "
				"streamed without one: write body: {over: refuse}");
	}
}

static void check_place(struct build *build, struct provider_config *provider)
{
	static const char *const kinds[] = {"route", "host", "listen"};
	const char *first = NULL;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (node_at(build->tree, kinds[i]) == NULL)
			continue;
		if (first != NULL)
			build_problem(build, AT(kinds[i]), false,
				      "%s and %s exclude each other: write one of route, host, "
				      "listen",
				      first, kinds[i]);
		else
			provider->route_kind = (enum route_kind)i;
		first = first != NULL ? first : kinds[i];
	}
	if (first == NULL)
		build_problem(build, NOWHERE, false,
			      "provider %.60s has no route: write route: /%.60s, host: NAME or "
			      "listen: ADDRESS:PORT",
			      provider->name, provider->name);
	if (node_at(build->tree, "upstream") == NULL && build_ok(build, "preset"))
		build_problem(build, AT("preset"), false,
			      "provider %.60s has no upstream: write upstream: https://HOST",
			      provider->name);
}

void check_provider(struct build *build, struct provider_config *provider)
{
	check_place(build, provider);
	check_budget(build, provider);
	check_attempt(build, &provider->policy);
	check_breaker(build, &provider->gate);
	check_retain(build, &provider->policy);
	check_key(build, provider);
	check_rules(build, provider);
	check_answer(build, provider);
	check_tls(build, provider->tls_cert, provider->tls_key);
	provider->policy.forwards_key = provider->idempotency_header != NULL;
}

void check_top(struct build *build, struct config *config)
{
	check_tls(build, config->tls_cert, config->tls_key);
	if (build_ok(build, "admin.listen") && build_ok(build, "admin.token_file") &&
	    !config->admin_listen.loopback && config->admin_token_file == NULL)
		build_problem(build, AT("admin.listen"), false,
			      "admin.listen is neither loopback nor a unix socket: write "
			      "admin.token_file too, or 127.0.0.1:%d",
			      config->admin_listen.port);
}
