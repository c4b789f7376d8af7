/* The life of an operation: the states, the one function that moves, the one that picks. The events
 * of an attempt's own life are in operation_attempt.c, late findings in operation_late.c, people and
 * probes in operation_hand.c, the record and its invariants in operation_record.c.
 *
 *                     claim                        settle: success, already-gone
 *      op_init()  +-----------> ATTEMPTING ----------------------------------> SUCCEEDED
 *          |      |              |  |  | |                                          ^
 *          v      |  settle,     |  |  | +--- settle: invalid, nothing open ----> FAILED
 *        READY ---+  expire,     |  |  |                                            ^
 *        ^ ^ ^ ^     void        |  |  +----- settle, expire: nothing left, ---> EXHAUSTED
 *        | | | +-----------------+  |         retry: never; nothing open            |
 *        | | |                      |                                               |
 *        | | |                      +-------- the same with something open, ---> UNKNOWN
 *        | | |                      |         invalid, repeating not safe           |
 *        | | |                      |                                               |
 *        | | |                      +-------- auth, quota, quarantine -----------> HELD
 *        | | +--- release, reopen ----------------------------------------------- HELD
 *        | +----- reopen, resolve or probe "not applied", late effect none ------ UNKNOWN
 *        +------- reopen ---------------------------------------------------- EXHAUSTED
 *
 * Not drawn: READY goes to HELD by a person, to EXHAUSTED or UNKNOWN when its window is over, to
 * UNKNOWN when repeat_until passes. A late success or a resolve "applied" takes every state to
 * SUCCEEDED, but ATTEMPTING (merged at its settle) and FAILED (disputed). A resolve of a dispute may
 * take FAILED to SUCCEEDED, and take back a success that only a person or a probe had declared.
 *
 * event               from                 to                              by
 * CLAIM               READY                ATTEMPTING                      op_step_claim
 * SETTLE              ATTEMPTING           op_step_pick                    op_step_settle
 * SETTLE, late        all but ATTEMPTING   op_step_pick, or stays          op_step_late_settle
 * EXPIRE              ATTEMPTING           op_step_pick                    op_step_expire
 * VOID                ATTEMPTING           op_step_pick, no auth or quota  op_step_void
 * VOID, late          all but ATTEMPTING   op_step_pick, or stays          op_step_late_void
 * RENEW               ATTEMPTING           stays                           op_step_renew
 * TICK                READY                EXHAUSTED, UNKNOWN              step_tick
 * SEEN                never charged        stays                           step_seen
 * HOLD                READY                HELD                            op_step_hold
 * HOLD                ATTEMPTING, UNKNOWN  stays, flagged                  op_step_hold
 * RELEASE             HELD                 op_step_pick, no auth or quota  op_step_release
 * RELEASE_CREDENTIAL  HELD for auth        the same         op_step_release_credential
 * REOPEN              EXHAUSTED, HELD,     READY (flagged: HELD)           op_step_reopen
 *                     UNKNOWN
 * RESOLVE, PROBE      something open,      SUCCEEDED, or op_step_pick      op_step_resolve
 *                     or disputed
 *
 * Of each state holds (op_check() has all of it): READY is not flagged; ATTEMPTING has the lease and
 * exactly one running entry in the ring; SUCCEEDED, FAILED and EXHAUSTED have nothing open and a
 * terminal time; UNKNOWN has something open; HELD has held_since, and its window stands still. */
#include "budget/operation_step.h"

#include <assert.h>
#include <string.h>

#define TO(state) (1u << OP_##state)

struct state_row {
	unsigned to;   /* the states that it may move to */
	bool terminal; /* has a terminal time, no next attempt */
};

