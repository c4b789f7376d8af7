/* What a good configuration becomes: defaults, layers, environment, and the two files of deploy/. */
#include "tests/unit/config_fixture.h"

#include "proxy/options.h"

static void test_defaults(void **state)
{
	struct config *config = config_good(GOOD);
	const struct provider_config *p = &config->providers[0];

	(void)state;
	assert_string_equal(config->file, "f");
	assert_int_equal(config->listen_count, 1);
	assert_string_equal(config->listen[0].host, "127.0.0.1");
	assert_int_equal(config->listen[0].port, 8380);
	assert_true(config->listen[0].loopback);
	assert_int_equal(config->admin_listen.port, 8381);
	assert_null(config->admin_token_file);
	assert_in_range(config->workers, 1, 4);
	assert_int_equal(config->front_head, 32768);
	assert_int_equal(config->front_headers, 100);
	assert_int_equal(config->front_head_time, 10 * USEC_SEC);
	assert_int_equal(config->front_body_idle, 30 * USEC_SEC);
	assert_int_equal(config->front_connections, 10000);
	assert_int_equal(config->front_per_address, 0);
	assert_int_equal(config->drain, 20 * USEC_SEC);
	assert_string_equal(config->temp, "/tmp");
	assert_int_equal(config->replay_memory, 268435456);
	assert_string_equal(config->ledger_path, "/var/lib/stint/ledger.db");
	assert_true(config->ledger_disk);
	assert_false(config->ledger_required);
	assert_int_equal(config->log_level, 1);
	assert_true(config->log_json);
	assert_int_equal(config->redact_headers.count, 5);
	assert_string_equal(config->redact_headers.items[4], "X-Api-Key");
	assert_int_equal(config->redact_query.count, 5);
	assert_int_equal(config->unknown_max, 100000);
	assert_int_equal(config->unknown_unkeyed_max, 10000);
	assert_int_equal(p->policy.unknown_unkeyed, 7 * USEC_DAY);
	assert_int_equal(p->concurrency_limit, 64);
	assert_int_equal(p->body_memory, 65536);
	assert_int_equal(p->body_max, 8388608);
	assert_int_equal(p->body_drain, 1048576);
	assert_int_equal(p->body_over, BODY_OVER_STREAM);
	assert_int_equal(p->retain_body, 65536);
	assert_int_equal(p->key_missing, KEY_MISSING_SINGLE);
	assert_int_equal(p->key_from_count, 1);
	assert_string_equal(p->key_from[0].name, "Idempotency-Key");
	assert_int_equal(p->fingerprint.mode, FINGERPRINT_EXACT);
	assert_int_equal(p->mode, MODE_ENFORCE);
	assert_false(p->has_tenant);
	assert_int_equal(p->scope_count, 0);
	assert_null(p->idempotency_header);
	assert_false(p->has_remote_id);
	assert_true(p->tls_verify);
	config_free(config);
}

static void test_default_policy(void **state)
{
	struct config *config = config_good(GOOD);
	const struct policy *policy = &config->providers[0].policy;

	(void)state;
	assert_int_equal(policy->attempts, 6);
	assert_int_equal(policy->window, USEC_HOUR);
	assert_int_equal(policy->attempt_timeout, 60 * USEC_SEC);
	assert_int_equal(policy->attempt_connect, 3 * USEC_SEC);
	assert_int_equal(policy->attempt_idle, 30 * USEC_SEC);
	assert_int_equal(policy->attempt_total, 10 * USEC_MIN);
	assert_int_equal(policy->attempt_least, 500 * USEC_MS);
	assert_int_equal(policy->attempt_reuse, 2 * USEC_SEC);
	assert_int_equal(policy->backoff.first, USEC_SEC);
	assert_true(policy->backoff.factor == 5.0);
	assert_int_equal(policy->backoff.max, 20 * USEC_MIN);
	assert_int_equal(policy->backoff.jitter, JITTER_FULL);
	assert_null(policy->backoff.schedule);
	assert_int_equal(policy->hold, 20 * USEC_SEC);
	assert_int_equal(policy->retry_after_max, 60 * USEC_SEC);
	assert_int_equal(policy->beyond, BEYOND_PROBE);
	assert_int_equal(policy->lease, 65 * USEC_SEC);
	assert_int_equal(policy->in_flight, IN_FLIGHT_JOIN);
	assert_int_equal(policy->duplicates, DUPLICATES_HARM);
	assert_false(policy->forwards_key);
	assert_int_equal(policy->key_retention, 0);
	assert_false(policy->repeat_any_time);
	assert_int_equal(policy->retain_for, 24 * USEC_HOUR);
	assert_int_equal(policy->retain_key, 30 * USEC_DAY);
	config_free(config);
}

