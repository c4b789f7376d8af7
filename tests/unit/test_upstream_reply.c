/* The upstream's replies: heads, framing, cut and broken ones, back-pressure. */
#include "upstream_fixture.h"

static struct call *reply_to(const char *method, void (*serve)(struct connection *),
			     const char *script)
{
	struct fixture *fixture = fixture_new(serve, script);

	return call_simple(fixture, method, "/");
}

static void finish(struct call *call)
{
	struct fixture *fixture = call->fixture;

	call_free(call);
	fixture_free(fixture);
}

static void expect_fault(void (*serve)(struct connection *), const char *script, enum fault fault,
			 int status)
{
	struct call *call = reply_to("POST", serve, script);

	call_expect(call, fault, status, true);
	assert_false(call->attempt.hidden_resend);
	assert_int_equal(atomic_load(&call->fixture->server.requests), 1);
	finish(call);
}

static void expect_head(const char *method, const char *script, int status, const char *head,
			int64_t length, const char *body)
{
	struct call *call = reply_to(method, serve_once, script);

	call_expect(call, FAULT_NONE, status, true);
	assert_int_equal(call->heads, 1);
	assert_int_equal(call->attempt.head_len, strlen(head));
	assert_memory_equal(call->attempt.head, head, strlen(head));
	assert_int_equal(call->attempt.content_length, length);
	assert_string_equal(call->body != NULL ? call->body : "", body);
	finish(call);
}

static void test_heads(void **state)
{
	(void)state;
	expect_head("GET",
		    "HTTP/1.1 200 OK\r\nA:  x \r\nSet-Cookie: a\r\nset-cookie: b\r\nE:\r\n"
		    "Content-Length: 1\r\n\r\nz",
		    200, "A:  x \r\nSet-Cookie: a\r\nset-cookie: b\r\nE:\r\nContent-Length: 1\r\n",
		    1, "z");
	/* No reason phrase, bare LF, an unheard-of status. */
	expect_head("GET", "HTTP/1.1 799\nContent-Length: 0\n\n", 799, "Content-Length: 0\r\n", 0,
		    "");
	/* Chunks and trailers. */
	expect_head("GET",
		    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n"
		    "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n",
		    200, "Transfer-Encoding: chunked\r\nTrailer: T\r\n", -1, "abcde");
	/* A folded line, a space before the colon, a bare CR. */
	expect_head("GET",
		    "HTTP/1.1 200 OK\r\nA: x\r\n\t y\r\nB : z\r\nC: p\rq\r\n"
		    "Content-Length: 0\r\n\r\n",
		    200, "A: x y\r\nB: z\r\nC: p q\r\nContent-Length: 0\r\n", 0, "");
	/* The same length twice. */
	expect_head("GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nz",
		    200, "Content-Length: 1\r\nContent-Length: 1\r\n", 1, "z");
	/* A coding of the content is the caller's business. */
	expect_head("GET",
		    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nnot",
		    200, "Content-Encoding: gzip\r\nContent-Length: 3\r\n", 3, "not");
	/* A redirect is an answer. */
	expect_head("POST",
		    "HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/\r\n"
		    "Content-Length: 2\r\n\r\ngo",
		    307, "Location: http://127.0.0.1:1/\r\nContent-Length: 2\r\n", 2, "go");
	expect_head("GET",
		    "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", 401,
		    "WWW-Authenticate: Basic\r\nContent-Length: 0\r\n", 0, "");
}

static void test_without_a_body(void **state)
{
	(void)state;
	expect_head("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 200,
		    "Content-Length: 9\r\n", 9, "");
	expect_head("HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200,
		    "Transfer-Encoding: chunked\r\n", -1, "");
	expect_head("HEAD", "HTTP/1.1 200 OK\r\n\r\n", 200, "", -1, "");
	expect_head("GET", "HTTP/1.1 204 No\r\n\r\n", 204, "", -1, "");
	expect_head("GET", "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", 304,
		    "Content-Length: 9\r\n", 9, "");
}