static const struct state_row state_table[OP_STATE_COUNT] = {
	[OP_READY] = {.to = TO(ATTEMPTING) | TO(SUCCEEDED) | TO(FAILED) | TO(EXHAUSTED) |
			    TO(UNKNOWN) | TO(HELD)},
	[OP_ATTEMPTING] = {.to = TO(READY) | TO(SUCCEEDED) | TO(FAILED) | TO(EXHAUSTED) |
				 TO(UNKNOWN) | TO(HELD)},
	[OP_SUCCEEDED] = {.to = TO(READY) | TO(FAILED) | TO(EXHAUSTED) | TO(HELD),
			  .terminal = true},
	[OP_FAILED] = {.to = TO(SUCCEEDED), .terminal = true},
	[OP_EXHAUSTED] = {.to = TO(READY) | TO(SUCCEEDED) | TO(FAILED) | TO(HELD),
			  .terminal = true},
	[OP_UNKNOWN] = {.to = TO(READY) | TO(SUCCEEDED) | TO(FAILED) | TO(EXHAUSTED) | TO(HELD)},
	[OP_HELD] = {.to = TO(READY) | TO(SUCCEEDED) | TO(FAILED) | TO(EXHAUSTED) | TO(UNKNOWN)},
};

/* --- moving ---------------------------------------------------------------------------------- */

/* The window's end if nothing else happens: it stands still while the operation is held. */
static usec_t window_end(const struct op *op, usec_t now)
{
	if (op->deadline == 0 || op->state != OP_HELD || now < op->held_since)
		return op->deadline;
	return usec_add(op->deadline, now - op->held_since);
}

static void drop_lease(struct op *op)
{
	memset(op->token, 0, sizeof(op->token));
	memset(op->owner, 0, sizeof(op->owner));
	op->lease_until = 0;
}

void op_step_move(struct op *op, enum op_state to, usec_t now)
{
	bool was_terminal = state_table[op->state].terminal;

	assert((unsigned)to < OP_STATE_COUNT && (state_table[op->state].to & 1u << to));

	op->deadline = window_end(op, now);
	op->held_since = to == OP_HELD ? now : 0;
	if (to != OP_ATTEMPTING)
		drop_lease(op);
	if (to == OP_SUCCEEDED)
		op->unresolved = (struct op_set){{0, 0}};
	if (state_table[to].terminal) {
		op->terminal = now;
		op->next = 0;
	} else {
		op->terminal = 0;
	}
	if (was_terminal && !state_table[to].terminal)
		op->tombstone = false;
	if (to == OP_READY)
		op->next = usec_max(op->next, now);
	op->state = to;
	assert(!op_check(op));
}

/* Whether an attempt that starts at `at` has a number, a charge and time left. The window of a
 * record never charged would start with it. */
static bool has_budget_until(const struct op *op, const struct policy *policy, usec_t at,
			     usec_t deadline)
{
	usec_t end = deadline ? deadline : usec_add(at, policy->window);

	return op->attempts < op->limit && op_step_highest(op) < ATTEMPTS_CEILING && at < end &&
	       usec_add(at, policy->attempt_least) <= end;
}

bool op_has_budget(const struct op *op, const struct policy *policy, usec_t at)
{
	return has_budget_until(op, policy, at, op->deadline);
}

enum op_state op_step_pick(const struct op *op, const struct policy *policy, usec_t now,
			   enum op_aside aside)
{
	bool open = op_set_count(&op->unresolved) > 0;
	usec_t at = usec_max(now, op->next);

	if (op->class == CLASS_SUCCESS)
		return OP_SUCCEEDED;
	if (aside == ASIDE_NOTHING && (op->class == CLASS_AUTH || op->class == CLASS_QUOTA))
		return OP_HELD;
	if (op->class == CLASS_INVALID)
		return open ? OP_UNKNOWN : OP_FAILED;
	if (op->retry_never || !has_budget_until(op, policy, at, window_end(op, now)) ||
	    !op_repeat_is_safe(op, at))
		return open ? OP_UNKNOWN : OP_EXHAUSTED;
	return op->quarantined ? OP_HELD : OP_READY;
}

/* `auth` and `quota` make an operation held, so where it is not held (nor just told so) a release
 * has set them aside already, and they stay aside. */
