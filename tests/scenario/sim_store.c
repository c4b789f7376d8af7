/* The model store: an array of records with compare-and-swap, and the verbs of budget/ledger.h. A
 * call reaches it and comes back as two events of the clock; scripted faults part the two. */
#include "tests/scenario/sim.h"

#include <stdio.h>
#include <string.h>

struct sim_record *sim_find_record(struct sim *sim, const char *key)
{
	for (struct sim_record *r = sim->records; r != NULL; r = r->next) {
		if (strcmp(r->key, key) == 0)
			return r;
	}
	return NULL;
}

struct sim_record *sim_record(struct sim *sim, struct sim_provider *provider, const char *key)
{
	struct sim_record *record = sim->records;

	while (record != NULL && (record->provider != provider || strcmp(record->key, key) != 0))
		record = record->next;
	if (record != NULL)
		return record;
	record = sim_alloc(sizeof(*record));
	record->provider = provider;
	(void)snprintf(record->key, sizeof(record->key), "%s", key);
	record->next = sim->records;
	sim->records = record;
	return record;
}

struct sim_call *sim_call_new(struct sim *sim, struct sim_instance *instance,
			      struct sim_record *record, enum sim_verb verb)
{
	struct sim_call *call = sim_alloc(sizeof(*call));

	call->next = sim->calls;
	sim->calls = call;
	call->instance = instance;
	call->record = record;
	call->verb = verb;
	return call;
}

void sim_call_submit(struct sim *sim, struct sim_call *call)
{
	struct sim_store_script *script = &sim->store[call->verb];
	bool mine = script->instance == NULL || script->instance == call->instance;

	if (script->fault != STORE_OK && script->left != 0 && mine) {
		call->fault = script->fault;
		call->time = script->time;
		if (script->left > 0)
			script->left--;
	}
	sim_trace(sim, "%s store verb %d %s%s", call->instance->name, (int)call->verb,
		  call->record->key, call->fault != STORE_OK ? " (fault)" : "");
	switch (call->fault) {
	case STORE_AWAY:
		call->result = SIM_AWAY;
		sim_post(sim, sim->now, EVENT_CALL_REPLY, call, 0);
		return;
	case STORE_GHOST:
		call->result = SIM_AWAY;
		sim_post(sim, sim->now, EVENT_CALL_REPLY, call, 0);
		sim_post(sim, usec_add(sim->now, call->time), EVENT_CALL_EXEC, call, 0);
		return;
	case STORE_LATE:
		sim_post(sim, usec_add(sim->now, call->time), EVENT_CALL_EXEC, call, 0);
		return;
	default:
		sim_post(sim, sim->now, EVENT_CALL_EXEC, call, 0);
		return;
	}
}

/* --- what the verbs do --------------------------------------------------------------------------- */

static bool same(const uint8_t *a, const uint8_t *b, size_t len)
{
	return memcmp(a, b, len) == 0;
}

static bool is_voided(const struct sim *sim, const struct sim_call *call)
{
	for (size_t i = 0; i < sim->voided_count; i++) {
		const struct sim_voided *v = &sim->voided[i];

		if (v->until > sim->now && same(v->token, call->token, OP_TOKEN_LEN) &&
		    same(v->incarnation, call->incarnation, OP_INCARNATION_LEN))
			return true;
	}
	return false;
}

static void remember_voided(struct sim *sim, const struct sim_call *call)
{
	struct sim_voided *v;

	if (sim->voided_count == SIM_VOIDED) {
		memmove(sim->voided, sim->voided + 1, (SIM_VOIDED - 1) * sizeof(*sim->voided));
		sim->voided_count--;
	}
	v = &sim->voided[sim->voided_count++];
	memcpy(v->incarnation, call->incarnation, OP_INCARNATION_LEN);
	memcpy(v->token, call->token, OP_TOKEN_LEN);
	v->until = usec_add(sim->now, SIM_VOIDED_FOR);
}

static int conflict(struct sim_call *call)
{
	struct sim_record *record = call->record;

	if (!record->present)
		return call->verb == VERB_CLAIM && call->expect_absent ? SIM_CONFLICT : SIM_ABSENT;
	call->found = record->op;
	call->found_reply = record->reply;
	if (call->verb == VERB_CLAIM && record->op.state == OP_ATTEMPTING &&
	    same(record->op.token, call->op.token, OP_TOKEN_LEN) &&
	    same(record->op.incarnation, call->op.incarnation, OP_INCARNATION_LEN))
		return SIM_OK; /* its own claim, repeated after a lost reply */
	return SIM_CONFLICT;
}

