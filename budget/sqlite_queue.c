#include "budget/sqlite_queue.h"

#include <time.h>

void sqlite_queue_init(struct sqlite_queue *queue, size_t max)
{
	pthread_condattr_t attr;
	*queue = (struct sqlite_queue){.max = max};
	queue->tail = &queue->head;
	pthread_mutex_init(&queue->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->filled, &attr);
	pthread_condattr_destroy(&attr);
}

void sqlite_queue_done(struct sqlite_queue *queue)
{
	pthread_cond_destroy(&queue->filled);
	pthread_mutex_destroy(&queue->mutex);
}

bool sqlite_queue_put(struct sqlite_queue *queue, struct ledger_request *request)
{
	pthread_mutex_lock(&queue->mutex);
	bool room = !queue->stopped && queue->count < queue->max;
	bool wake = room && queue->waiting;
	if (room) {
		request->link = NULL;
		*queue->tail = request;
		queue->tail = &request->link;
		queue->count++;
	}
	pthread_mutex_unlock(&queue->mutex);
	if (wake)
		pthread_cond_signal(&queue->filled);
	return room;
}

static void wait_filled(struct sqlite_queue *queue, usec_t wait)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	usec_t at = usec_add(until.tv_nsec / 1000, wait);
	bool bounded = at < USEC_MAX;
	until.tv_sec += (time_t)(at / USEC_SEC);
	until.tv_nsec = (long)(at % USEC_SEC) * 1000;
	int late = 0;
	queue->waiting = true;
	while (!queue->head && !queue->stopped && late == 0)
		late = bounded ? pthread_cond_timedwait(&queue->filled, &queue->mutex, &until)
			       : pthread_cond_wait(&queue->filled, &queue->mutex);
	queue->waiting = false;
}

struct ledger_request *sqlite_queue_take(struct sqlite_queue *queue, usec_t wait, bool *ret_stopped)
{
	pthread_mutex_lock(&queue->mutex);
	if (wait > 0)
		wait_filled(queue, wait);
	struct ledger_request *first = queue->head;
	queue->head = NULL;
	queue->tail = &queue->head;
	queue->count = 0;
	*ret_stopped = !first && queue->stopped;
	pthread_mutex_unlock(&queue->mutex);
	return first;
}

void sqlite_queue_stop(struct sqlite_queue *queue)
{
	pthread_mutex_lock(&queue->mutex);
	queue->stopped = true;
	pthread_mutex_unlock(&queue->mutex);
	pthread_cond_signal(&queue->filled);
}
