/* The front over real sockets: a raw client and the front's loop share one thread, so that each step
 * of a test is the loop's next turn and nothing sleeps. */
#ifndef STINT_TESTS_UNIT_FRONT_RIG_H
#define STINT_TESTS_UNIT_FRONT_RIG_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <microhttpd.h>

#include "proxy/app.h"
#include "proxy/clock.h"
#include "proxy/front.h"

/* libmicrohttpd 1.0 refuses most of what is malformed itself, without a problem document, and no
 * chunk extension ends well with it. */
#if MHD_VERSION < 0x01000000
#define OWN_ANSWERS true
#define CHUNK_EXTENSION ";ext=1"
#else
#define OWN_ANSWERS false
#define CHUNK_EXTENSION ""
#endif

#define HELD_MAX 64
#define PATIENCE (10 * USEC_SEC)

enum plan { PLAN_ANSWER, PLAN_HOLD, PLAN_STREAM };

#pragma GCC diagnostic ignored "-Wunused-function"

struct rig {
	struct app app;
	struct config config;
	struct provider_config configs[4];
	struct provider providers[4];
	struct listen_address listens[2];
	struct loop loop;
	struct front *front;
	int port, own_port;
	char path[96];
	bool closed;

	enum plan plan;
	int started, half, gone, written, body;
	char method[FRONT_METHOD_MAX], target[256], rest[256], provider[32];
	char *content; /* of the last request */
	size_t content_len;
	bool streamed;
	struct front_request *held[HELD_MAX];
	int held_count;
	struct headers headers; /* of the answers */
	/* what pull() gives */
	const char *pull_data;
	size_t pull_len, pull_at;
	ssize_t pull_then; /* after the data: 0, -1, -2 */
	int pulls;
};

static struct rig *rig_of(struct front_request *request)
{
	return front_worker(request->front);
}

static void turn(struct rig *rig)
{
	uv_run(&rig->loop.uv, UV_RUN_NOWAIT);
}

/* --- the owner ------------------------------------------------------------------------------ */

static void on_half(struct front_request *request)
{
	rig_of(request)->half++;
}

static void on_gone(struct front_request *request)
{
	rig_of(request)->gone++;
}

static void on_written(struct front_request *request)
{
	rig_of(request)->written++;
}

static void on_body(struct front_request *request)
{
	rig_of(request)->body++;
}

static struct front_answer answer_of(struct rig *rig, int status)
{
	return (struct front_answer){
		.status = status, .headers = &rig->headers, .stream_length = -1, .head_length = -1};
}

static void answer_text(struct front_request *request, int status, const char *text)
{
	struct front_answer answer = answer_of(rig_of(request), status);

	answer.text = strdup(text);
	answer.text_len = strlen(text);
	front_request_answer(request, &answer);
}

static ssize_t pull(struct front_request *request, char *buffer, size_t max)
{
	struct rig *rig = rig_of(request);
	size_t n = rig->pull_len - rig->pull_at;

	rig->pulls++;
	if (n == 0)
		return rig->pull_then;
	n = n < max ? n : max;
	memcpy(buffer, rig->pull_data + rig->pull_at, n);
	rig->pull_at += n;
	return (ssize_t)n;
}

static void answer_stream(struct front_request *request, int64_t length)
{
	struct front_answer answer = answer_of(rig_of(request), 200);

	answer.pull = pull;
	answer.stream_length = length;
	front_request_answer(request, &answer);
}

static void keep_content(struct rig *rig, struct front_request *request)
{
	const char *data = NULL;
	char *heap = NULL;

	free(rig->content);
	assert_int_equal(body_view(&request->body, &data, &heap), 0);
	rig->content_len = request->body.length;
	rig->content = malloc(rig->content_len + 1);
	if (rig->content_len > 0)
		memcpy(rig->content, data, rig->content_len);
	rig->content[rig->content_len] = '\0';
	free(heap);
}

