/* What the deliveries of one process share: the gate with its queue (proxy/provider.c) and the table
 * of live operations (proxy/live.c). */
#include "tests/scenario/sim.h"

#include <string.h>

#include "classify/table.h"

struct sim_gate *sim_gate_of(const struct sim_delivery *x)
{
	return &x->instance->gates[x->provider - x->sim->providers];
}

static usec_t probe_lease(const struct sim_delivery *x)
{
	return usec_add(x->provider->policy.attempt_connect, x->provider->policy.attempt_total);
}

static void enqueue(struct sim_gate *gate, struct sim_delivery *x)
{
	x->queued = true;
	x->queue_next = NULL;
	x->queue_prev = gate->tail;
	if (gate->tail != NULL)
		gate->tail->queue_next = x;
	else
		gate->head = x;
	gate->tail = x;
}

static void dequeue(struct sim_gate *gate, struct sim_delivery *x)
{
	if (x->queue_prev != NULL)
		x->queue_prev->queue_next = x->queue_next;
	else
		gate->head = x->queue_next;
	if (x->queue_next != NULL)
		x->queue_next->queue_prev = x->queue_prev;
	else
		gate->tail = x->queue_prev;
	x->queue_prev = x->queue_next = NULL;
	x->queued = false;
}

static void grant(struct sim *sim, struct sim_gate *gate)
{
	while (gate->head != NULL) {
		struct sim_delivery *x = gate->head;
		struct gate_answer answer = gate_take(&gate->gate, sim->now, probe_lease(x));

		if (answer.why != GATE_OPEN && answer.until == USEC_MAX)
			return;
		dequeue(gate, x);
		x->granted = answer.why == GATE_OPEN ? answer.ticket : 0;
		x->grant_posted = true;
		sim_post(sim, sim->now, EVENT_GRANT, x, 0);
	}
}

struct gate_answer sim_gate_enter(struct sim *sim, struct sim_delivery *x)
{
	struct sim_gate *gate = sim_gate_of(x);
	struct gate_answer answer = {.why = GATE_OPEN};

	if (gate->head != NULL) {
		usec_t until;
		enum gate_why why = gate_look(&gate->gate, sim->now, 0, &until);

		answer.why = why == GATE_OPEN ? GATE_CONCURRENCY : why;
		answer.until = answer.why == GATE_CONCURRENCY ? USEC_MAX : until;
	} else {
		answer = gate_take(&gate->gate, sim->now, probe_lease(x));
	}
	answer.rate_limited =
		answer.why != GATE_OPEN && gate_is_rate_limited(&gate->gate, answer.why);
	if (answer.why != GATE_OPEN && answer.until == USEC_MAX)
		enqueue(gate, x);
	return answer;
}

uint64_t sim_gate_forget(struct sim_delivery *x)
{
	uint64_t ticket = x->granted;

	if (x->queued)
		dequeue(sim_gate_of(x), x);
	x->granted = 0;
	return ticket;
}

void sim_gate_release(struct sim *sim, struct sim_delivery *x, uint64_t ticket)
{
	gate_release(&sim_gate_of(x)->gate, ticket);
	grant(sim, sim_gate_of(x));
}

void sim_gate_settle(struct sim *sim, struct sim_delivery *x, uint64_t ticket,
		     const struct verdict *verdict)
{
	struct sim_gate *gate = sim_gate_of(x);
	usec_t cap = x->provider->policy.retry_after_max;
	struct gate_outcome outcome = gate_outcome_of(verdict);

	if (verdict->fault == FAULT_GUARD) {
		sim_gate_release(sim, x, ticket);
		return;
	}
	if (table_may_repeat(verdict->class) && verdict->advice > 0)
		gate->closed_until = usec_max(gate->closed_until,
					      usec_add(sim->now, usec_min(verdict->advice, cap)));
	gate_settle(&gate->gate, ticket, &outcome, cap, sim->now);
	grant(sim, gate);
}

bool sim_gate_may_send(struct sim *sim, const struct sim_delivery *x)
{
	usec_t until;
	enum gate_why why = gate_look(&sim_gate_of(x)->gate, sim->now, x->ticket, &until);

	return why == GATE_OPEN || why == GATE_CONCURRENCY;
}

/* --- live operations ----------------------------------------------------------------------------- */

static struct sim_live *live_of(const struct sim_delivery *x)
{
	return &x->record->live[x->instance->index];
}

void sim_live_enter(struct sim *sim, struct sim_delivery *x)
{
	struct sim_live *live = live_of(x);
	struct delivery_event event = {.kind = DELIVERY_EV_START, .now = sim->now};

	if (live->owner == NULL) {
		live->owner = x;
		live->known = false;
		live->waiters = NULL;
		live->tail = &live->waiters;
		memcpy(live->fingerprint, x->d.fingerprint, OP_FINGERPRINT_LEN);
		x->owner = true;
	} else {
		event.kind = DELIVERY_EV_BUSY;
		event.same = memcmp(live->fingerprint, x->d.fingerprint, OP_FINGERPRINT_LEN) == 0;
		event.op = live->known ? &live->op : NULL;
		if (event.same && x->provider->policy.in_flight == IN_FLIGHT_JOIN) {
			x->joining = true;
			x->next_joiner = NULL;
			*live->tail = x;
			live->tail = &x->next_joiner;
		}
	}
	sim_exchange_event(sim, x, &event);
}

void sim_live_update(struct sim_delivery *x)
{
	live_of(x)->op = x->d.op;
	live_of(x)->known = true;
}

void sim_live_leave(struct sim *sim, struct sim_delivery *x)
{
	struct sim_live *live = live_of(x);
	bool tell = x->d.have_op && x->d.op.state != OP_READY && x->d.op.state != OP_ATTEMPTING;

	for (struct sim_delivery *w = live->waiters, *after; w != NULL; w = after) {
		after = w->next_joiner;
		w->joining = false;
		w->join_posted = true;
		w->join_told = tell;
		w->join_op = x->d.op;
		w->join_reply = sim_record_reply(x);
		sim_post(sim, sim->now, EVENT_OWNER_LEFT, w, 0);
	}
	live->owner = NULL;
	live->waiters = NULL;
	x->owner = false;
}

bool sim_live_forget(struct sim_delivery *x)
{
	struct sim_live *live;
	struct sim_delivery **at;

	if (!x->joining)
		return false;
	live = live_of(x);
	at = &live->waiters;
	while (*at != x)
		at = &(*at)->next_joiner;
	*at = x->next_joiner;
	if (live->tail == &x->next_joiner)
		live->tail = at;
	x->joining = false;
	return true;
}

bool sim_live_has(const struct sim_record *record, const struct sim_instance *instance)
{
	return record->live[instance->index].owner != NULL;
}
