/* What is refused before any value counts: names, shapes, YAML, ${env:...}. */
#include "tests/unit/config_fixture.h"

static void set_environment(void)
{
	unsetenv("STINT_NOT_SET");
	setenv("STINT_TEST_SECRET", "https://user:hunter2@h", 1);
	setenv("STINT_TEST_BAD", "a\001b", 1);
}

static void test_names(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    attempts: 3\n",
		 "f:5:5: unknown key attempts: write budget.attempts\n"},
		{PROVIDER "    attmept: {timeout: 3s}\n",
		 "f:5:5: unknown key attmept: write attempt\n"},
		{PROVIDER "    budget: {max: 3}\n",
		 "f:5:14: unknown key max in budget: known are attempts, window\n"},
		{GOOD "key: {missing: reject}\n", "f:2:1: unknown key key: write defaults.key\n"},
		{GOOD "timeout: 3s\n",
		 "f:2:1: unknown key timeout: write defaults.attempt.timeout\n"},
		{GOOD "format: json\n", "f:2:1: unknown key format: write log.format\n"},
		{PROVIDER "    atempts: 3\n", "f:5:5: unknown key atempts: write attempt\n"},
		{PROVIDER "    budget: {atempts: 3}\n",
		 "f:5:14: unknown key atempts in budget: write attempts\n"},
		{PROVIDER "    timeout: 3s\n",
		 "f:5:5: unknown key timeout: write attempt.timeout\n"},
		{GOOD "lisen: 127.0.0.1:1\n", "f:2:1: unknown key lisen: write listen\n"},
		{GOOD "provider: {}\n", "f:2:1: unknown key provider: write providers\n"},
		{GOOD "budget: {attempts: 3}\n",
		 "f:2:1: unknown key budget: write defaults.budget\n"},
		{GOOD "hold: 3s\n", "f:2:1: unknown key hold: write defaults.hold\n"},
		{GOOD "route: /a\n", "f:2:1: unknown key route: write providers.NAME.route\n"},
		{GOOD "front: {zebra: 3}\n",
		 "f:2:9: unknown key zebra in front: known are head, headers, head_time, "
		 "body_idle, connections, per_address\n"},
		{GOOD "log.level: info\n",
		 "f:2:1: unknown key log.level: known are listen, tls, workers, front, drain, "
		 "temp, replay_memory, admin, ledger, log, redact, unknown, defaults, providers\n"},
		{PROVIDER "    hold: 1s\n    hold: 2s\n",
		 "f:6:5: duplicate key hold: it is also on line 5, leave one out\n"},
		{GOOD "drain: 1s\ndrain: 2s\n",
		 "f:3:1: duplicate key drain: it is also on line 2, leave one out\n"},
		{"providers:\n  a: {route: /a, upstream: \"http://h\"}\n  a: {route: /b, upstream: "
		 "\"http://h\"}\n",
		 "f:3:3: duplicate key a: it is also on line 2, leave one out\n"},
		{"providers:\n  a b: {route: /a, upstream: \"http://h\"}\n",
		 "f:2:3: provider name a b: write 1 to 64 letters, digits, _ . - and begin with a "
		 "letter or digit\n"},
		{DEFAULTS "  route: /x\n",
		 "f:3:3: route differs for each provider: write it under providers.NAME\n"},
		{DEFAULTS "  preset: stripe\n  rules: []\n  advice: []\n",
		 "f:3:3: preset differs for each provider: write it under providers.NAME\n"
		 "f:4:3: rules differs for each provider: write it under providers.NAME\n"
		 "f:5:3: advice differs for each provider: write it under providers.NAME\n"},
		{DEFAULTS "  upstream: http://x\n",
		 "f:3:3: upstream differs for each provider: write it under providers.NAME\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_retries(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    retries: 3\n",
		 "f:5:5: retries is not a word here: write `attempts: 4`, the total with the first "
		 "one included (budget.attempts)\n"},
		{PROVIDER "    budget: {retries: 0}\n",
		 "f:5:14: retries is not a word here: write `attempts: 1`, the total with the "
		 "first one included (budget.attempts)\n"},
		{PROVIDER "    attempt: {max_retries: many}\n",
		 "f:5:15: max_retries is not a word here: write `attempts: N`, the total with the "
		 "first one included (budget.attempts)\n"},
		{GOOD "retries: 3\n", "f:2:1: retries is not a word here: write `attempts: 4`, the "
				      "total with the first one included (budget.attempts)\n"},
		{DEFAULTS "  retries: 3\n",
		 "f:3:3: retries is not a word here: write `attempts: 4`, the total with the first "
		 "one included (budget.attempts)\n"},
		{GOOD "log: {retries: 99}\n",
		 "f:2:7: retries is not a word here: write `attempts: 100`, the total with the "
		 "first one included (budget.attempts)\n"},
		{"retries: 3\nproviders:\n  retries: 3\n",
		 "f:1:1: retries is not a word here: write `attempts: 4`, the total with the first "
		 "one included (budget.attempts)\n"
		 "f:3:3: retries is not a word here: write `attempts: 4`, the total with the first "
		 "one included (budget.attempts)\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_not_built(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    mode: observe\n",
		 "f:5:11: mode is \"observe\": not built yet, write enforce | off\n"},
		{PROVIDER "    reconcile: {after: 30s}\n    keep: {}\n",
		 "f:5:5: reconcile is not built yet: leave it out\n"
		 "f:6:5: keep is not built yet: leave it out\n"},
		{DEFAULTS "  retry_ratio: {ratio: 0.2}\n  rate: {limit: 100/s}\n",
		 "f:3:3: retry_ratio is not built yet: leave it out\n"
		 "f:4:3: rate is not built yet: leave it out\n"},
		{DEFAULTS "  concurrency: {limit: 5, per_tenant: 64, borrow: true, queue: 1000, "
			  "tenants: 1000}\n",
		 "f:3:27: concurrency.per_tenant is not built yet: leave it out\n"
		 "f:3:43: concurrency.borrow is not built yet: leave it out\n"
		 "f:3:57: concurrency.queue is not built yet: leave it out\n"
		 "f:3:70: concurrency.tenants is not built yet: leave it out\n"},
		{DEFAULTS "  priority: none\n  classes: {}\n  ageing: 30s\n  http2: false\n  "
			  "proxy: none\n",
		 "f:3:3: priority is not built yet: leave it out\n"
		 "f:4:3: classes is not built yet: leave it out\n"
		 "f:5:3: ageing is not built yet: leave it out\n"
		 "f:6:3: http2 is not built yet: leave it out\n"
		 "f:7:3: proxy is not built yet: leave it out\n"},
		{GOOD "notify: {url: \"https://h\"}\n",
		 "f:2:1: notify is not built yet: leave it out\n"},
		{GOOD "ledger: {store: \"redis://h:6379/0\", spool: /x, spool_max: 1GiB, timeout: "
		      "200ms, replicas: 0, on_loss: refuse, prefix: s}\n",
		 "f:2:17: ledger.store is \"redis://h:6379/0\": redis stores are not built yet, "
		 "write sqlite:PATH\n"
		 "f:2:37: ledger.spool is not built yet: leave it out\n"
		 "f:2:48: ledger.spool_max is not built yet: leave it out\n"
		 "f:2:65: ledger.timeout is not built yet: leave it out\n"
		 "f:2:81: ledger.replicas is not built yet: leave it out\n"
		 "f:2:94: ledger.on_loss is not built yet: leave it out\n"
		 "f:2:111: ledger.prefix is not built yet: leave it out\n"},
		{GOOD "ledger: {store: \"redis+sentinel://a,b/n/0\"}\n",
		 "f:2:17: ledger.store is \"redis+sentinel://a,b/n/0\": redis stores are not built "
		 "yet, write sqlite:PATH\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_shapes(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    budget: 5\n",
		 "f:5:13: budget is \"5\": write a mapping with any of attempts, window\n"},
		{PROVIDER "    budget: [5]\n",
		 "f:5:13: budget is a list: write a mapping with any of attempts, window\n"},
		{PROVIDER "    hold: {max: 1s}\n",
		 "f:5:11: hold is a mapping: write a duration such as 250ms, 8s, 5m or 24h\n"},
		{PROVIDER "    hold: [1s]\n",
		 "f:5:11: hold is a list: write a duration such as 250ms, 8s, 5m or 24h\n"},
		{PROVIDER "    hold:\n",
		 "f:5:5: hold is nothing: write a duration such as 250ms, 8s, 5m or 24h\n"},
		{PROVIDER "    tls: {verify: yes}\n",
		 "f:5:19: tls.verify is \"yes\": write true or false\n"},
		{PROVIDER "    key: {missing: maybe}\n",
		 "f:5:20: key.missing is \"maybe\": write single | reject\n"},
		{PROVIDER "    key: {from: []}\n",
		 "f:5:17: key.from is a list: write 1 to 16 sources\n"},
		{PROVIDER "    key: {from: [{header: X}]}\n",
		 "f:5:18: key.from is a mapping: write header:NAME, json:/pointer, form:field or "
		 "template:TEXT\n"},
		{PROVIDER "    key: {fingerprint: {}}\n",
		 "f:5:24: key.fingerprint is a mapping without json-except: write {json-except: "
		 "[/requested_at]}\n"},
		{PROVIDER "    key: {fingerprint: {json-except: [/a~2]}}\n",
		 "f:5:39: key.fingerprint.json-except is \"/a~2\": write a JSON pointer such as "
		 "/requested_at\n"},
		{PROVIDER "    key: {fingerprint: {json-except: [requested_at]}}\n",
		 "f:5:39: key.fingerprint.json-except is \"requested_at\": write a JSON pointer "
		 "such as /requested_at\n"},
		{PROVIDER "    idempotency: Idempotency-Key\n",
		 "f:5:18: idempotency is \"Idempotency-Key\": write none, or {header: "
		 "Idempotency-Key, retention: 24h}\n"},
		{PROVIDER "    idempotency: {retention: 24h}\n",
		 "f:5:18: idempotency is a mapping without header: write {header: Idempotency-Key, "
		 "retention: 24h}\n"},
		{PROVIDER "    idempotency: {header: \"a b\"}\n",
		 "f:5:27: idempotency.header is \"a b\": write a header name such as "
		 "Idempotency-Key\n"},
		{PROVIDER "    scope: json:/x\n",
		 "f:5:12: scope is \"json:/x\": write header:NAME\n"},
		{PROVIDER "    tenant: json:/x\n",
		 "f:5:13: tenant is \"json:/x\": write header:NAME\n"},
		{PROVIDER "    remote_id: form:x\n",
		 "f:5:16: remote_id is \"form:x\": write json:/pointer or header:NAME\n"},
		{PROVIDER "    backoff: {jitter: some}\n",
		 "f:5:23: backoff.jitter is \"some\": write none | equal | full\n"},
		{GOOD "workers: many\n", "f:2:10: workers is \"many\": write a whole number, 1 to "
					 "64 (auto: one per core, at most 4)\n"},
		{GOOD "workers: 0\n",
		 "f:2:10: workers is \"0\": write 1 to 64 (auto: one per core, at most 4)\n"},
		{GOOD "log: {level: verbose}\n",
		 "f:2:14: log.level is \"verbose\": write debug | info | warn | error\n"},
		{GOOD "redact: {headers: Authorization}\n",
		 "f:2:19: redact.headers is \"Authorization\": write a list such as "
		 "[Authorization, Cookie, Set-Cookie, Proxy-Authorization, X-Api-Key]\n"},
		{GOOD "redact: {headers: [\"a:b\"]}\n",
		 "f:2:20: redact.headers is \"a:b\": write a header name\n"},
		{"providers: []\n", "f:1:12: providers is a list: write providers: {NAME: {route: "
				    "/NAME, upstream: https://HOST}}\n"},
		{"providers:\n", "f:1:1: providers is nothing: write providers: {NAME: {route: "
				 "/NAME, upstream: https://HOST}}\n"},
		{"providers: {}\n", "f:1:12: providers is empty: write providers: {NAME: {route: "
				    "/NAME, upstream: https://HOST}}\n"},
		{"providers:\n  a: /x\n",
		 "f:2:6: provider a is \"/x\": write a mapping with route and upstream\n"},
		{"defaults: 3\n" GOOD, "f:1:11: defaults is \"3\": write a mapping\n"},
		{"log: {level: info}\n", "f:1:1: there are no providers: write providers: {NAME: "
					 "{route: /NAME, upstream: https://HOST}}\n"},
		{"- a\n", "f:1:1: this is no mapping: write providers: {NAME: {route: /NAME, "
			  "upstream: https://HOST}}\n"},
		{"hello\n", "f:1:1: this is no mapping: write providers: {NAME: {route: /NAME, "
			    "upstream: https://HOST}}\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_yaml(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    hold: &h 3s\n    lease: *h\n",
		 "f:5:11: anchors are not supported: write the value out, or put what providers "
		 "share under defaults\n"
		 "f:6:12: aliases are not supported: write the value out, or put what providers "
		 "share under defaults\n"},
		{"defaults: &d {hold: 1s}\nproviders:\n  a: *d\n",
		 "f:1:11: anchors are not supported: write the value out, or put what providers "
		 "share under defaults\n"
		 "f:3:6: aliases are not supported: write the value out, or put what providers "
		 "share under defaults\n"},
		{PROVIDER "    <<: {hold: 3s}\n",
		 "f:5:5: merge keys are not supported: put what providers share under defaults\n"},
		{PROVIDER "    hold: !!str 3s\n", "f:5:11: tags are not supported: leave it out\n"},
		{PROVIDER "    ? [a, b]\n    : 1\n",
		 "f:5:7: a name is one word, not a mapping, list or alias\n"},
		{PROVIDER "	hold: 3s\n",
		 "f:5:1: a tab cannot indent or begin a value in YAML: write spaces\n"},
		{"front:\n	head: 1KiB\n",
		 "f:2:1: a tab cannot indent or begin a value in YAML: write spaces\n"},
		{"front: {head: 1KiB\n", "f:2:1: this is not valid YAML: did not find expected ',' "
					 "or '}', while parsing a flow mapping\n"},
		{"a: b: c\n",
		 "f:1:5: this is not valid YAML: mapping values are not allowed in this context\n"},
		{"front:\n  head: 1KiB\n headers: 3\n",
		 "f:3:2: this is not valid YAML: did not find expected key, while parsing a block "
		 "mapping\n"},
		{GOOD "---\n" GOOD, "f:2:1: a second document: write everything into one\n"},
		{GOOD "...\nhello\n", "f:3:1: the file ends before this: write one mapping, all "
				      "names from column 1 on\n"},
		{"", "f:1:1: the file is empty: write providers: {NAME: {route: /NAME, upstream: "
		     "https://HOST}}\n"},
		{"# nothing\n", "f:1:1: the file is empty: write providers: {NAME: {route: /NAME, "
				"upstream: https://HOST}}\n"},
		{"---\n", "f:1:1: the file is empty: write providers: {NAME: {route: /NAME, "
			  "upstream: https://HOST}}\n"},
		{"~\n", "f:1:1: the file is empty: write providers: {NAME: {route: /NAME, "
			"upstream: https://HOST}}\n"},
		{GOOD "temp: \"a\\0b\"\n",
		 "f:2:7: a value is one line without control characters\n"},
		{GOOD "temp: \"a\\nb\"\n",
		 "f:2:7: a value is one line without control characters\n"},
		{GOOD "temp: |\n  a\n", "f:2:7: a value is one line without control characters\n"},
		{"[[[[[[[[[[[[[[[[[[[[\n",
		 "f:1:17: nested more than 16 deep: no name of stint is\n"},
		{GOOD "\"a b\": 1\n",
		 "f:2:1: unknown key a b: known are listen, tls, workers, front, drain, temp, "
		 "replay_memory, admin, ledger, log, redact, unknown, defaults, providers\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_env(void **state)
{
	static const struct config_case cases[] = {
		{GOOD "temp: ${env:STINT_NOT_SET}\n",
		 "f:2:7: the environment variable STINT_NOT_SET is not set: set it, or write "
		 "${env:STINT_NOT_SET:-default}\n"},
		{GOOD "temp: ${HOME}\n", "f:2:7: ${HOME} is not known: write ${env:NAME}\n"},
		{GOOD "temp: ${env:}\n",
		 "f:2:7: ${env:} is malformed: write ${env:NAME} or ${env:NAME:-default}\n"},
		{GOOD "temp: ${env:1A}\n",
		 "f:2:7: ${env:1A} is malformed: write ${env:NAME} or ${env:NAME:-default}\n"},
		{GOOD "temp: ${env:A-b}\n",
		 "f:2:7: ${env:A-b} is malformed: write ${env:NAME} or ${env:NAME:-default}\n"},
		{GOOD "temp: a${env:A\n", "f:2:7: ${ without }: write ${env:NAME}\n"},
		{NO_UPSTREAM "    upstream: ${env:STINT_TEST_SECRET}\n",
		 "f:4:15: upstream has a user or password in it: leave out what stands before @, "
		 "the application sends its own credentials\n"},
		{PROVIDER "    hold: ${env:STINT_TEST_SECRET}\n",
		 "f:5:11: hold is \"${env:STINT_TEST_SECRET}\": write a duration such as 250ms, "
		 "8s, 5m or 24h\n"},
		{GOOD "temp: ${env:STINT_TEST_BAD}\n",
		 "f:2:7: the environment variable STINT_TEST_BAD is no text: a control "
		 "character\n"},
	};

	(void)state;
	set_environment();
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),     cmocka_unit_test(test_retries),
		cmocka_unit_test(test_not_built), cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_yaml),      cmocka_unit_test(test_env),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
