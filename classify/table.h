/* The default meaning of statuses and transport faults, where no provider rule says otherwise
 * (design section 5, the table of classes). Pure. */
#ifndef STINT_CLASSIFY_TABLE_H
#define STINT_CLASSIFY_TABLE_H

#include "classify/outcome.h"

/* The one legal effect of a class: success/definite, unknown/possible, all others none. */
enum effect table_effect(enum outcome_class class);

/* Whether a rule may pair the two; CLASS_NONE and what is outside the enumerations never may. */
bool table_pair_legal(enum outcome_class class, enum effect effect);

/* Whether an operation may be attempted again after this class (for `unknown` only while repeating
 * is safe). Advice blocks a provider on these classes alone. */
bool table_may_repeat(enum outcome_class class);

/* The class of a whole reply. `retry_after`: a readable Retry-After line came with it, which tells
 * a limiter's 403 and 413 from a missing permission and an oversized body. Anything outside
 * 200..599, a final 1xx included, is `unknown`. */
enum outcome_class table_status(int status, bool retry_after);

/* The class of an attempt that ended in a fault, `status` being what had come of a reply (0: no
 * head). `sent` false is proof that nothing was applied, whatever the fault. */
enum outcome_class table_fault(enum fault fault, bool sent, int status);

/* The word for an attempt that ended in a fault: its name, or "response-cut" where a reply had
 * begun and the connection did not carry it to its end. Static text. */
const char *table_fault_reason(enum fault fault, int status);

#endif