static void test_everything_given(void **state)
{
	struct config *config = config_good(
		PROVIDER "    mode: off\n"
			 "    budget: {attempts: 2, window: 90m}\n"
			 "    attempt: {timeout: 5s, connect: 250ms}\n"
			 "    backoff: {first: 10m, factor: 1.5, max: 1h, jitter: equal}\n"
			 "    hold: 0s\n"
			 "    retry_after: {max: 5m, beyond: stop}\n"
			 "    lease: 500ms\n"
			 "    key: {from: [\"header:X;part=2;sep=,\", json:/id], missing: reject, "
			 "in_flight: "
			 "refuse, fingerprint: {json-except: [/a, /b/0]}}\n"
			 "    scope: [header:A, header:B]\n"
			 "    tenant: header:T\n"
			 "    idempotency: {header: K, retention: 24h}\n"
			 "    repeat: any-time\n"
			 "    duplicates: cost\n"
			 "    body: {over: refuse, max: 0B}\n"
			 "    remote_id: header:Request-Id\n"
			 "    concurrency: {limit: 1}\n"
			 "    tls: {verify: false, ca: /proc/self/status}\n");
	const struct provider_config *p = &config->providers[0];

	(void)state;
	assert_int_equal(p->mode, MODE_OFF);
	assert_int_equal(p->policy.attempts, 2);
	assert_int_equal(p->policy.window, 90 * USEC_MIN);
	assert_true(p->policy.backoff.factor == 1.5);
	assert_int_equal(p->policy.backoff.jitter, JITTER_EQUAL);
	assert_int_equal(p->policy.hold, 0);
	assert_int_equal(p->policy.beyond, BEYOND_STOP);
	assert_int_equal(p->policy.lease, 500 * USEC_MS);
	assert_int_equal(p->key_from_count, 2);
	assert_int_equal(p->key_from[0].part, 2);
	assert_int_equal(p->key_missing, KEY_MISSING_REJECT);
	assert_int_equal(p->policy.in_flight, IN_FLIGHT_REFUSE);
	assert_int_equal(p->fingerprint.mode, FINGERPRINT_JSON);
	assert_int_equal(p->fingerprint.except_count, 2);
	assert_string_equal(p->fingerprint.except[1], "/b/0");
	assert_int_equal(p->scope_count, 2);
	assert_true(p->has_tenant);
	assert_string_equal(p->tenant.name, "T");
	assert_string_equal(p->idempotency_header, "K");
	assert_true(p->policy.forwards_key);
	assert_int_equal(p->policy.key_retention, 24 * USEC_HOUR);
	assert_true(p->policy.repeat_any_time);
	assert_int_equal(p->policy.duplicates, DUPLICATES_COST);
	assert_int_equal(p->body_over, BODY_OVER_REFUSE);
	assert_int_equal(p->body_max, 0);
	assert_true(p->has_remote_id);
	assert_int_equal(p->concurrency_limit, 1);
	assert_false(p->tls_verify);
	assert_string_equal(p->tls_ca, "/proc/self/status");
	config_free(config);
}

