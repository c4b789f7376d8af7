/* The store's side of one delivery, as in proxy/exchange_store.c. */
#include "tests/scenario/sim.h"

#include <stdio.h>
#include <string.h>

void sim_exchange_read(struct sim *sim, struct sim_delivery *x)
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

void sim_exchange_write(struct sim *sim, struct sim_delivery *x, const struct delivery_action *act)
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
	struct op_event event;
	struct sim_update *update = sim_update_new(sim, x->instance, x->record);

	delivery_settle_event(d, &d->proposal, sim->now, &event);
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
	update =
		sim_update_new(sim, x->instance, sim_record(sim, x->provider, x->request.corrects));
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
