/* One transfer from its start to its one completion.
 *
 *   pool -> running (in libcurl) -> finished (out of libcurl, outcome written) -> told -> pool
 *
 * transfer_begin() starts it or ends it at once; libcurl's result, a limit or a cancel finishes it;
 * transfer_step(), called from the drained queue alone, tells the owner and gives it back. */
#include "proxy/upstream_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/clock.h"

#define POOL_MAX 128         /* transfers kept for reuse */
#define BLOCK_KEPT_MAX 65536 /* a larger header block is not kept with them */

static void timer_closed(uv_handle_t *handle)
{
	struct transfer *transfer = handle->data;
	struct upstream *upstream = transfer->upstream;

	free(transfer);
	upstream_handle_closed(upstream);
}

void transfer_free(struct transfer *transfer)
{
	curl_easy_cleanup(transfer->easy);
	free(transfer->block);
	uv_close((uv_handle_t *)&transfer->timer, timer_closed);
}

static struct transfer *transfer_new(struct upstream *upstream)
{
	struct transfer *transfer = calloc(1, sizeof *transfer);

	if (transfer == NULL)
		return NULL;
	transfer->easy = curl_easy_init();
	if (transfer->easy == NULL) {
		free(transfer);
		return NULL;
	}
	uv_timer_init(&upstream->loop->uv, &transfer->timer); /* cannot fail */
	upstream->handles++;
	transfer->timer.data = transfer;
	transfer->timer_at = USEC_MAX;
	transfer->upstream = upstream;
	return transfer;
}

static struct transfer *pool_take(struct upstream *upstream)
{
	struct transfer *transfer = upstream->pool;

	if (transfer == NULL)
		return transfer_new(upstream);
	upstream->pool = transfer->next;
	upstream->pool_count--;
	transfer->next = NULL;
	return transfer;
}

/* Takes it off the running list and back into the pool, with nothing left of its request. */
static void transfer_release(struct transfer *transfer)
{
	struct upstream *upstream = transfer->upstream;

	if (transfer->prev != NULL)
		transfer->prev->next = transfer->next;
	else
		upstream->running = transfer->next;
	if (transfer->next != NULL)
		transfer->next->prev = transfer->prev;
	transfer->prev = NULL;
	transfer->attempt = NULL;
	transfer->socket = NULL;
	head_reset(&transfer->now.head);
	memset(&transfer->now, 0, sizeof transfer->now);
	curl_easy_reset(transfer->easy);
	if (transfer->block_cap > BLOCK_KEPT_MAX) {
		free(transfer->block);
		transfer->block = NULL;
		transfer->block_cap = 0;
	}
	if (upstream->pool_count >= POOL_MAX) {
		transfer_free(transfer);
		return;
	}
	transfer->next = upstream->pool;
	upstream->pool = transfer;
	upstream->pool_count++;
}

static void attempt_reset(struct upstream *upstream, struct attempt *attempt)
{
	attempt->status = 0;
	attempt->head = NULL;
	attempt->head_len = 0;
	attempt->content_length = -1;
	attempt->close_delimited = false;
	attempt->complete = false;
	attempt->sent = false;
	attempt->hidden_resend = false;
	attempt->fault = FAULT_NONE;
	attempt->detail[0] = '\0';
	attempt->started = clock_boot();
	attempt->sent_at = attempt->head_at = attempt->ended = 0;
	attempt->request_bytes = attempt->reply_bytes = 0;
	attempt->buffer = NULL;
	attempt->buffer_len = attempt->buffer_cap = 0;
	attempt->upstream = upstream;
	attempt->transfer = NULL;
	attempt->next = NULL;
}

void transfer_begin(struct upstream *upstream, struct attempt *attempt)
{
	struct transfer *transfer;
	enum fault fault;

	attempt_reset(upstream, attempt);
	transfer = pool_take(upstream);
	if (transfer == NULL) {
		upstream_failed(upstream, attempt);
		return;
	}
	transfer->attempt = attempt;
	attempt->transfer = transfer;
	head_reset(&transfer->now.head);
	transfer->error[0] = '\0';
	transfer->next = upstream->running;
	if (upstream->running != NULL)
		upstream->running->prev = transfer;
	upstream->running = transfer;

	if (upstream->closing) {
		transfer_end(transfer, FAULT_LOCAL);
		return;
	}
	if (limit_spent(attempt, attempt->started, &fault)) {
		transfer_end(transfer, fault);
		return;
	}
	if (request_prepare(transfer) != 0 ||
	    curl_multi_add_handle(upstream->multi, transfer->easy) != CURLM_OK) {
		transfer_end(transfer, FAULT_LOCAL);
		return;
	}
	transfer->now.in_multi = true;
	limit_arm(transfer);
}

void transfer_end(struct transfer *transfer, enum fault fault)
{
	struct transfer_state *now = &transfer->now;

	if (now->finished || now->ending)
		return;
	now->ending = true;
	now->end = fault;
	upstream_news(transfer);
}

