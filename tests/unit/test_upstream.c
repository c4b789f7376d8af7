/* The upstream's requests: the bytes on the wire, uploads, the pre-request check, reuse of
 * connections, cancelling, closing. */
#include "upstream_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static struct header_view header(const char *name, const char *value)
{
	struct header_view view = {name, strlen(name), value, strlen(value)};

	return view;
}

/* `tail` follows the Host line. */
static void wire_expect_one(struct fixture *fixture, const char *line, const char *tail)
{
	char text[8192];

	snprintf(text, sizeof text, "%s\r\nHost: %s\r\n%s", line, fixture->authority, tail);
	wire_expect(fixture, 1, text);
}

/* --- bytes on the wire -------------------------------------------------------------------------- */

static void test_get_bytes(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = call_new(fixture, "GET", "//h/a/../b/./%2e?q=@x#f");
	struct header_view headers[] = {
		header("X-A", "1"),       header("x-empty", ""),  header("X-B", "two  words "),
		header("X-A", "2"),       header("Host", "evil"), header("Expect", "100-continue"),
		header("X-Blank", " \t"),
	};

	(void)state;
	call->attempt.headers = headers;
	call->attempt.header_count = sizeof headers / sizeof headers[0];
	call_run(call);
	call_expect(call, FAULT_NONE, 200, true);
	assert_int_equal(call->guards, 1);
	assert_int_equal(call->heads, 1);
	assert_string_equal(call->body, "hi");
	assert_int_equal(call->attempt.content_length, 2);
	assert_false(call->attempt.close_delimited);
	assert_int_equal(call->attempt.head_len, strlen("Content-Length: 2\r\n"));
	assert_memory_equal(call->attempt.head, "Content-Length: 2\r\n", call->attempt.head_len);
	wire_expect_one(fixture, "GET //h/a/../b/./%2e?q=@x#f HTTP/1.1",
			"X-A: 1\r\nx-empty:\r\nX-B: two  words \r\nX-A: 2\r\nX-Blank:\r\n\r\n");
	assert_int_equal(call->attempt.request_bytes, fixture->server.wire_len);
	assert_int_equal(call->attempt.reply_bytes, strlen(OK));
	call_free(call);
	fixture_free(fixture);
}

static void test_own_headers_only_if_given(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = call_new(fixture, "QUERY", "/");
	struct header_view headers[] = {
		header("user-agent", "app/1"),
		header("Accept", "*/*"),
		header("Content-Type", "a/b"),
		header("Accept-Encoding", "br"),
	};

	(void)state;
	call->attempt.headers = headers;
	call->attempt.header_count = 4;
	call->attempt.has_body = true;
	call->attempt.read_body = call_upload;
	call_run(call);
	call_expect(call, FAULT_NONE, 200, true);
	wire_expect_one(fixture, "QUERY / HTTP/1.1",
			"user-agent: app/1\r\nAccept: */*\r\nContent-Type: a/b\r\n"
			"Accept-Encoding: br\r\nContent-Length: 0\r\n\r\n");
	call_free(call);
	fixture_free(fixture);
}

static void expect_request(const char *method, const char *text, const char *line, const char *tail)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = call_new(fixture, method, "/t");
	atomic_size_t pool = 0;
	struct body_limits limits = {.memory = 65536,
				     .max = 65536,
				     .temp_dir = "/tmp",
				     .pool_used = &pool,
				     .pool_max = 1 << 20};
	struct body body;

	body_init(&body, &limits);
	if (text != NULL) {
		assert_int_equal(body_append(&body, text, strlen(text)), BODY_OK);
		call->attempt.has_body = true;
		call->attempt.body = &body;
	}
	call_run(call);
	call_expect(call, FAULT_NONE, 200, true);
	wire_expect_one(fixture, line, tail);
	assert_int_equal(call->attempt.request_bytes, fixture->server.wire_len);
	body_done(&body);
	call_free(call);
	fixture_free(fixture);
}

static void test_methods_and_bodies(void **state)
{
	(void)state;
	expect_request("POST", NULL, "POST /t HTTP/1.1", "\r\n");
	expect_request("POST", "", "POST /t HTTP/1.1", "Content-Length: 0\r\n\r\n");
	expect_request("POST", "abc", "POST /t HTTP/1.1", "Content-Length: 3\r\n\r\nabc");
	expect_request("GET", "abc", "GET /t HTTP/1.1", "Content-Length: 3\r\n\r\nabc");
	expect_request("DELETE", NULL, "DELETE /t HTTP/1.1", "\r\n");
	expect_request("PUT", "abc", "PUT /t HTTP/1.1", "Content-Length: 3\r\n\r\nabc");
	expect_request("X-odd!", "a=b&c", "X-odd! /t HTTP/1.1", "Content-Length: 5\r\n\r\na=b&c");
}

