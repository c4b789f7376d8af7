/* The admin listener on a real socket, on a loop of its own thread, with a ledger that answers from
 * arrays, from another thread. */
#ifndef STINT_TESTS_UNIT_ADMIN_FIXTURE_H
#define STINT_TESTS_UNIT_ADMIN_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proxy/admin.h"
#include "proxy/admin_private.h"

#define TEXT(text) ((char *)(uintptr_t)(text))
#define ROWS_MAX 8

/* --- the ledger ---------------------------------------------------------------------------------- */

struct fake_ledger {
	struct ledger base;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ledger_request *first;
	bool stopping, stuck;
	const char *unwell; /* its word on its health */

	struct ledger_row rows[ROWS_MAX]; /* constant texts */
	size_t row_count;
	struct ledger_stat stat;
	struct ledger_provider_stat total;
	enum ledger_result result; /* what everything is answered with, if not OK */
	const char *error;

	/* What the last request asked. */
	enum ledger_verb verb;
	struct ledger_filter filter;
	char texts[4][300]; /* provider, tenant, key_prefix, cursor of the filter; "-" for NULL */
	char name[4][300];
	usec_t now;
	int asked;
	bool race;       /* somebody else changes the row before a CHANGE */
	char note[2048]; /* of the last CHANGE that was written */
};

static inline void fake_submit(struct ledger *ledger, struct ledger_request *request)
{
	struct fake_ledger *fake = (struct fake_ledger *)ledger;
	struct ledger_request **at = &fake->first;

	pthread_mutex_lock(&fake->lock);
	while (*at != NULL)
		at = &(*at)->link;
	request->link = NULL;
	*at = request;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
}

static const char *fake_health(struct ledger *ledger)
{
	struct fake_ledger *fake = (struct fake_ledger *)ledger;
	const char *word;

	pthread_mutex_lock(&fake->lock);
	word = fake->unwell;
	pthread_mutex_unlock(&fake->lock);
	return word;
}

static const struct ledger_ops fake_ops = {.submit = fake_submit, .health = fake_health};

static inline char *copy(const char *text)
{
	char *made = text != NULL ? strdup(text) : NULL;

	assert_true(text == NULL || made != NULL);
	return made;
}

static inline void copy_row(const struct ledger_row *from, struct ledger_row *ret_row)
{
	*ret_row = *from;
	ret_row->provider = copy(from->provider);
	ret_row->tenant = copy(from->tenant);
	ret_row->scope = copy(from->scope);
	ret_row->key = copy(from->key);
	ret_row->texts.method = copy(from->texts.method);
	ret_row->texts.target = copy(from->texts.target);
	ret_row->texts.corrects = copy(from->texts.corrects);
	ret_row->texts.corrected_by = copy(from->texts.corrected_by);
	ret_row->notes = copy(from->notes);
}

static inline void remember(struct fake_ledger *fake, const struct ledger_request *request)
{
	const struct ledger_filter *filter = &request->filter;
	const char *texts[] = {filter->provider, filter->tenant, filter->key_prefix,
			       filter->cursor};
	const char *name[] = {request->name.provider, request->name.tenant, request->name.scope,
			      request->name.key};

	fake->verb = request->verb;
	fake->filter = *filter;
	fake->now = request->now;
	fake->asked++;
	for (int i = 0; i < 4; i++) {
		snprintf(fake->texts[i], sizeof(fake->texts[i]), "%s",
			 texts[i] != NULL ? texts[i] : "-");
		snprintf(fake->name[i], sizeof(fake->name[i]), "%s",
			 name[i] != NULL ? name[i] : "-");
	}
}

