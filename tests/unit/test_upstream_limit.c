/* The upstream's limits and failures to connect: which limit, in which phase, and "not sent" where
 * nothing was. */
#include "upstream_fixture.h"

#include <fcntl.h>

#define SHORT (40 * USEC_MS)

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

/* Runs it and checks that it took at least `least` and not much more. */
static void run_timed(struct call *call, usec_t least)
{
	usec_t taken;

	call_run(call);
	taken = call->attempt.ended - call->attempt.started;
	assert_true(taken >= least);
	assert_true(taken < least + 8 * USEC_SEC); /* a loaded machine */
}

static void end(struct call *call)
{
	struct fixture *fixture = call->fixture;

	call_free(call);
	fixture_free(fixture);
}

/* --- before the first byte ---------------------------------------------------------------------- */

/* TCP is accepted and the TLS hello never answered. */
static struct call *silent_tls(void)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);

	fixture_point(fixture, "https", fixture->server.port);
	return call_new(fixture, "POST", "/");
}

static void test_connect_timeout(void **state)
{
	struct call *call = silent_tls();

	(void)state;
	call->fixture->provider.policy.attempt_connect = SHORT;
	run_timed(call, SHORT);
	call_expect(call, FAULT_CONNECT_TIMEOUT, 0, false);
	assert_int_equal(call->guards, 0);
	end(call);
}

static void test_unsent_limits(void **state)
{
	struct call *call = silent_tls();

	(void)state;
	call->attempt.unsent_limit = clock_boot() + SHORT;
	call_run(call);
	call_expect(call, FAULT_DEADLINE, 0, false);
	end(call);

	call = silent_tls();
	call->attempt.limit = clock_boot() + SHORT;
	call->attempt.limit_fault = FAULT_TOTAL;
	call_run(call);
	call_expect(call, FAULT_TOTAL, 0, false);
	assert_true(call->attempt.ended >= call->attempt.limit);
	end(call);

	call = silent_tls();
	call->fixture->provider.policy.attempt_total = SHORT;
	run_timed(call, SHORT);
	call_expect(call, FAULT_TOTAL, 0, false);
	end(call);
}

/* The deadline of the unsent ends with the pre-request callback. */
static void test_unsent_limit_is_over_when_sent(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct call *call = call_new(fixture, "POST", "/");

	(void)state;
	fixture->provider.policy.attempt_timeout = 3 * SHORT;
	call->attempt.unsent_limit = clock_boot() + SHORT;
	call_run(call);
	if (call->attempt.sent)
		call_expect(call, FAULT_TIMEOUT, 0, true);
	else /* a machine that took 40 ms to connect */
		call_expect(call, FAULT_DEADLINE, 0, false);
	end(call);
}

static void expect_spent(struct fixture *fixture, usec_t limit, usec_t unsent, enum fault fault)
{
	struct call *call = call_new(fixture, "POST", "/");

	call->attempt.limit = limit;
	call->attempt.unsent_limit = unsent;
	call->attempt.limit_fault = FAULT_DEADLINE;
	call_run(call);
	call_expect(call, fault, 0, false);
	call_free(call);
}

/* What is left of a limit may be nothing or less: that never means "without limit". */
static void test_nothing_left(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct policy *policy = &fixture->provider.policy, saved = *policy;

	(void)state;
	expect_spent(fixture, clock_boot(), USEC_MAX, FAULT_DEADLINE);
	expect_spent(fixture, 0, USEC_MAX, FAULT_DEADLINE);
	expect_spent(fixture, -5, USEC_MAX, FAULT_DEADLINE);
	expect_spent(fixture, USEC_MAX, 0, FAULT_DEADLINE);
	policy->attempt_connect = 0;
	expect_spent(fixture, USEC_MAX, USEC_MAX, FAULT_CONNECT_TIMEOUT);
	*policy = saved;
	policy->attempt_total = -1;
	expect_spent(fixture, USEC_MAX, USEC_MAX, FAULT_TOTAL);
	*policy = saved;
	policy->attempt_timeout = 0;
	expect_spent(fixture, USEC_MAX, USEC_MAX, FAULT_TIMEOUT);
	*policy = saved;
	policy->attempt_idle = 0;
	expect_spent(fixture, USEC_MAX, USEC_MAX, FAULT_IDLE);
	assert_int_equal(atomic_load(&fixture->server.connections), 0);
	fixture_free(fixture);
}