/* A sentence for faults that are found here, where libcurl has none. */
static const char *fault_sentence(enum fault fault)
{
	switch (fault) {
	case FAULT_CONNECT_TIMEOUT:
		return "no connection within attempt.connect";
	case FAULT_TIMEOUT:
		return "no reply headers within attempt.timeout";
	case FAULT_IDLE:
		return "no byte moved within attempt.idle";
	case FAULT_TOTAL:
		return "attempt.total or the window ran out";
	case FAULT_DEADLINE:
		return "the delivery's deadline passed";
	case FAULT_CALLER:
		return "the caller is gone";
	case FAULT_CLOSED:
		return "closed without a reply";
	case FAULT_CUT:
		return "the reply ended short";
	default:
		return NULL;
	}
}

/* Whether a transfer that libcurl calls done has all of its reply: libcurl takes a connection that
 * closes inside the head for a whole reply, and one that it paused may end with bytes undelivered. */
static bool reply_whole(const struct transfer *transfer)
{
	const struct attempt *attempt = transfer->attempt;

	if (transfer->now.head.state != HEAD_DONE)
		return false;
	if (transfer->now.bodiless)
		return true;
	if (attempt->content_length >= 0)
		return transfer->now.body_received == (uint64_t)attempt->content_length;
	return !transfer->now.write_paused;
}

static enum fault outcome(const struct transfer *transfer, CURLcode code)
{
	const struct transfer_state *now = &transfer->now;
	const struct fault_context context = {
		.sent = transfer->attempt->sent,
		.head_began = now->head.state != HEAD_START,
		.head_done = now->head.state == HEAD_DONE,
	};
	enum fault fault;

	if (now->ending)
		return now->end;
	if (now->recorded != FAULT_NONE)
		return now->recorded;
	fault = fault_from_curl(code, &context);
	return fault == FAULT_NONE && !reply_whole(transfer) ? FAULT_CUT : fault;
}

void transfer_finish(struct transfer *transfer, CURLcode code)
{
	struct upstream *upstream = transfer->upstream;
	struct attempt *attempt = transfer->attempt;
	struct transfer_state *now = &transfer->now;
	const char *detail = now->why;
	bool was = upstream->in_curl;

	assert(!now->finished);
	attempt->fault = outcome(transfer, code);
	attempt->complete = attempt->fault == FAULT_NONE;
	attempt->ended = clock_boot();
	if (attempt->fault == FAULT_HIDDEN_RESEND)
		attempt->hidden_resend = true;
	/* The status of a head that did not end is told where the fault is about the reply. */
	if (attempt->fault == FAULT_CUT || attempt->fault == FAULT_HEAD_TOO_LARGE)
		attempt->status = now->head.state == HEAD_START ? 0 : now->head.status;
	now->finished = true;
	now->tell_body = now->tell_body || attempt->complete;
	limit_stop(transfer);
	if (now->in_multi) {
		upstream->in_curl = true;
		curl_multi_remove_handle(upstream->multi, transfer->easy);
		upstream->in_curl = was;
		now->in_multi = false;
		upstream_socket_sweep(transfer);
	}
	if (!attempt->complete) {
		if (detail == NULL && !now->ending && transfer->error[0] != '\0')
			detail = transfer->error;
		if (detail == NULL)
			detail = fault_sentence(attempt->fault);
		if (detail == NULL)
			detail = now->ending ? "ended" : curl_easy_strerror(code);
		snprintf(attempt->detail, sizeof attempt->detail, "%.127s", detail);
	}
}

/* Lets libcurl go on where the owner has made room or has more to send. libcurl sets both
 * directions in one call, and may run the body callback in it. */
static void transfer_resume(struct transfer *transfer)
{
	struct upstream *upstream = transfer->upstream;
	struct attempt *attempt = transfer->attempt;
	struct transfer_state *now = &transfer->now;
	bool receive =
		now->consumed && now->write_paused && attempt->buffer_len < attempt->buffer_max;
	bool send = now->body_ready && now->read_paused;
	CURLcode code;

	now->consumed = now->body_ready = false;
	if (!receive && !send)
		return;
	if (receive)
		now->write_paused = false;
	if (send)
		now->read_paused = false;
	now->activity = clock_boot();
	upstream->in_curl = true;
	code = curl_easy_pause(transfer->easy, (now->write_paused ? CURLPAUSE_RECV : 0) |
						       (now->read_paused ? CURLPAUSE_SEND : 0));
	upstream->in_curl = false;
	if (code != CURLE_OK)
		transfer_finish(transfer, code);
	else
		limit_arm(transfer);
}

void transfer_step(struct transfer *transfer)
{
	struct attempt *attempt = transfer->attempt;
	struct transfer_state *now = &transfer->now;

	if (!now->finished && now->ending)
		transfer_finish(transfer, CURLE_OK);
	if (!now->finished && now->early)
		transfer_finish(transfer, CURLE_OK);
	if (!now->finished && (now->consumed || now->body_ready))
		transfer_resume(transfer);
	if (now->tell_head && !now->cancelled) {
		now->tell_head = false;
		if (attempt->on_head != NULL)
			attempt->on_head(attempt);
	}
	if (now->tell_body && !now->cancelled) {
		now->tell_body = false;
		if (attempt->on_body != NULL)
			attempt->on_body(attempt);
	}
	/* on_head and on_body may have ended it: the next step finishes it then. */
	if (!now->finished)
		return;
	attempt->transfer = NULL;
	transfer_release(transfer);
	attempt->on_done(attempt); /* last: it may free the attempt */
}
