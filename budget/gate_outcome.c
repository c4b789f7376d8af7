/* From a verdict to what it says about the provider. */
#include "budget/gate.h"
#include "classify/outcome.h"
#include "classify/table.h"

/* Whether the provider, or the way to it, is what failed. FAULT_PROTOCOL is not among them (a reply
 * that may not be passed on came all the same); FAULT_HIDDEN_RESEND is: it is how the reset of a
 * connection that was used before shows. */
static bool is_outage(const struct verdict *verdict)
{
	/* What a rule reads as an answer, or as waiting for something named, is no failure. */
	if (verdict->class != CLASS_TRANSIENT && verdict->class != CLASS_UNKNOWN)
		return false;
	switch (verdict->fault) {
	case FAULT_NONE:
	case FAULT_HEAD_TOO_LARGE:
		return verdict->status >= 502 && verdict->status <= 504;
	case FAULT_RESOLVE:
	case FAULT_CONNECT:
	case FAULT_CONNECT_TIMEOUT:
	case FAULT_TLS:
	case FAULT_TIMEOUT:
	case FAULT_IDLE:
	case FAULT_TOTAL:
	case FAULT_RESET:
	case FAULT_CLOSED:
	case FAULT_CUT:
	case FAULT_HIDDEN_RESEND:
	case FAULT_REFUSED_STREAM:
		return true;
	default:
		return false;
	}
}

struct gate_outcome gate_outcome_of(const struct verdict *verdict)
{
	bool whole = verdict->fault == FAULT_NONE || verdict->fault == FAULT_HEAD_TOO_LARGE;
	/* By the class alone: `retry: never` ends an operation, and says nothing about the gate. */
	bool repeatable = table_may_repeat(verdict->class);

	return (struct gate_outcome){
		.answered_well = !repeatable,
		.possible = verdict->effect == EFFECT_POSSIBLE,
		.repeatable_class = repeatable,
		.rate_limited = verdict->class == CLASS_RATE_LIMITED,
		.advice = verdict->advice,
		.breaker_failure = is_outage(verdict),
		.answered = whole && verdict->status != 0,
	};
}
