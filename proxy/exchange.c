/* The happy path: exchange_start() identifies the request, enters the table of live operations, and
 * steps the delivery machine; each action is performed here or in exchange_store.c (ledger),
 * exchange_attempt.c (provider) and exchange_answer.c (caller), and comes back as the next event.
 *
 * Lifetime: an exchange is freed when the machine has ended and no ledger call, attempt, stream,
 * waiter's task or timer refers to it (exchange_maybe_free()). */
#include "proxy/exchange.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/exchange_internal.h"
#include "proxy/log.h"
#include "proxy/pending.h"

usec_t exchange_now(const struct exchange *x)
{
	return wall_clock_now(&x->worker->app->clock);
}

usec_t exchange_boot_at(const struct exchange *x, usec_t wall)
{
	return wall == USEC_MAX ? USEC_MAX : usec_add(wall - exchange_now(x), clock_boot());
}

/* --- timer: the machine's own time, the lease's renewal, a reply's pause ------------------------ */

static void on_timer(uv_timer_t *timer)
{
	struct exchange *x = timer->data;
	usec_t boot = clock_boot();

	if (x->renew_at <= boot) {
		x->renew_at = USEC_MAX;
		exchange_renew(x);
	}
	if (x->stream_at <= boot) {
		x->stream_at = USEC_MAX;
		exchange_reply_paused(x);
	}
	if (!x->ended && x->wake_at <= exchange_now(x)) {
		x->wake_at = USEC_MAX;
		/* The delivery's deadline, and its attempt has not begun to send: it is cut, not left. */
		if (x->send != NULL && !x->send->done && !x->send->attempt.sent)
			exchange_cancel(x, FAULT_DEADLINE);
		else
			exchange_simple_event(x, DELIVERY_EV_TIMER);
	}
	/* Also after an event: the machine may have nothing to do while a lease is to be renewed. */
	exchange_arm_timer(x);
}

void exchange_arm_timer(struct exchange *x)
{
	usec_t boot = clock_boot();
	usec_t at = usec_min(x->renew_at, x->stream_at);

	if (x->closing)
		return;
	if (!x->ended)
		at = usec_min(at, exchange_boot_at(x, x->wake_at));
	if (at == USEC_MAX) {
		uv_timer_stop(&x->timer);
		return;
	}
	/* Rounded up: libuv's timers are in milliseconds and count from the loop's own time. */
	uv_update_time(&x->worker->loop.uv);
	uv_timer_start(&x->timer, on_timer,
		       at <= boot ? 0 : (uint64_t)((at - boot + USEC_MS - 1) / USEC_MS), 0);
}

/* --- end of life -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
	struct exchange *x = handle->data;
	struct worker *worker = x->worker;

	if (x->prev != NULL)
		x->prev->next = x->next;
	else
		worker->exchanges = x->next;
	if (x->next != NULL)
		x->next->prev = x->prev;
	worker->exchange_count--;
	ledger_reply_unref(x->last_reply);
	ledger_reply_unref(x->stored_reply);
	free(x->upstream_key);
	free(x->name_block);
	free(x);
}

void exchange_maybe_free(struct exchange *x)
{
	if (!x->ended || x->closing || x->calls > 0 || x->send != NULL || x->waiter_out ||
	    x->gate_out)
		return;
	x->closing = true;
	if (x->request != NULL) {
		front_request_release(x->request);
		x->request = NULL;
	}
	uv_close((uv_handle_t *)&x->timer, on_closed);
}

void exchange_end(struct exchange *x)
{
	x->ended = true;
	x->wake_at = USEC_MAX;
	exchange_auth_end(x);
	if (x->entry != NULL) {
		const struct op *op = x->delivery.have_op ? &x->delivery.op : NULL;
		struct ledger_reply *reply = op != NULL ? exchange_record_reply(x, op) : NULL;

		/* A reply that is kept and not at hand: who joined reads it. */
		if (op != NULL && op->reply_kept && reply == NULL)
			op = NULL;
		live_leave(x->worker->app->live, x->entry, op, reply);
		x->entry = NULL;
	}
	if (!x->answered) {
		x->answered = true;
		exchange_count_result(x, RESULT_GONE);
	}
	exchange_maybe_free(x);
}

/* --- the machine -------------------------------------------------------------------------------- */

static void wait_until(struct exchange *x, usec_t until)
{
	x->wake_at = until;
	exchange_arm_timer(x);
}

static void note_waiting(struct exchange *x, bool waiting)
{
	usec_t boot = clock_boot();

	if (x->wait_since != 0)
		x->wait_time += boot - x->wait_since;
	x->wait_since = waiting ? boot : 0;
}

