/* The life of one attempt: claim, renew, and how it ends (settle, void, lease expiry). */
#include "budget/operation_step.h"

#include "budget/schedule.h"

#include <assert.h>
#include <string.h>

/* --- claim ----------------------------------------------------------------------------------- */

/* max(5 min, 1 %) before the provider forgets the key, and an attempt's time more: an attempt that
 * starts at the last moment must still arrive in time. */
static usec_t retention_end(const struct policy *policy, usec_t now)
{
	usec_t margin = usec_max(5 * USEC_MIN, policy->key_retention / 100);
	usec_t less = usec_add(margin, policy->attempt_timeout);

	return policy->key_retention > less ? usec_add(now, policy->key_retention - less) : 0;
}

/* repeat_until as this claim, attempt n, leaves it (design section 4, "Repeating is safe"). */
static usec_t repeat_until(const struct op *op, const struct policy *policy,
			   const struct op_event *event, int n)
{
	bool open = op_set_count(&op->unresolved) > 0;

	switch (event->repeat) {
	case REPEAT_ALWAYS:
		return open ? op->repeat_until : USEC_MAX;
	case REPEAT_RETENTION:
		if (n == op->generation_first + 1)
			return retention_end(policy, event->now);
		/* A later charge never lengthens; it shortens what another policy had promised. */
		return usec_min(op->repeat_until, retention_end(policy, event->now));
	case REPEAT_WITHIN_HOLD:
		return open ? op->repeat_until : event->hold_until;
	case REPEAT_NEVER:
		break;
	}
	return 0;
}

static void copy_instance(char *to, const char *instance)
{
	size_t len = instance ? strnlen(instance, OP_INSTANCE_MAX - 1) : 0;

	memset(to, 0, OP_INSTANCE_MAX);
	if (len > 0)
		memcpy(to, instance, len);
}

enum op_result op_step_claim(struct op *op, const struct policy *policy,
			     const struct op_event *event)
{
	struct op_attempt *entry;
	int n;

	if (op->state == OP_ATTEMPTING && memcmp(op->token, event->token, OP_TOKEN_LEN) == 0)
		return OP_UNCHANGED;
	if (op->state != OP_READY || op->next > event->now ||
	    !op_has_budget(op, policy, event->now) || !op_repeat_is_safe(op, event->now) ||
	    op_step_attempt_of(op, event->token))
		return OP_REFUSED;

	n = op_step_highest(op) + 1;
	op->repeat_until = repeat_until(op, policy, event, n);
	op->attempts++;
	if (op->deadline == 0)
		op->deadline = usec_add(event->now, policy->window);
	op->lease_until = usec_add(event->now, policy->lease);
	memcpy(op->token, event->token, OP_TOKEN_LEN);
	copy_instance(op->owner, event->instance);

	entry = &op->ring[(n - 1) % OP_RING];
	memset(entry, 0, sizeof(*entry));
	entry->n = (uint8_t)n;
	entry->start = event->now;
	entry->class = CLASS_NONE;
	memcpy(entry->token, event->token, OP_TOKEN_LEN);
	copy_instance(entry->instance, event->instance);

	op_step_move(op, OP_ATTEMPTING, event->now);
	return OP_CHANGED;
}

/* --- the end of an attempt ------------------------------------------------------------------- */

/* Whether the next attempt would have fitted, had the provider not asked to wait. */
static bool advice_ends_it(const struct op *op, const struct policy *policy,
			   const struct op_event *event)
{
	usec_t base = backoff_base(&policy->backoff, op->attempts);
	usec_t by_backoff = usec_add(event->now, base);

	return event->verdict->advice > base && !op->retry_never &&
	       op_has_budget(op, policy, by_backoff) && op_repeat_is_safe(op, by_backoff) &&
	       !op_has_budget(op, policy, op->next);
}

static bool may_repeat(enum outcome_class class)
{
	return class == CLASS_RATE_LIMITED || class == CLASS_TRANSIENT || class == CLASS_DEFERRED ||
	       class == CLASS_UNKNOWN;
}

