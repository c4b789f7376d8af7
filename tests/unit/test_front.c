/* Requests, bodies and answers through the front. */
#include "front_rig.h"

/* --- requests and answers ------------------------------------------------------------------- */

static void test_plain(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);
	struct reply reply;

	say(rig, fd, "GET /pay/a%2fb/../c?x=%0d&y HTTP/1.1\r\nHost: h\r\nX-A: b \r\n\r\n");
	reply = read_reply(rig, fd);
	assert_int_equal(reply.status, 200);
	assert_string_equal(reply.body, "ok");
	assert_string_equal(header(&reply, "X-Answer"), "yes");
	assert_non_null(header(&reply, "Date"));
	assert_string_equal(rig->method, "GET");
	assert_string_equal(rig->target, "/pay/a%2fb/../c?x=%0d&y");
	assert_string_equal(rig->rest, "/a%2fb/../c?x=%0d&y");
	assert_string_equal(rig->provider, "pay");
	free(reply.text);
	/* the connection lives on */
	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
	expect_status(rig, fd, 200);
	assert_string_equal(rig->content, "hello");
	assert_string_equal(rig->rest, "/");
	assert_int_equal(rig->started, 2);
	assert_int_equal(front_busy(rig->front), 0);
	close(fd);
}

static void test_pipelined(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);
	struct reply reply;

	say(rig, fd,
	    "POST /pay/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
	    "GET /pay/2 HTTP/1.1\r\nHost: h\r\n\r\n"
	    "GET /pay/3 HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"
	    "GET /pay/4 HTTP/1.1\r\nHost: h\r\n\r\n");
	expect_status(rig, fd, 200);
	expect_status(rig, fd, 200);
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.status, 400);
	assert_null(strstr(reply.body, "HTTP/1.1"));
	assert_int_equal(rig->started, 2);
	assert_string_equal(rig->target, "/pay/2");
	free(reply.text);
	close(fd);
}

static void test_routes(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig), own = connect_port(rig->own_port);

	say(rig, fd, "GET /x HTTP/1.1\r\nHost: HOST.test:80\r\n\r\n");
	expect_status(rig, fd, 200);
	assert_string_equal(rig->provider, "host");
	say(rig, own, "GET /pay/x HTTP/1.1\r\nHost: h\r\n\r\n");
	expect_status(rig, own, 200);
	assert_string_equal(rig->provider, "own");
	say(rig, fd, "GET /payments HTTP/1.1\r\nHost: h\r\n\r\n");
	expect_status(rig, fd, 404);
	assert_int_equal(rig->started, 2);
	close(fd);
	close(own);
}