static void test_layers(void **state)
{
	struct config *config = config_good(
		"defaults:\n"
		"  budget: {window: 2h}\n"
		"  attempt: {timeout: 5s}\n"
		"  backoff: {first: 1m}\n"
		"  idempotency: {header: A, retention: 24h}\n"
		"  key: {from: [header:A, header:B], missing: reject}\n"
		"  scope: header:S\n"
		"providers:\n"
		"  a: {route: /a, upstream: \"http://h\", budget: {attempts: 5}, attempt: "
		"{connect: 1s}}\n"
		"  b: {route: /b, upstream: \"http://h\", idempotency: {header: B}, key: {from: "
		"[header:C]}, scope: none}\n"
		"  c: {route: /, upstream: \"http://h\", idempotency: none, lease: 7s}\n");
	const struct provider_config *a = &config->providers[0], *b = &config->providers[1],
				     *c = &config->providers[2];

	(void)state;
	/* mappings merge key by key at every depth */
	assert_int_equal(a->policy.attempts, 5);
	assert_int_equal(a->policy.window, 2 * USEC_HOUR);
	assert_int_equal(a->policy.attempt_timeout, 5 * USEC_SEC);
	assert_int_equal(a->policy.attempt_connect, USEC_SEC);
	assert_int_equal(a->policy.attempt_idle, 30 * USEC_SEC);
	assert_int_equal(a->policy.lease, 8 * USEC_SEC);
	assert_int_equal(a->key_from_count, 2);
	assert_int_equal(a->scope_count, 1);
	assert_string_equal(a->idempotency_header, "A");
	assert_int_equal(b->policy.attempts, 6);
	assert_string_equal(b->idempotency_header, "B");
	assert_int_equal(b->policy.key_retention, 24 * USEC_HOUR);
	/* lists replace */
	assert_int_equal(b->key_from_count, 1);
	assert_string_equal(b->key_from[0].name, "C");
	assert_int_equal(b->key_missing, KEY_MISSING_REJECT);
	assert_int_equal(b->scope_count, 0);
	/* so does a word in the place of a mapping */
	assert_null(c->idempotency_header);
	assert_false(c->policy.forwards_key);
	assert_int_equal(c->policy.key_retention, 0);
	assert_string_equal(c->route_prefix, "");
	assert_int_equal(c->policy.lease, 7 * USEC_SEC);
	config_free(config);
}

static void test_schedule(void **state)
{
	struct config *config = config_good(
		"defaults:\n"
		"  backoff: {schedule: [2m, 4m], jitter: none}\n"
		"providers:\n"
		"  a: {route: /a, upstream: \"http://h\"}\n"
		"  b: {route: /b, upstream: \"http://h\", budget: {attempts: 2, window: 30m}}\n"
		"  c: {route: /c, upstream: \"http://h\", backoff: {first: 1m}}\n"
		"  d: {route: /d, upstream: \"http://h\", backoff: {jitter: full, schedule: "
		"[5m]}}\n");
	const struct provider_config *p = config->providers;

	(void)state;
	assert_int_equal(p[0].policy.attempts, 3);
	assert_int_equal(p[0].policy.backoff.schedule_len, 2);
	assert_int_equal(p[0].policy.backoff.schedule[1], 4 * USEC_MIN);
	assert_int_equal(p[0].policy.backoff.jitter, JITTER_NONE);
	assert_int_equal(p[1].policy.attempts, 2);
	/* naming the other kind drops the one of the layer below */
	assert_null(p[2].policy.backoff.schedule);
	assert_int_equal(p[2].policy.attempts, 6);
	assert_int_equal(p[2].policy.backoff.first, USEC_MIN);
	assert_int_equal(p[3].policy.attempts, 2);
	assert_int_equal(p[3].policy.backoff.jitter, JITTER_FULL);
	config_free(config);
}