/* The connection stays open, so only the framing can end these. */
static void test_bodiless_does_not_wait(void **state)
{
	struct call *call =
		reply_to("HEAD", serve_always, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");

	(void)state;
	call_expect(call, FAULT_NONE, 200, true);
	assert_false(call->attempt.close_delimited);
	call_free(call_simple(call->fixture, "HEAD", "/"));
	assert_int_equal(atomic_load(&call->fixture->server.connections), 1);
	finish(call);

	call = reply_to("GET", serve_always, "HTTP/1.1 204 No Content\r\n\r\n");
	call_expect(call, FAULT_NONE, 204, true);
	assert_false(call->attempt.close_delimited);
	finish(call);
}

static void test_close_delimited(void **state)
{
	struct call *call = reply_to("GET", serve_once, "HTTP/1.1 200 OK\r\n\r\nabc");

	(void)state;
	call_expect(call, FAULT_NONE, 200, true);
	assert_true(call->attempt.close_delimited);
	assert_int_equal(call->attempt.content_length, -1);
	assert_string_equal(call->body, "abc");
	finish(call);
}

static void test_interim_replies(void **state)
{
	struct call *call = reply_to("POST", serve_always,
				     "HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n"
				     "HTTP/1.1 102 Processing\r\n\r\n"
				     "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
				     "HTTP/1.1 201 Made\r\nY: 2\r\nContent-Length: 1\r\n\r\nz");

	(void)state;
	call_expect(call, FAULT_NONE, 201, true);
	assert_int_equal(call->heads, 1);
	assert_memory_equal(call->attempt.head, "Y: 2\r\nContent-Length: 1\r\n",
			    call->attempt.head_len);
	assert_string_equal(call->body, "z");
	call_free(call_simple(call->fixture, "GET", "/"));
	assert_int_equal(atomic_load(&call->fixture->server.connections), 1);
	finish(call);

	expect_fault(serve_once, "HTTP/1.1 100 Continue\r\n\r\n", FAULT_CLOSED, 0);
	expect_fault(serve_once, "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nxx", FAULT_PROTOCOL,
		     0);
}

static void test_cut_replies(void **state)
{
	(void)state;
	expect_fault(serve_once, "", FAULT_CLOSED, 0);
	expect_fault(serve_reset, "", FAULT_RESET, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", FAULT_CUT, 200);
	expect_fault(serve_reset, "HTTP/1.1 201 OK\r\nContent-Length: 5\r\n\r\nabc", FAULT_CUT,
		     201);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", FAULT_CUT, 200);
	expect_fault(serve_once, "HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n", FAULT_CUT,
		     400);
	expect_fault(serve_once,
		     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", FAULT_CUT,
		     200);
	expect_fault(serve_once,
		     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
		     FAULT_CUT, 200);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		     FAULT_CUT, 200);
	/* Inside the head. */
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", FAULT_CUT, 200);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nConte", FAULT_CUT, 200);
	expect_fault(serve_reset, "HTTP/1.1 200 OK\r\nConte", FAULT_CUT, 200);
}

