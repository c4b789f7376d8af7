#include "proxy/sweep.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "budget/schedule.h"
#include "proxy/live.h"
#include "proxy/log.h"
#include "proxy/pending.h"
#include "proxy/update.h"

#define DUE_ROWS 200
#define COUNTS_EVERY (1 * USEC_SEC)
#define RETAIN_EVERY (30 * USEC_SEC)
#define FIRST_PASSES_MAX 50 /* at start: 200 rows each; the rest is swept while it serves */

struct sweep {
	struct app *app;
	uv_timer_t timer;
	bool timer_closed;
	struct ledger_request due, counts, retain;
	struct loop_task due_task, counts_task, retain_task;
	bool due_out, counts_out, retain_out;
	int updates;
	bool moved; /* the pass under way changed something */
	int passes;
	bool clean;
	usec_t counts_at, retain_at, clock_at; /* clock_boot() */
	usec_t grace_until; /* clock_boot(): the store was away, others could not renew either */
	size_t retain_provider;
	bool closing;
	void (*closed)(void *data);
	void *data;
};

static void maybe_closed(struct sweep *sweep)
{
	if (!sweep->closing || !sweep->timer_closed || sweep->due_out || sweep->counts_out ||
	    sweep->retain_out || sweep->updates > 0 || sweep->closed == NULL)
		return;
	void (*closed)(void *) = sweep->closed;

	sweep->closed = NULL;
	closed(sweep->data);
}

/* The policy that judges a record; a provider that is no longer configured is judged by the first
 * one, so that what it left behind still becomes unknown instead of running for ever. */
static const struct provider *judge_of(struct app *app, const char *name)
{
	struct provider *provider = app_find_provider(app, name);

	return provider != NULL ? provider : &app->providers[0];
}

/* --- leases, windows, repeat limits -------------------------------------------------------------- */

static void run_due(struct sweep *sweep);

static void pass_over(struct sweep *sweep)
{
	if (sweep->updates > 0 || sweep->due_out)
		return;
	if (sweep->moved && ++sweep->passes < FIRST_PASSES_MAX && !sweep->clean &&
	    !sweep->closing) {
		run_due(sweep);
		return;
	}
	sweep->clean = true;
}

static void on_updated(struct update *update, enum update_result result)
{
	struct sweep *sweep = update->data;

	sweep->updates--;
	if (result == UPDATE_WRITTEN) {
		sweep->moved = true;
		if (update->event.kind == OP_EV_EXPIRE)
			log_message(LOG_LEVEL_WARN, "lease-expired",
				    "provider=%s key=%s attempt=%d state=%s unresolved=%d",
				    update->name.provider, update->name.key, update->next.attempts,
				    op_state_name(update->next.state),
				    op_set_count(&update->next.unresolved));
	}
	update_free(update);
	pass_over(sweep);
	maybe_closed(sweep);
}

/* Whether this process still works on it: its own word settles it, not the lease's end. */
static bool is_ours(struct app *app, const struct op_name *name, const struct ledger_row *row)
{
	struct ledger *ledger = app->ledger;

	if (strcmp(row->op.owner, ledger->ops->instance(ledger)) != 0)
		return false;
	return live_has(app->live, name) || pending_has(app->pending, name);
}

/* The longest lease of any provider: how long none expires after the clock jumped, or after the store
 * was away. */
static usec_t longest_lease(const struct app *app)
{
	usec_t lease = 0;

	for (size_t i = 0; i < app->config->provider_count; i++)
		lease = usec_max(lease, app->config->providers[i].policy.lease);
	return lease;
}

static bool is_grace(const struct sweep *sweep)
{
	return wall_clock_frozen(&sweep->app->clock) || clock_boot() < sweep->grace_until;
}