static void test_refused(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct call *call;

	(void)state;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	/* Bound and not listening: nobody else gets the port. */
	fixture_point(fixture, "http", ntohs(address.sin_port));
	for (int i = 0; i < 3; i++) {
		call = call_simple(fixture, "POST", "/");
		call_expect(call, FAULT_CONNECT, 0, false);
		call_free(call);
	}
	/* libcurl asks for ::1 and 127.0.0.1, one after the other. */
	snprintf(fixture->origin, sizeof fixture->origin, "http://localhost:%d",
		 ntohs(address.sin_port));
	call = call_simple(fixture, "POST", "/");
	call_expect(call, FAULT_CONNECT, 0, false);
	close(fd);
	end(call);
}

static void test_second_address(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct call *call;

	(void)state;
	fixture->server.script = OK;
	fixture->server.serve = serve_always;
	snprintf(fixture->origin, sizeof fixture->origin, "http://localhost:%d",
		 fixture->server.port); /* ::1 refuses */
	for (int i = 0; i < 3; i++) {
		call = call_simple(fixture, "POST", "/");
		call_expect(call, FAULT_NONE, 200, true);
		call_free(call);
	}
	assert_int_equal(atomic_load(&fixture->server.connections), 1);
	fixture_free(fixture);
}

static void test_resolve(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct call *call;

	(void)state;
	/* A label of 64 characters: refused by the resolver without asking anybody. */
	snprintf(fixture->origin, sizeof fixture->origin, "http://%064d.invalid", 0);
	fixture->provider.upstream.origin = fixture->origin;
	call = call_simple(fixture, "POST", "/secret");
	call_expect(call, FAULT_RESOLVE, 0, false);
	assert_non_null(strstr(call->attempt.detail, ".invalid"));
	assert_null(strstr(call->attempt.detail, "secret"));
	end(call);
}

static void test_tls_fault(void **state)
{
	struct fixture *fixture = fixture_new(serve_once, "HTTP/1.1 400 Not TLS\r\n\r\n");
	struct call *call;

	(void)state;
	fixture_point(fixture, "https", fixture->server.port);
	fixture->server.serve = serve_silence;
	fixture->provider.tls_ca = "/nonexistent/ca.pem";
	call = call_simple(fixture, "POST", "/");
	call_expect(call, FAULT_TLS, 0, false);
	end(call);
}

static void serve_no_tls(struct connection *connection)
{
	hear(connection);
	say(connection, "HTTP/1.1 400 Not TLS\r\n\r\n");
}

static void test_tls_garbage(void **state)
{
	struct fixture *fixture = fixture_new(serve_no_tls, NULL);
	struct call *call;

	(void)state;
	fixture_point(fixture, "https", fixture->server.port);
	call = call_simple(fixture, "POST", "/");
	call_expect(call, FAULT_TLS, 0, false);
	end(call);
}

/* No descriptor is left: that is our side's fault, and it passes. */
static void test_out_of_descriptors(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	int fds[4096], count = 0;
	struct call *call;

	(void)state;
	while (count < 4096 && (fds[count] = dup(0)) >= 0)
		count++;
	if (count < 4096) { /* else the limit is higher than that: nothing to see */
		call = call_simple(fixture, "POST", "/");
		call_expect(call, FAULT_LOCAL, 0, false);
		call_free(call);
	}
	while (count > 0)
		close(fds[--count]);
	call = call_simple(fixture, "POST", "/");
	call_expect(call, FAULT_NONE, 200, true);
	end(call);
}

/* --- after it ----------------------------------------------------------------------------------- */

static void test_timeout(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct call *call = call_new(fixture, "POST", "/");

	(void)state;
	fixture->provider.policy.attempt_timeout = SHORT;
	fixture->provider.policy.attempt_idle = SHORT / 4; /* does not count before the headers */
	run_timed(call, SHORT);
	call_expect(call, FAULT_TIMEOUT, 0, true);
	assert_true(call->attempt.ended - call->attempt.sent_at >= SHORT);
	end(call);

	/* Interim replies and half a head are no headers. */
	fixture = fixture_new(serve_and_wait, "HTTP/1.1 103 Hint\r\n\r\nHTTP/1.1 200 OK\r\nA:");
	call = call_new(fixture, "POST", "/");
	fixture->provider.policy.attempt_timeout = SHORT;
	run_timed(call, SHORT);
	call_expect(call, FAULT_TIMEOUT, 0, true);
	end(call);
}