static void start(struct front_request *request)
{
	struct rig *rig = rig_of(request);

	rig->started++;
	rig->streamed = request->streamed;
	snprintf(rig->method, sizeof(rig->method), "%s", request->method);
	snprintf(rig->target, sizeof(rig->target), "%s", request->target);
	snprintf(rig->rest, sizeof(rig->rest), "%s", request->rest);
	snprintf(rig->provider, sizeof(rig->provider), "%s", request->provider->config->name);
	keep_content(rig, request);
	request->on_half = on_half;
	request->on_gone = on_gone;
	request->on_written = on_written;
	request->on_body = on_body;
	if (rig->plan == PLAN_ANSWER) {
		answer_text(request, 200, "ok");
		front_request_release(request);
		return;
	}
	if (rig->plan == PLAN_STREAM)
		answer_stream(request, -1);
	assert_true(rig->held_count < HELD_MAX);
	rig->held[rig->held_count++] = request;
}

static void release_all(struct rig *rig)
{
	for (int i = 0; i < rig->held_count; i++)
		front_request_release(rig->held[i]);
	rig->held_count = 0;
}

/* --- the client ----------------------------------------------------------------------------- */

static int free_port(void)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	close(fd);
	return ntohs(name.sin_port);
}

static int connect_port(int port)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_port = htons((uint16_t)port),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
		close(fd);
		return -1;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static int dial(struct rig *rig)
{
	int fd = connect_port(rig->port);

	assert_true(fd >= 0);
	return fd;
}

/* Sends all, turning the loop where the socket is full. False: the peer has closed. */
static bool send_all(struct rig *rig, int fd, const char *data, size_t len)
{
	usec_t end = clock_boot() + PATIENCE;

	while (len > 0) {
		ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return false;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
		turn(rig);
		assert_true(clock_boot() < end);
	}
	return true;
}

static void say(struct rig *rig, int fd, const char *text)
{
	assert_true(send_all(rig, fd, text, strlen(text)));
}

/* One receive: bytes, 0 at the end, -1 reset; turns the loop until there is something. */
static ssize_t receive(struct rig *rig, int fd, char *buffer, size_t size)
{
	usec_t end = clock_boot() + PATIENCE;

	for (;;) {
		ssize_t n = recv(fd, buffer, size, 0);

		if (n >= 0 || errno != EAGAIN)
			return n;
		assert_true(clock_boot() < end);
		turn(rig);
	}
}

/* Turns the loop until `*counter` is `n`. */
static void await(struct rig *rig, const int *counter, int n)
{
	usec_t end = clock_boot() + PATIENCE;

	while (*counter < n) {
		assert_true(clock_boot() < end);
		turn(rig);
	}
	assert_int_equal(*counter, n);
}

static void turn_for(struct rig *rig, usec_t duration)
{
	usec_t end = clock_boot() + duration;

	while (clock_boot() < end)
		turn(rig);
}

