/* What the tests of the upstream share: a scripted provider on a thread, and a loop that runs one
 * attempt after the other against it. */
#ifndef STINT_TESTS_UPSTREAM_FIXTURE_H
#define STINT_TESTS_UPSTREAM_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/clock.h"
#include "proxy/loop.h"
#include "proxy/upstream.h"

#define WIRE_MAX ((size_t)4 << 20)
#define SERVER_THREADS 128

struct server;

struct connection {
	struct server *server;
	int fd, number; /* from 1 */
	pthread_t thread;
};

/* `serve` runs on a thread of its own for each connection, which is closed when it returns. */
struct server {
	int fd, port;
	void (*serve)(struct connection *connection);
	const char *script; /* what the ready-made ones send */
	pthread_t thread;
	atomic_int connections, requests, replies;
	pthread_mutex_t lock;
	char *wire; /* every byte received */
	size_t wire_len;
	struct connection threads[SERVER_THREADS];
	int thread_count;
};

/* --- the provider's side ------------------------------------------------------------------------ */

static inline void say_bytes(struct connection *connection, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(connection->fd, data, len, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		data += n;
		len -= (size_t)n;
	}
}

static inline void say(struct connection *connection, const char *text)
{
	say_bytes(connection, text, strlen(text));
}

/* Receives some bytes into the record; 0 at the end or on an error. */
static inline size_t hear(struct connection *connection)
{
	struct server *server = connection->server;
	char piece[65536];
	ssize_t n = recv(connection->fd, piece, sizeof piece, 0);

	if (n <= 0)
		return 0;
	pthread_mutex_lock(&server->lock);
	if (server->wire_len + (size_t)n < WIRE_MAX) {
		memcpy(server->wire + server->wire_len, piece, (size_t)n);
		server->wire_len += (size_t)n;
		server->wire[server->wire_len] = '\0';
	}
	pthread_mutex_unlock(&server->lock);
	return (size_t)n;
}

static inline bool request_whole(const char *text)
{
	const char *end = strstr(text, "\r\n\r\n"), *length;

	if (end == NULL)
		return false;
	length = strcasestr(text, "\r\nContent-Length: ");
	if (length != NULL && length < end)
		return strlen(end + 4) >= strtoull(length + 18, NULL, 10);
	length = strcasestr(text, "\r\nTransfer-Encoding: chunked");
	if (length != NULL && length < end)
		return strstr(end, "\r\n0\r\n\r\n") != NULL;
	return true;
}

/* Reads one whole request; false if the connection ends before. Bodies hold no NUL. */
static inline bool hear_request(struct connection *connection)
{
	struct server *server = connection->server;
	size_t start;
	bool whole = false;

	pthread_mutex_lock(&server->lock);
	start = server->wire_len;
	pthread_mutex_unlock(&server->lock);
	while (!whole) {
		if (hear(connection) == 0)
			return false;
		pthread_mutex_lock(&server->lock);
		whole = request_whole(server->wire + start);
		pthread_mutex_unlock(&server->lock);
	}
	atomic_fetch_add(&server->requests, 1);
	return true;
}

/* Waits until the other side is gone. */
static inline void hear_end(struct connection *connection)
{
	while (hear(connection) > 0)
		;
}

static inline void reset(struct connection *connection)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

/* Answers each request with the script, for as long as the connection lives. */
static inline void serve_always(struct connection *connection)
{
	while (hear_request(connection)) {
		say(connection, connection->server->script);
		atomic_fetch_add(&connection->server->replies, 1);
	}
}

/* Answers one request with the script and closes. */
static inline void serve_once(struct connection *connection)
{
	if (hear_request(connection))
		say(connection, connection->server->script);
}

/* Answers one request with the script and then keeps silent. */
static inline void serve_and_wait(struct connection *connection)
{
	if (hear_request(connection))
		say(connection, connection->server->script);
	hear_end(connection);
}

static inline void serve_reset(struct connection *connection)
{
	if (hear_request(connection))
		say(connection, connection->server->script);
	reset(connection);
}

static inline void serve_silence(struct connection *connection)
{
	hear_end(connection);
}

static inline void *connection_main(void *data)
{
	struct connection *connection = data;

	connection->server->serve(connection);
	/* A FIN first; the descriptor stays until the end, so that its number is not reused. */
	close(connection->fd);
	return NULL;
}

static inline void *server_main(void *data)
{
	struct server *server = data;

	for (;;) {
		int fd = accept(server->fd, NULL, NULL), one = 1;
		struct connection *connection;

		if (fd < 0)
			return NULL;
		if (server->thread_count == SERVER_THREADS)
			abort();
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		connection = &server->threads[server->thread_count++];
		connection->server = server;
		connection->fd = fd;
		connection->number = server->thread_count;
		atomic_fetch_add(&server->connections, 1);
		if (pthread_create(&connection->thread, NULL, connection_main, connection) != 0)
			abort();
	}
}

static inline void server_start(struct server *server)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof address;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(server->fd >= 0);
	assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(server->fd, 64), 0);
	assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
	server->port = ntohs(address.sin_port);
	server->wire = calloc(1, WIRE_MAX);
	assert_non_null(server->wire);
	pthread_mutex_init(&server->lock, NULL);
	assert_int_equal(pthread_create(&server->thread, NULL, server_main, server), 0);
}

