/* One delivery: the actions of the machine, performed. The order of things is that of
 * proxy/exchange.c. */
#include "tests/scenario/sim.h"

#include <stdio.h>
#include <string.h>

#define RETRY_AFTER_MAX USEC_DAY

/* --- answers ------------------------------------------------------------------------------------- */

/* As the Retry-After line reads: whole seconds, at least one, at most a day. */
static usec_t header_seconds(usec_t retry_after)
{
	usec_t seconds = (retry_after + USEC_SEC - 1) / USEC_SEC;

	return usec_min(usec_max(seconds, 1) * USEC_SEC, RETRY_AFTER_MAX);
}

static void set_texts(struct sim_answer *answer, const char *problem, const char *reason)
{
	if (problem != NULL)
		(void)snprintf(answer->problem, sizeof(answer->problem), "%s", problem);
	if (reason != NULL)
		(void)snprintf(answer->reason, sizeof(answer->reason), "%s", reason);
	else if (answer->have_op && answer->op.class != CLASS_SUCCESS)
		(void)snprintf(answer->reason, sizeof(answer->reason), "%s", answer->op.reason);
}

static void answer(struct sim *sim, struct sim_delivery *x, const struct delivery_action *act)
{
	struct sim_answer *a = &x->answer;

	x->answers++;
	if (x->caller_gone)
		return;
	memset(a, 0, sizeof(*a));
	a->there = true;
	a->at = sim->now;
	a->kind = act->answer;
	a->have_op = x->d.have_op;
	a->op = x->d.op;
	a->retry_after = act->retry_after < 0 ? -1 : header_seconds(act->retry_after);
	a->advice = x->d.started > 0 ? x->d.verdict.advice : -1;
	if (act->answer == ANSWER_REPLY && x->last_reply.there) {
		a->reply = x->last_reply;
		a->status = x->last_reply.status;
		a->made = x->last_reply.truncated;
	} else if (act->answer == ANSWER_STORED && x->stored_reply.there) {
		a->reply = x->stored_reply;
		a->status = x->stored_reply.status;
		a->replayed = true;
	} else {
		a->made = true;
		a->status = act->answer == ANSWER_REPLY ? 502 : act->status;
	}
	if (a->retry_after < 0 && a->reply.there && a->reply.retry_after >= 0)
		a->retry_after = header_seconds(a->reply.retry_after);
	set_texts(a, a->made && act->answer != ANSWER_REPLY ? act->problem : NULL, act->reason);
	sim_trace(sim, "%s answered %s %d %s retry-after %.3f", x->instance->name, x->request.name,
		  a->status, a->problem, (double)a->retry_after / (double)USEC_SEC);
	sim_book_answer(sim, x);
}

/* A queue delivers again when the reply says so, and stops at any other. */
static void deliver_again(struct sim *sim, struct sim_delivery *x)
{
	const struct sim_answer *a = &x->answer;

	if (x->request.times + 1 >= x->request.again || !a->there || a->retry_after < 0 ||
	    a->status / 100 == 2)
		return;
	sim->queued++;
	sim_post(sim, usec_add(a->at, a->retry_after), EVENT_AGAIN, x, 0);
}

/* --- timer, end ---------------------------------------------------------------------------------- */

static void wait_until(struct sim *sim, struct sim_delivery *x, usec_t until)
{
	x->wake_at = until;
	x->wake_stamp++;
	if (until != USEC_MAX)
		sim_post(sim, until, EVENT_WAKE, x, x->wake_stamp);
}

void sim_exchange_wake(struct sim *sim, struct sim_delivery *x)
{
	if (x->crashed || x->ended)
		return;
	x->wake_at = USEC_MAX;
	sim_exchange_simple(sim, x, DELIVERY_EV_TIMER);
}

static void end(struct sim *sim, struct sim_delivery *x)
{
	sim_trace(sim, "%s ended %s", x->instance->name, x->request.name);
	x->ended = true;
	x->wake_stamp++;
	if (x->owner)
		sim_live_leave(sim, x);
	if (x->answers == 0 && !x->caller_gone)
		sim_fail(sim, "%s ended without an answer", x->request.name);
	if (x->ticket != 0)
		sim_fail(sim, "%s ended with a slot", x->request.name);
	deliver_again(sim, x);
}

/* --- gate ---------------------------------------------------------------------------------------- */

static void release(struct sim *sim, struct sim_delivery *x)
{
	uint64_t ticket = x->ticket;

	x->ticket = 0;
	if (ticket != 0)
		sim_gate_release(sim, x, ticket);
}

static void leave_queue(struct sim *sim, struct sim_delivery *x)
{
	uint64_t ticket = sim_gate_forget(x);

	if (ticket != 0)
		sim_gate_release(sim, x, ticket);
}