static bool has_nothing(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

struct reply {
	int status;
	char *text; /* head and body, NUL-terminated */
	size_t len;
	size_t head_len;
	const char *body;
	size_t body_len;
	bool ended; /* the connection ended after it */
	bool reset;
};

static const char *header(const struct reply *reply, const char *name)
{
	static char value[512];
	size_t name_len = strlen(name);
	const char *line = strstr(reply->text, "\r\n");

	while (line != NULL && line < reply->text + reply->head_len - 2) {
		line += 2;
		if (strncasecmp(line, name, name_len) == 0 && line[name_len] == ':') {
			const char *from = line + name_len + 1;

			from += strspn(from, " ");
			snprintf(value, sizeof(value), "%.*s", (int)strcspn(from, "\r"), from);
			return value;
		}
		line = strstr(line, "\r\n");
	}
	return NULL;
}

static void parse(struct reply *reply)
{
	char *end = strstr(reply->text, "\r\n\r\n");

	reply->status = 0;
	reply->head_len = end != NULL ? (size_t)(end + 4 - reply->text) : 0;
	if (end != NULL)
		sscanf(reply->text, "HTTP/1.1 %d", &reply->status);
	reply->body = reply->text + reply->head_len;
	reply->body_len = reply->len - reply->head_len;
}

/* Whether all of the body is here, as far as its framing tells. */
static bool whole(const struct reply *reply, bool head_only)
{
	const char *length;

	if (reply->head_len == 0)
		return false;
	if (head_only || reply->status == 204 || reply->status == 304 || reply->status == 100)
		return true;
	length = header(reply, "Content-Length");
	if (length != NULL)
		return reply->body_len >= (size_t)strtoul(length, NULL, 10);
	if (header(reply, "Transfer-Encoding") != NULL)
		return reply->body_len >= 5 &&
		       memcmp(reply->body + reply->body_len - 5, "0\r\n\r\n", 5) == 0;
	return false;
}

static void add(struct reply *reply, const char *data, size_t len)
{
	reply->text = realloc(reply->text, reply->len + len + 1);
	memcpy(reply->text + reply->len, data, len);
	reply->len += len;
	reply->text[reply->len] = '\0';
	parse(reply);
}

/* Reads byte by byte up to the end of one reply, so that the next one stays in the socket. */
static struct reply read_reply_of(struct rig *rig, int fd, bool head_only)
{
	struct reply reply = {.text = calloc(1, 1)};
	char byte;

	while (!whole(&reply, head_only)) {
		ssize_t n = receive(rig, fd, &byte, 1);

		if (n <= 0) {
			reply.ended = true;
			reply.reset = n < 0;
			break;
		}
		add(&reply, &byte, 1);
	}
	return reply;
}

static struct reply read_reply(struct rig *rig, int fd)
{
	return read_reply_of(rig, fd, false);
}

static struct reply read_to_end(struct rig *rig, int fd)
{
	struct reply reply = {.text = calloc(1, 1)};
	char buffer[65536];
	ssize_t n;

	parse(&reply);
	while ((n = receive(rig, fd, buffer, sizeof(buffer))) > 0)
		add(&reply, buffer, (size_t)n);
	reply.ended = true;
	reply.reset = n < 0;
	return reply;
}

static void expect_status(struct rig *rig, int fd, int status)
{
	struct reply reply = read_reply(rig, fd);

	if (reply.status != status)
		print_message("%s\n", reply.text);
	assert_int_equal(reply.status, status);
	free(reply.text);
}

static void expect_end(struct rig *rig, int fd)
{
	char byte;

	assert_true(receive(rig, fd, &byte, 1) <= 0);
}

/* --- set-up --------------------------------------------------------------------------------- */

static void set_provider(struct rig *rig, int i, char *name, enum route_kind kind, char *prefix)
{
	struct provider_config *config = &rig->configs[i];

	config->name = name;
	config->route_kind = kind;
	config->route_prefix = prefix;
	config->upstream.path = (char *)"/base";
	config->upstream.authority = (char *)"up.test";
	config->body_memory = 4096;
	config->body_max = 100000;
	config->body_drain = 20000;
	config->body_over = BODY_OVER_REFUSE;
	rig->providers[i].config = config;
	rig->providers[i].limits = (struct body_limits){.memory = config->body_memory,
							.max = config->body_max,
							.temp_dir = "/tmp",
							.pool_used = &rig->app.replay_used,
							.pool_max = 1 << 20};
}

static void open_front(struct rig *rig)
{
	char error[256] = "";

	if (front_new(&rig->app, &rig->loop, start, rig, error, sizeof(error), &rig->front) != 0)
		fail_msg("%s", error);
}

static struct rig *rig_new(void)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->port = free_port();
	rig->own_port = free_port();
	rig->listens[0] = (struct listen_address){
		.text = (char *)"main", .host = (char *)"127.0.0.1", .port = rig->port};
	rig->config = (struct config){.listen = rig->listens,
				      .listen_count = 1,
				      .front_head = 32768,
				      .front_headers = 20,
				      .front_head_time = 10 * USEC_SEC,
				      .front_body_idle = 30 * USEC_SEC,
				      .front_connections = 1000,
				      .temp = (char *)"/tmp",
				      .providers = rig->configs,
				      .provider_count = 4};
	set_provider(rig, 0, (char *)"pay", ROUTE_PREFIX, (char *)"/pay");
	set_provider(rig, 1, (char *)"big", ROUTE_PREFIX, (char *)"/big");
	rig->configs[1].body_over = BODY_OVER_STREAM;
	set_provider(rig, 2, (char *)"host", ROUTE_HOST, NULL);
	rig->configs[2].route_host = (char *)"host.test";
	set_provider(rig, 3, (char *)"own", ROUTE_LISTEN, NULL);
	rig->configs[3].route_listen = (struct listen_address){
		.text = (char *)"own", .host = (char *)"127.0.0.1", .port = rig->own_port};
	rig->app.config = &rig->config;
	rig->app.providers = rig->providers;
	rig->app.worker_count = 1;
	headers_init(&rig->headers);
	headers_add_text(&rig->headers, "X-Answer", "yes");
	assert_int_equal(loop_init(&rig->loop), 0);
	return rig;
}