/* A cursor is "at-N": the list goes on with row N. */
static inline void fake_list(struct fake_ledger *fake, struct ledger_request *request)
{
	const struct ledger_filter *filter = &request->filter;
	size_t at = 0;

	if (filter->cursor != NULL) {
		if (sscanf(filter->cursor, "at-%zu", &at) != 1 || at > fake->row_count) {
			request->result = LEDGER_ABSENT;
			return;
		}
	}
	request->rows = calloc(ROWS_MAX, sizeof(*request->rows));
	assert_non_null(request->rows);
	for (; at < fake->row_count && request->row_count < (size_t)filter->limit; at++)
		copy_row(&fake->rows[at], &request->rows[request->row_count++]);
	if (at < fake->row_count)
		assert_true(asprintf(&request->cursor, "at-%zu", at) > 0);
}

/* Compares the counter and swaps, as a store does. */
static inline void fake_change(struct fake_ledger *fake, struct ledger_request *request)
{
	request->result = LEDGER_ABSENT;
	for (size_t i = 0; i < fake->row_count; i++) {
		struct ledger_row *row = &fake->rows[i];
		struct op_name name = {row->provider, row->tenant, row->scope, row->key};

		if (!op_name_equal(&name, &request->name))
			continue;
		if (fake->race)
			row->op.counter++;
		if (row->op.counter != request->expect_counter ||
		    memcmp(row->op.incarnation, request->op->incarnation, OP_INCARNATION_LEN) !=
			    0) {
			copy_row(row, &request->found);
			request->result = LEDGER_CONFLICT;
			return;
		}
		row->op = *request->op;
		snprintf(fake->note, sizeof(fake->note), "%s",
			 request->note != NULL ? request->note : "-");
		request->result = LEDGER_OK;
	}
}

static inline void fake_answer(struct fake_ledger *fake, struct ledger_request *request)
{
	remember(fake, request);
	request->result = fake->result;
	request->error = fake->error;
	if (fake->result != LEDGER_OK)
		return;
	if (request->verb == LEDGER_LIST) {
		fake_list(fake, request);
	} else if (request->verb == LEDGER_CHANGE) {
		fake_change(fake, request);
	} else if (request->verb == LEDGER_STATS) {
		request->stats = calloc(1, sizeof(*request->stats));
		request->provider_stats = calloc(1, sizeof(*request->provider_stats));
		assert_true(request->stats != NULL && request->provider_stats != NULL);
		request->stat_count = request->provider_stat_count = 1;
		request->stats[0] = fake->stat;
		request->stats[0].provider = copy("pay");
		request->provider_stats[0] = fake->total;
		request->provider_stats[0].provider = copy("pay");
	} else {
		assert_int_equal(request->verb, LEDGER_GET);
		request->result = LEDGER_ABSENT;
		for (size_t i = 0; i < fake->row_count; i++) {
			const struct ledger_row *row = &fake->rows[i];
			struct op_name name = {row->provider, row->tenant, row->scope, row->key};

			if (op_name_equal(&name, &request->name)) {
				copy_row(row, &request->found);
				request->result = LEDGER_OK;
			}
		}
	}
}

static inline void *fake_run(void *data)
{
	struct fake_ledger *fake = data;

	pthread_mutex_lock(&fake->lock);
	while (!fake->stopping || fake->first != NULL) {
		struct ledger_request *request = fake->first;

		if (request == NULL || (fake->stuck && !fake->stopping)) {
			pthread_cond_wait(&fake->changed, &fake->lock);
			continue;
		}
		fake->first = request->link;
		fake_answer(fake, request);
		pthread_mutex_unlock(&fake->lock);
		request->post(request);
		pthread_mutex_lock(&fake->lock);
	}
	pthread_mutex_unlock(&fake->lock);
	return NULL;
}