/* From the last request byte on, not from the first. */
static void test_timeout_runs_from_the_last_byte(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct call *call = call_new(fixture, "POST", "/");
	usec_t last;

	(void)state;
	fixture->provider.policy.attempt_timeout = SHORT;
	call->attempt.has_body = true;
	call->attempt.stream_length = 6;
	call->attempt.read_body = call_upload;
	call->upload = "abcdef";
	call->upload_len = 6;
	call_start(call);
	run_for(fixture, 3 * SHORT);
	call->upload_limit = 3;
	attempt_body_ready(&call->attempt);
	run_for(fixture, 3 * SHORT);
	assert_int_equal(call->dones, 0);
	call->upload_limit = 6;
	last = clock_boot();
	attempt_body_ready(&call->attempt);
	call_wait(call);
	call_expect(call, FAULT_TIMEOUT, 0, true);
	assert_true(call->attempt.ended - last >= SHORT);
	end(call);
}

static void test_idle_in_the_reply(void **state)
{
	struct fixture *fixture =
		fixture_new(serve_and_wait, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");
	struct call *call = call_new(fixture, "POST", "/");

	(void)state;
	fixture->provider.policy.attempt_idle = SHORT;
	run_timed(call, SHORT);
	call_expect(call, FAULT_IDLE, 200, true);
	assert_int_equal(call->heads, 1);
	assert_string_equal(call->body, "abc");
	end(call);
}

static void serve_deaf(struct connection *connection)
{
	struct server *server = connection->server;

	/* Reads nothing until the test has seen what it wants to see. */
	while (atomic_load(&server->requests) == 0)
		usleep(1000);
}

/* A provider that stops reading: the bytes stick in the socket and in libcurl. */
static void test_idle_in_the_upload(void **state)
{
	struct fixture *fixture = fixture_new(serve_deaf, NULL);
	struct call *call = call_new(fixture, "POST", "/");
	size_t length = (size_t)32 << 20;
	char *text = malloc(length);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', length);
	fixture->provider.policy.attempt_idle = SHORT;
	fixture->provider.policy.attempt_timeout = USEC_MS; /* does not run during the upload */
	call->attempt.has_body = true;
	call->attempt.stream_length = (int64_t)length;
	call->attempt.read_body = call_upload;
	call->upload = text;
	call->upload_len = call->upload_limit = length;
	run_timed(call, SHORT);
	call_expect(call, FAULT_IDLE, 0, true);
	assert_true(call->upload_at < length);
	atomic_store(&fixture->server.requests, 1);
	end(call);
	free(text);
}

static void serve_drip(struct connection *connection)
{
	hear_request(connection);
	say(connection, "HTTP/1.1 200 OK\r\n\r\n");
	for (int i = 0; i < 10000; i++) {
		char c = 'x';

		usleep(5000);
		if (send(connection->fd, &c, 1, MSG_NOSIGNAL) != 1)
			return;
	}
}

static void test_total(void **state)
{
	struct fixture *fixture = fixture_new(serve_drip, NULL);
	struct call *call = call_new(fixture, "POST", "/");

	(void)state;
	fixture->provider.policy.attempt_idle = USEC_SEC;
	fixture->provider.policy.attempt_total = 3 * SHORT;
	run_timed(call, 3 * SHORT);
	call_expect(call, FAULT_TOTAL, 200, true);
	assert_true(call->body_len > 1);
	call_free(call);

	fixture->provider.policy.attempt_total = USEC_MIN;
	call = call_new(fixture, "POST", "/");
	call->attempt.limit = clock_boot() + 3 * SHORT;
	call->attempt.limit_fault = FAULT_DEADLINE;
	call_run(call);
	call_expect(call, FAULT_DEADLINE, 200, true);
	end(call);
}

/* The loop was busy beyond the limit, and the reply is there: it is taken. */
static void test_reply_before_a_late_timer(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = call_new(fixture, "POST", "/");

	(void)state;
	fixture->provider.policy.attempt_timeout = SHORT;
	call_start(call);
	RUN_UNTIL(fixture, call->attempt.sent);
	while (clock_boot() < call->attempt.sent_at + 2 * SHORT ||
	       atomic_load(&fixture->server.replies) == 0)
		usleep(1000);
	call_wait(call);
	call_expect(call, FAULT_NONE, 200, true);
	end(call);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connect_timeout),
		cmocka_unit_test(test_unsent_limits),
		cmocka_unit_test(test_unsent_limit_is_over_when_sent),
		cmocka_unit_test(test_nothing_left),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_second_address),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_tls_fault),
		cmocka_unit_test(test_tls_garbage),
		cmocka_unit_test(test_out_of_descriptors),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_timeout_runs_from_the_last_byte),
		cmocka_unit_test(test_idle_in_the_reply),
		cmocka_unit_test(test_idle_in_the_upload),
		cmocka_unit_test(test_total),
		cmocka_unit_test(test_reply_before_a_late_timer),
	};

	return cmocka_run_group_tests(tests, fixture_warm, NULL);
}
