/* Joining: one delivery of this process works on an operation, the others wait for how it ends. */
#include <stddef.h>
#include <string.h>

#include "proxy/exchange_internal.h"

/* What is held for a refused credential goes on with another one, and only its owner in the table of
 * live operations may start anything. */
static bool brings_credential(struct exchange *x, const struct op *op)
{
	if (op->state != OP_HELD || op->class != CLASS_AUTH)
		return false;
	exchange_set_credential(x);
	return x->delivery.has_credential &&
	       memcmp(x->delivery.credential, op->credential, OP_CREDENTIAL_LEN) != 0;
}

static void on_owner_left(struct loop_task *task)
{
	struct exchange *x =
		CONTAINER_OF(CONTAINER_OF(task, struct live_waiter, task), struct exchange, waiter);
	struct live_result *result = x->waiter.result;
	struct delivery_event event = {.kind = DELIVERY_EV_RECORD};

	x->waiter_out = false;
	x->waiter.result = NULL;
	if (x->ended) {
		live_result_unref(result);
		exchange_maybe_free(x);
		return;
	}
	if (result == NULL) {
		exchange_join_enter(x);
		return;
	}
	if (brings_credential(x, &result->op)) {
		live_result_unref(result);
		exchange_join_enter(x);
		return;
	}
	ledger_reply_unref(x->stored_reply);
	x->stored_reply = result->reply != NULL ? ledger_reply_ref(result->reply) : NULL;
	event.now = exchange_now(x);
	event.op = &result->op;
	exchange_event(x, &event);
	live_result_unref(result);
}

void exchange_join_enter(struct exchange *x)
{
	struct delivery_event event = {.kind = DELIVERY_EV_START};
	bool join = x->provider->config->policy.in_flight == IN_FLIGHT_JOIN;
	bool same = true, known = false;
	struct op op;

	x->waiter.loop = &x->worker->loop;
	x->waiter.task.run = on_owner_left;
	switch (live_enter(x->worker->app->live, &x->name, x->delivery.fingerprint, &x->waiter,
			   join, &x->entry, &same, &known, &op)) {
	case LIVE_OWNER:
		break;
	case LIVE_BUSY:
		event.kind = DELIVERY_EV_BUSY;
		event.same = same;
		event.op = known ? &op : NULL;
		x->waiter_out = same && join;
		break;
	case LIVE_MEMORY:
		exchange_answer_problem(x, "ledger-away", BUSY_RETRY_AFTER, "out of memory");
		exchange_end(x);
		return;
	}
	event.now = exchange_now(x);
	exchange_event(x, &event);
}

void exchange_join_leave(struct exchange *x)
{
	if (x->waiter_out && live_forget(x->worker->app->live, &x->waiter))
		x->waiter_out = false;
}