static inline void fake_set_stuck(struct fake_ledger *fake, bool stuck)
{
	pthread_mutex_lock(&fake->lock);
	fake->stuck = stuck;
	pthread_cond_broadcast(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
}

/* --- the listener -------------------------------------------------------------------------------- */

struct fixture {
	struct config config;
	struct provider_config providers[2];
	struct app app;
	struct fake_ledger fake;
	struct admin *admin;
	pthread_t thread;
	struct loop_task close_task;
	int port;
	char directory[32];
	char socket[64];
	char token_file[64];
	int closed;
};

/* A fixture in its own directory, with everything filled in but not started. */
static inline struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct provider_config *pay, *mail;

	assert_non_null(f);
	snprintf(f->directory, sizeof(f->directory), "/tmp/stint-admin-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->socket, sizeof(f->socket), "%s/admin.sock", f->directory);
	snprintf(f->token_file, sizeof(f->token_file), "%s/token", f->directory);
	f->config.admin_listen = (struct listen_address){
		.text = TEXT("127.0.0.1:0"), .host = TEXT("127.0.0.1"), .loopback = true};
	pay = &f->providers[0];
	pay->name = TEXT("pay");
	pay->upstream.text = TEXT("https://pay.example/hooks/s3cr3t");
	pay->upstream.origin = TEXT("https://pay.example:443");
	pay->route_prefix = TEXT("/pay");
	pay->concurrency_limit = 4;
	pay->policy.attempts = 5;
	pay->policy.window = USEC_DAY;
	pay->policy.hold = 1500 * USEC_MS;
	pay->policy.retry_after_max = USEC_HOUR;
	mail = &f->providers[1];
	mail->name = TEXT("mail");
	mail->mode = MODE_OFF;
	mail->upstream.origin = TEXT("http://mail.example:80");
	mail->route_kind = ROUTE_HOST;
	mail->route_host = TEXT("mail.internal");
	mail->concurrency_limit = 1;
	f->config.providers = f->providers;
	f->config.provider_count = 2;
	f->app.config = &f->config;
	f->fake.base.ops = &fake_ops;
	f->app.ledger = &f->fake.base;
	wall_clock_init(&f->app.clock);
	f->app.providers = calloc(2, sizeof(*f->app.providers));
	assert_non_null(f->app.providers);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(provider_init(&f->app.providers[i], &f->providers[i], &f->config,
					       &f->app.replay_used),
				 0);
	assert_int_equal(loop_init(&f->app.control), 0);
	pthread_mutex_init(&f->fake.lock, NULL);
	pthread_cond_init(&f->fake.changed, NULL);
	return f;
}

static inline void *fixture_run(void *data)
{
	struct fixture *f = data;

	loop_run(&f->app.control);
	return NULL;
}

static inline void fixture_start(struct fixture *f)
{
	const union MHD_DaemonInfo *info;
	char error[256];

	assert_int_equal(admin_new(&f->app, error, sizeof(error), &f->admin), 0);
	if (f->config.admin_listen.path == NULL) {
		info = MHD_get_daemon_info(f->admin->daemon, MHD_DAEMON_INFO_BIND_PORT);
		assert_non_null(info);
		f->port = info->port;
	}
	assert_int_equal(pthread_create(&f->fake.thread, NULL, fake_run, &f->fake), 0);
	assert_int_equal(pthread_create(&f->thread, NULL, fixture_run, f), 0);
}

static inline void fixture_closed(void *data)
{
	struct fixture *f = data;

	f->closed++;
	loop_close(&f->app.control);
}

static inline void fixture_close(struct loop_task *task)
{
	struct fixture *f = (struct fixture *)((char *)task - offsetof(struct fixture, close_task));

	admin_close(f->admin, fixture_closed, f);
}

/* Asks the listener to close; a ledger that is stuck still holds its requests then. */
static inline void fixture_begin_close(struct fixture *f)
{
	f->close_task.run = fixture_close;
	loop_post(&f->app.control, &f->close_task);
}

static inline void fixture_end(struct fixture *f)
{
	pthread_mutex_lock(&f->fake.lock);
	f->fake.stopping = true;
	pthread_cond_broadcast(&f->fake.changed);
	pthread_mutex_unlock(&f->fake.lock);
	pthread_join(f->thread, NULL);
	pthread_join(f->fake.thread, NULL);
	assert_int_equal(f->closed, 1);
}

static inline void fixture_free(struct fixture *f)
{
	loop_done(&f->app.control);
	for (size_t i = 0; i < 2; i++)
		provider_done(&f->app.providers[i]);
	free(f->app.providers);
	pthread_mutex_destroy(&f->fake.lock);
	pthread_cond_destroy(&f->fake.changed);
	(void)unlink(f->token_file);
	assert_int_equal(rmdir(f->directory), 0); /* the socket's file is gone */
	free(f);
}

static inline void fixture_stop(struct fixture *f)
{
	fixture_begin_close(f);
	fixture_end(f);
	fixture_free(f);
}

/* --- the caller ---------------------------------------------------------------------------------- */

struct reply {
	int status;
	char head[4096];
	char body[1 << 18];
	json_t *json; /* of application/json and problem+json, if it is valid */
};

static inline int caller_connect(const struct fixture *f)
{
	const struct sockaddr_in tcp = {.sin_family = AF_INET,
					.sin_port = htons((uint16_t)f->port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct timeval patience = {.tv_sec = 20};
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	int fd = socket(f->port > 0 ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	snprintf(local.sun_path, sizeof(local.sun_path), "%s", f->socket);
	if (f->port > 0)
		assert_int_equal(connect(fd, (const struct sockaddr *)&tcp, sizeof(tcp)), 0);
	else
		assert_int_equal(connect(fd, (const struct sockaddr *)&local, sizeof(local)), 0);
	return fd;
}

/* Sends bytes; the reply is read to the connection's end by caller_read(). */
static inline void caller_send(int fd, const char *bytes)
{
	assert_int_equal(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), (ssize_t)strlen(bytes));
}

static inline struct reply *caller_read(int fd)
{
	struct reply *reply = calloc(1, sizeof(*reply));
	size_t room = sizeof(reply->head) + sizeof(reply->body), len = 0;
	char *bytes = calloc(1, room + 1), *end;
	ssize_t n;

	assert_true(reply != NULL && bytes != NULL);
	/* With a time limit on the socket a signal ends recv() early (seen on Debian 13). */
	while ((n = recv(fd, bytes + len, room - len, 0)) > 0 || (n < 0 && errno == EINTR))
		len += n > 0 ? (size_t)n : 0;
	assert_int_equal(n, 0);
	close(fd);
	assert_int_equal(sscanf(bytes, "HTTP/1.1 %d", &reply->status), 1);
	end = strstr(bytes, "\r\n\r\n");
	assert_non_null(end);
	assert_true((size_t)(end - bytes) + 3 < sizeof(reply->head));
	memcpy(reply->head, bytes, (size_t)(end - bytes) + 2);
	snprintf(reply->body, sizeof(reply->body), "%s", end + 4);
	if (strstr(reply->head, "Content-Type: application/") != NULL && reply->body[0] != '\0') {
		reply->json = json_loads(reply->body, JSON_REJECT_DUPLICATES, NULL);
	}
	free(bytes);
	return reply;
}

static inline void reply_done(struct reply *reply)
{
	json_decref(reply->json);
	free(reply);
}

/* One request; `headers` are whole lines ("A: b\r\n"), without one for Host there is a good Host. */
static inline struct reply *ask(const struct fixture *f, const char *method, const char *target,
				const char *headers)
{
	char request[8192];
	int fd = caller_connect(f);

	snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\n%s%sConnection: close\r\n\r\n",
		 method, target, strstr(headers, "Host:") == NULL ? "Host: localhost\r\n" : "",
		 headers);
	caller_send(fd, request);
	return caller_read(fd);
}

static inline struct reply *get(const struct fixture *f, const char *target)
{
	return ask(f, "GET", target, "");
}

static inline int status_of(const struct fixture *f, const char *method, const char *target,
			    const char *headers)
{
	struct reply *reply = ask(f, method, target, headers);
	int status = reply->status;

	reply_done(reply);
	return status;
}

#endif