static void test_cut_reply_is_told_first(void **state)
{
	struct call *call =
		reply_to("GET", serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");

	(void)state;
	call_expect(call, FAULT_CUT, 200, true);
	assert_int_equal(call->heads, 1);
	assert_string_equal(call->body, "abc");
	assert_non_null(call->attempt.head);
	finish(call);
}

static void test_broken_replies(void **state)
{
	(void)state;
	expect_fault(serve_once, "garbage\r\n\r\n", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "<html>hello</html>", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/2 200 OK\r\n\r\n", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 20x OK\r\n\r\n", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 099 OK\r\n\r\n", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\n: x\r\n\r\n", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", FAULT_PROTOCOL, 0);
	expect_fault(serve_once,
		     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nzz",
		     FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nzz",
		     FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\t2\r\n\r\nzz",
		     FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nz", FAULT_PROTOCOL,
		     0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nz", FAULT_PROTOCOL,
		     0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nz", FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nz",
		     FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nz", FAULT_PROTOCOL,
		     0);
	expect_fault(serve_once,
		     "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "0\r\n\r\n",
		     FAULT_PROTOCOL, 0);
	expect_fault(serve_once,
		     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		     FAULT_PROTOCOL, 0);
	expect_fault(serve_once,
		     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
		     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		     FAULT_PROTOCOL, 0);
	expect_fault(serve_once, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		     FAULT_PROTOCOL, 0);
}

static char *head_of(size_t lines, size_t each)
{
	size_t len = lines * (each + 5) + 100;
	char *text = calloc(1, len), *at = text;

	assert_non_null(text);
	at += snprintf(at, len, "HTTP/1.1 202 OK\r\nContent-Length: 0\r\n");
	for (size_t i = 0; i < lines; i++) {
		memcpy(at, "X: ", 3);
		memset(at + 3, 'x', each);
		memcpy(at + 3 + each, "\r\n", 2);
		at += each + 5;
	}
	memcpy(at, "\r\n", 3);
	return text;
}

static void test_head_bound(void **state)
{
	/* "HTTP/1.1 202 OK", "Content-Length: 0" and the empty line are 38 bytes. */
	static const struct {
		size_t lines, each;
		enum fault fault;
	} cases[] = {
		{1, UPSTREAM_HEAD_MAX - 38 - 5, FAULT_NONE},
		{1, UPSTREAM_HEAD_MAX - 38 - 4, FAULT_HEAD_TOO_LARGE},
		{1000, 40, FAULT_HEAD_TOO_LARGE},
		{1, 90000, FAULT_HEAD_TOO_LARGE},
		{1, 300000, FAULT_HEAD_TOO_LARGE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *script = head_of(cases[i].lines, cases[i].each);
		struct call *call = reply_to("POST", serve_and_wait, script);

		call_expect(call, cases[i].fault, 202, true);
		assert_int_equal(call->heads, cases[i].fault == FAULT_NONE);
		finish(call);
		free(script);
	}
}

static void serve_interim_for_ever(struct connection *connection)
{
	hear_request(connection);
	for (int i = 0; i < 10000; i++)
		say(connection, "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n");
}

static void test_interim_bound(void **state)
{
	(void)state;
	expect_fault(serve_interim_for_ever, NULL, FAULT_PROTOCOL, 0);
}

/* --- back-pressure ------------------------------------------------------------------------------ */

#define LARGE ((size_t)1 << 20)

static void serve_large(struct connection *connection)
{
	bool chunked = strstr(connection->server->script, "chunked") != NULL;
	char *text = malloc(LARGE);

	for (size_t i = 0; i < LARGE; i++)
		text[i] = (char)('a' + i % 23);
	hear_request(connection);
	say(connection, connection->server->script);
	if (chunked)
		say(connection, "100000\r\n");
	say_bytes(connection, text, LARGE);
	if (chunked)
		say(connection, "\r\n0\r\n\r\n");
	free(text);
}

static void expect_paused(const char *script)
{
	struct fixture *fixture = fixture_new(serve_large, script);
	struct call *call = call_new(fixture, "GET", "/");

	fixture->provider.policy.attempt_idle = 100 * USEC_MS;
	call->attempt.buffer_max = 20000;
	call->leave = true;
	call_start(call);
	RUN_UNTIL(fixture, call->attempt.buffer_len >= 20000);
	/* Longer than attempt.idle: it does not count while the buffer is full. No spinning. */
	assert_true(run_for(fixture, 300 * USEC_MS) < 50);
	assert_int_equal(call->dones, 0);
	assert_true(call->attempt.buffer_len < 20000 + 16384 + 1);
	call->leave = false;
	call_take(call);
	call_wait(call);
	call_expect(call, FAULT_NONE, 200, true);
	assert_true(call->body_max < 20000 + 16384 + 1);
	assert_int_equal(call->body_len, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(call->body[i], 'a' + i % 23);
	finish(call);
}

static void test_pause_and_resume(void **state)
{
	(void)state;
	expect_paused("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n");
	expect_paused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	expect_paused("HTTP/1.1 200 OK\r\n\r\n");
}

/* All of a small reply is in libcurl when it is paused, and the connection is closed: nothing is
 * lost, and nothing is called complete before it was handed over. */
static void expect_paused_at_the_end(const char *script, enum fault fault)
{
	struct fixture *fixture = fixture_new(serve_once, script);
	struct call *call = call_new(fixture, "GET", "/");

	call->attempt.buffer_max = 0;
	call_start(call);
	RUN_UNTIL(fixture, call->heads > 0);
	run_for(fixture, 20 * USEC_MS);
	assert_int_equal(call->dones, 0);
	call->attempt.buffer_max = 100;
	attempt_consume(&call->attempt, 0);
	call_wait(call);
	call_expect(call, fault, 200, true);
	assert_string_equal(call->body, "abc");
	finish(call);
}

static void test_paused_at_the_end(void **state)
{
	(void)state;
	expect_paused_at_the_end("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", FAULT_NONE);
	expect_paused_at_the_end("HTTP/1.1 200 OK\r\n\r\nabc", FAULT_NONE);
	expect_paused_at_the_end(
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		FAULT_NONE);
	expect_paused_at_the_end("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", FAULT_CUT);
	expect_paused_at_the_end(
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", FAULT_CUT);
}

static void test_pieces_are_kept(void **state)
{
	struct call *call;
	struct fixture *fixture =
		fixture_new(serve_once, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde");

	(void)state;
	call = call_new(fixture, "GET", "/");
	call->leave = true;
	call_run(call);
	call_expect(call, FAULT_NONE, 200, true);
	assert_int_equal(call->attempt.buffer_len, 5);
	attempt_consume(&call->attempt, 2);
	assert_int_equal(call->attempt.buffer_len, 3);
	assert_memory_equal(call->attempt.buffer, "cde", 3);
	finish(call);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_without_a_body),
		cmocka_unit_test(test_bodiless_does_not_wait),
		cmocka_unit_test(test_close_delimited),
		cmocka_unit_test(test_interim_replies),
		cmocka_unit_test(test_cut_replies),
		cmocka_unit_test(test_cut_reply_is_told_first),
		cmocka_unit_test(test_broken_replies),
		cmocka_unit_test(test_head_bound),
		cmocka_unit_test(test_interim_bound),
		cmocka_unit_test(test_pause_and_resume),
		cmocka_unit_test(test_paused_at_the_end),
		cmocka_unit_test(test_pieces_are_kept),
	};

	return cmocka_run_group_tests(tests, fixture_warm, NULL);
}