/* The running attempt `entry` showed `verdict`; a success that came late meanwhile stands. */
static void end_attempt(struct op *op, const struct op_event *event, struct op_attempt *entry,
			const struct verdict *verdict)
{
	int n = entry->n;

	op_step_record(entry, verdict, event->now);
	if (verdict->effect == EFFECT_POSSIBLE)
		op_set_add(&op->unresolved, n);
	if (op->class != CLASS_SUCCESS || verdict->class == CLASS_SUCCESS)
		op_step_take_verdict(op, n, verdict, event->credential);
	if (may_repeat(verdict->class))
		op->next = usec_add(event->now, event->wait);
}

static enum op_result settle_running(struct op *op, const struct policy *policy,
				     const struct op_event *event, struct op_attempt *entry,
				     unsigned *notes)
{
	struct verdict verdict = *event->verdict;

	if (verdict.resolves)
		op_step_empty_by_hand(op, ATTEMPTS_CEILING);
	op_step_already_gone(op, event, entry->n, &verdict);
	if (verdict.class == CLASS_SUCCESS)
		*notes |= op_step_take_success(op, event);
	end_attempt(op, event, entry, &verdict);
	op_step_remote_id(op, event->remote_id);
	op->last_end = event->now;
	if (may_repeat(op->class) && advice_ends_it(op, policy, event))
		memcpy(op->reason, "deadline-before-retry-after",
		       sizeof("deadline-before-retry-after"));
	op_step_decide(op, policy, event->now, ASIDE_NOTHING);
	return OP_CHANGED;
}

enum op_result op_step_settle(struct op *op, const struct policy *policy,
			      const struct op_event *event, unsigned *notes)
{
	struct op_attempt *entry = op_step_attempt_of(op, event->token);
	struct op_event finding = *event;

	if (!op_step_is_legal(event->verdict))
		return OP_REFUSED;
	/* The token says best which attempt it is; the number counts where the ring has forgotten. */
	if (entry)
		finding.n = entry->n;
	if (!entry || op->state != OP_ATTEMPTING ||
	    memcmp(op->token, event->token, OP_TOKEN_LEN) != 0)
		return op_step_late_settle(op, policy, &finding, notes);
	return settle_running(op, policy, &finding, entry, notes);
}

enum op_result op_step_expire(struct op *op, const struct policy *policy,
			      const struct op_event *event)
{
	static const struct verdict expired = {.class = CLASS_UNKNOWN,
					       .effect = EFFECT_POSSIBLE,
					       .advice = -1,
					       .rule_wait = -1,
					       .reason = "lease-expired"};
	struct op_attempt *entry;
	usec_t lease_end = op->lease_until;

	if (op->state != OP_ATTEMPTING)
		return OP_UNCHANGED;
	if (event->now < op->lease_until) {
		if (!event->instance || strcmp(event->instance, op->owner) != 0)
			return OP_UNCHANGED;
		lease_end = event->now; /* the instance is dead: its leases run out now */
	}
	entry = op_step_attempt_of(op, op->token);
	assert(entry);
	op->last_end = usec_max(lease_end, usec_add(entry->start, policy->attempt_total));
	end_attempt(op, event, entry, &expired);
	entry->has_verdict = false; /* the owner's own finding may still come */
	op_step_decide(op, policy, event->now, ASIDE_NOTHING);
	return OP_CHANGED;
}

/* Nothing was sent: ready again, unless something that was learnt meanwhile (a late finding, an
 * operator's hold, the window's end) says otherwise. */
enum op_result op_step_void(struct op *op, const struct policy *policy,
			    const struct op_event *event, unsigned *notes)
{
	if (op->state != OP_ATTEMPTING || memcmp(op->token, event->token, OP_TOKEN_LEN) != 0)
		return op_step_late_void(op, policy, event, notes);

	memset(op_step_attempt_of(op, event->token), 0, sizeof(struct op_attempt));
	op_step_uncharge(op);
	op_step_decide(op, policy, event->now, ASIDE_HOLD);
	return OP_CHANGED;
}

enum op_result op_step_renew(struct op *op, const struct policy *policy,
			     const struct op_event *event)
{
	usec_t until = usec_add(event->now, policy->lease);

	if (op->state != OP_ATTEMPTING || memcmp(op->token, event->token, OP_TOKEN_LEN) != 0)
		return op_step_attempt_of(op, event->token) ? OP_REFUSED : OP_STRANGER;
	if (until <= op->lease_until)
		return OP_UNCHANGED;
	op->lease_until = until;
	return OP_CHANGED;
}