static void move(struct sweep *sweep, const struct ledger_row *row)
{
	struct app *app = sweep->app;
	struct op_name name = {row->provider, row->tenant, row->scope, row->key};
	const struct policy *policy = &judge_of(app, row->provider)->config->policy;
	struct op_event event = {.kind = OP_EV_TICK, .now = wall_clock_now(&app->clock)};
	struct update *update;

	if (row->op.state == OP_ATTEMPTING) {
		if (is_ours(app, &name, row) || (!row->owner_dead && is_grace(sweep)))
			return;
		event.kind = OP_EV_EXPIRE;
		event.wait =
			backoff_base(&policy->backoff, row->op.attempts > 0 ? row->op.attempts : 1);
		if (row->owner_dead)
			event.instance = row->op.owner;
	}
	update = update_new(app, &app->control, &name, policy);
	if (update == NULL)
		return;
	update_set_event(update, &event, row->op.incarnation);
	update->done = on_updated;
	update->data = sweep;
	sweep->updates++;
	update_start(update);
}

static void on_due(struct loop_task *task)
{
	struct sweep *sweep = CONTAINER_OF(task, struct sweep, due_task);

	sweep->due_out = false;
	sweep->moved = false;
	if (sweep->due.result == LEDGER_OK && !sweep->closing) {
		for (size_t i = 0; i < sweep->due.row_count; i++)
			move(sweep, &sweep->due.rows[i]);
	}
	ledger_request_done(&sweep->due);
	pass_over(sweep);
	maybe_closed(sweep);
}

static void post_due(struct ledger_request *request)
{
	struct sweep *sweep = request->data;

	loop_post(&sweep->app->control, &sweep->due_task);
}

static void run_due(struct sweep *sweep)
{
	if (sweep->due_out || sweep->updates > 0)
		return;
	memset(&sweep->due, 0, sizeof(sweep->due));
	sweep->due.verb = LEDGER_DUE;
	sweep->due.now = wall_clock_now(&sweep->app->clock);
	sweep->due.filter.limit = DUE_ROWS;
	sweep->due.post = post_due;
	sweep->due.data = sweep;
	sweep->due_task.run = on_due;
	sweep->due_out = true;
	ledger_submit(sweep->app->ledger, &sweep->due);
}

/* --- counts -------------------------------------------------------------------------------------- */

static void on_counts(struct loop_task *task)
{
	struct sweep *sweep = CONTAINER_OF(task, struct sweep, counts_task);
	struct ledger_request *counts = &sweep->counts;
	struct app *app = sweep->app;

	sweep->counts_out = false;
	if (counts->result == LEDGER_OK) {
		for (size_t i = 0; i < app->config->provider_count; i++) {
			struct provider *provider = &app->providers[i];
			int64_t n = 0;

			for (size_t k = 0; k < counts->provider_stat_count; k++) {
				if (strcmp(counts->provider_stats[k].provider,
					   provider->config->name) == 0)
					n = counts->provider_stats[k].unresolved_keyed;
			}
			/* Duplicates that only cost money fill a ring instead of refusing work. */
			if (provider->config->policy.duplicates == DUPLICATES_COST)
				n = 0;
			atomic_store(&provider->unresolved_keyed, n);
		}
	}
	ledger_request_done(counts);
	maybe_closed(sweep);
}

static void post_counts(struct ledger_request *request)
{
	struct sweep *sweep = request->data;

	loop_post(&sweep->app->control, &sweep->counts_task);
}

static void run_counts(struct sweep *sweep)
{
	memset(&sweep->counts, 0, sizeof(sweep->counts));
	sweep->counts.verb = LEDGER_STATS;
	sweep->counts.post = post_counts;
	sweep->counts.data = sweep;
	sweep->counts_task.run = on_counts;
	sweep->counts_out = true;
	ledger_submit(sweep->app->ledger, &sweep->counts);
}

/* --- retention ----------------------------------------------------------------------------------- */

static void run_retain(struct sweep *sweep);

