#include "proxy/pending.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/app.h"
#include "proxy/log.h"

struct update_list {
	struct update *head, **tail;
};

struct pending {
	struct app *app;
	uv_timer_t timer;
	struct loop_task first; /* tries a new update at once */
	bool first_posted;
	pthread_mutex_t lock;
	/* Under the lock: new ones, those that failed, and those under way, oldest first. */
	struct update_list fresh, waiting, running;
	size_t reply_bytes; /* under the lock */
	atomic_size_t count;
	bool closing;
	bool timer_closed;
	void (*closed)(void *data);
	void *data;
};

static void list_init(struct update_list *list)
{
	list->head = NULL;
	list->tail = &list->head;
}

static void list_append(struct update_list *list, struct update *update)
{
	update->link = NULL;
	update->plink = list->tail;
	*list->tail = update;
	list->tail = &update->link;
}

static void list_remove(struct update_list *list, struct update *update)
{
	*update->plink = update->link;
	if (update->link != NULL)
		update->link->plink = update->plink;
	else
		list->tail = update->plink;
}

static bool list_has(const struct update_list *list, const struct op_name *name)
{
	for (const struct update *u = list->head; u != NULL; u = u->link) {
		if (op_name_equal(&u->name, name))
			return true;
	}
	return false;
}

/* Starts what is on the list now; what fails waits for the timer. */
static void start_all(struct pending *pending, struct update_list *list)
{
	struct update *update, *last = NULL;
	bool more = pending->app->ledger != NULL; /* else it waits until the ledger is open */

	pthread_mutex_lock(&pending->lock);
	if (list->head != NULL)
		last = CONTAINER_OF(list->tail, struct update, link);
	while (more && last != NULL) {
		update = list->head;
		more = update != last;
		list_remove(list, update);
		list_append(&pending->running, update);
		pthread_mutex_unlock(&pending->lock);
		update_start(update);
		pthread_mutex_lock(&pending->lock);
	}
	pthread_mutex_unlock(&pending->lock);
}

static void on_timer(uv_timer_t *timer)
{
	struct pending *pending = timer->data;

	start_all(pending, &pending->waiting);
	start_all(pending, &pending->fresh);
}

static void on_first(struct loop_task *task)
{
	struct pending *pending = CONTAINER_OF(task, struct pending, first);

	pthread_mutex_lock(&pending->lock);
	pending->first_posted = false;
	pthread_mutex_unlock(&pending->lock);
	if (!pending->closing)
		start_all(pending, &pending->fresh);
}

struct pending *pending_new(struct app *app)
{
	struct pending *pending = calloc(1, sizeof(*pending));

	if (pending == NULL)
		return NULL;
	pending->app = app;
	pending->first.run = on_first;
	list_init(&pending->fresh);
	list_init(&pending->waiting);
	list_init(&pending->running);
	pthread_mutex_init(&pending->lock, NULL);
	uv_timer_init(&app->control.uv, &pending->timer);
	pending->timer.data = pending;
	uv_timer_start(&pending->timer, on_timer, PENDING_RETRY_MS, PENDING_RETRY_MS);
	return pending;
}

static void maybe_closed(struct pending *pending)
{
	bool idle;

	if (!pending->closing || !pending->timer_closed)
		return;
	pthread_mutex_lock(&pending->lock);
	idle = pending->running.head == NULL;
	pthread_mutex_unlock(&pending->lock);
	if (idle && pending->closed != NULL) {
		void (*closed)(void *) = pending->closed;

		pending->closed = NULL;
		closed(pending->data);
	}
}

static size_t reply_size(const struct update *update)
{
	const struct ledger_reply *reply = update->reply;

	return reply != NULL ? reply->head_len + reply->body_len : 0;
}

/* An outcome that no record takes must be seen; a void or a reference that finds nothing has nothing
 * to do. */
static void log_lost(const struct update *update, const char *why)
{
	if (update->insert || (update->has_event && update->event.kind == OP_EV_SETTLE))
		log_message(LOG_LEVEL_WARN, "orphan-finding", "provider=%s attempt=%d result=%s",
			    update->name.provider, update->event.n, why);
}

static void on_done(struct update *update, enum update_result result)
{
	struct pending *pending = update->data;
	bool again = result == UPDATE_AWAY && !pending->closing;

	pthread_mutex_lock(&pending->lock);
	list_remove(&pending->running, update);
	if (again) {
		list_append(&pending->waiting, update);
	} else {
		pending->reply_bytes -= reply_size(update);
		atomic_fetch_sub(&pending->count, 1);
	}
	pthread_mutex_unlock(&pending->lock);
	if (!again) {
		if (result == UPDATE_AWAY)
			log_lost(update, "not-written");
		else if (result == UPDATE_STRANGER || result == UPDATE_ABSENT)
			log_lost(update, "no-such-claim");
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
	if (reply_size(update) > PENDING_REPLIES_MAX - pending->reply_bytes) {
		ledger_reply_unref(update->reply);
		update->reply = NULL;
	}
	pending->reply_bytes += reply_size(update);
	list_append(&pending->fresh, update);
	atomic_fetch_add(&pending->count, 1);
	post = !pending->first_posted;
	pending->first_posted = true;
	pthread_mutex_unlock(&pending->lock);
	if (post)
		loop_post(&pending->app->control, &pending->first);
}

size_t pending_count(struct pending *pending)
{
	return atomic_load(&pending->count);
}

bool pending_is_full(struct pending *pending)
{
	return pending_count(pending) >= PENDING_MAX;
}

bool pending_has(struct pending *pending, const struct op_name *name)
{
	bool found;

	pthread_mutex_lock(&pending->lock);
	found = list_has(&pending->fresh, name) || list_has(&pending->waiting, name) ||
		list_has(&pending->running, name);
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

static void free_list(struct update_list *list)
{
	for (struct update *u = list->head, *next; u != NULL; u = next) {
		next = u->link;
		log_lost(u, "not-written");
		update_free(u);
	}
}

void pending_free(struct pending *pending)
{
	if (pending == NULL)
		return;
	free_list(&pending->waiting);
	free_list(&pending->fresh);
	pthread_mutex_destroy(&pending->lock);
	free(pending);
}
