/* The gate's side of an exchange: asking, waiting in its queue, being granted, giving back. */
#include <stddef.h>
#include <string.h>

#include "proxy/exchange_internal.h"

void exchange_gate_release(struct exchange *x)
{
	if (x->ticket == 0)
		return;
	provider_release(x->provider, x->ticket, exchange_now(x));
	x->ticket = 0;
}

void exchange_gate_leave(struct exchange *x)
{
	uint64_t ticket;

	if (!x->gate_out)
		return;
	ticket = provider_forget(x->provider, &x->gate);
	if (ticket != 0)
		provider_release(x->provider, ticket, exchange_now(x));
	if (!x->gate.granted)
		x->gate_out = false;
}

static void gate_event(struct exchange *x, const struct gate_answer *answer,
		       uint8_t token[OP_TOKEN_LEN], struct delivery_event *ret_event)
{
	ret_event->now = exchange_now(x);
	if (answer->why == GATE_OPEN) {
		x->ticket = answer->ticket;
		worker_random(x->worker, token, OP_TOKEN_LEN);
		ret_event->kind = DELIVERY_EV_GATE_OPEN;
		ret_event->token = token;
		return;
	}
	ret_event->kind = DELIVERY_EV_GATE_CLOSED;
	ret_event->until = answer->until;
	ret_event->rate_limited = answer->rate_limited;
}

/* A slot was granted, or a block woke the queue empty-handed: then the gate is asked anew. */
static void on_grant(struct loop_task *task)
{
	struct exchange *x =
		CONTAINER_OF(CONTAINER_OF(task, struct gate_waiter, task), struct exchange, gate);
	struct gate_answer answer = {.why = GATE_OPEN};
	struct delivery_event event = {0};
	uint8_t token[OP_TOKEN_LEN];
	uint64_t ticket = provider_forget(x->provider, &x->gate);

	x->gate_out = false;
	if (x->ended || x->delivery.phase != DELIVERY_QUEUE) {
		if (ticket != 0)
			provider_release(x->provider, ticket, exchange_now(x));
		exchange_maybe_free(x);
		return;
	}
	if (ticket == 0) {
		exchange_simple_event(x, DELIVERY_EV_TIMER);
		return;
	}
	answer.ticket = ticket;
	gate_event(x, &answer, token, &event);
	exchange_event(x, &event);
}

static void ask(struct exchange *x, uint8_t token[OP_TOKEN_LEN], struct delivery_event *event)
{
	struct gate_answer answer;

	if (x->gate_out) {
		/* An earlier grant's task is still on its way; it will be the answer. */
		memset(&answer, 0, sizeof(answer));
		answer.why = GATE_CONCURRENCY;
		answer.until = USEC_MAX;
	} else {
		x->gate.loop = &x->worker->loop;
		x->gate.task.run = on_grant;
		x->gate.bucket = provider_bucket(x->provider, x->request->headers.items,
						 x->request->headers.count);
		answer = provider_enter(x->provider, &x->gate, exchange_now(x));
		x->gate_out = answer.why != GATE_OPEN && answer.until == USEC_MAX;
	}
	gate_event(x, &answer, token, event);
}

/* The credential is paused. To the machine that is a closed gate, so that the record is looked at (and
 * an answer that it has given out) or the intent recorded; where that is done and nothing was sent,
 * the delivery ends here. Whether `event` is the next one. */
static bool refuse_credential(struct exchange *x, struct delivery_event *event)
{
	if (x->delivery.started == 0 && (!x->keyed || x->delivery.have_op)) {
		exchange_auth_refuse(x);
		exchange_end(x);
		return false;
	}
	event->kind = DELIVERY_EV_GATE_CLOSED;
	event->now = exchange_now(x);
	event->until = usec_add(event->now, AUTH_PAUSE_TIME);
	return true;
}

bool exchange_gate_ask(struct exchange *x, uint8_t token[OP_TOKEN_LEN],
		       struct delivery_event *ret_event)
{
	if (!exchange_auth_may_start(x))
		return refuse_credential(x, ret_event);
	ask(x, token, ret_event);
	return true;
}
