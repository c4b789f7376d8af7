/* The happy path: a provider whose block changed posts `wake`; on the control thread write_changes()
 * takes each change as a ledger request of its own; its answer marks it as written. What cannot be
 * written is tried again with the timer, which also takes away the rows of blocks that are over.
 *
 * Nothing is written before the ledger was read: a short new block must not replace a longer one
 * that is stored. */
#include "proxy/keeper.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/app.h"
#include "proxy/log.h"

#define KEEPER_MS 1000
#define WRITES_MAX 256
#define NOBODYS_FOR USEC_DAY /* rows that no gate takes go so long after their time */

struct keeper {
	struct app *app;
	uv_timer_t timer;
	struct loop_task wake;
	atomic_bool woken;
	struct ledger_request list;
	struct loop_task list_task;
	bool list_out, looked, loaded;
	int writes;
	bool closing, timer_closed;
	void (*closed)(void *data);
	void *data;
};

struct block_write {
	struct ledger_request request;
	struct loop_task task;
	struct keeper *keeper;
	struct provider *provider; /* NULL: of a row that no gate takes */
	struct provider_block block;
	char *name; /* owned where there is no provider */
};

static void maybe_closed(struct keeper *keeper)
{
	void (*closed)(void *) = keeper->closed;

	if (!keeper->closing || !keeper->timer_closed || keeper->list_out || keeper->writes > 0 ||
	    closed == NULL)
		return;
	keeper->closed = NULL;
	closed(keeper->data);
}

/* --- writing ------------------------------------------------------------------------------------ */

static void write_changes(struct keeper *keeper);

static void on_written(struct loop_task *task)
{
	struct block_write *write = CONTAINER_OF(task, struct block_write, task);
	struct keeper *keeper = write->keeper;
	bool good = write->request.result == LEDGER_OK;

	if (write->provider != NULL)
		provider_block_written(write->provider, &write->block, good,
				       wall_clock_now(&keeper->app->clock));
	ledger_request_done(&write->request);
	free(write->name);
	free(write);
	keeper->writes--;
	if (good)
		write_changes(keeper);
	maybe_closed(keeper);
}

static void post_written(struct ledger_request *request)
{
	struct block_write *write = request->data;

	loop_post(&write->keeper->app->control, &write->task);
}

/* `name` is for a row without a provider, and then owned from here. */
static void start_write(struct keeper *keeper, struct provider *provider, char *name,
			const struct provider_block *block)
{
	struct block_write *write = calloc(1, sizeof(*write));
	usec_t now = wall_clock_now(&keeper->app->clock);

	if (write == NULL) {
		if (provider != NULL)
			provider_block_written(provider, block, false, now);
		free(name);
		return;
	}
	write->keeper = keeper;
	write->provider = provider;
	write->block = *block;
	write->name = name;
	write->task.run = on_written;
	write->request.verb = LEDGER_GATE_PUT;
	write->request.now = now;
	write->request.name.provider = provider != NULL ? provider->config->name : name;
	write->request.gate.bucket = block->bucket;
	write->request.gate.block = block->block;
	write->request.post = post_written;
	write->request.data = write;
	keeper->writes++;
	ledger_submit(keeper->app->ledger, &write->request);
}

static void write_changes(struct keeper *keeper)
{
	struct app *app = keeper->app;
	usec_t now = wall_clock_now(&app->clock);
	struct provider_block block;

	if (app->ledger == NULL || !keeper->loaded)
		return;
	for (size_t i = 0; i < app->config->provider_count; i++) {
		while (keeper->writes < WRITES_MAX &&
		       provider_next_block(&app->providers[i], now, &block))
			start_write(keeper, &app->providers[i], NULL, &block);
	}
}

static void on_wake(struct loop_task *task)
{
	struct keeper *keeper = CONTAINER_OF(task, struct keeper, wake);

	atomic_store(&keeper->woken, false);
	if (!keeper->closing)
		write_changes(keeper);
}

