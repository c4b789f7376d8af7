/* Changes that no delivery waits for: updates with their retry (proxy/update.c, pending.c), the sweep
 * (proxy/sweep.c), people and probes, retention. */
#include "tests/scenario/sim.h"

#include <stdio.h>
#include <string.h>

#include "budget/schedule.h"

struct sim_update *sim_update_new(struct sim *sim, struct sim_instance *instance,
				  struct sim_record *record)
{
	struct sim_update *update = sim_alloc(sizeof(*update));

	update->next = sim->updates;
	sim->updates = update;
	update->instance = instance;
	update->record = record;
	update->reply.retry_after = -1;
	return update;
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

void sim_update_set_event(struct sim_update *update, const struct op_event *event,
			  const uint8_t *incarnation)
{
	update->has_event = true;
	update->event = *event;
	memcpy(update->incarnation, incarnation, OP_INCARNATION_LEN);
	if (event->token != NULL) {
		memcpy(update->token, event->token, OP_TOKEN_LEN);
		update->event.token = update->token;
	}
	if (event->verdict != NULL) {
		update->verdict = *event->verdict;
		update->event.verdict = &update->verdict;
	}
	if (event->credential != NULL) {
		memcpy(update->credential, event->credential, OP_CREDENTIAL_LEN);
		update->event.credential = update->credential;
	}
	if (event->remote_id != NULL) {
		copy_text(update->remote_id, sizeof(update->remote_id), event->remote_id);
		update->event.remote_id = update->remote_id;
	}
	if (event->instance != NULL) {
		copy_text(update->instance_id, sizeof(update->instance_id), event->instance);
		update->event.instance = update->instance_id;
	}
}

static void submit_update(struct sim *sim, struct sim_update *update, enum sim_verb verb)
{
	struct sim_call *call = sim_call_new(sim, update->instance, update->record, verb);

	call->update = update;
	memcpy(call->incarnation, update->incarnation, OP_INCARNATION_LEN);
	memcpy(call->token, update->token, OP_TOKEN_LEN);
	sim_call_submit(sim, call);
}

void sim_update_start(struct sim *sim, struct sim_update *update)
{
	bool voids = update->has_event && update->event.kind == OP_EV_VOID;

	if (!update->done)
		submit_update(sim, update, voids ? VERB_VOID : VERB_GET);
}

void sim_pending_add(struct sim *sim, struct sim_update *update)
{
	update->pending = true;
	update->record->pending[update->instance->index]++;
	sim_post(sim, usec_add(sim->now, SIM_PENDING_RETRY), EVENT_UPDATE, update, 0);
}

static void end_update(struct sim_update *update, enum op_result result)
{
	update->done = true;
	update->result = result;
	if (update->pending)
		update->record->pending[update->instance->index]--;
}

static void write_next(struct sim *sim, struct sim_update *update, bool absent, uint32_t counter)
{
	struct sim_call *call = sim_call_new(sim, update->instance, update->record, VERB_CHANGE);

	call->update = update;
	call->expect_absent = absent;
	call->expect_counter = counter;
	call->op = update->next_op;
	call->reply = update->reply;
	call->settles = (update->has_event && update->event.kind == OP_EV_SETTLE) || update->insert;
	call->voids = update->has_event && update->event.kind == OP_EV_VOID;
	call->verdict = update->verdict;
	call->n = update->event.n;
	memcpy(call->incarnation, update->next_op.incarnation, OP_INCARNATION_LEN);
	memcpy(call->token, update->token, OP_TOKEN_LEN);
	sim_call_submit(sim, call);
}

static void apply(struct sim *sim, struct sim_update *update, const struct op *found)
{
	enum op_result result;
	unsigned notes;

	if (update->has_event &&
	    memcmp(found->incarnation, update->incarnation, OP_INCARNATION_LEN) != 0) {
		end_update(update, OP_STRANGER);
		return;
	}
	if (!update->has_event) {
		if (update->corrected_by[0] != '\0')
			copy_text(update->record->corrected_by,
				  sizeof(update->record->corrected_by), update->corrected_by);
		update->next_op = *found;
		update->next_op.counter++;
		write_next(sim, update, false, found->counter);
		return;
	}
	result = op_apply(found, &update->record->provider->policy, &update->event,
			  &update->next_op, &notes);
	if (result != OP_CHANGED) {
		end_update(update, result);
		return;
	}
	if ((notes & OP_NOTE_DUPLICATE_EFFECT) != 0)
		sim->duplicate_effects++;
	write_next(sim, update, false, found->counter);
}

void sim_update_called(struct sim *sim, struct sim_call *call)
{
	struct sim_update *update = call->update;
	bool reading = call->verb == VERB_GET || call->verb == VERB_VOID;

	if (update->done)
		return; /* its instance is dead */
	switch (call->result) {
	case SIM_OK:
		if (reading)
			apply(sim, update, &call->found);
		else
			end_update(update, OP_CHANGED);
		return;
	case SIM_CONFLICT:
		apply(sim, update, &call->found);
		return;
	case SIM_ABSENT:
		if (update->insert && reading)
			write_next(sim, update, true, 0);
		else
			end_update(update, OP_STRANGER);
		return;
	default:
		if (update->pending)
			sim_post(sim, usec_add(sim->now, SIM_PENDING_RETRY), EVENT_UPDATE, update,
				 0);
		else
			end_update(update, OP_UNCHANGED);
		return;
	}
}

/* --- the sweep ----------------------------------------------------------------------------------- */

static const struct sim_instance *owner_of(const struct sim *sim, const struct op *op)
{
	for (size_t i = 0; i < sim->instance_count; i++) {
		if (sim->instances[i].alive && strcmp(sim->instances[i].id, op->owner) == 0)
			return &sim->instances[i];
	}
	return NULL;
}

static bool owner_is_dead(const struct sim *sim, const struct op *op)
{
	return sim->dead_ids_known && op->state == OP_ATTEMPTING && owner_of(sim, op) == NULL;
}

/* When time moves the record; USEC_MAX: never. */
static usec_t due_at(const struct sim *sim, const struct op *op)
{
	usec_t at = USEC_MAX;

	if (op->state == OP_ATTEMPTING)
		return owner_is_dead(sim, op) ? sim->now : op->lease_until;
	if (op->state != OP_READY)
		return USEC_MAX;
	if (op->deadline > 0)
		at = op->deadline;
	if (op_set_count(&op->unresolved) > 0)
		at = usec_min(at, op->repeat_until);
	return at;
}

/* The sweep's next turn at or after the record is due. */
void sim_plan_sweep(struct sim *sim, struct sim_record *record)
{
	usec_t due = record->present ? due_at(sim, &record->op) : USEC_MAX;

	if (due == USEC_MAX)
		return;
	due = usec_max(due, sim->now);
	due += SIM_SWEEP - (due - SIM_T0) % SIM_SWEEP;
	if (record->sweep_at != 0 && record->sweep_at <= due && record->sweep_at > sim->now)
		return;
	record->sweep_at = due;
	sim_post(sim, due, EVENT_SWEEP, record, 0);
}

static void sweep_by(struct sim *sim, struct sim_record *record, struct sim_instance *instance)
{
	struct op_event event = {.kind = OP_EV_TICK, .now = sim->now};
	const struct policy *policy = &record->provider->policy;
	const struct op *op = &record->op;
	struct sim_update *update;

	if (op->state == OP_ATTEMPTING) {
		if (strcmp(op->owner, instance->id) == 0 &&
		    (sim_live_has(record, instance) || record->pending[instance->index] > 0))
			return;
		event.kind = OP_EV_EXPIRE;
		event.wait = backoff_base(&policy->backoff, op->attempts > 0 ? op->attempts : 1);
		if (owner_is_dead(sim, op))
			event.instance = op->owner;
	}
	update = sim_update_new(sim, instance, record);
	sim_update_set_event(update, &event, op->incarnation);
	sim_update_start(sim, update);
}

void sim_sweep(struct sim *sim, struct sim_record *record)
{
	bool alive = false;

	if (record->sweep_at != sim->now)
		return; /* an earlier look was planned since */
	record->sweep_at = 0;
	if (!record->present || due_at(sim, &record->op) > sim->now) {
		sim_plan_sweep(sim, record);
		return;
	}
	for (size_t i = 0; i < sim->instance_count; i++) {
		if (!sim->instances[i].alive)
			continue;
		alive = true;
		sweep_by(sim, record, &sim->instances[i]);
	}
	if (alive)
		sim_plan_sweep(sim, record);
}

/* --- people, probes, retention ------------------------------------------------------------------- */

enum op_result sim_operate(struct sim *sim, struct sim_record *record, struct op_event *event)
{
	struct op before = record->op, after;
	enum op_result result;
	unsigned notes;

	event->now = sim->now;
	result = op_apply(&before, &record->provider->policy, event, &after, &notes);
	if (result == OP_CHANGED) {
		if (event->kind == OP_EV_RESOLVE || event->kind == OP_EV_PROBE)
			sim_book_resolved(record);
		sim_store_put(sim, record, &after);
	}
	return result;
}

void sim_retain(struct sim *sim)
{
	for (struct sim_record *r = sim->records; r != NULL; r = r->next) {
		const struct policy *policy = &r->provider->policy;
		struct op op = r->op;

		if (!r->present || !op_is_terminal(&op))
			continue;
		if (op.terminal < sim->now - policy->retain_key) {
			r->present = false;
			r->charge_count = 0;
			r->seen = 0;
			r->success = false;
		} else if (op.terminal < sim->now - policy->retain_for && !op.tombstone) {
			op.tombstone = true;
			op.reply_kept = false;
			op.counter++;
			memset(op.ring, 0, sizeof(op.ring));
			memset(op.credential, 0, sizeof(op.credential));
			r->reply.there = false;
			sim_store_put(sim, r, &op);
		}
	}
}
