/* Request bodies: expectations, limits, streaming. */
#include "front_rig.h"

/* --- bodies that are too large, expectations ------------------------------------------------ */

static void test_expect(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);
	struct reply reply;

	say(rig, fd,
	    "POST /pay HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
	reply = read_reply(rig, fd);
	assert_int_equal(reply.status, 100);
	free(reply.text);
	assert_int_equal(rig->started, 0);
	say(rig, fd, "ab");
	expect_status(rig, fd, 200);
	assert_string_equal(rig->content, "ab");
	/* too large: the final answer instead of 100 */
	say(rig, fd,
	    "POST /pay HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
	    "Content-Length: 100001\r\n\r\n");
	expect_status(rig, fd, 413);
	expect_end(rig, fd);
	close(fd);
	/* refused before the body */
	fd = dial(rig);
	say(rig, fd,
	    "POST /nobody HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
	    "Content-Length: 10\r\n\r\n");
	expect_status(rig, fd, 404);
	expect_end(rig, fd);
	assert_int_equal(rig->started, 1);
	close(fd);
}

static bool send_chunks(struct rig *rig, int fd, int count, int size)
{
	char *chunk = malloc((size_t)size + 32);
	bool sent = true;

	for (int i = 0; i < count && sent; i++) {
		int len = snprintf(chunk, 32, "%x\r\n", (unsigned int)size);

		memset(chunk + len, 'c', (size_t)size);
		chunk[len + size] = '\r';
		chunk[len + size + 1] = '\n';
		sent = send_all(rig, fd, chunk, (size_t)(len + size + 2));
	}
	free(chunk);
	return sent;
}

static void test_too_large(void **state)
{
	static char body[120001];
	struct rig *rig = *state;
	struct reply reply;
	int fd = dial(rig);

	memset(body, 'b', sizeof(body) - 1);
	rig->configs[0].body_drain = 200000;
	/* declared, and short enough to be thrown away: the answer comes at its end */
	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 120000\r\n\r\n");
	say(rig, fd, body);
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.status, 413);
	assert_non_null(strstr(reply.body, "body-too-large"));
	free(reply.text);
	close(fd);
	/* not declared */
	fd = dial(rig);
	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
	assert_true(send_chunks(rig, fd, 12, 10000));
	say(rig, fd, "0\r\n\r\n");
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.status, 413);
	free(reply.text);
	close(fd);
	/* more than body.drain: declared it is answered at once, and read on for a moment */
	rig->configs[0].body_drain = 130000;
	fd = dial(rig);
	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 140000\r\n\r\n");
	say(rig, fd, body);
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.status, 413);
	assert_false(reply.reset);
	free(reply.text);
	close(fd);
	/* undeclared the connection ends */
	rig->configs[0].body_drain = 20000;
	fd = dial(rig);
	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
	send_chunks(rig, fd, 20, 10000);
	expect_end(rig, fd);
	close(fd);
	assert_int_equal(rig->started, 0);
	turn_for(rig, 10 * USEC_MS);
	assert_int_equal(front_busy(rig->front), 0);
}

static void test_no_room_for_body(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);
	struct reply reply;

	rig->providers[0].limits.memory = 10;
	rig->providers[0].limits.temp_dir = "/nonexistent";
	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n0123456789");
	say(rig, fd, "0123456789");
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.status, 503);
	assert_non_null(strstr(reply.body, "urn:stint:not-sent"));
	assert_non_null(header(&reply, "Retry-After"));
	assert_int_equal(rig->started, 0);
	free(reply.text);
	close(fd);
}

static void test_broken_off(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);

	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n0123");
	turn_for(rig, 5 * USEC_MS);
	assert_int_equal(front_busy(rig->front), 1);
	close(fd);
	turn_for(rig, 5 * USEC_MS);
	assert_int_equal(front_busy(rig->front), 0);
	assert_int_equal(rig->started + rig->gone, 0);
}

static void test_streamed(void **state)
{
	struct rig *rig = *state;
	const size_t len = 8 << 20;
	struct front_request *request;
	size_t sent, total = 0;
	int fd = dial(rig);
	char head[128];
	usec_t end = clock_boot() + PATIENCE;
	ssize_t n;

	rig->plan = PLAN_HOLD;
	snprintf(head, sizeof(head), "POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
		 len);
	say(rig, fd, head);
	sent = send_until_stuck(rig, fd, 0, len);
	/* back-pressure: most of it is still with the caller */
	assert_true(sent < len);
	assert_int_equal(rig->started, 1);
	assert_true(rig->streamed);
	assert_int_equal(rig->content_len, 100000);
	request = rig->held[0];
	assert_int_equal(request->content_length, len);
	while (total < len) {
		assert_true(clock_boot() < end);
		n = read_some(request, &total);
		assert_true(n == -EAGAIN || (n == 0 && total == len));
		sent += send_until_stuck(rig, fd, sent, len - sent);
		turn(rig);
	}
	n = read_some(request, &total);
	if (n == -EAGAIN) {
		await(rig, &rig->body, rig->body + 1);
		n = read_some(request, &total);
	}
	assert_int_equal(n, 0);
	assert_int_equal(total, len);
	answer_text(request, 200, "done");
	expect_status(rig, fd, 200);
	assert_int_equal(rig->written, 1);
	release_all(rig);
	/* the connection is still good */
	rig->plan = PLAN_ANSWER;
	say(rig, fd, "GET /pay HTTP/1.1\r\nHost: h\r\n\r\n");
	expect_status(rig, fd, 200);
	close(fd);
}

static void test_streamed_broken(void **state)
{
	struct rig *rig = *state;
	size_t total = 0;
	int fd = dial(rig);

	rig->plan = PLAN_HOLD;
	say(rig, fd, "POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n");
	send_until_stuck(rig, fd, 0, 150000);
	assert_int_equal(read_some(rig->held[0], &total), -EAGAIN);
	assert_int_equal(total, 150000);
	close(fd);
	await(rig, &rig->body, 1);
	await(rig, &rig->gone, 1);
	assert_int_equal(read_some(rig->held[0], &total), -ECONNRESET);
	answer_text(rig->held[0], 200, "late");
	assert_int_equal(rig->written, 0);
}

/* A caller that resets while its upload is suspended. */
static void test_streamed_reset(void **state)
{
	const struct linger hard = {1, 0};
	struct rig *rig = *state;
	int fd = dial(rig);

	rig->plan = PLAN_HOLD;
	say(rig, fd, "POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 99000000\r\n\r\n");
	send_until_stuck(rig, fd, 0, 99000000);
	assert_int_equal(rig->started, 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(fd);
	await(rig, &rig->gone, 1);
	assert_int_equal(rig->half, 0);
}

static void test_streamed_answered_early(void **state)
{
	struct rig *rig = *state;
	struct reply reply;
	int fd = dial(rig);

	rig->plan = PLAN_HOLD;
	say(rig, fd, "POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 260000\r\n\r\n");
	send_until_stuck(rig, fd, 0, 240000);
	rig->configs[1].body_drain = 200000;
	answer_text(rig->held[0], 401, "no");
	release_all(rig);
	send_until_stuck(rig, fd, 240000, 20000);
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.status, 401);
	assert_string_equal(header(&reply, "Connection"), "close");
	free(reply.text);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_expect, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_large, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_room_for_body, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_broken_off, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_streamed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_streamed_broken, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_streamed_reset, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_streamed_answered_early, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
