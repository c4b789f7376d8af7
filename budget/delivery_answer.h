/* What a delivery's caller is told: the rows of the table in design section 8. Pure; used by the
 * delivery machine alone. */
#ifndef STINT_BUDGET_DELIVERY_ANSWER_H
#define STINT_BUDGET_DELIVERY_ANSWER_H

#include "budget/delivery.h"

/* Keeps of the outcome in delivery->verdict what later answers need. */
void answer_note_outcome(struct delivery *delivery);

void answer_problem(struct delivery_action *act, const char *problem, int status,
		    usec_t retry_after);
/* From this delivery's own attempts: the last sent one's reply, else 502 or 504. */
void answer_last(const struct delivery *delivery, usec_t now, struct delivery_action *act);
/* The wait is longer than the hold, or a hint is spent. */
void answer_waiting(const struct delivery *delivery, usec_t now, struct delivery_action *act);
/* A record that another delivery brought to where it is. */
void answer_record(const struct delivery *delivery, struct delivery_action *act);
/* The delivery's own deadline passed while its unsafe attempt is out. */
void answer_deadline(const struct delivery *delivery, struct delivery_action *act);

#endif