static int set_up(void **state)
{
	struct rig *rig = rig_new();

	open_front(rig);
	*state = rig;
	return 0;
}

static void closed(void *data)
{
	((struct rig *)data)->closed = true;
}

static int tear_down(void **state)
{
	struct rig *rig = *state;

	if (rig->front != NULL) {
		front_close(rig->front, closed, rig);
		release_all(rig);
		while (!rig->closed)
			turn(rig);
	}
	loop_close(&rig->loop);
	loop_run(&rig->loop);
	loop_done(&rig->loop);
	assert_int_equal(rig->app.replay_used, 0);
	assert_null(rig->app.sockets);
	headers_done(&rig->headers);
	free(rig->content);
	free(rig);
	return 0;
}

static struct front_request *hold(struct rig *rig, int fd, const char *text)
{
	int before = rig->started;

	rig->plan = PLAN_HOLD;
	say(rig, fd, text);
	await(rig, &rig->started, before + 1);
	return rig->held[rig->held_count - 1];
}

#define GET "GET /pay HTTP/1.1\r\nHost: h\r\n\r\n"
#define HEAD "HEAD /pay HTTP/1.1\r\nHost: h\r\n\r\n"

static void pull_from(struct rig *rig, const char *data, size_t len, ssize_t then)
{
	rig->pull_data = data;
	rig->pull_len = len;
	rig->pull_at = 0;
	rig->pull_then = then;
}

/* The alphabet, again and again, from `offset` on. */
static const char *alphabet(size_t offset)
{
	static char text[65536 + 26];

	for (size_t i = 0; i < sizeof(text) && text[0] == '\0'; i++)
		text[sizeof(text) - 1 - i] = (char)('a' + (sizeof(text) - 1 - i) % 26);
	return text + offset % 26;
}

/* Reads all that is there of a streamed body. Returns its last result. */
static ssize_t read_some(struct front_request *request, size_t *total)
{
	char buffer[10000];
	ssize_t n;

	while ((n = front_request_read(request, buffer, sizeof(buffer))) > 0) {
		assert_memory_equal(buffer, alphabet(*total), (size_t)n);
		*total += (size_t)n;
	}
	return n;
}

/* Sends what fits without reading anything at the other end. */
static size_t send_until_stuck(struct rig *rig, int fd, size_t from, size_t len)
{
	size_t sent = 0;
	int idle = 0;

	while (sent < len && idle < 20) {
		size_t n = len - sent < 65536 ? len - sent : 65536;
		ssize_t done = send(fd, alphabet(from + sent), n, MSG_NOSIGNAL);

		idle = done > 0 ? 0 : idle + 1;
		sent += done > 0 ? (size_t)done : 0;
		turn(rig);
	}
	return sent;
}

#endif
