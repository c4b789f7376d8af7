/* The multi handle on the loop: libcurl's timer, the queue of transfers with news, and the life of
 * the whole. libcurl is run from a socket's readiness, from its timer and from the idle handle, never
 * from a callback of its own, and each run is followed by one drain. What is queued during a drain,
 * or by a call from elsewhere, is done before the loop blocks again: an active idle handle makes uv
 * poll without waiting. */
#include "proxy/upstream_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/clock.h"

#define CONNECTIONS_MAX 512 /* idle and busy, of one upstream: its descriptors are bounded */

static void idle_run(uv_idle_t *idle);

static void upstream_wake(struct upstream *upstream)
{
	if (upstream->idle_on)
		return;
	upstream->idle_on = true;
	uv_idle_start(&upstream->idle, idle_run);
}

void upstream_news(struct transfer *transfer)
{
	struct upstream *upstream = transfer->upstream;

	if (!transfer->queued) {
		transfer->queued = true;
		transfer->queue_next = NULL;
		*upstream->queue_tail = transfer;
		upstream->queue_tail = &transfer->queue_next;
	}
	if (!upstream->in_curl) /* else a drain follows */
		upstream_wake(upstream);
}

void upstream_failed(struct upstream *upstream, struct attempt *attempt)
{
	struct attempt **tail = &upstream->failed;

	while (*tail != NULL)
		tail = &(*tail)->next;
	*tail = attempt;
	upstream_wake(upstream);
}

static void drain(struct upstream *upstream)
{
	struct transfer *list = upstream->queue;
	struct attempt *failed = upstream->failed;

	upstream->queue = NULL;
	upstream->queue_tail = &upstream->queue;
	upstream->failed = NULL;
	while (list != NULL) {
		struct transfer *transfer = list;

		list = transfer->queue_next;
		transfer->queued = false;
		transfer_step(transfer);
	}
	while (failed != NULL) {
		struct attempt *attempt = failed;

		failed = attempt->next;
		attempt->next = NULL;
		attempt->fault = FAULT_LOCAL;
		attempt->ended = clock_boot();
		attempt->on_done(attempt);
	}
}

void upstream_action(struct upstream *upstream, curl_socket_t fd, int mask)
{
	int running, left;
	CURLMsg *message;

	upstream->in_curl = true;
	curl_multi_socket_action(upstream->multi, fd, mask, &running);
	while ((message = curl_multi_info_read(upstream->multi, &left)) != NULL) {
		struct transfer *transfer = NULL;
		CURLcode code = message->data.result;

		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
		if (transfer->now.finished)
			continue;
		transfer_finish(transfer, code); /* the message is gone after this */
		upstream_news(transfer);
	}
	upstream->in_curl = false;
	drain(upstream);
	if (upstream->queue != NULL || upstream->failed != NULL || upstream->kick)
		upstream_wake(upstream);
}