/* Leaves behind what the last action set up, before the next one. */
static void leave_last_action(struct exchange *x, enum delivery_act act)
{
	if (act == DELIVERY_ACT_NONE)
		return;
	x->wake_at = USEC_MAX;
	if (act != DELIVERY_ACT_WAIT)
		exchange_gate_leave(x);
	if (act != DELIVERY_ACT_JOIN)
		exchange_join_leave(x);
	note_waiting(x, act == DELIVERY_ACT_WAIT || act == DELIVERY_ACT_JOIN);
}

/* Writes that no ledger needs: those of requests that are not recorded. */
static bool is_unrecorded(const struct exchange *x, const struct delivery_action *act)
{
	if (x->keyed)
		return false;
	return x->off || x->delivery.safe || act->write != WRITE_SETTLE ||
	       x->delivery.proposal.state != OP_UNKNOWN;
}

/* Performs one action. true: `event` is the next event, to be stepped at once. */
static bool perform(struct exchange *x, const struct delivery_action *act,
		    uint8_t token[OP_TOKEN_LEN], struct delivery_event *event)
{
	leave_last_action(x, act->act);
	if (act->release)
		exchange_gate_release(x);
	if (act->answer != ANSWER_NONE && !x->answered) {
		x->answered = true;
		exchange_answer(x, act);
	}
	memset(event, 0, sizeof(*event));
	switch (act->act) {
	case DELIVERY_ACT_NONE:
		return false;
	case DELIVERY_ACT_GATE:
		return exchange_gate_ask(x, token, event);
	case DELIVERY_ACT_READ:
		exchange_read(x);
		wait_until(x, act->until);
		return false;
	case DELIVERY_ACT_WRITE:
		if (is_unrecorded(x, act)) {
			event->kind = DELIVERY_EV_WRITTEN;
			event->now = exchange_now(x);
			return true;
		}
		exchange_write(x, act);
		wait_until(x, act->until);
		return false;
	case DELIVERY_ACT_WAIT:
	case DELIVERY_ACT_JOIN:
		wait_until(x, act->until);
		return false;
	case DELIVERY_ACT_SEND:
		x->wake_at = act->until;
		exchange_send(x, act);
		exchange_arm_timer(x);
		return false;
	case DELIVERY_ACT_CANCEL:
		exchange_cancel(x, FAULT_CALLER);
		return false;
	case DELIVERY_ACT_END:
		exchange_end(x);
		return false;
	}
	return false;
}

void exchange_event(struct exchange *x, const struct delivery_event *first)
{
	struct delivery_action act;
	uint8_t token[OP_TOKEN_LEN];
	struct delivery_event event = *first;
	bool more = true;

	while (more && !x->ended) {
		delivery_step(&x->delivery, &event, &act);
		if (x->entry != NULL &&
		    (event.kind == DELIVERY_EV_WRITTEN || event.kind == DELIVERY_EV_RECORD))
			live_update(x->worker->app->live, x->entry, &x->delivery.op);
		more = perform(x, &act, token, &event);
	}
}

void exchange_simple_event(struct exchange *x, enum delivery_event_kind kind)
{
	struct delivery_event event = {.kind = kind};

	event.now = exchange_now(x);
	exchange_event(x, &event);
}

/* --- the caller --------------------------------------------------------------------------------- */

static void on_half(struct front_request *request)
{
	struct exchange *x = request->data;

	if (!x->ended)
		exchange_simple_event(x, DELIVERY_EV_HALF);
}

static void on_gone(struct front_request *request)
{
	struct exchange *x = request->data;

	x->caller_gone = true;
	exchange_stream_dropped(x);
	if (!x->ended)
		exchange_simple_event(x, DELIVERY_EV_GONE);
}

static void on_body(struct front_request *request)
{
	struct exchange *x = request->data;

	if (x->send != NULL && !x->send->done)
		attempt_body_ready(&x->send->attempt);
}

/* --- start -------------------------------------------------------------------------------------- */

static bool store_is_full(const struct exchange *x)
{
	const struct app *app = x->worker->app;

	return pending_is_full(app->pending) ||
	       atomic_load(&x->provider->unresolved_keyed) >= app->config->unknown_max;
}

/* The number in a header that an SDK sends, in seconds; -1 without a readable one: what is not ours is
 * not refused for its form. */
static double sdk_number(const struct front_request *request, const char *name)
{
	const struct header_view *line =
		name != NULL ? headers_find(&request->headers, name) : NULL;
	char *end;
	double value;

	if (line == NULL || line->value_len == 0 || line->value[0] < '0' || line->value[0] > '9')
		return -1;
	value = strtod(line->value, &end);
	return *end == '\0' && value <= (double)(USEC_DAY / USEC_SEC) ? value : -1;
}