static void expect_large(size_t memory, size_t length)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = call_new(fixture, "POST", "/t");
	atomic_size_t pool = 0;
	struct body_limits limits = {.memory = memory,
				     .max = length,
				     .temp_dir = "/tmp",
				     .pool_used = &pool,
				     .pool_max = 4 << 20};
	char *text = malloc(length + 1);
	struct body body;

	assert_non_null(text);
	for (size_t i = 0; i < length; i++)
		text[i] = (char)('a' + i % 23);
	text[length] = '\0';
	body_init(&body, &limits);
	assert_int_equal(body_append(&body, text, length), BODY_OK);
	call->attempt.has_body = true;
	call->attempt.body = &body;
	call_run(call);
	call_expect(call, FAULT_NONE, 200, true);
	assert_string_equal(strstr(fixture->server.wire, "\r\n\r\n") + 4, text);
	assert_int_equal(call->attempt.request_bytes, fixture->server.wire_len);
	assert_int_equal(atomic_load(&fixture->server.requests), 1);
	body_done(&body);
	free(text);
	call_free(call);
	fixture_free(fixture);
}

static void test_large_bodies(void **state)
{
	(void)state;
	expect_large(65536, 16384);
	expect_large(65536, 16385);
	expect_large(2 << 20, 2 << 20);
	expect_large(1024, 3 << 20); /* from a file */
	expect_large(1024, 2000);    /* short, and in a file all the same */
}

static void test_malformed_is_not_sent(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct header_view headers[] = {
		header("X-A", "1\r\nX-B: 2"),
		{"X-C", 3, "a\0b", 3},
		header("X Y", "1"),
		header("", "1"),
		header("X:", "1"),
	};
	struct call *call;

	(void)state;
	for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
		call = call_new(fixture, "GET", "/");
		call->attempt.headers = &headers[i];
		call->attempt.header_count = 1;
		call_run(call);
		call_expect(call, FAULT_LOCAL, 0, false);
		call_free(call);
	}
	call = call_simple(fixture, "GET", "/ HTTP/1.1\r\nX: y");
	call_expect(call, FAULT_LOCAL, 0, false);
	call_free(call);
	call = call_simple(fixture, "GET /x", "/");
	call_expect(call, FAULT_LOCAL, 0, false);
	call_free(call);
	call = call_simple(fixture, "GET", "");
	call_expect(call, FAULT_LOCAL, 0, false);
	call_free(call);
	assert_int_equal(atomic_load(&fixture->server.connections), 0);
	fixture_free(fixture);
}

/* --- streamed uploads --------------------------------------------------------------------------- */

static struct call *streamed(struct fixture *fixture, const char *text, int64_t length)
{
	struct call *call = call_new(fixture, "POST", "/");

	call->attempt.has_body = true;
	call->attempt.stream_length = length;
	call->attempt.read_body = call_upload;
	call->upload = text;
	call->upload_len = strlen(text);
	return call;
}

static void stream_in_pieces(int64_t length, const char *tail)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = streamed(fixture, "abcdef", length);

	fixture->provider.policy.attempt_idle = 20 * USEC_MS; /* not counted while we wait */
	call_start(call);
	RUN_UNTIL(fixture, call->attempt.sent);
	run_for(fixture, 60 * USEC_MS);
	call->upload_limit = 3;
	attempt_body_ready(&call->attempt);
	RUN_UNTIL(fixture, call->upload_at == 3);
	run_for(fixture, 60 * USEC_MS);
	assert_int_equal(call->dones, 0);
	call->upload_limit = 6;
	attempt_body_ready(&call->attempt);
	call_wait(call);
	call_expect(call, FAULT_NONE, 200, true);
	wire_expect_one(fixture, "POST / HTTP/1.1", tail);
	call_free(call);
	/* Nothing of it is left in the pooled handle. */
	call = call_simple(fixture, "GET", "/2");
	call_expect(call, FAULT_NONE, 200, true);
	assert_non_null(strstr(fixture->server.wire, "GET /2 HTTP/1.1\r\nHost: "));
	assert_int_equal(atomic_load(&fixture->server.connections), 1);
	call_free(call);
	fixture_free(fixture);
}