enum op_aside op_step_aside(const struct op *op)
{
	return op->state == OP_READY || op->state == OP_UNKNOWN ? ASIDE_HOLD : ASIDE_NOTHING;
}

void op_step_decide(struct op *op, const struct policy *policy, usec_t now, enum op_aside aside)
{
	enum op_state to = op_step_pick(op, policy, now, aside);

	if (op->state == OP_EXHAUSTED && to != OP_SUCCEEDED && to != OP_FAILED)
		return;
	if (to != op->state)
		op_step_move(op, to, now);
}

/* --- time alone ------------------------------------------------------------------------------ */

static enum op_result step_tick(struct op *op, const struct policy *policy,
				const struct op_event *event)
{
	usec_t at = usec_max(event->now, op->next);
	bool over = op->deadline != 0 && !op_has_budget(op, policy, at);

	if (op->state != OP_READY || (!over && op_repeat_is_safe(op, at)))
		return OP_UNCHANGED;
	op_step_move(op, op_set_count(&op->unresolved) > 0 ? OP_UNKNOWN : OP_EXHAUSTED, event->now);
	return OP_CHANGED;
}

static enum op_result step_seen(struct op *op, const struct op_event *event)
{
	if (op->attempts != 0 || event->now <= op->delivered)
		return OP_UNCHANGED;
	op->delivered = event->now;
	return OP_CHANGED;
}

/* --- the entry ------------------------------------------------------------------------------- */

void op_init(struct op *op, const struct policy *policy, const uint8_t *incarnation,
	     const uint8_t *fingerprint, usec_t now)
{
	int limit = policy->attempts;

	memset(op, 0, sizeof(*op));
	memcpy(op->incarnation, incarnation, OP_INCARNATION_LEN);
	memcpy(op->fingerprint, fingerprint, OP_FINGERPRINT_LEN);
	op->state = OP_READY;
	op->limit = limit < 1 ? 1 : limit > ATTEMPTS_CEILING ? ATTEMPTS_CEILING : limit;
	op->created = now;
	op->updated = now;
	op->delivered = now;
	assert(!op_check(op));
}

static enum op_result step(struct op *op, const struct policy *policy, const struct op_event *event,
			   unsigned *notes)
{
	switch (event->kind) {
	case OP_EV_CLAIM:
		return op_step_claim(op, policy, event);
	case OP_EV_SETTLE:
		return op_step_settle(op, policy, event, notes);
	case OP_EV_EXPIRE:
		return op_step_expire(op, policy, event);
	case OP_EV_VOID:
		return op_step_void(op, policy, event, notes);
	case OP_EV_RENEW:
		return op_step_renew(op, policy, event);
	case OP_EV_TICK:
		return step_tick(op, policy, event);
	case OP_EV_SEEN:
		return step_seen(op, event);
	case OP_EV_HOLD:
		return op_step_hold(op, event);
	case OP_EV_RELEASE:
		return op_step_release(op, policy, event);
	case OP_EV_RELEASE_CREDENTIAL:
		return op_step_release_credential(op, policy, event);
	case OP_EV_REOPEN:
		return op_step_reopen(op, policy, event);
	case OP_EV_RESOLVE:
	case OP_EV_PROBE:
		return op_step_resolve(op, policy, event);
	}
	return OP_REFUSED;
}

enum op_result op_apply(const struct op *op, const struct policy *policy,
			const struct op_event *event, struct op *ret_op, unsigned *ret_notes)
{
	struct op work = *op;
	unsigned notes = 0;
	enum op_result result = step(&work, policy, event, &notes);

	*ret_notes = result == OP_CHANGED ? notes : 0;
	if (result == OP_CHANGED) {
		work.counter = op->counter + 1;
		work.updated = event->now;
		assert(!op_check(&work));
		*ret_op = work;
	} else if (result == OP_UNCHANGED) {
		*ret_op = *op;
	}
	return result;
}