/* All connections have been closed by the other side before this. */
static inline void server_stop(struct server *server)
{
	shutdown(server->fd, SHUT_RDWR);
	pthread_join(server->thread, NULL);
	for (int i = 0; i < server->thread_count; i++)
		pthread_join(server->threads[i].thread, NULL);
	close(server->fd);
	free(server->wire);
	pthread_mutex_destroy(&server->lock);
}

/* --- our side ----------------------------------------------------------------------------------- */

struct fixture {
	struct server server;
	struct loop loop;
	uv_timer_t tick;
	struct upstream *upstream;
	struct provider_config provider;
	char origin[128], authority[64];
	bool closed;
	int descriptors;
};

struct call {
	struct attempt attempt;
	struct fixture *fixture;
	int heads, bodies, dones, guards;
	bool refuse;     /* the guard's answer */
	size_t body_max; /* the most that the buffer held */
	bool leave;      /* do not consume */
	bool cancel_on_head, cancel_on_body;
	char *body;
	size_t body_len;
	/* A streamed upload. */
	const char *upload;
	size_t upload_len, upload_at, upload_limit; /* what is there so far */
	bool upload_broken;
};

static inline int descriptors_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

static inline void fixture_point(struct fixture *fixture, const char *scheme, int port)
{
	snprintf(fixture->origin, sizeof fixture->origin, "%s://127.0.0.1:%d", scheme, port);
	snprintf(fixture->authority, sizeof fixture->authority, "provider.example:%d", port);
	fixture->provider.upstream.origin = fixture->origin;
	fixture->provider.upstream.authority = fixture->authority;
	fixture->provider.upstream.tls = strcmp(scheme, "https") == 0;
}

/* Group setup: what libuv opens once for a process is open before anything is counted. */
static inline int fixture_warm(void **state)
{
	struct loop loop;

	(void)state;
	alarm(120); /* a loop that waits for nothing ends the test */
	if (loop_init(&loop) != 0)
		return -1;
	loop_close(&loop);
	loop_run(&loop);
	loop_done(&loop);
	return 0;
}

static inline struct fixture *fixture_new(void (*serve)(struct connection *), const char *script)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	struct policy *policy;

	assert_non_null(fixture);
	fixture->descriptors = descriptors_open();
	fixture->server.serve = serve;
	fixture->server.script = script;
	server_start(&fixture->server);
	assert_int_equal(loop_init(&fixture->loop), 0);
	uv_timer_init(&fixture->loop.uv, &fixture->tick);
	assert_int_equal(upstream_new(&fixture->loop, &fixture->upstream), 0);
	policy = &fixture->provider.policy;
	policy->attempt_timeout = 10 * USEC_SEC;
	policy->attempt_connect = 10 * USEC_SEC;
	policy->attempt_idle = 10 * USEC_SEC;
	policy->attempt_total = 60 * USEC_SEC;
	policy->attempt_reuse = 2 * USEC_SEC;
	fixture->provider.tls_verify = true;
	fixture_point(fixture, "http", fixture->server.port);
	return fixture;
}

static inline void fixture_closed(void *data)
{
	((struct fixture *)data)->closed = true;
}

static inline void fixture_close_upstream(struct fixture *fixture)
{
	upstream_close(fixture->upstream, fixture_closed, fixture);
	uv_close((uv_handle_t *)&fixture->tick, NULL);
	loop_close(&fixture->loop);
	loop_run(&fixture->loop);
	assert_true(fixture->closed);
}

static inline void fixture_free(struct fixture *fixture)
{
	if (!fixture->closed)
		fixture_close_upstream(fixture);
	loop_done(&fixture->loop);
	server_stop(&fixture->server);
	assert_int_equal(descriptors_open(), fixture->descriptors);
	free(fixture);
}

static inline void call_take(struct call *call)
{
	struct attempt *attempt = &call->attempt;

	if (attempt->buffer_len > call->body_max)
		call->body_max = attempt->buffer_len;
	if (call->leave || attempt->buffer_len == 0)
		return;
	call->body = realloc(call->body, call->body_len + attempt->buffer_len + 1);
	assert_non_null(call->body);
	memcpy(call->body + call->body_len, attempt->buffer, attempt->buffer_len);
	call->body_len += attempt->buffer_len;
	call->body[call->body_len] = '\0';
	attempt_consume(attempt, attempt->buffer_len);
}

static inline void call_on_head(struct attempt *attempt)
{
	struct call *call = attempt->data;

	call->heads++;
	assert_int_equal(call->bodies + call->dones, 0);
	assert_true(attempt->status >= 200);
	assert_true(attempt->head_at >= attempt->sent_at);
	if (call->cancel_on_head)
		attempt_cancel(attempt, FAULT_CALLER);
}

static inline void call_on_body(struct attempt *attempt)
{
	struct call *call = attempt->data;

	call->bodies++;
	assert_int_equal(call->dones, 0);
	call_take(call);
	if (call->cancel_on_body)
		attempt_cancel(attempt, FAULT_CALLER);
}