/* An SDK's own patience, from receipt, less what its answer needs to reach it (design section 4,
 * "Hints"); USEC_MAX: it says none. */
static usec_t sdk_deadline(const struct front_request *request)
{
	double seconds = sdk_number(request, request->provider->config->sdk_timeout_header);

	if (seconds <= 0)
		return USEC_MAX;
	return usec_max((usec_t)(seconds * (double)USEC_SEC) - 500 * USEC_MS, 1);
}

static void set_facts(struct exchange *x)
{
	struct front_request *request = x->request;
	struct delivery *d = &x->delivery;
	const struct policy *policy = &x->provider->config->policy;
	usec_t now = exchange_now(x), boot = clock_boot();
	usec_t complete = now - (boot - request->complete);
	usec_t deadline;

	delivery_init(d, x->off ? &x->provider->plain : policy);
	d->safe = op_method_is_safe(request->method);
	d->is_delete = strcmp(request->method, "DELETE") == 0;
	d->replayable = !request->streamed;
	d->answer_by = usec_add(complete, policy->hold);
	d->hint_attempts = request->hints.attempts;
	deadline = sdk_deadline(request);
	if (request->hints.deadline >= 0)
		deadline = usec_min(deadline, request->hints.deadline);
	if (deadline != USEC_MAX && !x->off) {
		d->deadline = usec_add(now - (boot - request->started), deadline);
		d->answer_by = usec_min(d->answer_by, d->deadline);
	}
	if (d->safe)
		d->repeat = x->off ? REPEAT_NEVER : REPEAT_ALWAYS;
	worker_random(x->worker, d->incarnation, OP_INCARNATION_LEN);
}

static struct exchange *exchange_new(struct front_request *request)
{
	struct exchange *x = calloc(1, sizeof(*x));
	struct worker *worker = front_worker(request->front);

	if (x == NULL)
		return NULL;
	x->worker = worker;
	x->provider = request->provider;
	x->request = request;
	x->off = request->provider->config->mode == MODE_OFF;
	x->wake_at = x->renew_at = x->stream_at = USEC_MAX;
	x->began = clock_boot();
	uv_timer_init(&worker->loop.uv, &x->timer);
	x->timer.data = x;
	x->next = worker->exchanges;
	if (x->next != NULL)
		x->next->prev = x;
	worker->exchanges = x;
	worker->exchange_count++;
	request->data = x;
	request->on_half = on_half;
	request->on_gone = on_gone;
	request->on_written = NULL;
	request->on_body = on_body;
	return x;
}

void exchange_start(struct front_request *request)
{
	struct exchange *x = exchange_new(request);
	const char *problem;
	char detail[256] = "";

	if (x == NULL) {
		struct front_answer answer = {.status = 503, .close = true};

		answer.stream_length = answer.head_length = -1;
		front_request_answer(request, &answer);
		front_request_release(request);
		return;
	}
	set_facts(x);
	if (sdk_number(request, request->provider->config->sdk_retries_header) > 0)
		metrics_add(&x->provider->metrics.sdk_retries, 1);
	problem = exchange_identify(x, detail);
	if (problem != NULL) {
		exchange_answer_problem(x, problem, -1, detail);
	} else if (x->keyed && x->name_block == NULL) { /* there was no ledger to name it for */
		exchange_answer_problem(x, "ledger-away", BUSY_RETRY_AFTER, NULL);
	} else if (x->keyed && store_is_full(x)) {
		exchange_answer_problem(x, "ledger-full", BUSY_RETRY_AFTER, NULL);
	} else {
		if (x->worker->draining)
			x->delivery.draining = true;
		if (x->keyed)
			exchange_join_enter(x);
		else
			exchange_simple_event(x, DELIVERY_EV_START);
		return;
	}
	exchange_end(x);
}

void exchange_drain_all(struct worker *worker)
{
	struct exchange *next;

	for (struct exchange *x = worker->exchanges; x != NULL; x = next) {
		next = x->next;
		if (!x->ended)
			exchange_simple_event(x, DELIVERY_EV_DRAIN);
	}
}

void exchange_cut_all(struct worker *worker)
{
	struct exchange *next;

	for (struct exchange *x = worker->exchanges; x != NULL; x = next) {
		next = x->next;
		exchange_cancel(x, FAULT_TOTAL);
		/* A stream whose caller does not read on: it is cut there as well. */
		if (x->send != NULL && x->send->done) {
			exchange_send_free(x);
			exchange_maybe_free(x);
		}
	}
}
