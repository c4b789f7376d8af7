/* Two questions that the table, the rules and the advice all ask of the facts: was a request sent,
 * and did a whole reply come. */
#ifndef STINT_CLASSIFY_FACTS_H
#define STINT_CLASSIFY_FACTS_H

#include "classify/outcome.h"

/* The pre-request callback is the only proof of "not sent". Two facts contradict a false `sent` and
 * win over it: a reply without a fault, and the transport's wish to send for a second time. A
 * status beside a fault does not: it may be a forward proxy's answer to CONNECT. */
static inline bool facts_sent(const struct facts *facts)
{
	return facts->sent || facts->fault == FAULT_HIDDEN_RESEND ||
	       (facts->fault == FAULT_NONE && facts->status != 0);
}

/* The status speaks for itself: the reply is complete, or only its head was too large to keep
 * (the status settles, the caller gets a 502). */
static inline bool facts_whole(const struct facts *facts)
{
	return facts->status != 0 && facts_sent(facts) &&
	       (facts->fault == FAULT_NONE || facts->fault == FAULT_HEAD_TOO_LARGE);
}

#endif
