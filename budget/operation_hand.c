/* What people and probes do to an operation: hold, release, reopen, resolve (design section 4, "By
 * people and probes"). The version that they compared is the store's to check. */
#include "budget/operation_step.h"

#include <string.h>

enum op_result op_step_hold(struct op *op, const struct op_event *event)
{
	if (op->state != OP_READY && op->state != OP_ATTEMPTING && op->state != OP_UNKNOWN)
		return OP_REFUSED;
	if (op->quarantined)
		return OP_UNCHANGED;
	/* Held by hand carries the flag too: another credential must not release it. */
	op->quarantined = true;
	if (op->state == OP_READY)
		op_step_move(op, OP_HELD, event->now);
	return OP_CHANGED;
}

static enum op_result release(struct op *op, const struct policy *policy, usec_t now)
{
	op->quarantined = false;
	op_step_decide(op, policy, now, ASIDE_HOLD);
	return OP_CHANGED;
}

enum op_result op_step_release(struct op *op, const struct policy *policy,
			       const struct op_event *event)
{
	return op->state == OP_HELD ? release(op, policy, event->now) : OP_REFUSED;
}

enum op_result op_step_release_credential(struct op *op, const struct policy *policy,
					  const struct op_event *event)
{
	if (op->state != OP_HELD || op->class != CLASS_AUTH || op->quarantined)
		return OP_REFUSED;
	if (event->credential && memcmp(event->credential, op->credential, OP_CREDENTIAL_LEN) == 0)
		return OP_REFUSED;
	return release(op, policy, event->now);
}

static void raise_generation(struct op *op)
{
	op->generation++;
	op->generation_first = op_step_highest(op);
	op->repeat_until = 0;
}

/* More attempts and a new window; false where the absolute ceiling leaves none. A quarantine that
 * was set on an operation in another state than held outlives a reopen: held it becomes. */
static bool reopen(struct op *op, const struct policy *policy, const struct op_event *event)
{
	int more = event->more > 0 ? event->more : policy->attempts;
	enum op_state to = OP_READY;

	op->limit = more < ATTEMPTS_CEILING - op->limit ? op->limit + more : ATTEMPTS_CEILING;
	if (op->attempts >= op->limit || op_step_highest(op) >= ATTEMPTS_CEILING)
		return false;
	op->retry_never = false;
	op->next = event->now;
	if (op->state == OP_HELD)
		op->quarantined = false;
	else if (op->quarantined)
		to = OP_HELD;
	if (op->state != to)
		op_step_move(op, to, event->now);
	if (op->attempts > 0)
		op->deadline = usec_add(event->now, policy->window);
	return true;
}

enum op_result op_step_reopen(struct op *op, const struct policy *policy,
			      const struct op_event *event)
{
	bool open = op_set_count(&op->unresolved) > 0;

	if (op->state != OP_EXHAUSTED && op->state != OP_HELD && op->state != OP_UNKNOWN)
		return OP_REFUSED;
	if (!op_repeat_is_safe(op, event->now) || (open && event->new_key))
		return OP_REFUSED;
	if (event->new_key)
		raise_generation(op);
	return reopen(op, policy, event) ? OP_CHANGED : OP_REFUSED;
}

/* Not applied: the set is empty already. */
static enum op_result resolve_not_applied(struct op *op, const struct policy *policy,
					  const struct op_event *event)
{
	enum op_state to = op_step_pick(op, policy, event->now, op_step_aside(op));
	bool by_person = event->kind == OP_EV_RESOLVE;

	if (by_person && event->new_key)
		raise_generation(op);
	if (by_person && event->reopen) {
		/* What has a definite answer stays closed: a correction is a new key. */
		if (to == OP_FAILED || to == OP_SUCCEEDED)
			return OP_REFUSED;
		return reopen(op, policy, event) ? OP_CHANGED : OP_REFUSED;
	}
	if (op->state == OP_HELD)
		return OP_CHANGED;
	if (!by_person && event->then_exhausted && to == OP_READY)
		to = OP_EXHAUSTED;
	if (to != op->state)
		op_step_move(op, to, event->now);
	return OP_CHANGED;
}

enum op_result op_step_resolve(struct op *op, const struct policy *policy,
			       const struct op_event *event)
{
	bool open = op_set_count(&op->unresolved) > 0;
	bool disputed = op->disputed && event->kind == OP_EV_RESOLVE;

	if (op->state == OP_ATTEMPTING || (!open && !disputed))
		return OP_REFUSED;
	op->settled_by_hand = true;
	op->unresolved = (struct op_set){{0, 0}};
	if (disputed)
		op->disputed = false;
	if (!event->applied)
		return resolve_not_applied(op, policy, event);

	op_step_remote_id(op, event->remote_id);
	if (op->state != OP_SUCCEEDED)
		op_step_move(op, OP_SUCCEEDED, event->now);
	return OP_CHANGED;
}
