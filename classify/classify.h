/* From facts to verdict: provider rules first, then the default table of statuses and faults.
 * Pure; allocates nothing. */
#ifndef STINT_CLASSIFY_CLASSIFY_H
#define STINT_CLASSIFY_CLASSIFY_H

#include "classify/outcome.h"

struct advice;
struct rule;
struct ruleset; /* compiled provider rules; NULL: the default table alone */

/* Classifies one attempt. Always writes a complete verdict, whatever the facts hold. */
void classify(const struct facts *facts, const struct ruleset *rules, struct verdict *ret_verdict);

/* The waiting advice of a reply with this verdict, as classify() reads it; `rule` is what
 * rules_match() finds, or NULL. */
void classify_advice(const struct facts *facts, const struct ruleset *rules,
		     const struct rule *rule, enum outcome_class class, struct advice *ret_advice);

#endif