static void test_bodies(void **state)
{
	struct rig *rig = *state;
	char *body = malloc(100000);
	char head[128], size[32];
	int fd = dial(rig);

	for (int i = 0; i < 100000; i++)
		body[i] = (char)('a' + i % 23);
	snprintf(head, sizeof(head),
		 "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
	say(rig, fd, head);
	assert_true(send_all(rig, fd, body, 100000));
	expect_status(rig, fd, 200);
	assert_int_equal(rig->content_len, 100000);
	assert_memory_equal(rig->content, body, 100000);

	say(rig, fd, "PUT /pay HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n");
	for (int at = 0; at < 100000; at += 20000) {
		snprintf(size, sizeof(size), "%x" CHUNK_EXTENSION "\r\n", 20000);
		say(rig, fd, size);
		assert_true(send_all(rig, fd, body + at, 20000));
		say(rig, fd, "\r\n");
	}
	say(rig, fd, "0\r\nX-Trailer: 1\r\n\r\n");
	expect_status(rig, fd, 200);
	assert_int_equal(rig->content_len, 100000);
	assert_memory_equal(rig->content, body, 100000);
	assert_int_equal(rig->app.replay_used, 0);
	free(body);
	close(fd);
}

/* --- answers -------------------------------------------------------------------------------- */

static void test_answer_later(void **state)
{
	struct rig *rig = *state;
	struct front_request *request;
	struct front_answer answer = answer_of(rig, 207);
	struct reply reply;
	int fd = dial(rig);

	request = hold(rig, fd, GET);
	turn_for(rig, 60 * USEC_MS); /* long enough to be watched */
	assert_int_equal(front_busy(rig->front), 1);
	assert_true(has_nothing(fd));
	headers_add_text(&rig->headers, "Set-Cookie", "a=1");
	headers_add_text(&rig->headers, "X-Mid", "");
	headers_add_text(&rig->headers, "Set-Cookie", "b=2");
	headers_add_text(&rig->headers, "Date", "Wed, 21 Oct 2015 07:28:00 GMT");
	answer.reply = ledger_reply_new(207, NULL, 0, strdup("kept"), 4);
	front_request_answer(request, &answer);
	ledger_reply_unref(answer.reply);
	reply = read_reply(rig, fd);
	assert_int_equal(reply.status, 207);
	assert_string_equal(reply.body, "kept");
	assert_non_null(strstr(reply.text, "Set-Cookie: a=1\r\nX-Mid:"));
	assert_non_null(strstr(reply.text, "\r\nSet-Cookie: b=2\r\n"));
	assert_string_equal(header(&reply, "X-Mid"), "");
	assert_string_equal(header(&reply, "Date"), "Wed, 21 Oct 2015 07:28:00 GMT");
	assert_null(strstr(strstr(reply.text, "Date:") + 1, "Date:"));
	assert_null(header(&reply, "Connection"));
	free(reply.text);
	assert_int_equal(rig->written, 1);
	assert_int_equal(rig->gone + rig->half, 0);
	assert_int_equal(front_busy(rig->front), 1);
	release_all(rig);
	assert_int_equal(front_busy(rig->front), 0);
	/* and on the same connection again, answered before it is watched, and closed by wish */
	request = hold(rig, fd, GET);
	answer.status = 200;
	answer.reply = NULL;
	answer.close = true;
	front_request_answer(request, &answer);
	reply = read_to_end(rig, fd);
	assert_string_equal(header(&reply, "Connection"), "close");
	assert_string_equal(header(&reply, "Content-Length"), "0");
	free(reply.text);
	close(fd);
}

static void check_bare(struct rig *rig, const char *request, struct front_answer answer,
		       const char *length)
{
	int fd = dial(rig);
	struct reply reply;
	const char *found;

	front_request_answer(hold(rig, fd, request), &answer);
	reply = read_reply_of(rig, fd, true);
	assert_int_equal(reply.status, answer.status);
	found = header(&reply, "Content-Length");
	if (length == NULL)
		assert_null(found);
	else
		assert_string_equal(found, length);
	assert_null(header(&reply, "Transfer-Encoding"));
	assert_int_equal(reply.body_len, 0);
	turn_for(rig, 5 * USEC_MS);
	if (header(&reply, "Connection") != NULL)
		expect_end(rig, fd);
	else
		assert_true(has_nothing(fd));
	free(reply.text);
	release_all(rig);
	close(fd);
}

static void test_bare(void **state)
{
	struct rig *rig = *state;
	struct front_answer answer = answer_of(rig, 200);

	check_bare(rig, HEAD, answer, NULL);
	answer.head_length = 12345;
	check_bare(rig, HEAD, answer, "12345");
	answer.head_length = 0;
	check_bare(rig, HEAD, answer, "0");
	answer.head_length = -1;
	answer.text = strdup("twelve bytes");
	answer.text_len = 12;
	check_bare(rig, HEAD, answer, "12");
	answer.text = NULL;
	answer.status = 204;
	check_bare(rig, GET, answer, NULL);
	check_bare(rig, HEAD, answer, NULL);
	answer.status = 304;
	check_bare(rig, GET, answer, NULL);
	answer.head_length = 77;
	check_bare(rig, GET, answer, "77");
	assert_int_equal(rig->gone, 0);
}

static void test_answer_head_too_large(void **state)
{
	struct rig *rig = *state;
	char *value = malloc(60001);
	struct reply reply;
	int fd = dial(rig);

	memset(value, 'v', 60000);
	value[32000] = '\0';
	headers_add_text(&rig->headers, "X-Long", value);
	answer_text(hold(rig, fd, GET), 200, "fits");
	reply = read_reply(rig, fd);
	assert_string_equal(reply.body, "fits");
	free(reply.text);
	value[32000] = 'v';
	value[60000] = '\0';
	headers_add_text(&rig->headers, "X-Longer", value);
	answer_text(hold(rig, fd, GET), 200, "does not");
	reply = read_reply(rig, fd);
	assert_int_equal(reply.status, 502);
	assert_non_null(strstr(reply.body, "response-head-too-large"));
	free(reply.text);
	free(value);
	close(fd);
}

static void test_stream(void **state)
{
	struct rig *rig = *state;
	struct front_request *request;
	struct reply reply = {.text = calloc(1, 1)};
	char byte;
	int fd = dial(rig);

	/* the head comes at once, and each piece as it is there */
	request = hold(rig, fd, GET);
	pull_from(rig, "", 0, 0);
	answer_stream(request, -1);
	while (reply.head_len == 0) {
		assert_int_equal(receive(rig, fd, &byte, 1), 1);
		add(&reply, &byte, 1);
	}
	assert_string_equal(header(&reply, "Transfer-Encoding"), "chunked");
	pull_from(rig, "event 1", 7, 0);
	front_stream_ready(request);
	while (strstr(reply.text, "event 1\r\n") == NULL) {
		assert_int_equal(receive(rig, fd, &byte, 1), 1);
		add(&reply, &byte, 1);
	}
	turn_for(rig, 60 * USEC_MS);
	assert_true(has_nothing(fd));
	pull_from(rig, "event 2", 7, -1);
	front_stream_ready(request);
	while (!whole(&reply, false)) {
		assert_int_equal(receive(rig, fd, &byte, 1), 1);
		add(&reply, &byte, 1);
	}
	assert_string_equal(reply.body, "7\r\nevent 1\r\n7\r\nevent 2\r\n0\r\n\r\n");
	free(reply.text);
	await(rig, &rig->written, 1);
	release_all(rig);
	rig->plan = PLAN_ANSWER;
	say(rig, fd, GET);
	expect_status(rig, fd, 200);
	close(fd);
}

static void test_stream_large(void **state)
{
	struct rig *rig = *state;
	size_t len = 5 << 20;
	char *data = malloc(len);
	struct reply reply;
	int fd = dial(rig), pulls;

	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 31 >> 3);
	/* with a length: the end is still asked for, when the last byte is out */
	pull_from(rig, data, len, 0);
	answer_stream(hold(rig, fd, GET), (int64_t)len);
	reply = read_reply_of(rig, fd, true);
	assert_string_equal(header(&reply, "Content-Length"), "5242880");
	free(reply.text);
	for (size_t at = 0; at < len;) {
		char buffer[65536];
		ssize_t n = receive(rig, fd, buffer, sizeof(buffer));

		assert_true(n > 0);
		assert_memory_equal(buffer, data + at, (size_t)n);
		at += (size_t)n;
	}
	await(rig, &rig->written, 1);
	rig->pull_then = -1;
	pulls = rig->pulls;
	front_stream_ready(rig->held[0]);
	assert_int_equal(rig->pulls, pulls + 1);
	front_stream_ready(rig->held[0]);
	assert_int_equal(rig->pulls, pulls + 1);
	release_all(rig);
	/* without one, to a caller that reads slowly and goes away */
	pull_from(rig, data, len, 0);
	answer_stream(hold(rig, fd, GET), -1);
	turn_for(rig, 30 * USEC_MS);
	assert_true(rig->pull_at < len);
	close(fd);
	await(rig, &rig->gone, 1);
	assert_int_equal(rig->written, 1);
	free(data);
}