static void test_environment(void **state)
{
	(void)state;
	setenv("STINT_TEST_A", "6", 1);
	setenv("STINT_TEST_EMPTY", "", 1);
	unsetenv("STINT_NOT_SET");
	struct config *config = config_good(
		"temp: /a${env:STINT_TEST_A}/${env:STINT_TEST_A}${env:STINT_TEST_EMPTY}\n"
		"providers:\n"
		"  a:\n"
		"    route: /${env:STINT_NOT_SET:-x}\n"
		"    upstream: http://${env:STINT_TEST_EMPTY:-h}\n"
		"    budget: {attempts: \"${env:STINT_TEST_A}\"}\n"
		"    tenant: ${env:STINT_NOT_SET:-none}\n"
		"    scope: [\"header:${env:STINT_TEST_A}\"]\n");

	assert_string_equal(config->temp, "/a6/6");
	assert_string_equal(config->providers[0].route_prefix, "/x");
	assert_string_equal(config->providers[0].upstream.host, "h");
	assert_int_equal(config->providers[0].policy.attempts, 6);
	assert_string_equal(config->providers[0].scope[0].name, "6");
	config_free(config);
}

static void check_upstream(const char *text, bool tls, const char *host, int port,
			   const char *origin, const char *authority, const char *path)
{
	char file[256];

	snprintf(file, sizeof(file), NO_UPSTREAM "    upstream: \"%s\"\n", text);
	struct config *config = config_good(file);
	const struct upstream_url *url = &config->providers[0].upstream;

	assert_string_equal(url->text, text);
	assert_int_equal(url->tls, tls);
	assert_string_equal(url->host, host);
	assert_int_equal(url->port, port);
	assert_string_equal(url->origin, origin);
	assert_string_equal(url->authority, authority);
	assert_string_equal(url->path, path);
	config_free(config);
}

static void test_upstream(void **state)
{
	(void)state;
	check_upstream("http://h", false, "h", 80, "http://h:80", "h", "");
	check_upstream("https://H.example/", true, "h.example", 443, "https://h.example:443",
		       "h.example", "");
	check_upstream("HTTP://h:8080/a/B/", false, "h", 8080, "http://h:8080", "h:8080", "/a/B");
	check_upstream("https://h:443/a", true, "h", 443, "https://h:443", "h", "/a");
	check_upstream("http://h:443", false, "h", 443, "http://h:443", "h:443", "");
	check_upstream("http://[::1]/x", false, "::1", 80, "http://[::1]:80", "[::1]", "/x");
	check_upstream("https://[::1]:9/@x", true, "::1", 9, "https://[::1]:9", "[::1]:9", "/@x");
	check_upstream("https://h/a%2Fb", true, "h", 443, "https://h:443", "h", "/a%2Fb");
}

static void test_addresses(void **state)
{
	struct config *config = config_good(
		"listen: [127.0.0.1:80, \"[::1]:81\", \"unix:/run/s.sock\", \"0.0.0.0:82\"]\n"
		"admin: {listen: \"0.0.0.0:1\", token_file: /proc/self/status}\n"
		"providers:\n"
		"  a: {host: \"A.Internal\", upstream: \"http://h\"}\n"
		"  b: {listen: \"unix:b\", upstream: \"http://h\"}\n");
	const struct listen_address *listen = config->listen;

	(void)state;
	assert_int_equal(config->listen_count, 4);
	assert_string_equal(listen[1].host, "::1");
	assert_true(listen[1].loopback);
	assert_null(listen[2].host);
	assert_string_equal(listen[2].path, "/run/s.sock");
	assert_true(listen[2].loopback);
	assert_string_equal(listen[3].text, "0.0.0.0:82");
	assert_false(listen[3].loopback);
	assert_string_equal(config->admin_token_file, "/proc/self/status");
	assert_int_equal(config->providers[0].route_kind, ROUTE_HOST);
	assert_string_equal(config->providers[0].route_host, "a.internal");
	assert_int_equal(config->providers[1].route_kind, ROUTE_LISTEN);
	assert_string_equal(config->providers[1].route_listen.path, "b");
	config_free(config);
}

