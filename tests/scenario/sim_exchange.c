/* One delivery: the actions of the machine, performed. The order of things is that of
 * proxy/exchange.c and proxy/exchange_store.c. */
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

/* --- the store ----------------------------------------------------------------------------------- */

static void submit_read(struct sim *sim, struct sim_delivery *x)
{
	struct sim_call *call = sim_call_new(sim, x->instance, x->record, VERB_GET);

	call->delivery = x;
	x->calls++;
	sim_call_submit(sim, call);
}

static enum sim_verb verb_of(const struct delivery *d, const struct delivery_action *act)
{
	if (act->write == WRITE_CLAIM)
		return VERB_CLAIM;
	if (act->write != WRITE_SETTLE || act->expect_absent || d->op.state != OP_ATTEMPTING ||
	    memcmp(d->op.token, d->token, OP_TOKEN_LEN) != 0)
		return VERB_CHANGE;
	return VERB_SETTLE;
}

static void name_unkeyed(struct sim *sim, struct sim_delivery *x)
{
	char key[SIM_KEY];

	if (x->record != NULL)
		return;
	(void)snprintf(key, sizeof(key), "unkeyed-%.60s", x->request.name);
	x->record = sim_record(sim, x->provider, key);
	x->last_reply.record = x->record;
}

static bool is_own_end(const struct sim_delivery *x, const struct op *op)
{
	const struct op_attempt *last = op_find_attempt(op, op->last_n);

	return (op->state == OP_SUCCEEDED || op->state == OP_FAILED) && x->d.started > 0 &&
	       last != NULL && memcmp(last->token, x->d.token, OP_TOKEN_LEN) == 0;
}

/* The reply goes with the settle that ends the operation. */
static void set_reply(const struct sim_delivery *x, const struct delivery_action *act,
		      struct sim_call *call)
{
	bool own = is_own_end(x, &call->op);

	if (act->write == WRITE_SETTLE && own && !x->last_reply.truncated)
		call->reply = x->last_reply;
	if (call->reply.there)
		call->op.reply_kept = true;
	else if (own || !op_is_terminal(&call->op))
		call->op.reply_kept = false;
}

static void submit_write(struct sim *sim, struct sim_delivery *x,
			 const struct delivery_action *act)
{
	struct delivery *d = &x->d;
	struct sim_call *call;

	if (!x->keyed) {
		d->proposal.unkeyed = true;
		name_unkeyed(sim, x);
	}
	call = sim_call_new(sim, x->instance, x->record, verb_of(d, act));
	call->delivery = x;
	call->write = act->write;
	call->op = d->proposal;
	set_reply(x, act, call);
	call->expect_absent = act->expect_absent;
	call->expect_counter = d->stored_counter;
	memcpy(call->incarnation, d->proposal.incarnation, OP_INCARNATION_LEN);
	memcpy(call->token, d->token, OP_TOKEN_LEN);
	call->settles = act->write == WRITE_SETTLE;
	call->voids = act->write == WRITE_VOID;
	call->verdict = d->verdict;
	call->n = d->attempt_n;
	if (act->expect_absent)
		(void)snprintf(x->record->corrects, sizeof(x->record->corrects), "%s",
			       x->request.corrects);
	x->calls++;
	sim_call_submit(sim, call);
}

/* A claim whose fate is not known, or that could not be taken back, is voided until it is. */
static void void_later(struct sim *sim, struct sim_delivery *x)
{
	struct op_event event = {.kind = OP_EV_VOID, .now = sim->now, .token = x->d.token};
	struct sim_update *update = sim_update_new(sim, x->instance, x->record);

	sim_update_set_event(update, &event, x->d.proposal.incarnation);
	sim_pending_add(sim, update);
}

struct sim_reply sim_record_reply(const struct sim_delivery *x)
{
	struct sim_reply none = {.retry_after = -1};

	if (!is_own_end(x, &x->d.op))
		return x->stored_reply;
	return x->last_reply.truncated ? none : x->last_reply;
}

static void keep_settle(struct sim *sim, struct sim_delivery *x)
{
	const struct delivery *d = &x->d;
	struct op_event event = {.kind = OP_EV_SETTLE, .now = sim->now, .token = d->token};
	struct sim_update *update = sim_update_new(sim, x->instance, x->record);

	event.n = d->attempt_n;
	event.verdict = &d->verdict;
	event.wait = d->settle_wait;
	event.is_delete = d->is_delete;
	event.repeatable = d->repeat == REPEAT_ALWAYS ||
			   (d->repeat != REPEAT_NEVER && sim->now < d->proposal.repeat_until);
	event.remote_id = d->remote_id[0] != '\0' ? d->remote_id : NULL;
	event.credential = d->has_credential ? d->credential : NULL;
	sim_update_set_event(update, &event, d->proposal.incarnation);
	if (!x->keyed) {
		update->insert = true;
		update->has_event = false;
	}
	update->next_op = d->proposal;
	if (is_own_end(x, &d->proposal) && x->last_reply.there && !x->last_reply.truncated)
		update->reply = x->last_reply;
	sim_pending_add(sim, update);
}

static void note_corrects(struct sim *sim, struct sim_delivery *x)
{
	struct sim_update *update;

	x->corrects_noted = true;
	update = sim_update_new(sim, x->instance,
				sim_record(sim, x->provider, x->request.corrects));
	(void)snprintf(update->corrected_by, sizeof(update->corrected_by), "%s", x->record->key);
	sim_pending_add(sim, update);
}

static void after_write(struct sim *sim, struct sim_delivery *x, const struct sim_call *call)
{
	if (call->write == WRITE_SETTLE && (x->d.notes & OP_NOTE_DUPLICATE_EFFECT) != 0)
		sim->duplicate_effects++;
	if (call->write == WRITE_CLAIM && x->request.corrects[0] != '\0' && !x->corrects_noted)
		note_corrects(sim, x);
}

void sim_exchange_called(struct sim *sim, struct sim_call *call)
{
	struct sim_delivery *x = call->delivery;
	struct delivery_event event = {.now = sim->now};

	x->calls--;
	if (call->renewal) {
		if (call->result == SIM_OK && x->d.phase == DELIVERY_SEND)
			x->d.op.lease_until = call->lease_until;
		return;
	}
	if (call->result == SIM_CONFLICT || (call->result == SIM_OK && call->verb == VERB_GET)) {
		event.kind = DELIVERY_EV_RECORD;
		event.op = &call->found;
		if (call->found_reply.there)
			x->stored_reply = call->found_reply;
	} else if (call->result == SIM_OK) {
		event.kind = DELIVERY_EV_WRITTEN;
		after_write(sim, x, call);
	} else if (call->result == SIM_ABSENT) {
		event.kind = DELIVERY_EV_ABSENT;
	} else {
		event.kind = DELIVERY_EV_AWAY;
		if (call->settles)
			keep_settle(sim, x);
		else if (call->verb == VERB_CLAIM || call->voids)
			void_later(sim, x);
	}
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
		submit_read(sim, x);
		wait_until(sim, x, act->until);
		return false;
	case DELIVERY_ACT_WRITE:
		if (is_unrecorded(x, act)) {
			event->kind = DELIVERY_EV_WRITTEN;
			event->now = sim->now;
			return true;
		}
		submit_write(sim, x, act);
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
		if (x->owner && (event->kind == DELIVERY_EV_WRITTEN ||
				 event->kind == DELIVERY_EV_RECORD))
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