static void on_retained(struct loop_task *task)
{
	struct sweep *sweep = CONTAINER_OF(task, struct sweep, retain_task);
	struct provider *provider = &sweep->app->providers[sweep->retain_provider];
	bool more = sweep->retain.result == LEDGER_OK && sweep->retain.taken > 0;

	sweep->retain_out = false;
	if (sweep->retain.dropped > 0)
		metrics_add(&provider->metrics.unknown_dropped, (uint64_t)sweep->retain.dropped);
	ledger_request_done(&sweep->retain);
	if (!more)
		sweep->retain_provider++;
	if (!sweep->closing && sweep->retain_provider < sweep->app->config->provider_count)
		run_retain(sweep);
	maybe_closed(sweep);
}

static void post_retain(struct ledger_request *request)
{
	struct sweep *sweep = request->data;

	loop_post(&sweep->app->control, &sweep->retain_task);
}

static void run_retain(struct sweep *sweep)
{
	const struct provider_config *config = sweep->app->providers[sweep->retain_provider].config;
	const struct policy *policy = &config->policy;
	usec_t now = wall_clock_now(&sweep->app->clock);
	struct ledger_retention *retention;

	memset(&sweep->retain, 0, sizeof(sweep->retain));
	sweep->retain.verb = LEDGER_RETAIN;
	sweep->retain.now = now;
	retention = &sweep->retain.retention;
	retention->provider = config->name;
	retention->replies_before = now - policy->retain_for;
	retention->tombstones_before = now - policy->retain_key;
	retention->unknown_before = now - policy->unknown_unkeyed;
	retention->cost = policy->duplicates == DUPLICATES_COST;
	retention->unknown_max = sweep->app->config->unknown_unkeyed_max;
	sweep->retain.post = post_retain;
	sweep->retain.data = sweep;
	sweep->retain_task.run = on_retained;
	sweep->retain_out = true;
	ledger_submit(sweep->app->ledger, &sweep->retain);
}

/* --- the timer ----------------------------------------------------------------------------------- */

static void tick_clock(struct sweep *sweep, usec_t boot)
{
	usec_t jump;

	if (boot < sweep->clock_at)
		return;
	sweep->clock_at = boot + USEC_SEC;
	jump = wall_clock_tick(&sweep->app->clock, longest_lease(sweep->app));
	if (jump != 0)
		log_message(LOG_LEVEL_WARN, "clock-jump",
			    "the wall clock differs by %lld ms; no lease expires for one lease",
			    (long long)(jump / USEC_MS));
}

static void on_timer(uv_timer_t *timer)
{
	struct sweep *sweep = timer->data;
	usec_t boot = clock_boot();

	tick_clock(sweep, boot);
	if (sweep->app->ledger == NULL)
		return;
	if (app_ledger_health(sweep->app) != NULL)
		sweep->grace_until = usec_add(boot, longest_lease(sweep->app));
	run_due(sweep);
	if (boot >= sweep->counts_at && !sweep->counts_out) {
		sweep->counts_at = boot + COUNTS_EVERY;
		run_counts(sweep);
	}
	if (boot >= sweep->retain_at && !sweep->retain_out) {
		sweep->retain_at = boot + RETAIN_EVERY;
		sweep->retain_provider = 0;
		run_retain(sweep);
	}
}

struct sweep *sweep_new(struct app *app)
{
	struct sweep *sweep = calloc(1, sizeof(*sweep));

	if (sweep == NULL)
		return NULL;
	sweep->app = app;
	uv_timer_init(&app->control.uv, &sweep->timer);
	sweep->timer.data = sweep;
	uv_timer_start(&sweep->timer, on_timer, 0, SWEEP_MS);
	return sweep;
}

bool sweep_is_clean(const struct sweep *sweep)
{
	return sweep->clean;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct sweep *sweep = handle->data;

	sweep->timer_closed = true;
	maybe_closed(sweep);
}

void sweep_close(struct sweep *sweep, void (*closed)(void *data), void *data)
{
	sweep->closing = true;
	sweep->closed = closed;
	sweep->data = data;
	uv_close((uv_handle_t *)&sweep->timer, on_timer_closed);
}

void sweep_free(struct sweep *sweep)
{
	free(sweep);
}