/* Problems of every step in one run, in the order of their places, each once. */
static void test_all_at_once(void **state)
{
	struct config *config;
	char *problems = config_problems_of("workers: 99\n"
					    "defaults:\n"
					    "  hold: 20\n"
					    "providers:\n"
					    "  b: {route: /a, retries: 3}\n"
					    "  a: {route: /a, upstream: \"ftp://h\", gate: 1}\n",
					    &config);

	(void)state;
	assert_string_equal(problems,
			    "f:1:10: workers is \"99\": write 1 to 64 (auto: one per core, at most "
			    "4)\n"
			    "f:3:9: hold is \"20\": write 20s\n"
			    "f:5:3: provider b has no upstream: write upstream: https://HOST\n"
			    "f:5:18: retries is not a word here: write `attempts: 4`, the total "
			    "with the first one included (budget.attempts)\n"
			    "f:6:14: route /a is already that of provider b: write another one\n"
			    "f:6:28: upstream is \"ftp://h\": write http://HOST or https://HOST\n"
			    "f:6:45: gate is \"1\": write a mapping with any of by, ramp\n");
	free(problems);
}

static char *read_whole(const char *path)
{
	FILE *in = fopen(path, "r");
	char *text = calloc(1, 65536);

	assert_non_null(in);
	assert_non_null(text);
	assert_true(fread(text, 1, 65535, in) > 0);
	fclose(in);
	return text;
}

static void test_sample(void **state)
{
	char *sample = NULL, *file = read_whole("deploy/stint.yaml");
	size_t len = 0;
	FILE *out = open_memstream(&sample, &len);

	(void)state;
	config_sample(out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(sample, file);
	struct config *config = config_good(sample);

	assert_int_equal(config->providers[0].policy.attempts, 5);
	config_free(config);
	/* every name stands there, in force or as a comment */
	for (size_t i = 0; i < option_count; i++) {
		const char *dot = strrchr(options[i].path, '.');
		char name[64];

		snprintf(name, sizeof(name), " %s: ", dot != NULL ? dot + 1 : options[i].path);
		assert_true(strstr(sample, name) != NULL ||
			    strncmp(strstr(sample, name + 1) - 1, "\n", 1) == 0);
		assert_true(options[i].value != NULL || options[i].example != NULL);
	}
	free(sample);
	free(file);
}

/* The demonstration is good as it stands, without a warning. */
static void test_demo(void **state)
{
	struct config *config;
	char *text = read_whole("deploy/demo.yaml");
	char *problems = config_problems_of(text, &config);

	(void)state;
	assert_string_equal(problems, "");
	assert_string_equal(config->ledger_path, "build/run/ledger.db");
	assert_false(config->log_json);
	assert_string_equal(config->providers[0].upstream.origin, "http://127.0.0.1:8399");
	assert_int_equal(config->providers[0].policy.hold, 10 * USEC_SEC);
	config_free(config);
	free(problems);
	free(text);
}

static void test_help(void **state)
{
	char *help = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&help, &len);

	(void)state;
	config_help(out);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(help, "  budget.attempts: whole number, 1 to 100, default 6\n"
				     "      the total, the first one included\n"));
	assert_non_null(strstr(help, "  mode: word, enforce | off, default enforce\n"));
	assert_non_null(strstr(help, "  retry_ratio.floor: rate, default 10/s, not built yet\n"));
	for (size_t i = 0; i < option_count; i++)
		assert_non_null(strstr(help, options[i].path));
	free(help);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_default_policy),
		cmocka_unit_test(test_everything_given),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_schedule),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_upstream),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_all_at_once),
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_demo),
		cmocka_unit_test(test_help),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