static void on_block(void *data)
{
	struct keeper *keeper = data;

	if (!atomic_exchange(&keeper->woken, true))
		loop_post(&keeper->app->control, &keeper->wake);
}

/* --- reading ------------------------------------------------------------------------------------ */

static void drop_row(struct keeper *keeper, const struct ledger_gate *row)
{
	struct provider_block block = {.bucket = row->bucket};
	char *name = strdup(row->provider);

	if (name != NULL && keeper->writes < WRITES_MAX)
		start_write(keeper, NULL, name, &block);
	else
		free(name);
}

static void on_list(struct loop_task *task)
{
	struct keeper *keeper = CONTAINER_OF(task, struct keeper, list_task);
	struct app *app = keeper->app;
	usec_t now = wall_clock_now(&app->clock);

	keeper->list_out = false;
	keeper->looked = true;
	if (keeper->list.result == LEDGER_OK) {
		keeper->loaded = true;
		for (size_t i = 0; i < keeper->list.gate_count; i++) {
			const struct ledger_gate *row = &keeper->list.gates[i];
			struct provider_block block = {.bucket = row->bucket, .block = row->block};
			struct provider *provider = app_find_provider(app, row->provider);

			if ((provider == NULL || !provider_restore(provider, &block, now)) &&
			    row->block.until < now - NOBODYS_FOR)
				drop_row(keeper, row);
		}
	} else {
		log_message(LOG_LEVEL_WARN, "blocks-unknown",
			    "the ledger does not say which providers are blocked: %s",
			    keeper->list.error);
	}
	ledger_request_done(&keeper->list);
	write_changes(keeper);
	maybe_closed(keeper);
}

static void post_list(struct ledger_request *request)
{
	struct keeper *keeper = request->data;

	loop_post(&keeper->app->control, &keeper->list_task);
}

static void read_blocks(struct keeper *keeper)
{
	if (keeper->app->ledger == NULL || keeper->loaded || keeper->list_out || keeper->closing)
		return;
	memset(&keeper->list, 0, sizeof(keeper->list));
	keeper->list.verb = LEDGER_GATE_LIST;
	keeper->list.post = post_list;
	keeper->list.data = keeper;
	keeper->list_task.run = on_list;
	keeper->list_out = true;
	ledger_submit(keeper->app->ledger, &keeper->list);
}

/* --- life --------------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
	struct keeper *keeper = timer->data;

	read_blocks(keeper);
	write_changes(keeper);
}

struct keeper *keeper_new(struct app *app)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));

	if (keeper == NULL)
		return NULL;
	keeper->app = app;
	keeper->wake.run = on_wake;
	uv_timer_init(&app->control.uv, &keeper->timer);
	keeper->timer.data = keeper;
	return keeper;
}

void keeper_start(struct keeper *keeper)
{
	struct app *app = keeper->app;
	struct ledger *ledger = app->ledger;

	for (size_t i = 0; i < app->config->provider_count; i++) {
		if (ledger != NULL)
			provider_set_secret(&app->providers[i], ledger->ops->secret(ledger));
		app->providers[i].on_block_data = keeper;
		app->providers[i].on_block = on_block;
	}
	uv_timer_start(&keeper->timer, on_timer, KEEPER_MS, KEEPER_MS);
	read_blocks(keeper);
}

bool keeper_has_looked(const struct keeper *keeper)
{
	return keeper->looked;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct keeper *keeper = handle->data;

	keeper->timer_closed = true;
	maybe_closed(keeper);
}

void keeper_close(struct keeper *keeper, void (*closed)(void *data), void *data)
{
	write_changes(keeper);
	keeper->closing = true;
	keeper->closed = closed;
	keeper->data = data;
	uv_close((uv_handle_t *)&keeper->timer, on_timer_closed);
}

void keeper_free(struct keeper *keeper)
{
	free(keeper);
}
