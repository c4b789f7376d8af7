/* The invariants of design section 13, checked against a book of what really happened: which claims
 * were made, what the provider saw, what the store has been told. */
#include "tests/scenario/sim.h"

#include <stdlib.h>
#include <string.h>

void sim_touch(struct sim *sim, struct sim_record *record)
{
	if (record->touched)
		return;
	record->touched = true;
	record->next_touched = sim->touched;
	sim->touched = record;
}

static struct sim_charge *find_charge(struct sim_record *record, const uint8_t *token)
{
	for (size_t i = record->charge_count; i > 0; i--) {
		if (memcmp(record->charges[i - 1].token, token, OP_TOKEN_LEN) == 0)
			return &record->charges[i - 1];
	}
	return NULL;
}

static struct sim_charge *add_charge(struct sim_record *record)
{
	if (record->charge_count == record->charge_cap) {
		record->charge_cap = record->charge_cap == 0 ? 8 : 2 * record->charge_cap;
		record->charges =
			realloc(record->charges, record->charge_cap * sizeof(*record->charges));
		if (record->charges == NULL)
			abort();
	}
	memset(&record->charges[record->charge_count], 0, sizeof(*record->charges));
	return &record->charges[record->charge_count++];
}

/* --- the book ------------------------------------------------------------------------------------ */

static int number_of(const struct op *op, const uint8_t *token)
{
	for (int i = 0; i < OP_RING; i++) {
		if (op->ring[i].n != 0 && memcmp(op->ring[i].token, token, OP_TOKEN_LEN) == 0)
			return op->ring[i].n;
	}
	return 0;
}

void sim_book_claimed(struct sim *sim, struct sim_record *record, const struct op *op)
{
	struct sim_charge *charge = find_charge(record, op->token);

	if (charge != NULL) {
		sim_fail(sim, "%s: one token claimed twice", record->key);
		return;
	}
	charge = add_charge(record);
	memcpy(charge->token, op->token, OP_TOKEN_LEN);
	charge->n = number_of(op, op->token);
	charge->at = sim->now;
}

/* What must hold a moment before the first byte: invariants 2, 4, 5, 6, 8. */
static void check_send(struct sim *sim, const struct sim_delivery *x, struct sim_charge *charge)
{
	const struct sim_record *record = x->record;
	const struct op *op;

	if (sim->now < sim_gate_of(x)->closed_until)
		sim_fail(sim, "%s: sent through a closed gate (invariant 6)", x->request.name);
	if (x->answers > 0)
		sim_fail(sim, "%s: sent after its answer (invariant 8)", x->request.name);
	if (!x->keyed)
		return;
	op = &record->op;
	if (!record->present || charge == NULL)
		sim_fail(sim, "%s: sent before its charge is in the store (invariant 2)",
			 record->key);
	else if (op->state != OP_ATTEMPTING || memcmp(op->token, x->d.token, OP_TOKEN_LEN) != 0)
		sim_fail(sim, "%s: sent without the lease, state %s (invariant 4)", record->key,
			 op_state_name(op->state));
	else if (op->lease_until <= sim->now)
		sim_fail(sim, "%s: sent when its lease had run out", record->key);
	else if (!op_repeat_is_safe(op, sim->now))
		sim_fail(sim, "%s: sent again where repeating is not safe", record->key);
	else if (op->disputed)
		sim_fail(sim, "%s: sent although disputed", record->key);
	for (size_t i = 0; i < record->charge_count; i++) {
		const struct sim_charge *other = &record->charges[i];

		/* Its lease ran out, and it is recorded as possible: the named exception. */
		if (other != charge && other->running != NULL && other->open && !record->success &&
		    !op_set_has(&op->unresolved, other->n))
			sim_fail(sim, "%s: attempts %d and %d overlap (invariant 5)", record->key,
				 other->n, x->d.attempt_n);
	}
}

static void note_send(struct sim *sim, struct sim_record *record)
{
	if (record->send_count == record->send_cap) {
		record->send_cap = record->send_cap == 0 ? 8 : 2 * record->send_cap;
		record->sends = realloc(record->sends, record->send_cap * sizeof(*record->sends));
		if (record->sends == NULL)
			abort();
	}
	record->sends[record->send_count++] = sim->now;
}

/* The effect at the provider: a forwarded key is applied once in a generation. */
static void note_effect(struct sim_record *record, const struct sim_delivery *x)
{
	const struct sim_step *step = &x->attempt->step;
	bool success = step->kind == STEP_REPLY && step->status >= 200 && step->status <= 299;

	if (!success && !step->applied)
		return;
	if (x->provider->policy.forwards_key && record->effects > 0 &&
	    record->effect_generation == x->d.op.generation)
		return;
	record->effects++;
	record->effect_generation = x->d.op.generation;
}

void sim_book_sent(struct sim *sim, struct sim_delivery *x)
{
	struct sim_charge *charge = NULL;

	if (x->record != NULL)
		charge = find_charge(x->record, x->d.token);
	check_send(sim, x, charge);
	sim_trace(sim, "%s sends attempt %d of %s", x->instance->name, x->d.attempt_n,
		  x->request.name);
	if (!x->keyed || charge == NULL)
		return;
	charge->sent = true;
	charge->open = true;
	charge->running = x;
	x->record->seen++;
	x->record->seen_total++;
	note_send(sim, x->record);
	note_effect(x->record, x);
	sim_touch(sim, x->record);
}

void sim_book_ended(struct sim *sim, struct sim_delivery *x)
{
	struct sim_charge *charge;

	if (!x->keyed)
		return;
	charge = find_charge(x->record, x->d.token);
	if (charge != NULL)
		charge->running = NULL;
	sim_touch(sim, x->record);
}