void sim_store_put(struct sim *sim, struct sim_record *record, const struct op *op)
{
	const char *wrong = op_check(op);

	if (wrong != NULL)
		sim_fail(sim, "%s: op_check: %s", record->key, wrong);
	record->present = true;
	record->op = *op;
	sim_touch(sim, record);
	sim_plan_sweep(sim, record);
}

static int write_record(struct sim *sim, struct sim_call *call)
{
	struct sim_record *record = call->record;
	bool swap =
		record->present && !call->expect_absent &&
		record->op.counter == call->expect_counter &&
		same(record->op.incarnation, call->op.incarnation, OP_INCARNATION_LEN) &&
		(call->verb != VERB_SETTLE || (record->op.state == OP_ATTEMPTING &&
					       same(record->op.token, call->token, OP_TOKEN_LEN)));
	struct op before = record->op;

	if (call->verb == VERB_CLAIM && is_voided(sim, call)) {
		call->found = record->op;
		return SIM_CONFLICT;
	}
	if (!swap && (record->present || !call->expect_absent))
		return conflict(call);
	if (!record->present) {
		memset(&before, 0, sizeof(before));
		record->corrected_by[0] = '\0';
	}
	if (call->reply.there)
		record->reply = call->reply;
	sim_store_put(sim, record, &call->op);
	if (call->verb == VERB_CLAIM)
		sim_book_claimed(sim, record, &call->op);
	if (call->settles)
		sim_book_settled(sim, record, call->token, call->n, &call->verdict, &before);
	if (call->voids)
		sim_book_voided(sim, record, call->token);
	return SIM_OK;
}

static bool has_token(const struct op *op, const uint8_t *token)
{
	for (int i = 0; i < OP_RING; i++) {
		if (op->ring[i].n != 0 && same(op->ring[i].token, token, OP_TOKEN_LEN))
			return true;
	}
	return op->state == OP_ATTEMPTING && same(op->token, token, OP_TOKEN_LEN);
}

static int void_claim(struct sim *sim, struct sim_call *call)
{
	const struct sim_record *record = call->record;

	if (record->present &&
	    same(record->op.incarnation, call->incarnation, OP_INCARNATION_LEN) &&
	    has_token(&record->op, call->token)) {
		call->found = record->op;
		return SIM_OK;
	}
	remember_voided(sim, call);
	return SIM_ABSENT;
}

static int renew_record(struct sim *sim, struct sim_call *call)
{
	struct sim_record *record = call->record;

	if (!record->present || record->op.state != OP_ATTEMPTING ||
	    !same(record->op.token, call->token, OP_TOKEN_LEN) ||
	    !same(record->op.incarnation, call->incarnation, OP_INCARNATION_LEN))
		return SIM_CONFLICT;
	record->op.lease_until = call->lease_until;
	sim_plan_sweep(sim, record);
	return SIM_OK;
}

static int perform_call(struct sim *sim, struct sim_call *call)
{
	switch (call->verb) {
	case VERB_GET:
		if (!call->record->present)
			return SIM_ABSENT;
		call->found = call->record->op;
		call->found_reply = call->record->reply;
		return SIM_OK;
	case VERB_RENEW:
		return renew_record(sim, call);
	case VERB_VOID:
		return void_claim(sim, call);
	default:
		return write_record(sim, call);
	}
}

void sim_call_exec(struct sim *sim, struct sim_call *call)
{
	int result = perform_call(sim, call);

	sim_trace(sim, "%s store did verb %d %s: %d", call->instance->name, (int)call->verb,
		  call->record->key, result);
	switch (call->fault) {
	case STORE_GHOST:
		return; /* nobody listens any more */
	case STORE_LOST:
		call->result = SIM_AWAY;
		sim_post(sim, sim->now, EVENT_CALL_REPLY, call, 0);
		return;
	case STORE_SLOW:
		call->result = result;
		sim_post(sim, usec_add(sim->now, call->time), EVENT_CALL_REPLY, call, 0);
		return;
	default:
		call->result = result;
		sim_post(sim, sim->now, EVENT_CALL_REPLY, call, 0);
		return;
	}
}

void sim_call_reply(struct sim *sim, struct sim_call *call)
{
	if (call->update != NULL)
		sim_update_called(sim, call);
	else if (!call->delivery->crashed)
		sim_exchange_called(sim, call);
}