static void test_streamed_body(void **state)
{
	(void)state;
	stream_in_pieces(6, "Content-Length: 6\r\n\r\nabcdef");
	stream_in_pieces(-1, "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
}

static void test_upload_breaks(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct call *call = streamed(fixture, "abcdef", 6);

	(void)state;
	call->upload_limit = 3;
	call_start(call);
	RUN_UNTIL(fixture, call->upload_at == 3);
	call->upload_broken = true;
	attempt_body_ready(&call->attempt);
	call_wait(call);
	call_expect(call, FAULT_UPLOAD, 0, true);
	call_free(call);

	/* Shorter than its Content-Length. */
	call = streamed(fixture, "abc", 6);
	call->upload_limit = 3;
	call_run(call);
	call_expect(call, FAULT_UPLOAD, 0, true);
	call_free(call);
	fixture_free(fixture);
}

static void serve_early(struct connection *connection)
{
	hear(connection);
	say(connection, connection->server->script);
	hear_end(connection);
}

static void expect_early(const char *script, int status)
{
	struct fixture *fixture = fixture_new(serve_early, script);
	struct call *call = streamed(fixture, "abcdef", -1);

	call->upload_limit = 3;
	call_run(call);
	call_expect(call, FAULT_NONE, status, true);
	call_free(call);
	call = call_simple(fixture, "GET", "/");
	call_expect(call, FAULT_NONE, status, true);
	assert_int_equal(atomic_load(&fixture->server.connections), 2);
	call_free(call);
	fixture_free(fixture);
}

/* A final reply before the upload is whole is the reply; its connection is not used again. */
static void test_early_reply(void **state)
{
	(void)state;
	expect_early(OK, 200);
	expect_early("HTTP/1.1 204 No Content\r\n\r\n", 204);
	expect_early("HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nabc", 401);
	expect_early("HTTP/1.1 413 No\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		     413);
	expect_early("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n", 417);
}

/* --- the pre-request check ---------------------------------------------------------------------- */

static void test_guard_says_no(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = call_new(fixture, "POST", "/");

	(void)state;
	call->refuse = true;
	call_run(call);
	call_expect(call, FAULT_GUARD, 0, false);
	assert_int_equal(call->guards, 1);
	assert_int_equal(call->heads + call->bodies, 0);
	assert_false(call->attempt.hidden_resend);
	call_free(call);
	call = call_simple(fixture, "GET", "/");
	call_expect(call, FAULT_NONE, 200, true);
	call_free(call);
	assert_int_equal(atomic_load(&fixture->server.requests), 1);
	fixture_free(fixture);
}

static void serve_second_dead(struct connection *connection)
{
	if (connection->number > 1) {
		serve_always(connection);
		return;
	}
	if (hear_request(connection))
		say(connection, OK);
	hear_request(connection); /* and closes */
}

static void expect_hidden_resend(const char *method, bool repeatable)
{
	struct fixture *fixture = fixture_new(serve_second_dead, OK);
	struct call *call = call_simple(fixture, "GET", "/");

	call_expect(call, FAULT_NONE, 200, true);
	call_free(call);
	call = call_new(fixture, method, "/second");
	call->attempt.repeatable = repeatable;
	call->attempt.has_body = true;
	call->attempt.read_body = call_upload;
	call_run(call);
	call_expect(call, FAULT_HIDDEN_RESEND, 0, true);
	assert_true(call->attempt.hidden_resend);
	assert_int_equal(call->guards, 1);
	call_free(call);
	assert_int_equal(atomic_load(&fixture->server.requests), 2);
	assert_int_equal(atomic_load(&fixture->server.connections), 1);
	/* And the next one is not poisoned. */
	call = call_simple(fixture, "GET", "/");
	call_expect(call, FAULT_NONE, 200, true);
	call_free(call);
	assert_int_equal(atomic_load(&fixture->server.requests), 3);
	fixture_free(fixture);
}

static void test_hidden_resend_is_stopped(void **state)
{
	(void)state;
	expect_hidden_resend("POST", false);
	expect_hidden_resend("POST", true);
	expect_hidden_resend("GET", true);
}

/* --- connections -------------------------------------------------------------------------------- */

static int connections_after_two(const char *script, bool repeatable, usec_t reuse, usec_t between)
{
	struct fixture *fixture = fixture_new(serve_always, script);
	int connections;

	fixture->provider.policy.attempt_reuse = reuse;
	for (int i = 0; i < 2; i++) {
		struct call *call = call_new(fixture, "POST", "/");

		call->attempt.repeatable = repeatable;
		call_run(call);
		call_expect(call, FAULT_NONE, 200, true);
		call_free(call);
		if (i == 0 && between > 0)
			run_for(fixture, between);
	}
	connections = atomic_load(&fixture->server.connections);
	fixture_free(fixture);
	return connections;
}

static void test_reuse(void **state)
{
	(void)state;
	assert_int_equal(connections_after_two(OK, true, 0, 0), 1);
	assert_int_equal(connections_after_two(OK, false, 2 * USEC_SEC, 0), 1);
	assert_int_equal(connections_after_two(OK, false, 2 * USEC_SEC, 2100 * USEC_MS), 2);
	assert_int_equal(connections_after_two(OK, false, USEC_SEC - 1, 0), 2);
	assert_int_equal(connections_after_two(OK, false, 0, 0), 2);
	/* Bytes beyond the reply: the connection is not trusted. */
	assert_int_equal(connections_after_two(OK "HTTP/1.1 500 Not yours\r\n\r\n", true, 0, 0), 2);
	/* libcurl would say HTTP/1.0 on it. */
	assert_int_equal(connections_after_two("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"
					       "Content-Length: 2\r\n\r\nhi",
					       true, 0, 0),
			 2);
}

static void serve_old_then_new(struct connection *connection)
{
	if (hear_request(connection))
		say(connection, connection->number == 1 ? "HTTP/1.0 200 OK\r\n\r\n" : OK);
	if (connection->number > 1)
		hear_end(connection);
}

static void test_always_says_1_1(void **state)
{
	struct fixture *fixture = fixture_new(serve_old_then_new, NULL);
	struct call *call = call_simple(fixture, "GET", "/");

	(void)state;
	call_expect(call, FAULT_NONE, 200, true);
	assert_true(call->attempt.close_delimited);
	call_free(call);
	call = streamed(fixture, "abc", -1);
	call->upload_limit = 3;
	call_run(call);
	call_expect(call, FAULT_NONE, 200, true);
	assert_non_null(strstr(fixture->server.wire, "POST / HTTP/1.1\r\n"));
	call_free(call);
	fixture_free(fixture);
}

/* The provider closes an idle connection: no spinning, and the next attempt does not meet it. */
static void test_idle_close(void **state)
{
	struct fixture *fixture = fixture_new(serve_once, OK);
	struct call *call;

	(void)state;
	for (int i = 0; i < 3; i++) {
		call = call_simple(fixture, "GET", "/");
		call_expect(call, FAULT_NONE, 200, true);
		call_free(call);
		assert_true(run_for(fixture, 50 * USEC_MS) < 20);
	}
	assert_int_equal(atomic_load(&fixture->server.connections), 3);
	fixture_free(fixture);
}

static void test_many_at_once(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *calls[32];

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 32; i++) {
			calls[i] = call_new(fixture, "POST", "/");
			call_start(calls[i]);
		}
		for (int i = 0; i < 32; i++) {
			call_wait(calls[i]);
			call_expect(calls[i], FAULT_NONE, 200, true);
			call_free(calls[i]);
		}
	}
	assert_int_equal(atomic_load(&fixture->server.requests), 96);
	assert_int_equal(atomic_load(&fixture->server.connections), 32);
	fixture_free(fixture);
}

