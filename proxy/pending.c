#include "proxy/pending.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/app.h"
#include "proxy/log.h"

struct pending {
	struct app *app;
	uv_timer_t timer;
	struct loop_task first; /* tries a new update at once */
	bool first_posted;
	pthread_mutex_t lock;
	struct update *waiting; /* under the lock, newest first */
	struct update *running; /* under the lock for readers; changed on the control thread */
	size_t count;
	bool closing;
	bool timer_closed;
	void (*closed)(void *data);
	void *data;
};

/* Starts everything that waits; what fails goes back to the list and waits for the next time. */
static void on_timer(uv_timer_t *timer)
{
	struct pending *pending = timer->data;
	struct update *batch, *update;

	pthread_mutex_lock(&pending->lock);
	batch = pending->waiting;
	pending->waiting = NULL;
	pthread_mutex_unlock(&pending->lock);
	while (batch != NULL) {
		update = batch;
		pthread_mutex_lock(&pending->lock);
		batch = update->link;
		update->link = pending->running;
		pending->running = update;
		pthread_mutex_unlock(&pending->lock);
		update_start(update);
	}
}

static void on_first(struct loop_task *task)
{
	struct pending *pending =
		(struct pending *)((char *)task - offsetof(struct pending, first));

	pthread_mutex_lock(&pending->lock);
	pending->first_posted = false;
	pthread_mutex_unlock(&pending->lock);
	if (!pending->closing)
		on_timer(&pending->timer);
}

struct pending *pending_new(struct app *app)
{
	struct pending *pending = calloc(1, sizeof(*pending));

	if (pending == NULL)
		return NULL;
	pending->app = app;
	pending->first.run = on_first;
	pthread_mutex_init(&pending->lock, NULL);
	uv_timer_init(&app->control.uv, &pending->timer);
	pending->timer.data = pending;
	uv_timer_start(&pending->timer, on_timer, PENDING_RETRY_MS, PENDING_RETRY_MS);
	return pending;
}

static void unlink_running(struct pending *pending, struct update *update)
{
	struct update **at = &pending->running;

	while (*at != NULL && *at != update)
		at = &(*at)->link;
	if (*at != NULL)
		*at = update->link;
}

static void maybe_closed(struct pending *pending)
{
	bool idle;

	if (!pending->closing || !pending->timer_closed)
		return;
	pthread_mutex_lock(&pending->lock);
	idle = pending->running == NULL;
	pthread_mutex_unlock(&pending->lock);
	if (idle && pending->closed != NULL) {
		void (*closed)(void *) = pending->closed;

		pending->closed = NULL;
		closed(pending->data);
	}
}

static void on_done(struct update *update, enum update_result result)
{
	struct pending *pending = update->data;
	bool again = result == UPDATE_AWAY && !pending->closing;

	pthread_mutex_lock(&pending->lock);
	unlink_running(pending, update);
	if (again) {
		update->link = pending->waiting;
		pending->waiting = update;
	} else {
		pending->count--;
	}
	pthread_mutex_unlock(&pending->lock);
	if (!again) {
		/* An outcome that no record takes must be seen; a void or a reference that finds
		 * nothing has nothing to do. */
		if (result != UPDATE_WRITTEN && result != UPDATE_NOTHING && update->has_event &&
		    update->event.kind == OP_EV_SETTLE)
			log_message(LOG_LEVEL_WARN, "orphan-finding",
				    "provider=%s attempt=%d result=%s", update->name.provider,
				    update->event.n,
				    result == UPDATE_AWAY ? "not-written" : "no-such-claim");
		update_free(update);
	}
	maybe_closed(pending);
}

void pending_add(struct pending *pending, struct update *update)
{
	bool post;

	update->loop = &pending->app->control;
	update->done = on_done;
	update->data = pending;
	pthread_mutex_lock(&pending->lock);
	update->link = pending->waiting;
	pending->waiting = update;
	pending->count++;
	post = !pending->first_posted;
	pending->first_posted = true;
	pthread_mutex_unlock(&pending->lock);
	if (post)
		loop_post(&pending->app->control, &pending->first);
}

size_t pending_count(struct pending *pending)
{
	size_t count;

	pthread_mutex_lock(&pending->lock);
	count = pending->count;
	pthread_mutex_unlock(&pending->lock);
	return count;
}

bool pending_is_full(struct pending *pending)
{
	return pending_count(pending) >= PENDING_MAX;
}

bool pending_has(struct pending *pending, const struct op_name *name)
{
	bool found = false;

	pthread_mutex_lock(&pending->lock);
	for (struct update *u = pending->waiting; u != NULL && !found; u = u->link)
		found = op_name_equal(&u->name, name);
	for (struct update *u = pending->running; u != NULL && !found; u = u->link)
		found = op_name_equal(&u->name, name);
	pthread_mutex_unlock(&pending->lock);
	return found;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct pending *pending = handle->data;

	pending->timer_closed = true;
	maybe_closed(pending);
}

void pending_close(struct pending *pending, void (*closed)(void *data), void *data)
{
	pending->closing = true;
	pending->closed = closed;
	pending->data = data;
	on_timer(&pending->timer);
	uv_close((uv_handle_t *)&pending->timer, on_timer_closed);
}

void pending_free(struct pending *pending)
{
	if (pending == NULL)
		return;
	for (struct update *u = pending->waiting, *next; u != NULL; u = next) {
		next = u->link;
		update_free(u);
	}
	pthread_mutex_destroy(&pending->lock);
	free(pending);
}
