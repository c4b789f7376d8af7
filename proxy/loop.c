/* The inbox is a list under a mutex; one async signal is on its way at most. A task is taken off the
 * list before it runs, so that it may post itself again. */
#include "proxy/loop.h"

#include <assert.h>
#include <stddef.h>

static struct loop_task *inbox_take(struct loop *loop)
{
	struct loop_task *list;

	pthread_mutex_lock(&loop->lock);
	list = loop->inbox;
	loop->inbox = NULL;
	loop->inbox_tail = &loop->inbox;
	loop->awake = false;
	pthread_mutex_unlock(&loop->lock);
	return list;
}

static bool inbox_run(struct loop *loop)
{
	struct loop_task *task = inbox_take(loop);
	bool any = task != NULL;

	while (task != NULL) {
		struct loop_task *next = task->next;

		task->next = NULL;
		task->run(task);
		task = next;
	}
	return any;
}

static void inbox_signalled(uv_async_t *async)
{
	inbox_run(async->data);
}

int loop_init(struct loop *loop)
{
	int rc = uv_loop_init(&loop->uv);

	if (rc < 0)
		return rc;
	rc = uv_async_init(&loop->uv, &loop->async, inbox_signalled);
	if (rc < 0) {
		uv_loop_close(&loop->uv);
		return rc;
	}
	rc = pthread_mutex_init(&loop->lock, NULL);
	if (rc != 0) {
		uv_close((uv_handle_t *)&loop->async, NULL);
		uv_run(&loop->uv, UV_RUN_DEFAULT);
		uv_loop_close(&loop->uv);
		return -rc;
	}
	loop->async.data = loop;
	loop->inbox = NULL;
	loop->inbox_tail = &loop->inbox;
	loop->awake = false;
	loop->closed = false;
	loop->thread = pthread_self();
	return 0;
}

void loop_post(struct loop *loop, struct loop_task *task)
{
	task->next = NULL;
	pthread_mutex_lock(&loop->lock);
	*loop->inbox_tail = task;
	loop->inbox_tail = &task->next;
	/* Sent under the lock: loop_close() takes it before it closes the handle. */
	if (!loop->awake && !loop->closed) {
		loop->awake = true;
		uv_async_send(&loop->async);
	}
	pthread_mutex_unlock(&loop->lock);
}

void loop_run(struct loop *loop)
{
	loop->thread = pthread_self();
	/* What was posted after loop_close() is run too, and may have made new handles. */
	do {
		uv_run(&loop->uv, UV_RUN_DEFAULT);
	} while (inbox_run(loop) || uv_loop_alive(&loop->uv));
}

void loop_close(struct loop *loop)
{
	assert(!uv_is_closing((uv_handle_t *)&loop->async));
	inbox_run(loop);
	pthread_mutex_lock(&loop->lock);
	loop->closed = true;
	pthread_mutex_unlock(&loop->lock);
	uv_close((uv_handle_t *)&loop->async, NULL);
}

void loop_done(struct loop *loop)
{
	int rc = uv_loop_close(&loop->uv);

	assert(rc == 0); /* a handle was left open */
	(void)rc;
	pthread_mutex_destroy(&loop->lock);
}