static void gate_event(struct sim *sim, struct sim_delivery *x, const struct gate_answer *answer,
		       uint8_t token[OP_TOKEN_LEN], struct delivery_event *ret_event)
{
	ret_event->now = sim->now;
	if (answer->why == GATE_OPEN) {
		x->ticket = answer->ticket;
		sim_random_bytes(sim, token, OP_TOKEN_LEN);
		ret_event->kind = DELIVERY_EV_GATE_OPEN;
		ret_event->token = token;
		return;
	}
	ret_event->kind = DELIVERY_EV_GATE_CLOSED;
	ret_event->until = answer->until;
	ret_event->rate_limited = answer->rate_limited;
}

void sim_exchange_granted(struct sim *sim, struct sim_delivery *x)
{
	struct gate_answer answer = {.why = GATE_OPEN};
	struct delivery_event event = {.kind = DELIVERY_EV_TIMER};
	uint8_t token[OP_TOKEN_LEN];
	uint64_t ticket = sim_gate_forget(x);

	x->grant_posted = false;
	if (x->crashed)
		return;
	if (x->ended || x->d.phase != DELIVERY_QUEUE) {
		if (ticket != 0)
			sim_gate_release(sim, x, ticket);
		return;
	}
	if (ticket == 0) {
		sim_exchange_simple(sim, x, DELIVERY_EV_TIMER);
		return;
	}
	answer.ticket = ticket;
	gate_event(sim, x, &answer, token, &event);
	sim_exchange_event(sim, x, &event);
}

static void ask_gate(struct sim *sim, struct sim_delivery *x, uint8_t token[OP_TOKEN_LEN],
		     struct delivery_event *event)
{
	struct gate_answer answer = {.why = GATE_CONCURRENCY, .until = USEC_MAX};

	if (!x->queued && !x->grant_posted)
		answer = sim_gate_enter(sim, x);
	gate_event(sim, x, &answer, token, event);
}

/* --- joining ------------------------------------------------------------------------------------- */

void sim_exchange_owner_left(struct sim *sim, struct sim_delivery *x)
{
	struct delivery_event event = {.kind = DELIVERY_EV_RECORD, .now = sim->now};

	x->join_posted = false;
	if (x->crashed || x->ended)
		return;
	if (!x->join_told) {
		sim_live_enter(sim, x);
		return;
	}
	/* Only the owner in the table may start anything with another credential. */
	if (x->join_op.state == OP_HELD && x->join_op.class == CLASS_AUTH && x->d.has_credential &&
	    memcmp(x->d.credential, x->join_op.credential, OP_CREDENTIAL_LEN) != 0) {
		sim_live_enter(sim, x);
		return;
	}
	x->stored_reply = x->join_reply;
	event.op = &x->join_op;
	sim_exchange_event(sim, x, &event);
}

/* --- the machine --------------------------------------------------------------------------------- */

static void leave_last_action(struct sim *sim, struct sim_delivery *x, enum delivery_act act)
{
	if (act == DELIVERY_ACT_NONE)
		return;
	x->wake_at = USEC_MAX;
	x->wake_stamp++;
	if (act != DELIVERY_ACT_WAIT)
		leave_queue(sim, x);
	if (act != DELIVERY_ACT_JOIN)
		sim_live_forget(x);
}

static bool is_unrecorded(const struct sim_delivery *x, const struct delivery_action *act)
{
	if (x->keyed)
		return false;
	return x->d.safe || act->write != WRITE_SETTLE || x->d.proposal.state != OP_UNKNOWN;
}

/* Performs one action. true: `event` is the next event, to be stepped at once. */
static bool perform_action(struct sim *sim, struct sim_delivery *x,
			   const struct delivery_action *act, uint8_t token[OP_TOKEN_LEN],
			   struct delivery_event *event)
{
	leave_last_action(sim, x, act->act);
	if (act->release)
		release(sim, x);
	if (act->answer != ANSWER_NONE && x->answers == 0)
		answer(sim, x, act);
	memset(event, 0, sizeof(*event));
	switch (act->act) {
	case DELIVERY_ACT_NONE:
		return false;
	case DELIVERY_ACT_GATE:
		ask_gate(sim, x, token, event);
		return true;
	case DELIVERY_ACT_READ:
		sim_exchange_read(sim, x);
		wait_until(sim, x, act->until);
		return false;
	case DELIVERY_ACT_WRITE:
		if (is_unrecorded(x, act)) {
			event->kind = DELIVERY_EV_WRITTEN;
			event->now = sim->now;
			return true;
		}
		sim_exchange_write(sim, x, act);
		wait_until(sim, x, act->until);
		return false;
	case DELIVERY_ACT_WAIT:
	case DELIVERY_ACT_JOIN:
		wait_until(sim, x, act->until);
		return false;
	case DELIVERY_ACT_SEND:
		sim_attempt_start(sim, x, act);
		wait_until(sim, x, act->until);
		return false;
	case DELIVERY_ACT_CANCEL:
		sim_attempt_cancel(sim, x, FAULT_CALLER);
		return false;
	case DELIVERY_ACT_END:
		end(sim, x);
		return false;
	}
	return false;
}