static void test_environment_is_ignored(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call;

	(void)state;
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	call = call_simple(fixture, "GET", "/");
	call_expect(call, FAULT_NONE, 200, true);
	call_free(call);
	unsetenv("http_proxy");
	unsetenv("ALL_PROXY");
	fixture_free(fixture);
}

/* --- cancelling and closing --------------------------------------------------------------------- */

static void expect_cancelled(struct call *call, int status, bool sent)
{
	call_wait(call);
	call_expect(call, FAULT_CALLER, status, sent);
	call_free(call);
}

static void test_cancel_in_each_phase(void **state)
{
	struct fixture *fixture =
		fixture_new(serve_and_wait, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi");
	struct call *call;

	(void)state;
	call = call_new(fixture, "POST", "/");
	call_start(call);
	attempt_cancel(&call->attempt, FAULT_CALLER);
	attempt_cancel(&call->attempt, FAULT_LOCAL); /* the first one counts */
	assert_int_equal(call->dones, 0);
	expect_cancelled(call, 0, false);
	assert_int_equal(atomic_load(&fixture->server.requests), 0);

	call = call_new(fixture, "POST", "/");
	call->cancel_on_head = true;
	call_start(call);
	RUN_UNTIL(fixture, call->heads > 0);
	assert_int_equal(call->bodies, 0);
	expect_cancelled(call, 200, true);

	call = call_new(fixture, "POST", "/");
	call->cancel_on_body = true;
	call_start(call);
	RUN_UNTIL(fixture, call->bodies > 0);
	expect_cancelled(call, 200, true);

	call = call_new(fixture, "POST", "/");
	call_start(call);
	RUN_UNTIL(fixture, call->body_len == 2);
	attempt_cancel(&call->attempt, FAULT_CALLER);
	attempt_consume(&call->attempt, 1000);
	expect_cancelled(call, 200, true);
	fixture_free(fixture);

	fixture = fixture_new(serve_silence, NULL);
	call = call_new(fixture, "POST", "/");
	call_start(call);
	RUN_UNTIL(fixture, call->attempt.sent);
	attempt_cancel(&call->attempt, FAULT_CALLER);
	expect_cancelled(call, 0, true);

	call = streamed(fixture, "abc", 3);
	call_start(call);
	RUN_UNTIL(fixture, call->attempt.sent);
	attempt_cancel(&call->attempt, FAULT_CALLER);
	expect_cancelled(call, 0, true);

	fixture_point(fixture, "https", fixture->server.port);
	call = call_new(fixture, "POST", "/");
	call_start(call);
	RUN_UNTIL(fixture, atomic_load(&fixture->server.connections) == 3);
	attempt_cancel(&call->attempt, FAULT_CALLER);
	expect_cancelled(call, 0, false);
	fixture_free(fixture);
}

static void test_close_while_running(void **state)
{
	struct fixture *fixture = fixture_new(serve_silence, NULL);
	struct call *sent = call_new(fixture, "POST", "/"), *fresh = call_new(fixture, "GET", "/");

	(void)state;
	call_start(sent);
	RUN_UNTIL(fixture, sent->attempt.sent);
	call_start(fresh);
	fixture_close_upstream(fixture);
	assert_int_equal(sent->dones, 1);
	assert_int_equal(fresh->dones, 1);
	call_expect(sent, FAULT_LOCAL, 0, true);
	call_expect(fresh, FAULT_LOCAL, 0, false);
	call_free(sent);
	call_free(fresh);
	fixture_free(fixture);
}

static void done_and_again(struct attempt *attempt)
{
	struct call *call = attempt->data;

	call->dones++;
	if (call->dones < 100)
		attempt_start(call->fixture->upstream, attempt);
}

/* Attempts that end at once and are begun again from on_done: other work gets its turn between. */
static void test_start_from_done(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *call = call_new(fixture, "GET", "/");

	(void)state;
	call->attempt.limit = clock_boot() - 1;
	call->attempt.on_done = done_and_again;
	call_start(call);
	assert_true(uv_run(&fixture->loop.uv, UV_RUN_NOWAIT) != 0);
	assert_true(call->dones < 10);
	RUN_UNTIL(fixture, call->dones == 100);
	call_free(call);
	fixture_free(fixture);
}

/* More at once than are kept for reuse. */
static void test_pool_is_bounded(void **state)
{
	struct fixture *fixture = fixture_new(serve_always, OK);
	struct call *calls[200];

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 200; i++) {
			calls[i] = call_new(fixture, "GET", "/");
			calls[i]->attempt.limit = 0;
			call_start(calls[i]);
		}
		for (int i = 0; i < 200; i++) {
			call_wait(calls[i]);
			call_expect(calls[i], FAULT_TOTAL, 0, false);
			call_free(calls[i]);
		}
	}
	calls[0] = call_simple(fixture, "GET", "/");
	call_expect(calls[0], FAULT_NONE, 200, true);
	call_free(calls[0]);
	fixture_free(fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_get_bytes),
		cmocka_unit_test(test_own_headers_only_if_given),
		cmocka_unit_test(test_methods_and_bodies),
		cmocka_unit_test(test_large_bodies),
		cmocka_unit_test(test_malformed_is_not_sent),
		cmocka_unit_test(test_streamed_body),
		cmocka_unit_test(test_upload_breaks),
		cmocka_unit_test(test_early_reply),
		cmocka_unit_test(test_guard_says_no),
		cmocka_unit_test(test_hidden_resend_is_stopped),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_always_says_1_1),
		cmocka_unit_test(test_idle_close),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_environment_is_ignored),
		cmocka_unit_test(test_cancel_in_each_phase),
		cmocka_unit_test(test_close_while_running),
		cmocka_unit_test(test_start_from_done),
		cmocka_unit_test(test_pool_is_bounded),
	};

	return cmocka_run_group_tests(tests, fixture_warm, NULL);
}