void sim_book_settled(struct sim *sim, struct sim_record *record, const uint8_t *token, int n,
		      const struct verdict *verdict, const struct op *before)
{
	struct sim_charge *charge = find_charge(record, token);

	if (record->op.unkeyed)
		return;
	if (charge == NULL) {
		sim_fail(sim, "%s: a settle of no claim, attempt %d", record->key, n);
		return;
	}
	if (charge->n != n)
		sim_fail(sim, "%s: attempt %d settled as %d", record->key, charge->n, n);
	if (verdict->effect == EFFECT_DEFINITE ||
	    (record->op.state == OP_SUCCEEDED && before->state != OP_SUCCEEDED))
		record->success = true;
	if (verdict->effect == EFFECT_NONE)
		charge->open = false;
	if (!verdict->resolves)
		return;
	for (size_t i = 0; i < record->charge_count; i++) {
		if (record->charges[i].n < n)
			record->charges[i].open = false;
	}
}

void sim_book_voided(struct sim *sim, struct sim_record *record, const uint8_t *token)
{
	struct sim_charge *charge = find_charge(record, token);

	if (charge != NULL && charge->sent)
		sim_fail(sim, "%s: attempt %d was sent and is struck", record->key, charge->n);
}

void sim_book_resolved(struct sim_record *record)
{
	record->success = false;
	for (size_t i = 0; i < record->charge_count; i++)
		record->charges[i].open = false;
}

/* --- answers ------------------------------------------------------------------------------------- */

/* Invariants 7 and 9. */
void sim_book_answer(struct sim *sim, struct sim_delivery *x)
{
	const struct sim_answer *a = &x->answer;
	const struct policy *policy = &x->provider->policy;
	usec_t latest = x->arrival + policy->hold + policy->attempt_total + USEC_SEC;

	if (x->answers > 1)
		sim_fail(sim, "%s: answered twice (invariant 9)", x->request.name);
	if (sim->now > latest)
		sim_fail(sim, "%s: answered too late (invariant 9)", x->request.name);
	if (a->made && (a->status < 400 || a->status > 599) && a->problem[0] != '\0')
		sim_fail(sim, "%s: problem %s with status %d", x->request.name, a->problem,
			 a->status);
	if (a->made && a->kind == ANSWER_PROBLEM && a->problem[0] == '\0')
		sim_fail(sim, "%s: a problem without a name", x->request.name);
	if (!a->reply.there || !x->keyed)
		return;
	if (a->reply.record != x->record)
		sim_fail(sim, "%s: another operation's reply (invariant 7)", x->request.name);
	else if (memcmp(a->reply.fingerprint, x->d.fingerprint, OP_FINGERPRINT_LEN) != 0)
		sim_fail(sim, "%s: the reply to another request (invariant 7)", x->request.name);
}

/* --- after every step ---------------------------------------------------------------------------- */

static void check_record(struct sim *sim, struct sim_record *record)
{
	const struct op *op = &record->op;

	if (!record->present || op->unkeyed)
		return;
	if (record->seen > op->attempts)
		sim_fail(sim, "%s: %d requests seen, %d charged (invariant 1)", record->key,
			 record->seen, op->attempts);
	if (op->attempts > op->limit)
		sim_fail(sim, "%s: %d charged, limit %d (invariant 1)", record->key, op->attempts,
			 op->limit);
	if (record->success)
		return;
	for (size_t i = 0; i < record->charge_count; i++) {
		const struct sim_charge *charge = &record->charges[i];
		bool leased = op->state == OP_ATTEMPTING &&
			      memcmp(op->token, charge->token, OP_TOKEN_LEN) == 0;

		if (charge->sent && charge->open && !leased &&
		    !op_set_has(&op->unresolved, charge->n) && op->state != OP_SUCCEEDED)
			sim_fail(sim,
				 "%s: attempt %d may have been applied, state %s (invariant 3)",
				 record->key, charge->n, op_state_name(op->state));
	}
}

void sim_check(struct sim *sim)
{
	struct sim_record *record;

	while ((record = sim->touched) != NULL) {
		sim->touched = record->next_touched;
		record->touched = false;
		check_record(sim, record);
	}
}

static void check_instance(struct sim *sim, const struct sim_instance *instance)
{
	for (size_t p = 0; p < sim->provider_count; p++) {
		if (instance->gates[p].gate.used != 0)
			sim_fail(sim, "%s: %d slots of %s are leaked", instance->name,
				 instance->gates[p].gate.used, sim->providers[p].name);
		if (instance->gates[p].head != NULL)
			sim_fail(sim, "%s: somebody still queues for %s", instance->name,
				 sim->providers[p].name);
	}
	for (const struct sim_record *r = sim->records; r != NULL; r = r->next) {
		if (r->live[instance->index].owner != NULL)
			sim_fail(sim, "%s: %s is still live", instance->name, r->key);
	}
}

void sim_check_idle(struct sim *sim)
{
	for (struct sim_record *r = sim->records; r != NULL; r = r->next)
		check_record(sim, r);
	for (size_t i = 0; i < sim->instance_count; i++) {
		if (sim->instances[i].alive)
			check_instance(sim, &sim->instances[i]);
	}
	for (const struct sim_delivery *x = sim->deliveries; x != NULL; x = x->next) {
		if (x->crashed)
			continue;
		if (!x->ended)
			sim_fail(sim, "%s never ended", x->request.name);
		if (!x->caller_gone && x->answers != 1)
			sim_fail(sim, "%s has %d answers (invariant 9)", x->request.name,
				 x->answers);
	}
}