void sim_exchange_event(struct sim *sim, struct sim_delivery *x, struct delivery_event *event)
{
	struct delivery_action act;
	uint8_t token[OP_TOKEN_LEN];
	bool more = true;

	for (int turns = 0; more && !x->ended && sim->failure[0] == '\0'; turns++) {
		if (turns == 100) {
			sim_fail(sim, "%s goes round in circles", x->request.name);
			return;
		}
		delivery_step(&x->d, event, &act);
		sim_trace(sim, "%s %s event %d -> phase %d act %d", x->instance->name,
			  x->request.name, (int)event->kind, (int)x->d.phase, (int)act.act);
		if (x->owner &&
		    (event->kind == DELIVERY_EV_WRITTEN || event->kind == DELIVERY_EV_RECORD))
			sim_live_update(x);
		more = perform_action(sim, x, &act, token, event);
	}
	if (!x->ended && x->d.phase == DELIVERY_QUEUE && x->d.gate_until == USEC_MAX &&
	    !x->queued && !x->grant_posted)
		sim_fail(sim, "%s waits for a slot outside of the queue", x->request.name);
}

void sim_exchange_simple(struct sim *sim, struct sim_delivery *x, enum delivery_event_kind kind)
{
	struct delivery_event event = {.kind = kind, .now = sim->now};

	sim_exchange_event(sim, x, &event);
}

/* --- the caller ---------------------------------------------------------------------------------- */

void sim_caller_half(struct sim *sim, struct sim_delivery *x)
{
	if (!x->ended && !x->crashed)
		sim_exchange_simple(sim, x, DELIVERY_EV_HALF);
}

void sim_caller_gone(struct sim *sim, struct sim_delivery *x)
{
	if (x->crashed || x->caller_gone)
		return;
	x->caller_gone = true;
	sim_attempt_dropped(sim, x);
	if (!x->ended)
		sim_exchange_simple(sim, x, DELIVERY_EV_GONE);
}

/* --- start --------------------------------------------------------------------------------------- */

static void set_facts(struct sim *sim, struct sim_delivery *x)
{
	const struct sim_request *request = &x->request;
	const struct policy *policy = &x->provider->policy;
	struct delivery *d = &x->d;

	delivery_init(d, policy);
	d->safe = op_method_is_safe(request->method);
	d->is_delete = strcmp(request->method, "DELETE") == 0;
	d->replayable = !request->streamed;
	d->answer_by = usec_add(x->arrival, policy->hold);
	d->hint_attempts = request->hint_attempts;
	if (request->hint_deadline >= 0) {
		d->deadline = usec_add(x->arrival - request->upload, request->hint_deadline);
		d->answer_by = usec_min(d->answer_by, d->deadline);
	}
	if (d->safe)
		d->repeat = REPEAT_ALWAYS;
	sim_random_bytes(sim, d->incarnation, OP_INCARNATION_LEN);
	x->keyed = request->key[0] != '\0' && !d->safe;
	if (!x->keyed)
		return;
	d->ledgered = true;
	d->repeat = op_repeat_rule(policy, request->method);
	d->instance = x->instance->id;
	d->has_credential = request->credential != 0;
	memcpy(d->credential, &request->credential, sizeof(request->credential));
	memcpy(d->fingerprint, &request->body, sizeof(request->body));
	(void)snprintf((char *)d->fingerprint + sizeof(request->body),
		       OP_FINGERPRINT_LEN - sizeof(request->body), "%s", request->method);
	x->record = sim_record(sim, x->provider, request->key);
}

struct sim_delivery *sim_deliver(struct sim *sim, const struct sim_request *request)
{
	struct sim_delivery *x = sim_alloc(sizeof(*x));

	*sim->last_delivery = x;
	sim->last_delivery = &x->next;
	x->sim = sim;
	x->request = *request;
	x->instance = request->instance;
	x->provider = request->provider;
	x->arrival = sim->now;
	x->wake_at = USEC_MAX;
	x->last_reply.retry_after = x->stored_reply.retry_after = -1;
	set_facts(sim, x);
	sim_trace(sim, "%s delivered %s key %s", x->instance->name, request->name, request->key);
	x->d.draining = x->instance->draining;
	if (x->keyed)
		sim_live_enter(sim, x);
	else
		sim_exchange_simple(sim, x, DELIVERY_EV_START);
	return x;
}

void sim_again(struct sim *sim, struct sim_delivery *x)
{
	struct sim_request request = x->request;
	size_t len = strlen(request.name);

	sim->queued--;
	while (len > 0 && request.name[len - 1] != '.')
		len--;
	if (len == 0 || len > SIM_NAME - 12 || !x->instance->alive)
		return;
	request.times++;
	(void)snprintf(request.name + len, sizeof(request.name) - len, "%d", request.times + 1);
	(void)sim_deliver(sim, &request);
}
