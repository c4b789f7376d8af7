/* From facts to verdict: provider rules first, then the default table of statuses and faults.
 * Pure; allocates nothing. */
#ifndef STINT_CLASSIFY_CLASSIFY_H
#define STINT_CLASSIFY_CLASSIFY_H

#include "classify/outcome.h"

struct ruleset; /* compiled provider rules; NULL: the default table alone */

/* Classifies one attempt. Always writes a complete verdict, whatever the facts hold. */
void classify(const struct facts *facts, const struct ruleset *rules, struct verdict *ret_verdict);

#endif