static void timer_run(uv_timer_t *timer)
{
	upstream_action(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* libcurl's timer callback. Zero is run by the idle handle: sooner, and once for many. */
static int timer_wanted(CURLM *multi, long timeout_ms, void *clientp)
{
	struct upstream *upstream = clientp;

	(void)multi;
	upstream->kick = timeout_ms == 0;
	if (timeout_ms > 0)
		uv_timer_start(&upstream->timer, timer_run, (uint64_t)timeout_ms, 0);
	else
		uv_timer_stop(&upstream->timer);
	if (upstream->kick && !upstream->in_curl)
		upstream_wake(upstream);
	return 0;
}

void upstream_handle_closed(struct upstream *upstream)
{
	void (*closed)(void *data) = upstream->closed;
	void *data = upstream->closed_data;

	if (--upstream->handles > 0 || !upstream->torn_down)
		return;
	free(upstream->sockets);
	free(upstream);
	curl_global_cleanup();
	if (closed != NULL)
		closed(data);
}

static void handle_closed(uv_handle_t *handle)
{
	upstream_handle_closed(handle->data);
}

/* Nothing runs any more: connections, pool and handles go. */
static void tear_down(struct upstream *upstream)
{
	upstream->torn_down = true;
	while (upstream->pool != NULL) {
		struct transfer *transfer = upstream->pool;

		upstream->pool = transfer->next;
		transfer_free(transfer);
	}
	upstream->in_curl = true; /* libcurl's last callbacks start nothing */
	curl_multi_cleanup(upstream->multi);
	uv_close((uv_handle_t *)&upstream->timer, handle_closed);
	uv_close((uv_handle_t *)&upstream->idle, handle_closed);
}

static void idle_run(uv_idle_t *idle)
{
	struct upstream *upstream = idle->data;

	upstream->idle_on = false;
	uv_idle_stop(idle);
	drain(upstream); /* what is cancelled already is not begun */
	if (upstream->kick) {
		upstream->kick = false;
		upstream_action(upstream, CURL_SOCKET_TIMEOUT, 0);
	}
	if (upstream->queue != NULL || upstream->failed != NULL || upstream->kick)
		upstream_wake(upstream);
	if (upstream->closing && !upstream->torn_down && upstream->running == NULL &&
	    upstream->failed == NULL)
		tear_down(upstream);
}

int upstream_new(struct loop *loop, struct upstream **ret_upstream)
{
	struct upstream *upstream = calloc(1, sizeof *upstream);

	if (upstream == NULL)
		return -ENOMEM;
	/* Counted and safe between threads since libcurl 7.84. */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(upstream);
		return -EIO;
	}
	upstream->multi = curl_multi_init();
	if (upstream->multi == NULL) {
		curl_global_cleanup();
		free(upstream);
		return -ENOMEM;
	}
	curl_multi_setopt(upstream->multi, CURLMOPT_SOCKETFUNCTION, upstream_socket_wanted);
	curl_multi_setopt(upstream->multi, CURLMOPT_SOCKETDATA, upstream);
	curl_multi_setopt(upstream->multi, CURLMOPT_TIMERFUNCTION, timer_wanted);
	curl_multi_setopt(upstream->multi, CURLMOPT_TIMERDATA, upstream);
	curl_multi_setopt(upstream->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
	curl_multi_setopt(upstream->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
	upstream->loop = loop;
	upstream->queue_tail = &upstream->queue;
	uv_timer_init(&loop->uv, &upstream->timer); /* these two cannot fail */
	uv_idle_init(&loop->uv, &upstream->idle);
	upstream->timer.data = upstream->idle.data = upstream;
	upstream->handles = 2;
	*ret_upstream = upstream;
	return 0;
}

void upstream_close(struct upstream *upstream, void (*closed)(void *data), void *data)
{
	upstream->closing = true;
	upstream->closed = closed;
	upstream->closed_data = data;
	for (struct transfer *transfer = upstream->running; transfer != NULL;
	     transfer = transfer->next)
		transfer_end(transfer, FAULT_LOCAL);
	upstream_wake(upstream);
}

void attempt_start(struct upstream *upstream, struct attempt *attempt)
{
	transfer_begin(upstream, attempt);
}

void attempt_cancel(struct attempt *attempt, enum fault fault)
{
	struct transfer *transfer = attempt->transfer;

	if (transfer == NULL || transfer->now.finished)
		return;
	transfer->now.cancelled = true;
	transfer_end(transfer, fault);
}

void attempt_consume(struct attempt *attempt, size_t n)
{
	struct transfer *transfer = attempt->transfer;

	if (n > attempt->buffer_len)
		n = attempt->buffer_len;
	attempt->buffer_len -= n;
	if (n > 0 && attempt->buffer_len > 0)
		memmove(attempt->buffer, attempt->buffer + n, attempt->buffer_len);
	if (transfer == NULL || transfer->now.finished || !transfer->now.write_paused)
		return;
	transfer->now.consumed = true;
	upstream_news(transfer);
}

void attempt_body_ready(struct attempt *attempt)
{
	struct transfer *transfer = attempt->transfer;

	if (transfer == NULL || transfer->now.finished)
		return;
	transfer->now.body_ready = true;
	upstream_news(transfer);
}

void attempt_done(struct attempt *attempt)
{
	free(attempt->head);
	free(attempt->buffer);
	attempt->head = NULL;
	attempt->buffer = NULL;
	attempt->head_len = attempt->buffer_len = attempt->buffer_cap = 0;
}
