/* What the files of the operation's state machine share among themselves. Private to operation*.c:
 * everybody else calls op_apply().
 *
 * A step works on a copy that op_apply() made: it may leave it half changed when it refuses. */
#ifndef STINT_BUDGET_OPERATION_STEP_H
#define STINT_BUDGET_OPERATION_STEP_H

#include "budget/operation.h"

/* What the choice of the next state leaves out of account. */
enum op_aside {
	ASIDE_NOTHING,
	ASIDE_HOLD, /* `auth` and `quota`: a release has set them aside */
};

/* operation.c */

/* The only function that writes op->state. What the new state needs (lease, set, verdict) must be
 * in the record before; what the old one had alone (lease, window while held) it takes away. */
void op_step_move(struct op *op, enum op_state to, usec_t now);
/* The state by design section 4, "One function picks the state". `now` may be earlier than the next
 * claim: what is left is judged at the later of now and op->next. */
enum op_state op_step_pick(const struct op *op, const struct policy *policy, usec_t now,
			   enum op_aside aside);
/* Picks and moves. An operation that is exhausted only ever gets better known by it: it never
 * becomes ready without a person. */
void op_step_decide(struct op *op, const struct policy *policy, usec_t now, enum op_aside aside);
/* Which of the stored verdict an event without a new one may still go by. */
enum op_aside op_step_aside(const struct op *op);

/* operation_record.c */

/* The highest number that an attempt of this record has; the next one gets one more. It differs
 * from op->attempts once the charge of an earlier attempt has gone back. */
int op_step_highest(const struct op *op);
struct op_attempt *op_step_attempt(struct op *op, int n);
struct op_attempt *op_step_attempt_of(struct op *op, const uint8_t *token);
/* Class and effect by design section 5: success/definite, unknown/possible, all others/none. */
bool op_step_is_legal(const struct verdict *verdict);
/* Writes what attempt `entry` showed. */
void op_step_record(struct op_attempt *entry, const struct verdict *verdict, usec_t now);
/* Makes it the record's last verdict, with the credential that was refused. */
void op_step_take_verdict(struct op *op, int n, const struct verdict *verdict,
			  const uint8_t *credential);
/* After attempt n was struck: the last verdict is that of the highest that is left. */
void op_step_restore_verdict(struct op *op);
/* Takes the numbers 1 to n out of the set, by hand: true if there was one. */
bool op_step_empty_by_hand(struct op *op, int n);
/* A success was learnt, and its verdict is not taken yet: keeps whether it was covered. Returns the
 * notes: whether it is a second effect. */
unsigned op_step_take_success(struct op *op, const struct op_event *event);
/* Keeps the provider's name for the effect; NULL and "" change nothing. */
void op_step_remote_id(struct op *op, const char *remote_id);
void op_step_dispute(struct op *op, unsigned *notes);
/* The charge of a struck attempt goes back. */
void op_step_uncharge(struct op *op);
/* DELETE answered 404 or 410 while an earlier one may have been applied: it was. */
void op_step_already_gone(const struct op *op, const struct op_event *event, int n,
			  struct verdict *verdict);

/* operation_attempt.c: what the holder of the lease does, and the lease's end. */
enum op_result op_step_claim(struct op *op, const struct policy *policy,
			     const struct op_event *event);
enum op_result op_step_settle(struct op *op, const struct policy *policy,
			      const struct op_event *event, unsigned *notes);
enum op_result op_step_expire(struct op *op, const struct policy *policy,
			      const struct op_event *event);
enum op_result op_step_void(struct op *op, const struct policy *policy,
			    const struct op_event *event, unsigned *notes);
enum op_result op_step_renew(struct op *op, const struct policy *policy,
			     const struct op_event *event);

/* operation_late.c: findings about attempts that hold no lease any more. */
enum op_result op_step_late_settle(struct op *op, const struct policy *policy,
				   const struct op_event *event, unsigned *notes);
enum op_result op_step_late_void(struct op *op, const struct policy *policy,
				 const struct op_event *event, unsigned *notes);

/* operation_hand.c: what people and probes do. */
enum op_result op_step_hold(struct op *op, const struct op_event *event);
enum op_result op_step_release(struct op *op, const struct policy *policy,
			       const struct op_event *event);
enum op_result op_step_release_credential(struct op *op, const struct policy *policy,
					  const struct op_event *event);
enum op_result op_step_reopen(struct op *op, const struct policy *policy,
			      const struct op_event *event);
enum op_result op_step_resolve(struct op *op, const struct policy *policy,
			       const struct op_event *event);

#endif
