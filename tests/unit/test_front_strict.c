/* What the front refuses before anything is done for it, and what it must not refuse. */
#include "front_rig.h"

/* --- strictness ----------------------------------------------------------------------------- */

struct bad {
	int status;
	const char *problem; /* NULL: the library's own answer */
	const char *text;
	size_t len; /* 0: strlen() */
};

#define H "Host: h\r\n"
#define NUL_IN(text) text, sizeof(text) - 1

static const struct bad bad_requests[] = {
	{400, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 0},
	{400, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 0},
	{400, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 0},
	{400, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 0},
	{400, NULL, "POST /pay HTTP/1.1\r\n" H "Content-Length: +3\r\n\r\nabc", 0},
	{400, NULL, "POST /pay HTTP/1.1\r\n" H "Content-Length: 3, 3\r\n\r\nabc", 0},
	{400, NULL, "POST /pay HTTP/1.1\r\n" H "Content-Length: 0x3\r\n\r\nabc", 0},
	{400, NULL, "POST /pay HTTP/1.1\r\n" H "Content-Length:\r\n\r\nabc", 0},
	{501, "bad-request", "POST /pay HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\n", 0},
	{501, "bad-request", "POST /pay HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n",
	 0},
	{501, "bad-request", "POST /pay HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n", 0},
	{400, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n", 0},
	{400, "bad-request", "POST /pay HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n", 0},
	{400, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H
	 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	 0},
	{400, "bad-request",
	 "POST /pay HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0},
	{400, "bad-request", "POST /pay HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n", 0},
	{400, "bad-request", "POST /pay HTTP/1.1\r\n" H "Content-Length : 3\r\n\r\nabc", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H H "\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\nHost: a b\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\nHost:\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\nHost: u@h\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\nHost: h/x\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\nHost: h:x\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\nHost: h, g\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X y: 1\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H ": 1\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X\xc3\xa4: 1\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-A: 1\r\n folded\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-A: 1\r\n\tfolded\r\nX-B: 2\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-A: 1\r\n \r\nX-B: 2\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "A:\r\n b\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "A:     v\r\n b\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n " H "\r\n", 0},
	{400, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H "Idempotency-Key: a\r\n b\r\nContent-Length: 0\r\n\r\n", 0},
	{400, "bad-request", "POST /pay HTTP/1.1\r\n" H "Content-Length: 3\r\n 4\r\n\r\nabc", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-A: 1\nX-B: 2\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\n" H "X-B: 2\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-B: 2\r\n\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-A: 1\rX-B: 2\r\n\r\n", 0},
	{400, "bad-request", NUL_IN("GET /pay HTTP/1.1\r\n" H "X-A: 1\0002\r\n\r\n")},
	{400, "bad-request", NUL_IN("GET /pay HTTP/1.1\r\n" H "X-A: 1\0\r\nX-B: 2\r\n\r\n")},
	{400, "bad-request", NUL_IN("GET /pay HTTP/1.1\r\n" H "X-A: \0\r\n\r\n")},
	{400, "bad-request", NUL_IN("GET /p\0ay HTTP/1.1\r\n" H "\r\n")},
	{400, "bad-request", NUL_IN("G\0ET /pay HTTP/1.1\r\n" H "\r\n")},
	{400, NULL, NUL_IN("GET /pay HTTP/1.1\r\n" H "X\0-A: 1\r\n\r\n")},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-A: \x01\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "X-A: \x7f\r\n\r\n", 0},
	{400, NULL, "GET /pay HTTP/1.1\r\n" H "no colon\r\n\r\n", 0},
	{400, "bad-request", "GET http://h/pay HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET pay HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET h:80 HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET * HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET /pay/a b HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET /pay/#a HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET /pay/\x01 HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET  /pay HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "GET /pay  HTTP/1.1\r\n" H "\r\n", 0},
	{400, "bad-request", "G@T /pay HTTP/1.1\r\n" H "\r\n", 0},
	{501, "bad-request", "ABCDEFGHIJKLMNOPQRSTUVWX /pay HTTP/1.1\r\n" H "\r\n", 0},
	{501, "bad-request", "CONNECT h:80 HTTP/1.1\r\n" H "\r\n", 0},
	{417, "bad-request",
	 "POST /pay HTTP/1.1\r\n" H "Expect: 200-ok\r\nContent-Length: 1\r\n\r\n", 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "Connection: close, authorization\r\n\r\n",
	 0},
	{400, "bad-request", "GET /pay HTTP/1.1\r\n" H "Connection: host\r\n\r\n", 0},
	{400, "hint-invalid", "GET /pay HTTP/1.1\r\n" H "Stint-Attempts: 0\r\n\r\n", 0},
	{400, "hint-invalid", "GET /pay HTTP/1.1\r\n" H "Stint-Deadline: x\r\n\r\n", 0},
	{404, "no-route", "GET /nobody HTTP/1.1\r\n" H "\r\n", 0},
	{413, "body-too-large", "POST /pay HTTP/1.1\r\n" H "Content-Length: 99999999999\r\n\r\n",
	 0},
	{413, "body-too-large",
	 "POST /pay HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n\r\n", 0},
	{505, NULL, "GET /pay HTTP/2.0\r\n" H "\r\n", 0},
};

/* 1.0 closes without a word where NUL is in the target, and calls an unknown coding a bad request. */
static bool is_refused(const struct bad *bad, const struct reply *reply)
{
	return reply->status == bad->status ||
	       (!OWN_ANSWERS && (reply->status == 0 || reply->status == 400));
}

static void check_bad(struct rig *rig, const struct bad *bad)
{
	size_t len = bad->len > 0 ? bad->len : strlen(bad->text);
	int fd = dial(rig);
	struct reply reply;
	char type[64];
	bool own, refused;

	rig->started = 0;
	assert_true(send_all(rig, fd, bad->text, len));
	reply = read_to_end(rig, fd);
	snprintf(type, sizeof(type), "\"urn:stint:%s\"", bad->problem != NULL ? bad->problem : "");
	own = bad->problem != NULL && (OWN_ANSWERS || strstr(reply.body, type) != NULL);
	refused = is_refused(bad, &reply);
	if (!refused || rig->started != 0 || (own && strstr(reply.body, type) == NULL))
		fail_msg("%s-> %s", bad->text, reply.text);
	if (own) {
		assert_string_equal(header(&reply, "Content-Type"), "application/problem+json");
		assert_string_equal(header(&reply, "Connection"), "close");
		assert_string_equal(header(&reply, "Stint"), "made");
		/* one answer, and nothing after it */
		assert_int_equal(reply.body_len,
				 strtoul(header(&reply, "Content-Length"), NULL, 10));
	}
	free(reply.text);
	close(fd);
}

static void test_strict(void **state)
{
	struct rig *rig = *state;

	for (size_t i = 0; i < sizeof(bad_requests) / sizeof(bad_requests[0]); i++)
		check_bad(rig, &bad_requests[i]);
	assert_int_equal(front_busy(rig->front), 0);
}

/* The same, a byte at a time: the library's memory grows under its way. */
static void test_strict_in_pieces(void **state)
{
	struct rig *rig = *state;

	for (size_t i = 0; i < sizeof(bad_requests) / sizeof(bad_requests[0]); i += 7) {
		const struct bad *bad = &bad_requests[i];
		size_t len = bad->len > 0 ? bad->len : strlen(bad->text);
		int fd = dial(rig);
		struct reply reply;

		for (size_t at = 0; at < len; at++) {
			if (!send_all(rig, fd, bad->text + at, 1))
				break;
			turn(rig);
		}
		reply = read_to_end(rig, fd);
		if (!is_refused(bad, &reply))
			fail_msg("%s-> %s", bad->text, reply.text);
		free(reply.text);
		close(fd);
	}
	assert_int_equal(rig->started, 0);
}

static void test_fine(void **state)
{
	static const char *const fine[] = {
		"GET /pay HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		"GET /pay HTTP/1.1\r\nhOST:h\r\nX-Empty:\r\nX-Tab:\ta\tb\t\r\nX-U: "
		"\xc3\xa4\r\n\r\n",
		"GET /pay/@h//x?a=b&&c=;d HTTP/1.1\r\nHost: h\r\nCookie: a=b; c=d\r\n\r\n",
		"GET /pay HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"TRACE /pay HTTP/1.1\r\nHost: h\r\n\r\n",
		"M-SEARCH /pay HTTP/1.1\r\nHost: h_1.test\r\nConnection: keep-alive, x-a\r\n\r\n",
		"POST /pay HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
		"POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		"\r\nGET /pay HTTP/1.1\r\nHost: h\r\nStint-Attempts: 3\r\n\r\n",
	};
	struct rig *rig = *state;
	int fd = dial(rig);
	char byte[2] = "";

	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		say(rig, fd, fine[i]);
		expect_status(rig, fd, 200);
		for (const char *at = fine[i]; *at != '\0'; at++) {
			byte[0] = *at;
			say(rig, fd, byte);
		}
		expect_status(rig, fd, 200);
	}
	close(fd);
}

static void test_large_heads(void **state)
{
	struct rig *rig = *state;
	char *value = malloc(200001), lines[2000] = "";
	int fd;

	memset(value, 'v', 200000);
	value[200000] = '\0';
	for (int i = 0; i < 20; i++)
		snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "X-%d: 1\r\n", i);
	fd = dial(rig);
	say(rig, fd, "GET /pay HTTP/1.1\r\nHost: h\r\n");
	say(rig, fd, lines);
	say(rig, fd, "\r\n");
	expect_status(rig, fd, 431);
	close(fd);
	/* over front.head, and over what the library holds */
	for (size_t len = 33000; len <= 200000; len += 167000) {
		struct reply reply;

		fd = dial(rig);
		say(rig, fd, "GET /pay HTTP/1.1\r\nHost: h\r\nX-Long: ");
		value[len] = '\0';
		if (send_all(rig, fd, value, len))
			send_all(rig, fd, "\r\n\r\n", 4);
		reply = read_to_end(rig, fd);
		assert_int_equal(reply.status, 431);
		if (len == 33000)
			assert_non_null(strstr(reply.body, "urn:stint:bad-request"));
		free(reply.text);
		close(fd);
		value[len] = 'v';
	}
	/* just below it */
	fd = dial(rig);
	value[32000] = '\0';
	say(rig, fd, "GET /pay HTTP/1.1\r\nHost: h\r\nX-Long: ");
	say(rig, fd, value);
	say(rig, fd, "\r\n\r\n");
	expect_status(rig, fd, 200);
	assert_int_equal(rig->started, 1);
	close(fd);
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_strict, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_strict_in_pieces, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_fine, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_large_heads, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
