/* What is refused of values: units, ranges, and values that do not go together. */
#include "tests/unit/config_fixture.h"

static void test_units(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    attempt: {timeout: 30}\n",
		 "f:5:24: attempt.timeout is \"30\": write 30s\n"},
		{PROVIDER "    attempt: {timeout: 10 seconds}\n",
		 "f:5:24: attempt.timeout is \"10 seconds\": write 10s\n"},
		{PROVIDER "    attempt: {timeout: 1.5s}\n",
		 "f:5:24: attempt.timeout is \"1.5s\": write 1500ms\n"},
		{PROVIDER "    attempt: {timeout: 1m30s}\n",
		 "f:5:24: attempt.timeout is \"1m30s\": write 90s\n"},
		{PROVIDER "    attempt: {timeout: 5 min}\n",
		 "f:5:24: attempt.timeout is \"5 min\": write 5m\n"},
		{PROVIDER "    attempt: {timeout: 2w}\n",
		 "f:5:24: attempt.timeout is \"2w\": write 14d\n"},
		{PROVIDER "    attempt: {timeout: soon}\n",
		 "f:5:24: attempt.timeout is \"soon\": write a duration such as 250ms, 8s, 5m or "
		 "24h\n"},
		{PROVIDER "    attempt: {timeout: -5s}\n",
		 "f:5:24: attempt.timeout is \"-5s\": write a duration such as 250ms, 8s, 5m or "
		 "24h\n"},
		{PROVIDER "    attempt: {timeout: 0s}\n",
		 "f:5:24: attempt.timeout is \"0s\": write 1ms to 24h\n"},
		{PROVIDER "    attempt: {timeout: 99999999999999999999s}\n",
		 "f:5:24: attempt.timeout is \"99999999999999999999s\": write a duration such as "
		 "250ms, 8s, 5m or 24h\n"},
		{PROVIDER "    attempt: {connect: 10m}\n",
		 "f:5:24: attempt.connect is \"10m\": write 1ms to 5m\n"},
		{PROVIDER "    budget: {window: 0s}\n",
		 "f:5:22: budget.window is \"0s\": write 1ms to 3650d\n"},
		{PROVIDER "    backoff: {first: 0s}\n",
		 "f:5:22: backoff.first is \"0s\": write 1ms to 30d\n"},
		{PROVIDER "    hold: 0\n", "f:5:11: hold is \"0\": write 0s\n"},
		{PROVIDER "    body: {max: 8MB}\n", "f:5:17: body.max is \"8MB\": write 8MiB\n"},
		{PROVIDER "    body: {max: 65536}\n",
		 "f:5:17: body.max is \"65536\": write 64KiB\n"},
		{PROVIDER "    body: {max: 1000}\n", "f:5:17: body.max is \"1000\": write 1000B\n"},
		{PROVIDER "    body: {max: 17GiB}\n",
		 "f:5:17: body.max is \"17GiB\": write 0B to 16GiB\n"},
		{PROVIDER "    body: {memory: big}\n",
		 "f:5:20: body.memory is \"big\": write a size such as 64KiB or 8MiB\n"},
		{GOOD "front: {head: 512B}\n",
		 "f:2:15: front.head is \"512B\": write 1KiB to 1MiB\n"},
		{GOOD "front: {headers: 5000, connections: 0}\n",
		 "f:2:18: front.headers is \"5000\": write 1 to 1000 (header lines of a request)\n"
		 "f:2:37: front.connections is \"0\": write 1 to 1000000 (open connections of all "
		 "workers)\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_gate(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    gate: {by: provider, ramp: 0ms}\n    breaker: {failures: 0}\n", ""},
		{PROVIDER "    gate: {by: header:X-RateLimit-Bucket}\n", ""},
		{PROVIDER "    gate: {by: tenant}\n",
		 "f:5:16: gate.by is \"tenant\": write provider, or header:NAME such as "
		 "header:Authorization\n"},
		{PROVIDER "    gate: {by: \"header:\"}\n",
		 "f:5:16: gate.by is \"header:\": write provider, or header:NAME such as "
		 "header:Authorization\n"},
		{PROVIDER "    gate: {by: [provider]}\n",
		 "f:5:16: gate.by is a list: write provider, or header:NAME such as "
		 "header:Authorization\n"},
		{PROVIDER "    gate: {ramp: 5m}\n",
		 "f:5:18: gate.ramp is \"5m\": write 0s to 60s\n"},
		{PROVIDER "    breaker: {failures: -1, open: 0s, max: 2h}\n",
		 "f:5:25: breaker.failures is \"-1\": write 0 to 100000 (in a row (not sent, time "
		 "limits, resets, cut replies, 502, 503, 504) they stop the attempts; 0: never)\n"
		 "f:5:35: breaker.open is \"0s\": write 1ms to 1h\n"
		 "f:5:44: breaker.max is \"2h\": write 1ms to 1h\n"},
		{PROVIDER "    breaker: {open: 90s}\n",
		 "f:5:21: breaker.open is longer than breaker.max: write a larger max\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_attempts(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    budget: {attempts: 0}\n",
		 "f:5:24: budget.attempts is \"0\": write 1 to 100 (the total, the first one "
		 "included)\n"},
		{PROVIDER "    budget: {attempts: -1}\n",
		 "f:5:24: budget.attempts is \"-1\": write 1 to 100 (the total, the first one "
		 "included)\n"},
		{PROVIDER "    budget: {attempts: 2.5}\n",
		 "f:5:24: budget.attempts is \"2.5\": write a whole number, 1 to 100 (the total, "
		 "the first one included)\n"},
		{PROVIDER "    budget: {attempts: 1e3}\n",
		 "f:5:24: budget.attempts is \"1e3\": write a whole number, 1 to 100 (the total, "
		 "the first one included)\n"},
		{PROVIDER "    budget: {attempts: abc}\n",
		 "f:5:24: budget.attempts is \"abc\": write a whole number, 1 to 100 (the total, "
		 "the first one included)\n"},
		{PROVIDER "    budget: {attempts: \"\"}\n",
		 "f:5:24: budget.attempts is \"\": write a whole number, 1 to 100 (the total, the "
		 "first one included)\n"},
		{PROVIDER "    budget: {attempts: \"4 \"}\n",
		 "f:5:24: budget.attempts is \"4 \": write a whole number, 1 to 100 (the total, "
		 "the first one included)\n"},
		{PROVIDER "    budget: {attempts: 101}\n",
		 "f:5:24: budget.attempts is \"101\": write 1 to 100 (the total, the first one "
		 "included)\n"},
		{PROVIDER "    budget: {attempts: 2147483648}\n",
		 "f:5:24: budget.attempts is \"2147483648\": write 1 to 100 (the total, the first "
		 "one included)\n"},
		{PROVIDER "    budget: {attempts: 99999999999999999999}\n",
		 "f:5:24: budget.attempts is \"99999999999999999999\": write a whole number, 1 to "
		 "100 (the total, the first one included)\n"},
		{PROVIDER "    budget: {attempts:}\n",
		 "f:5:22: this is not valid YAML: found unexpected ':', while scanning a plain "
		 "scalar\n"},
		{PROVIDER "    concurrency: {limit: 0}\n",
		 "f:5:26: concurrency.limit is \"0\": write 1 to 100000 (attempts of this provider "
		 "at once)\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_backoff(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    backoff: {factor: 0.5}\n",
		 "f:5:23: backoff.factor is \"0.5\": write a number from 1 to 1000, such as 2 or "
		 "1.5\n"},
		{PROVIDER "    backoff: {factor: -1}\n",
		 "f:5:23: backoff.factor is \"-1\": write a number from 1 to 1000, such as 2 or "
		 "1.5\n"},
		{PROVIDER "    backoff: {factor: inf}\n",
		 "f:5:23: backoff.factor is \"inf\": write a number from 1 to 1000, such as 2 or "
		 "1.5\n"},
		{PROVIDER "    backoff: {factor: 1e1}\n",
		 "f:5:23: backoff.factor is \"1e1\": write a number from 1 to 1000, such as 2 or "
		 "1.5\n"},
		{PROVIDER "    backoff: {first: 2h}\n",
		 "f:5:22: backoff.first is longer than backoff.max: write a larger max\n"},
		{PROVIDER "    backoff: {schedule: [10m, 20m]}\n    budget: {attempts: 4}\n",
		 "f:6:24: budget.attempts is 4, beyond the schedule of 2 waits: write 3, or one "
		 "more wait for each attempt\n"},
		{PROVIDER "    backoff: {schedule: [30m, 40m]}\n",
		 "f:5:25: backoff.schedule adds up to 70m, and budget.window is 1h: write shorter "
		 "waits or a longer window\n"},
		{PROVIDER "    backoff: {schedule: [30m, 30m]}\n",
		 "f:5:25: backoff.schedule adds up to 1h, and budget.window is 1h: write shorter "
		 "waits or a longer window\n"},
		{PROVIDER "    backoff: {schedule: [10m, 20]}\n",
		 "f:5:31: backoff.schedule is \"20\": write 20s\n"},
		{PROVIDER "    backoff: {schedule: []}\n",
		 "f:5:25: backoff.schedule is a list: write a list of 1 to 99 waits such as [60s, "
		 "300s]\n"},
		{PROVIDER "    backoff: {schedule: 60s}\n",
		 "f:5:25: backoff.schedule is \"60s\": write a list of 1 to 99 waits such as [60s, "
		 "300s]\n"},
		{PROVIDER "    backoff: {schedule: [10m], first: 1s}\n",
		 "f:5:39: backoff.first and backoff.schedule exclude each other: write one of "
		 "them\n"},
		{PROVIDER "    backoff: {first: 1s, factor: 2}\n",
		 "f:5:22: warning: all 6 attempts fit into 31s, less than a twentieth of the "
		 "window of 1h: write longer waits, or a shorter window\n"},
		{PROVIDER "    budget: {attempts: 2}\n",
		 "f:5:24: warning: all 2 attempts fit into 1s, less than a twentieth of the window "
		 "of 1h: write longer waits, or a shorter window\n"},
		{PROVIDER "    budget: {attempts: 2, window: 24h}\n",
		 "f:5:35: warning: all 2 attempts fit into 1s, less than a twentieth of the window "
		 "of 24h: write longer waits, or a shorter window\n"},
		{DEFAULTS "  backoff: {first: 1s, factor: 1}\n",
		 "f:3:20: warning: all 6 attempts fit into 5s, less than a twentieth of the window "
		 "of 1h: write longer waits, or a shorter window\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_routes(void **state)
{
	static const struct config_case cases[] = {
		{"providers:\n  a: {route: /p, upstream: \"http://h\"}\n  b: {route: /p, upstream: "
		 "\"http://h\"}\n",
		 "f:3:14: route /p is already that of provider a: write another one\n"},
		{"providers:\n  a: {host: P.internal, upstream: \"http://h\"}\n  b: {host: "
		 "p.Internal, upstream: \"http://h\"}\n",
		 "f:3:13: host p.internal is already that of provider a: write another one\n"},
		{"providers:\n  a: {listen: \"127.0.0.1:9\", upstream: \"http://h\"}\n  b: "
		 "{listen: \"127.0.0.1:9\", upstream: \"http://h\"}\n",
		 "f:3:15: 127.0.0.1:9 is listened on twice: write another port\n"},
		{"listen: 127.0.0.1:9\nproviders:\n  a: {listen: \"127.0.0.1:9\", upstream: "
		 "\"http://h\"}\n",
		 "f:3:15: 127.0.0.1:9 is listened on twice: write another port\n"},
		{"admin: {listen: \"127.0.0.1:8380\"}\n" GOOD,
		 "f:1:17: 127.0.0.1:8380 is listened on twice: write another port\n"},
		{"listen: [127.0.0.1:9, 127.0.0.1:9]\n" GOOD,
		 "f:1:23: 127.0.0.1:9 is listened on twice: write another port\n"},
		{NO_ROUTE "    route: payments\n",
		 "f:4:12: route is \"payments\": write /payments\n"},
		{NO_ROUTE "    route: /payments/\n",
		 "f:4:12: route is \"/payments/\": write /payments\n"},
		{NO_ROUTE "    route: /a/../b\n",
		 "f:4:12: route is \"/a/../b\": leave out the segments . and ..\n"},
		{NO_ROUTE "    route: /a/.\n",
		 "f:4:12: route is \"/a/.\": leave out the segments . and ..\n"},
		{NO_ROUTE "    route: /a?x=1\n",
		 "f:4:12: route is \"/a?x=1\": leave out what follows ? or #\n"},
		{NO_ROUTE "    route: /a#x\n",
		 "f:4:12: route is \"/a#x\": leave out what follows ? or #\n"},
		{NO_ROUTE "    route: /a//b\n",
		 "f:4:12: route is \"/a//b\": leave out the empty segments (//)\n"},
		{NO_ROUTE "    route: /%2e%2e\n",
		 "f:4:12: route is \"/%2e%2e\": a route is compared byte by byte, write plain "
		 "visible ASCII without % or \\\n"},
		{NO_ROUTE "    route: \"/a b\"\n",
		 "f:4:12: route is \"/a b\": a route is compared byte by byte, write plain visible "
		 "ASCII without % or \\\n"},
		{NO_ROUTE "    route: \"\"\n", "f:4:12: route is \"\": write /\n"},
		{NO_ROUTE "    host: p.internal:80\n",
		 "f:4:11: host is \"p.internal:80\": the port does not count, write p.internal\n"},
		{NO_ROUTE "    host: http://p\n",
		 "f:4:11: host is \"http://p\": write a host name such as payments.internal\n"},
		{NO_ROUTE "    route: /a\n    host: b\n",
		 "f:5:11: route and host exclude each other: write one of route, host, listen\n"},
		{NO_ROUTE, "f:2:3: provider a has no route: write route: /a, host: NAME or listen: "
			   "ADDRESS:PORT\n"},
		{"providers:\n  a:\n",
		 "f:2:3: provider a has no route: write route: /a, host: NAME or listen: "
		 "ADDRESS:PORT\n"
		 "f:2:3: provider a has no upstream: write upstream: https://HOST\n"},
		{"providers: {a: {mode: off}}\n",
		 "f:1:13: provider a has no route: write route: /a, host: NAME or listen: "
		 "ADDRESS:PORT\n"
		 "f:1:13: provider a has no upstream: write upstream: https://HOST\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_upstreams(void **state)
{
	static const struct config_case cases[] = {
		{NO_UPSTREAM, "f:2:3: provider a has no upstream: write upstream: https://HOST\n"},
		{NO_UPSTREAM "    upstream: https://user:secret@h/\n",
		 "f:4:15: upstream has a user or password in it: leave out what stands before @, "
		 "the application sends its own credentials\n"},
		{NO_UPSTREAM "    upstream: user:secret@h\n",
		 "f:4:15: upstream has a user or password in it: leave out what stands before @, "
		 "the application sends its own credentials\n"},
		{NO_UPSTREAM "    upstream: https://h/?x=1\n",
		 "f:4:15: upstream has a query or fragment: leave out what follows ? or #\n"},
		{NO_UPSTREAM "    upstream: https://h/#f\n",
		 "f:4:15: upstream has a query or fragment: leave out what follows ? or #\n"},
		{NO_UPSTREAM "    upstream: ftp://h\n",
		 "f:4:15: upstream is \"ftp://h\": write http://HOST or https://HOST\n"},
		{NO_UPSTREAM "    upstream: h:80\n",
		 "f:4:15: upstream is \"h:80\": write http://HOST or https://HOST\n"},
		{NO_UPSTREAM "    upstream: http://\n",
		 "f:4:15: upstream is \"http://\": write http://HOST[:PORT][/PATH] or the same "
		 "with https\n"},
		{NO_UPSTREAM "    upstream: http://h:0\n",
		 "f:4:15: upstream is \"http://h:0\": write http://HOST[:PORT][/PATH] or the same "
		 "with https\n"},
		{NO_UPSTREAM "    upstream: http://h:99999\n",
		 "f:4:15: upstream is \"http://h:99999\": write http://HOST[:PORT][/PATH] or the "
		 "same with https\n"},
		{NO_UPSTREAM "    upstream: http://h:\n",
		 "f:4:23: this is not valid YAML: mapping values are not allowed in this "
		 "context\n"},
		{NO_UPSTREAM "    upstream: http://[::1\n",
		 "f:4:15: upstream is \"http://[::1\": write http://HOST[:PORT][/PATH] or the same "
		 "with https\n"},
		{NO_UPSTREAM "    upstream: http://[::g]\n",
		 "f:4:15: upstream is \"http://[::g]\": write http://HOST[:PORT][/PATH] or the "
		 "same with https\n"},
		{NO_UPSTREAM "    upstream: http://h/a/../b\n",
		 "f:4:15: upstream is \"http://h/a/../b\": leave out . and .. in its path\n"},
		{NO_UPSTREAM "    upstream: http://h//a\n",
		 "f:4:15: upstream is \"http://h//a\": leave out the empty segments (//) of its "
		 "path\n"},
		{NO_UPSTREAM "    upstream: http://h/a b\n",
		 "f:4:15: upstream is \"http://h/a b\": write visible ASCII, other characters as "
		 "%XX\n"},
		{NO_UPSTREAM "    upstream: \"http://h/\\u00e9\"\n",
		 "f:4:15: upstream is \"http://h/\xc3\xa9\": write visible ASCII, other characters "
		 "as %XX\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_listeners(void **state)
{
	static const struct config_case cases[] = {
		{GOOD "listen: 8380\n", "f:2:9: listen is \"8380\": write 127.0.0.1:8380\n"},
		{GOOD "listen: :8380\n",
		 "f:2:9: listen is \":8380\": write 127.0.0.1:8380 or 0.0.0.0:8380\n"},
		{GOOD "listen: localhost:8380\n", "f:2:9: listen is \"localhost:8380\": a listener "
						  "has a numeric address, write 127.0.0.1:8380\n"},
		{GOOD "listen: 127.0.0.1\n",
		 "f:2:9: listen is \"127.0.0.1\": write ADDRESS:PORT such as 127.0.0.1:8380 or "
		 "[::1]:8380, or unix:/path\n"},
		{GOOD "listen: 127.0.0.1:0\n",
		 "f:2:9: listen is \"127.0.0.1:0\": write ADDRESS:PORT such as 127.0.0.1:8380 or "
		 "[::1]:8380, or unix:/path\n"},
		{GOOD "listen: 127.0.0.1:70000\n",
		 "f:2:9: listen is \"127.0.0.1:70000\": write ADDRESS:PORT such as 127.0.0.1:8380 "
		 "or [::1]:8380, or unix:/path\n"},
		{GOOD "listen: \"unix:\"\n",
		 "f:2:9: listen is \"unix:\": write unix:PATH of 1 to 107 bytes\n"},
		{GOOD "listen: []\n", "f:2:9: listen is a list: write 1 to 16 addresses\n"},
		{GOOD "admin: {listen: 0.0.0.0:8381}\n",
		 "f:2:17: admin.listen is neither loopback nor a unix socket: write "
		 "admin.token_file too, or 127.0.0.1:8381\n"},
		{GOOD "admin: {listen: \"[::]:8381\"}\n",
		 "f:2:17: admin.listen is neither loopback nor a unix socket: write "
		 "admin.token_file too, or 127.0.0.1:8381\n"},
		{GOOD "admin: {token_file: /nonexistent/token}\n",
		 "f:2:21: admin.token_file is \"/nonexistent/token\": it cannot be read (No such "
		 "file or directory), write the path of a readable file\n"},
		{GOOD "admin: {token_file: /dev/null}\n",
		 "f:2:21: admin.token_file is \"/dev/null\": it is empty, write the path of a file "
		 "that holds the token\n"},
		{GOOD "ledger: {store: /var/x.db}\n",
		 "f:2:17: ledger.store is \"/var/x.db\": write sqlite:PATH\n"},
		{GOOD "ledger: {store: \"sqlite:\"}\n",
		 "f:2:17: ledger.store is \"sqlite:\": the ledger is a file, write sqlite:PATH\n"},
		{GOOD "ledger: {store: \"sqlite::memory:\"}\n",
		 "f:2:17: ledger.store is \"sqlite::memory:\": the ledger is a file, write "
		 "sqlite:PATH\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_files(void **state)
{
	static const struct config_case cases[] = {
		{GOOD "tls: {cert: /proc/self/status}\n",
		 "f:2:13: tls.cert without its private key: write tls.key too\n"},
		{GOOD "tls: {key: /proc/self/status}\n",
		 "f:2:12: tls.key without its certificate: write tls.cert too\n"},
		{GOOD "tls: {cert: /nonexistent/c, key: /nonexistent/k}\n",
		 "f:2:13: tls.cert is \"/nonexistent/c\": it cannot be read (No such file or "
		 "directory), write the path of a readable file\n"
		 "f:2:34: tls.key is \"/nonexistent/k\": it cannot be read (No such file or "
		 "directory), write the path of a readable file\n"},
		{PROVIDER "    tls: {cert: /proc/self/status}\n",
		 "f:5:17: tls.cert without its private key: write tls.key too\n"},
		{PROVIDER "    tls: {key: /proc/self/status}\n",
		 "f:5:16: tls.key without its certificate: write tls.cert too\n"},
		{PROVIDER "    tls: {ca: /nonexistent/ca}\n",
		 "f:5:15: tls.ca is \"/nonexistent/ca\": it cannot be read (No such file or "
		 "directory), write the path of a readable file\n"},
		{PROVIDER "    tls: {ca: /proc}\n",
		 "f:5:15: tls.ca is \"/proc\": it cannot be read, write the path of a file\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

static void test_together(void **state)
{
	static const struct config_case cases[] = {
		{PROVIDER "    key: {from: [\"header:X\", \"json:/id\"]}\n",
		 "f:5:30: this key is read from the body, and a body over body.max is streamed "
		 "without one: write body: {over: refuse}\n"},
		{PROVIDER "    key: {from: \"template:{json:/id}:x\"}\n    body: {over: stream}\n",
		 "f:5:17: this key is read from the body, and a body over body.max is streamed "
		 "without one: write body: {over: refuse}\n"},
		{DEFAULTS "  key: {from: [form:id]}\n",
		 "f:3:16: this key is read from the body, and a body over body.max is streamed "
		 "without one: write body: {over: refuse}\n"},
		{PROVIDER "    idempotency: {header: K, retention: 40d}\n",
		 "f:5:41: retain.key is shorter than idempotency.retention: a key would be "
		 "forgotten here while the provider knows it, write a longer retain.key\n"},
		{PROVIDER
		 "    idempotency: {header: K, retention: 24h}\n    retain: {for: 1h, key: 2h}\n",
		 "f:6:28: retain.key is shorter than idempotency.retention: a key would be "
		 "forgotten here while the provider knows it, write a longer retain.key\n"},
		{PROVIDER "    retain: {for: 3h, key: 2h}\n",
		 "f:5:19: retain.for is longer than retain.key: write a shorter for or a longer "
		 "key\n"},
		{PROVIDER "    attempt: {least: 2s, timeout: 1s}\n",
		 "f:5:22: attempt.least is longer than attempt.timeout: no attempt would be worth "
		 "its start, write a smaller least\n"},
		{PROVIDER "    attempt: {least: 2s}\n    budget: {attempts: 1, window: 1s}\n",
		 "f:5:22: attempt.least is longer than budget.window: no attempt would ever be "
		 "made, write a smaller least\n"},
		{PROVIDER "    attempt: {timeout: 20m}\n",
		 "f:5:24: warning: attempt.timeout is longer than attempt.total, which ends the "
		 "attempt first: write a larger total\n"},
	};

	(void)state;
	config_check(cases, sizeof(cases) / sizeof(cases[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_units),     cmocka_unit_test(test_attempts),
		cmocka_unit_test(test_backoff),   cmocka_unit_test(test_routes),
		cmocka_unit_test(test_upstreams), cmocka_unit_test(test_listeners),
		cmocka_unit_test(test_files),     cmocka_unit_test(test_together),
		cmocka_unit_test(test_gate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
