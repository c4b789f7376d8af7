#include "budget/delivery_answer.h"

/* When stint would admit the next attempt, from now; -1 where it admits none. */
static usec_t next_admitted(const struct delivery *d, usec_t now)
{
	usec_t at = 0;

	if (d->have_op && d->op.state != OP_READY)
		return -1;
	if (d->have_op)
		at = d->op.next;
	if (d->gate_until != USEC_MAX)
		at = usec_max(at, d->gate_until);
	return at > now ? at - now : BUSY_RETRY_AFTER;
}

static bool is_time_limit(enum fault fault)
{
	return fault == FAULT_CONNECT_TIMEOUT || fault == FAULT_TIMEOUT || fault == FAULT_IDLE ||
	       fault == FAULT_TOTAL || fault == FAULT_DEADLINE;
}

/* "Sent" as the verdict shows it: what was provably not sent has class transient, effect none and no
 * status, whatever its fault. */
static bool was_sent(const struct verdict *verdict)
{
	return verdict->status != 0 || verdict->effect != EFFECT_NONE;
}

void answer_note_outcome(struct delivery *d)
{
	bool sent = was_sent(&d->verdict);

	if (sent) {
		d->any_sent = true;
		d->last_answered = d->verdict.status != 0 && d->verdict.fault == FAULT_NONE;
	}
	if (sent || !d->any_sent)
		d->last_timed_out = is_time_limit(d->verdict.fault);
}

void answer_problem(struct delivery_action *act, const char *problem, int status,
		    usec_t retry_after)
{
	act->answer = ANSWER_PROBLEM;
	act->problem = problem;
	act->status = status;
	act->retry_after = retry_after;
}

/* Why this delivery makes no further attempt although the operation could. */
static const char *why_no_more(const struct delivery *d)
{
	if (!d->replayable)
		return "body-not-replayable";
	if (d->have_op && d->op.state == OP_READY && d->verdict.advice > 0 &&
	    d->op.next > d->answer_by)
		return "deadline-before-retry-after";
	return NULL;
}

void answer_last(const struct delivery *d, usec_t now, struct delivery_action *act)
{
	usec_t retry_after = next_admitted(d, now);

	if (d->last_answered) {
		act->answer = ANSWER_REPLY;
		act->retry_after = retry_after;
	} else if (d->any_sent && d->verdict.fault == FAULT_HEAD_TOO_LARGE) {
		answer_problem(act, "response-head-too-large", 502, retry_after);
	} else {
		answer_problem(act, d->any_sent ? "unknown-outcome" : "not-sent",
			       d->last_timed_out ? 504 : 502, retry_after);
	}
	act->reason = why_no_more(d);
}

void answer_waiting(const struct delivery *d, usec_t now, struct delivery_action *act)
{
	bool limited = d->gate_rate_limited ||
		       (d->have_op && d->op.class == CLASS_RATE_LIMITED && d->op.next > now);

	if (d->started > 0) {
		answer_last(d, now, act);
		return;
	}
	answer_problem(act, "waiting", limited ? 429 : 503, next_admitted(d, now));
}

void answer_record(const struct delivery *d, struct delivery_action *act)
{
	switch (d->op.state) {
	case OP_SUCCEEDED:
	case OP_FAILED:
		act->answer = ANSWER_STORED;
		act->status = 424;
		act->problem = "response-not-retained";
		return;
	case OP_EXHAUSTED:
		answer_problem(act, "exhausted", 424, -1);
		return;
	case OP_UNKNOWN:
		answer_problem(act, "unknown", 424, -1);
		return;
	default:
		answer_problem(act, "held", 424, -1);
		return;
	}
}

void answer_deadline(const struct delivery *d, struct delivery_action *act)
{
	if (d->ledgered)
		answer_problem(act, "in-progress", 409, BUSY_RETRY_AFTER);
	else
		answer_problem(act, "unknown-outcome", 504, -1);
}