/* A cut must never look like an end. */
static void test_stream_cut(void **state)
{
	struct rig *rig = *state;
	struct reply reply;
	int fd = dial(rig);

	pull_from(rig, "abc", 3, -2);
	answer_stream(hold(rig, fd, GET), -1);
	reply = read_to_end(rig, fd);
	assert_string_equal(reply.body, "3\r\nabc\r\n");
	free(reply.text);
	close(fd);
	await(rig, &rig->gone, 1);
	/* short of its length, whatever the owner calls it */
	fd = dial(rig);
	pull_from(rig, "abc", 3, -1);
	answer_stream(hold(rig, fd, GET), 10);
	reply = read_to_end(rig, fd);
	assert_string_equal(reply.body, "abc");
	assert_string_equal(header(&reply, "Content-Length"), "10");
	free(reply.text);
	close(fd);
	await(rig, &rig->gone, 2);
	/* where the connection's end is the body's: whole, then cut, which must be a reset */
	fd = dial(rig);
	pull_from(rig, "abc", 3, -1);
	answer_stream(hold(rig, fd, "GET /pay HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), -1);
	reply = read_to_end(rig, fd);
	assert_string_equal(reply.body, "abc");
	assert_false(reply.reset);
	free(reply.text);
	close(fd);
	fd = dial(rig);
	pull_from(rig, "abc", 3, 0);
	answer_stream(hold(rig, fd, "GET /pay HTTP/1.0\r\n\r\n"), -1);
	turn_for(rig, 2 * USEC_MS);
	rig->pull_then = -2;
	front_stream_ready(rig->held[rig->held_count - 1]);
	reply = read_to_end(rig, fd);
	assert_true(reply.reset);
	free(reply.text);
	close(fd);
	/* released before its end */
	fd = dial(rig);
	pull_from(rig, "abc", 3, 0);
	answer_stream(hold(rig, fd, GET), -1);
	turn_for(rig, 2 * USEC_MS);
	release_all(rig);
	reply = read_to_end(rig, fd);
	assert_string_equal(reply.body, "3\r\nabc\r\n");
	free(reply.text);
	close(fd);
}

/* Released without an answer: the connection ends without one. */
static void test_released(void **state)
{
	struct rig *rig = *state;
	struct reply reply;
	int fd = dial(rig);

	hold(rig, fd, GET);
	release_all(rig);
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.len, 0);
	free(reply.text);
	assert_int_equal(front_busy(rig->front), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_plain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pipelined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_routes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bodies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_answer_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bare, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_answer_head_too_large, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stream, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stream_large, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stream_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_released, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
