/* One worker: a thread with one loop that drives its front, its upstream and its exchanges. */
#ifndef STINT_PROXY_WORKER_H
#define STINT_PROXY_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/app.h"
#include "proxy/front.h"
#include "proxy/loop.h"
#include "proxy/upstream.h"

struct exchange;

struct worker {
	struct app *app;
	int index;
	struct loop loop;
	pthread_t thread;
	bool thread_started;
	struct front *front;
	struct upstream *upstream;
	struct exchange *exchanges; /* doubly linked */
	size_t exchange_count;
	bool draining;
	uv_timer_t grace;  /* the drain's tick */
	usec_t grace_ends; /* clock_boot() */
	bool cut;
	struct loop_task drain_task;
	uint8_t random[1024]; /* from the kernel, handed out once */
	size_t random_left;
};

/* Opens loop, upstream and front (sockets included); error gets one sentence. 0 or -1. */
int worker_init(struct worker *worker, struct app *app, int index, char *error, size_t error_len);
int worker_start(struct worker *worker);
/* Begins to drain, from any thread: no new requests, waiting deliveries are answered, attempts in
 * flight get config->drain, then are cut and recorded as possible. The thread ends by itself. */
void worker_drain(struct worker *worker);
void worker_join(struct worker *worker);

/* len (at most 64) uniform random bytes; aborts if the kernel has none. */
void worker_random(struct worker *worker, void *ret_bytes, size_t len);

#endif
