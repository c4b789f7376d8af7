/* The life of the process.
 *
 * Start: configuration, ledger (if it cannot be opened: said once, keyed unsafe work is refused, and
 * it is tried again every second), one sweep of what a crash left, the blocks that were kept, then
 * workers and admin. Stop: workers drain (deliveries answered, attempts finished or cut), then pending
 * outcomes, blocks, sweep and admin end, then the ledger closes. The control thread is the main thread. */
#include "proxy/serve.h"

#include <curl/curl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "budget/sqlite_store.h"
#include "proxy/admin.h"
#include "proxy/app.h"
#include "proxy/keeper.h"
#include "proxy/live.h"
#include "proxy/log.h"
#include "proxy/pending.h"
#include "proxy/sweep.h"
#include "proxy/version.h"
#include "proxy/worker.h"

#define LEDGER_QUEUE_MAX 65536
#define LEDGER_RETRY_MS 1000

struct server {
	struct app app;
	struct config *config;
	struct sweep *sweep;
	struct keeper *keeper;
	struct admin *admin;
	uv_signal_t term, intr, hup;
	uv_timer_t retry;  /* opens the ledger */
	uv_async_t joined; /* the workers have ended */
	pthread_t joiner;
	bool serving;  /* the workers run */
	bool stopping; /* a signal came; before the workers run it is only noted */
	int closing;
};

const char *app_ledger_health(struct app *app)
{
	struct ledger *ledger = app->ledger;

	if (ledger == NULL)
		return app->ledger_error;
	return ledger->ops->health(ledger);
}

struct provider *app_find_provider(struct app *app, const char *name)
{
	for (size_t i = 0; i < app->config->provider_count; i++) {
		if (strcmp(app->providers[i].config->name, name) == 0)
			return &app->providers[i];
	}
	return NULL;
}

/* --- ledger -------------------------------------------------------------------------------------- */

static int open_ledger(struct app *app)
{
	struct ledger *ledger;
	char error[sizeof(app->ledger_error)];

	if (sqlite_store_open(app->config->ledger_path, app->config->ledger_disk, LEDGER_QUEUE_MAX,
			      error, sizeof(error), &ledger) != 0) {
		if (strcmp(error, app->ledger_error) != 0)
			log_message(LOG_LEVEL_ERROR, "ledger-away",
				    "%s: %s; keyed unsafe requests are refused until it opens",
				    app->config->ledger_path, error);
		(void)snprintf(app->ledger_error, sizeof(app->ledger_error), "%s", error);
		return -1;
	}
	app->ledger_error[0] = '\0';
	app->ledger = ledger;
	log_message(LOG_LEVEL_INFO, "ledger-open", "%s as instance %s", app->config->ledger_path,
		    ledger->ops->instance(ledger));
	return 0;
}

static void on_retry(uv_timer_t *timer)
{
	struct server *server = timer->data;

	if (server->app.ledger != NULL || open_ledger(&server->app) == 0)
		uv_timer_stop(timer);
}

/* --- stop ---------------------------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
	struct server *server = handle->data;

	if (--server->closing == 0)
		loop_close(&server->app.control);
}

static void close_handles(struct server *server)
{
	uv_handle_t *handles[] = {
		(uv_handle_t *)&server->term,   (uv_handle_t *)&server->intr,
		(uv_handle_t *)&server->hup,    (uv_handle_t *)&server->retry,
		(uv_handle_t *)&server->joined,
	};

	server->closing = sizeof(handles) / sizeof(handles[0]);
	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++)
		uv_close(handles[i], on_handle_closed);
}

static void on_admin_closed(void *data)
{
	close_handles(data);
}

static void on_sweep_closed(void *data)
{
	struct server *server = data;

	admin_close(server->admin, on_admin_closed, server);
}

static void on_keeper_closed(void *data)
{
	struct server *server = data;

	sweep_close(server->sweep, on_sweep_closed, server);
}

static void on_pending_closed(void *data)
{
	struct server *server = data;

	keeper_close(server->keeper, on_keeper_closed, server);
}

static void on_joined(uv_async_t *async)
{
	struct server *server = async->data;

	pthread_join(server->joiner, NULL);
	pending_close(server->app.pending, on_pending_closed, server);
}

/* Joining blocks, and the control loop still has the sweep and the admin listener to run. */
static void *join_workers(void *data)
{
	struct server *server = data;

	for (int i = 0; i < server->app.worker_count; i++)
		worker_join(&server->app.workers[i]);
	uv_async_send(&server->joined);
	return NULL;
}

static void stop(struct server *server)
{
	atomic_store(&server->app.draining, true);
	for (int i = 0; i < server->app.worker_count; i++)
		worker_drain(&server->app.workers[i]);
	if (pthread_create(&server->joiner, NULL, join_workers, server) != 0)
		abort();
}

static void on_stop_signal(uv_signal_t *handle, int signal)
{
	struct server *server = handle->data;

	if (server->stopping)
		return;
	log_message(LOG_LEVEL_INFO, "drain", "signal %d: draining", signal);
	server->stopping = true;
	if (server->serving)
		stop(server);
}

static void on_hangup(uv_signal_t *handle, int signal)
{
	(void)handle;
	(void)signal;
	log_message(LOG_LEVEL_WARN, "reload",
		    "SIGHUP: the configuration is read at start only; restart to apply it");
}

/* --- start --------------------------------------------------------------------------------------- */

static void watch_signal(struct server *server, uv_signal_t *handle, uv_signal_cb cb, int signal)
{
	uv_signal_init(&server->app.control.uv, handle);
	handle->data = server;
	uv_signal_start(handle, cb, signal);
}

