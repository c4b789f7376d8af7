/* Late truth: what is learnt of an attempt that holds no lease any more (design section 4).
 *
 * A finding is known by attempt number and token. Of one attempt at most two are news: that it may
 * have been applied (its settle, or its lease's end), and later that it was or was not. */
#include "budget/operation_step.h"

#include <assert.h>
#include <string.h>

/* What is in the record about a finding's attempt, and whether the finding adds to it. */
enum known {
	KNOWN_NOT,    /* no claim of this record */
	KNOWN_SAME,   /* nothing new */
	KNOWN_CHANGE, /* news */
};

/* The entry has left the ring (a later attempt, which may itself have been struck since, or the
 * tombstone took its place), and its token with it. */
static bool was_evicted(const struct op *op, int n)
{
	int highest = op_step_highest(op);

	if (n < 1 || n > highest)
		return false;
	return op->ring[(n - 1) % OP_RING].n > n || op->tombstone ||
	       op_set_has(&op->unresolved, n) || n + OP_RING - 1 <= highest;
}

/* The set still says whether it is open; a success is news as long as none is known. */
static enum known look_up_evicted(const struct op *op, const struct op_event *event)
{
	if (!was_evicted(op, event->n))
		return KNOWN_NOT; /* never made, or its claim was struck */
	if (event->verdict->effect == EFFECT_DEFINITE)
		return op->class == CLASS_SUCCESS || op->disputed ? KNOWN_SAME : KNOWN_CHANGE;
	return event->verdict->effect == EFFECT_NONE && op_set_has(&op->unresolved, event->n)
		       ? KNOWN_CHANGE
		       : KNOWN_SAME;
}

static enum known look_up(const struct op *op, const struct op_event *event)
{
	const struct op_attempt *entry = op_find_attempt(op, event->n);
	enum effect effect = event->verdict->effect;

	if (!entry)
		return look_up_evicted(op, event);
	if (memcmp(entry->token, event->token, OP_TOKEN_LEN) != 0)
		return KNOWN_NOT;
	if (!entry->has_verdict)
		return KNOWN_CHANGE; /* its lease ran out: the owner's own word */
	switch (entry->effect) {
	case EFFECT_POSSIBLE:
		return effect != EFFECT_POSSIBLE ? KNOWN_CHANGE : KNOWN_SAME;
	case EFFECT_NONE:
		return effect == EFFECT_DEFINITE ? KNOWN_CHANGE : KNOWN_SAME;
	default:
		/* The same reply again, also where it was read as already-gone. */
		if (effect != EFFECT_NONE || entry->status == event->verdict->status)
			return KNOWN_SAME;
		return op->state == OP_SUCCEEDED && !op->disputed ? KNOWN_CHANGE : KNOWN_SAME;
	}
}

/* Whether a person, a probe or a rule had declared attempt n not applied. */
static bool contradicts_hand(const struct op *op, int n)
{
	bool declared_applied = op->state == OP_SUCCEEDED && op->class != CLASS_SUCCESS;

	return op->settled_by_hand && !declared_applied && !op_set_has(&op->unresolved, n);
}

static void late_success(struct op *op, const struct op_event *event, const struct verdict *verdict,
			 unsigned *notes)
{
	struct op_attempt *entry = op_step_attempt(op, event->n);
	bool first = op->class != CLASS_SUCCESS;

	if (op->state == OP_FAILED || contradicts_hand(op, event->n))
		op_step_dispute(op, notes);
	if (entry)
		op_step_record(entry, verdict, event->now);
	if (op->state == OP_FAILED)
		return;

	op_set_remove(&op->unresolved, event->n);
	*notes |= op_step_take_success(op, event);
	if (!first)
		return;
	op_step_take_verdict(op, event->n, verdict, NULL);
	op_step_remote_id(op, event->remote_id);
	/* In flight: the class keeps the success for the running attempt's own end. */
	if (op->state != OP_ATTEMPTING && op->state != OP_SUCCEEDED)
		op_step_move(op, OP_SUCCEEDED, event->now);
}

/* A late effect `none`, or `possible` from the owner itself. */
static void late_other(struct op *op, const struct policy *policy, const struct op_event *event,
		       const struct verdict *verdict, unsigned *notes)
{
	struct op_attempt *entry = op_step_attempt(op, event->n);
	enum op_aside aside = op_step_aside(op);

	if (op->state == OP_SUCCEEDED && verdict->effect == EFFECT_NONE)
		op_step_dispute(op, notes);
	if (entry && entry->effect != EFFECT_DEFINITE)
		op_step_record(entry, verdict, event->now);
	if (op->state == OP_SUCCEEDED)
		return;

	if (verdict->effect == EFFECT_NONE)
		op_set_remove(&op->unresolved, event->n);
	if (event->n >= op->last_n && op->class != CLASS_SUCCESS) {
		op_step_take_verdict(op, event->n, verdict, event->credential);
		if (!op_is_terminal(op) && verdict->class != CLASS_AUTH &&
		    verdict->class != CLASS_QUOTA)
			op->next = usec_max(op->next, usec_add(event->now, event->wait));
		aside = ASIDE_NOTHING;
	}
	if (op->state != OP_ATTEMPTING)
		op_step_decide(op, policy, event->now, aside);
}

enum op_result op_step_late_settle(struct op *op, const struct policy *policy,
				   const struct op_event *event, unsigned *notes)
{
	struct verdict verdict = *event->verdict;

	switch (look_up(op, event)) {
	case KNOWN_NOT:
		return OP_STRANGER;
	case KNOWN_SAME:
		return OP_UNCHANGED;
	case KNOWN_CHANGE:
		break;
	}
	*notes |= OP_NOTE_LATE;
	/* A rule speaks for what was sent before its own attempt, not for what came after it. */
	if (verdict.resolves && verdict.effect != EFFECT_DEFINITE)
		op_step_empty_by_hand(op, event->n - 1);
	op_step_already_gone(op, event, event->n, &verdict);
	if (verdict.effect == EFFECT_DEFINITE)
		late_success(op, event, &verdict, notes);
	else
		late_other(op, policy, event, &verdict, notes);
	return OP_CHANGED;
}

/* A claim that never led to a send, found after its lease ran out: a late effect `none`, and the
 * attempt is struck. One that its owner settled was sent after all: no void. */
enum op_result op_step_late_void(struct op *op, const struct policy *policy,
				 const struct op_event *event, unsigned *notes)
{
	struct op_attempt *entry = op_step_attempt_of(op, event->token);
	bool newest;
	int n;

	if (!entry)
		return OP_STRANGER;
	if (entry->has_verdict || entry->class == CLASS_NONE)
		return OP_REFUSED;

	n = entry->n;
	newest = n == op_step_highest(op);
	memset(entry, 0, sizeof(*entry));
	op_set_remove(&op->unresolved, n);
	op_step_uncharge(op);
	*notes |= OP_NOTE_LATE;
	if (n == op->last_n)
		op_step_restore_verdict(op);
	if (op->state == OP_SUCCEEDED) {
		op_step_dispute(op, notes);
		return OP_CHANGED;
	}
	/* What it would have waited for after its own failure does not count either. */
	if (newest && !op_is_terminal(op))
		op->next = event->now;
	if (op->state != OP_ATTEMPTING)
		op_step_decide(op, policy, event->now, op_step_aside(op));
	return OP_CHANGED;
}
