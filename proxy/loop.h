/* One thread's event loop: libuv, an inbox that other threads post to, and a cached time. */
#ifndef STINT_PROXY_LOOP_H
#define STINT_PROXY_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "classify/usec.h"

/* Something to run on a loop's thread; embedded in its owner, posted at most once at a time. */
struct loop_task {
	void (*run)(struct loop_task *task);
	struct loop_task *next;
};

/* The struct whose `member` is at `ptr`: a task's owner, most of all. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct loop {
	uv_loop_t uv;
	uv_async_t async;
	pthread_mutex_t lock;
	struct loop_task *inbox, **inbox_tail;
	bool awake;  /* an async signal is already on its way */
	bool closed; /* loop_close() was called: what is posted now runs when loop_run() ends */
	pthread_t thread;
};

/* 0 or a negative errno. */
int loop_init(struct loop *loop);
/* Queues task for the loop's thread; any thread, in order. */
void loop_post(struct loop *loop, struct loop_task *task);
/* Runs until loop_stop() has been called and nothing is active any more. */
void loop_run(struct loop *loop);
/* Closes the inbox (what is still in it is run first); the loop ends when its other handles are
 * closed. Only on the loop's thread. */
void loop_close(struct loop *loop);
/* Frees what is left, after loop_run() has returned. */
void loop_done(struct loop *loop);

#endif