static int init_providers(struct app *app)
{
	size_t count = app->config->provider_count;

	app->providers = calloc(count, sizeof(*app->providers));
	if (app->providers == NULL)
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (provider_init(&app->providers[i], &app->config->providers[i], app->config,
				  &app->replay_used) != 0)
			return -1;
	}
	return 0;
}

static int init_workers(struct app *app, char *error, size_t error_len)
{
	app->workers = calloc((size_t)app->config->workers, sizeof(*app->workers));
	if (app->workers == NULL) {
		(void)snprintf(error, error_len, "out of memory");
		return -1;
	}
	for (int i = 0; i < app->config->workers; i++) {
		if (worker_init(&app->workers[i], app, i, error, error_len) != 0)
			return -1;
	}
	for (int i = 0; i < app->config->workers; i++) {
		if (worker_start(&app->workers[i]) != 0) {
			(void)snprintf(error, error_len, "cannot start a thread");
			return -1;
		}
		app->worker_count++;
	}
	return 0;
}

/* Descriptors: as many as we may have; two for each delivery. */
static void raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* glibc grows the heaps of threads in steps of a page by default, each a system call (measured with
 * `make bench`: 0.2 mprotect a request); they grow and shrink in larger steps instead. */
static void tune_heap(void)
{
	(void)mallopt(M_TOP_PAD, 256 * 1024);
	(void)mallopt(M_TRIM_THRESHOLD, 2 * 1024 * 1024);
}

static int init_control(struct server *server)
{
	struct app *app = &server->app;

	wall_clock_init(&app->clock);
	app->started = wall_clock_now(&app->clock);
	if (loop_init(&app->control) != 0)
		return -1;
	watch_signal(server, &server->term, on_stop_signal, SIGTERM);
	watch_signal(server, &server->intr, on_stop_signal, SIGINT);
	watch_signal(server, &server->hup, on_hangup, SIGHUP);
	uv_timer_init(&app->control.uv, &server->retry);
	server->retry.data = server;
	uv_async_init(&app->control.uv, &server->joined, on_joined);
	server->joined.data = server;
	app->live = live_new();
	app->pending = pending_new(app);
	server->sweep = sweep_new(app);
	server->keeper = keeper_new(app);
	return app->live == NULL || app->pending == NULL || server->sweep == NULL ||
			       server->keeper == NULL
		       ? -1
		       : 0;
}

/* What a crash left is settled before anything new is admitted. */
static void sweep_first(struct server *server)
{
	while (server->app.ledger != NULL && !sweep_is_clean(server->sweep) && !server->stopping)
		uv_run(&server->app.control.uv, UV_RUN_ONCE);
}

/* What providers asked for before the restart still holds. */
static void blocks_first(struct server *server)
{
	keeper_start(server->keeper);
	while (server->app.ledger != NULL && !keeper_has_looked(server->keeper) &&
	       !server->stopping)
		uv_run(&server->app.control.uv, UV_RUN_ONCE);
}

static int start(struct server *server, char *error, size_t error_len)
{
	struct app *app = &server->app;

	(void)snprintf(error, error_len, "out of memory");
	if (init_providers(app) != 0 || init_control(server) != 0)
		return -1;
	if (open_ledger(app) != 0)
		uv_timer_start(&server->retry, on_retry, LEDGER_RETRY_MS, LEDGER_RETRY_MS);
	sweep_first(server);
	blocks_first(server);
	if (admin_new(app, error, error_len, &server->admin) != 0)
		return -1;
	return init_workers(app, error, error_len);
}

static void log_ready(const struct app *app)
{
	for (size_t i = 0; i < app->config->listen_count; i++)
		log_message(LOG_LEVEL_INFO, "ready", "stint %s listens on %s, admin on %s",
			    stint_version(), app->config->listen[i].text,
			    app->config->admin_listen.text);
}

static void done(struct server *server)
{
	struct app *app = &server->app;
	struct ledger *ledger = app->ledger;

	loop_done(&app->control);
	if (ledger != NULL)
		ledger->ops->close(ledger);
	keeper_free(server->keeper);
	sweep_free(server->sweep);
	pending_free(app->pending);
	live_free(app->live);
	for (size_t i = 0; i < app->config->provider_count; i++)
		provider_done(&app->providers[i]);
	free(app->providers);
	free(app->workers);
	config_free(server->config);
	curl_global_cleanup();
}

static struct config *load(const char *file)
{
	struct config_problems problems;
	struct config *config = config_load(file, NULL, &problems);

	(void)config_problems_print(&problems, file, stderr);
	config_problems_done(&problems);
	return config;
}

int serve_run(const char *config_file)
{
	static const char what[] = "stint";
	struct server *server;
	char error[512];
	struct config *config = load(config_file);

	if (config == NULL)
		return 1;
	server = calloc(1, sizeof(*server));
	if (server == NULL) {
		config_free(config);
		return 1;
	}
	server->config = config;
	server->app.config = config;
	log_setup((enum log_level)config->log_level, config->log_json);
	(void)signal(SIGPIPE, SIG_IGN);
	raise_limits();
	tune_heap();
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (start(server, error, sizeof(error)) != 0) {
		(void)fprintf(stderr, "%s: %s\n", what, error);
		/* Nothing was admitted: the process may go without ceremony. */
		exit(1);
	}
	log_ready(&server->app);
	server->serving = true;
	if (server->stopping)
		stop(server);
	loop_run(&server->app.control);
	done(server);
	log_message(LOG_LEVEL_INFO, "stopped", "drained");
	free(server);
	return 0;
}