static inline void call_on_done(struct attempt *attempt)
{
	struct call *call = attempt->data;

	call->dones++;
	assert_true(attempt->ended >= attempt->started);
	attempt_cancel(attempt, FAULT_CALLER); /* changes nothing any more */
}

static inline bool call_guard(struct attempt *attempt)
{
	struct call *call = attempt->data;

	call->guards++;
	assert_false(attempt->sent);
	return !call->refuse;
}

static inline ssize_t call_upload(struct attempt *attempt, char *buffer, size_t len)
{
	struct call *call = attempt->data;
	size_t there = call->upload_limit - call->upload_at;

	if (there == 0 && call->upload_broken)
		return -EPIPE;
	if (there == 0)
		return call->upload_limit == call->upload_len ? 0 : -EAGAIN;
	if (len > there)
		len = there;
	memcpy(buffer, call->upload + call->upload_at, len);
	call->upload_at += len;
	return (ssize_t)len;
}

static inline struct call *call_new(struct fixture *fixture, const char *method, const char *target)
{
	struct call *call = calloc(1, sizeof *call);
	struct attempt *attempt;

	assert_non_null(call);
	call->fixture = fixture;
	attempt = &call->attempt;
	attempt->provider = &fixture->provider;
	attempt->method = method;
	attempt->target = target;
	attempt->repeatable = true;
	attempt->limit = USEC_MAX;
	attempt->unsent_limit = USEC_MAX;
	attempt->limit_fault = FAULT_TOTAL;
	attempt->guard = call_guard;
	attempt->on_head = call_on_head;
	attempt->on_body = call_on_body;
	attempt->on_done = call_on_done;
	attempt->data = call;
	attempt->buffer_max = 1 << 20;
	return call;
}

static inline void call_start(struct call *call)
{
	attempt_start(call->fixture->upstream, &call->attempt);
	assert_int_equal(call->heads + call->bodies + call->dones, 0);
}

static inline void tick(uv_timer_t *timer)
{
	(void)timer;
}

/* uv may block in the very turn that has made the condition true: a tick wakes it. */
#define RUN_UNTIL(fixture, condition)                                                              \
	do {                                                                                       \
		usec_t run_end = clock_boot() + 20 * USEC_SEC;                                     \
		uv_timer_start(&(fixture)->tick, tick, 5, 5);                                      \
		while (!(condition)) {                                                             \
			assert_true(clock_boot() < run_end);                                       \
			uv_run(&(fixture)->loop.uv, UV_RUN_ONCE);                                  \
		}                                                                                  \
		uv_timer_stop(&(fixture)->tick);                                                   \
	} while (0)

static inline void pause_over(uv_timer_t *timer)
{
	*(bool *)timer->data = true;
	uv_close((uv_handle_t *)timer, NULL);
}

/* Lets the loop run for a while; returns how many turns that were. */
static inline int run_for(struct fixture *fixture, usec_t time)
{
	uv_timer_t timer;
	bool over = false;
	int turns = 0;

	uv_timer_init(&fixture->loop.uv, &timer);
	timer.data = &over;
	uv_timer_start(&timer, pause_over, (uint64_t)(time / USEC_MS), 0);
	while (!over) {
		uv_run(&fixture->loop.uv, UV_RUN_ONCE);
		turns++;
	}
	uv_run(&fixture->loop.uv, UV_RUN_NOWAIT); /* its close callback */
	return turns;
}

static inline void call_wait(struct call *call)
{
	RUN_UNTIL(call->fixture, call->dones > 0);
	assert_int_equal(call->dones, 1);
	assert_true(call->attempt.complete == (call->attempt.fault == FAULT_NONE));
	assert_true(call->attempt.complete || call->attempt.detail[0] != '\0');
}

static inline void call_run(struct call *call)
{
	call_start(call);
	call_wait(call);
}

static inline void call_free(struct call *call)
{
	attempt_done(&call->attempt);
	free(call->body);
	free(call);
}

/* One attempt to its end; the caller frees it. */
static inline struct call *call_simple(struct fixture *fixture, const char *method,
				       const char *target)
{
	struct call *call = call_new(fixture, method, target);

	call_run(call);
	return call;
}

static inline void call_expect(const struct call *call, enum fault fault, int status, bool sent)
{
	if (call->attempt.fault != fault)
		print_error("fault %s, detail \"%s\"\n", fault_name(call->attempt.fault),
			    call->attempt.detail);
	assert_int_equal(call->attempt.fault, fault);
	assert_int_equal(call->attempt.status, status);
	assert_int_equal(call->attempt.sent, sent);
	assert_int_equal(call->attempt.sent_at != 0, sent);
}

/* All bytes that the provider has received, once `count` requests have come. */
static inline void wire_expect(struct fixture *fixture, int count, const char *text)
{
	struct server *server = &fixture->server;

	assert_int_equal(atomic_load(&server->requests), count);
	pthread_mutex_lock(&server->lock);
	assert_string_equal(server->wire, text);
	pthread_mutex_unlock(&server->lock);
}

#endif
