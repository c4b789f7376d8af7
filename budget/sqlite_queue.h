/* A bounded queue of requests between threads, linked through the requests themselves. */
#ifndef STINT_BUDGET_SQLITE_QUEUE_H
#define STINT_BUDGET_SQLITE_QUEUE_H

#include <pthread.h>

#include "budget/ledger.h"

struct sqlite_queue {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct ledger_request *head, **tail;
	size_t count, max;
	bool stopped, waiting;
};

void sqlite_queue_init(struct sqlite_queue *queue, size_t max);
void sqlite_queue_done(struct sqlite_queue *queue);

/* false, and nothing queued, if the queue is full or stopped. */
bool sqlite_queue_put(struct sqlite_queue *queue, struct ledger_request *request);

/* Everything that is queued, in order, linked by `link`; waits for it, at most for `wait` (USEC_MAX:
 * without end, 0: not at all). NULL: nothing came; ret_stopped says whether nothing will. */
struct ledger_request *sqlite_queue_take(struct sqlite_queue *queue, usec_t wait,
					 bool *ret_stopped);

/* Nothing more is taken in; who waits is woken once the queue is empty. */
void sqlite_queue_stop(struct sqlite_queue *queue);

#endif
