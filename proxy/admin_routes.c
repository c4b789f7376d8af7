/* The table of endpoints, and those that need no more than memory: health, readiness, metrics,
 * providers. */
#include <stdlib.h>
#include <string.h>

#include "proxy/admin_json.h"
#include "proxy/admin_private.h"
#include "proxy/metrics_text.h"

/* --- health -------------------------------------------------------------------------------------- */

static enum MHD_Result healthz(struct admin_request *request)
{
	return admin_reply_text(request, MHD_HTTP_OK, "text/plain; charset=utf-8", strdup("ok\n"),
				3);
}

static int64_t auth_paused(const struct app *app)
{
	int64_t count = 0;

	for (size_t i = 0; i < app->config->provider_count; i++)
		count += auth_pause_count(app->providers[i].auth_pause);
	return count;
}

static enum MHD_Result readyz(struct admin_request *request)
{
	struct app *app = request->admin->app;
	const char *why = app_ledger_health(app);
	bool draining = atomic_load(&app->draining);
	bool ready = !draining && (why == NULL || !app->config->ledger_required);
	json_t *detail = json_object(), *object = json_object();
	bool ok = detail != NULL && object != NULL &&
		  admin_set_text(detail, "ledger",
				 why == NULL      ? "ok"
				 : why[0] != '\0' ? why
						  : "it is not open") &&
		  admin_set_bool(detail, "ledger_required", app->config->ledger_required) &&
		  admin_set_bool(detail, "draining", draining) &&
		  admin_set_number(detail, "auth_paused", auth_paused(app)) &&
		  admin_set_bool(object, "ready", ready) &&
		  json_object_set(object, "detail", detail) == 0;

	json_decref(detail);
	if (!ok) {
		json_decref(object);
		return MHD_NO;
	}
	return admin_reply_json(request, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
				object);
}

/* --- metrics ------------------------------------------------------------------------------------- */

static enum MHD_Result metrics_finish(struct admin_request *request,
				      const struct ledger_request *ledger)
{
	struct app *app = request->admin->app;
	bool answered = ledger != NULL && ledger->result == LEDGER_OK;
	const struct metrics_scrape scrape = {
		.providers = app->providers,
		.provider_count = app->config->provider_count,
		.stats = answered ? ledger : NULL,
		.store_up = answered && app_ledger_health(app) == NULL,
		.now = wall_clock_now(&app->clock),
	};
	size_t len = 0;
	char *text = metrics_text(&scrape, &len);

	return admin_reply_text(request, MHD_HTTP_OK, METRICS_CONTENT_TYPE, text, len);
}

static enum MHD_Result metrics_start(struct admin_request *request)
{
	struct admin_call *call;

	if (request->admin->app->ledger == NULL)
		return metrics_finish(request, NULL);
	call = admin_call_new(request, LEDGER_STATS);
	if (call == NULL)
		return MHD_NO;
	return admin_ask(request, call);
}

/* --- providers ----------------------------------------------------------------------------------- */

static bool set_route(json_t *object, const struct provider_config *config)
{
	json_t *route = json_object();
	bool ok = route != NULL;

	switch (config->route_kind) {
	case ROUTE_PREFIX:
		ok = ok &&
		     admin_set_text(route, "prefix",
				    config->route_prefix[0] != '\0' ? config->route_prefix : "/");
		break;
	case ROUTE_HOST:
		ok = ok && admin_set_text(route, "host", config->route_host);
		break;
	case ROUTE_LISTEN:
		ok = ok && admin_set_text(route, "listen", config->route_listen.text);
		break;
	}
	ok = ok && json_object_set(object, "route", route) == 0;
	json_decref(route);
	return ok;
}

/* Durations in seconds. */
static bool set_limits(json_t *object, const struct provider_config *config)
{
	const struct policy *policy = &config->policy;
	json_t *limits = json_object();
	bool ok = limits != NULL && admin_set_number(limits, "attempts", policy->attempts) &&
		  admin_set_seconds(limits, "window", policy->window) &&
		  admin_set_seconds(limits, "hold", policy->hold) &&
		  admin_set_seconds(limits, "attempt_timeout", policy->attempt_timeout) &&
		  admin_set_seconds(limits, "attempt_total", policy->attempt_total) &&
		  admin_set_seconds(limits, "retry_after_max", policy->retry_after_max) &&
		  admin_set_number(limits, "concurrency", config->concurrency_limit) &&
		  json_object_set(object, "limits", limits) == 0;

	json_decref(limits);
	return ok;
}

static bool set_slots(json_t *object, struct provider *provider, usec_t now)
{
	json_t *slots = json_object();
	usec_t blocked;
	int used, waiting;
	bool ok;

	provider_look(provider, now, &blocked, &used, &waiting);
	ok = slots != NULL && admin_set_seconds(object, "blocked_seconds", blocked) &&
	     admin_set_number(slots, "used", used) &&
	     admin_set_number(slots, "limit", provider->config->concurrency_limit) &&
	     admin_set_number(slots, "waiting", waiting) &&
	     json_object_set(object, "slots", slots) == 0;
	json_decref(slots);
	return ok;
}

/* In the usual words: closed lets through, half-open waits for its probe. */
static bool set_breaker(json_t *object, struct provider *provider, usec_t now)
{
	static const char *const states[] = {[GATE_BREAKER_CLOSED] = "closed",
					     [GATE_BREAKER_OPEN] = "open",
					     [GATE_BREAKER_HALF_OPEN] = "half-open"};
	struct provider_breaker look;
	json_t *breaker = json_object();
	bool ok;

	provider_look_breaker(provider, now, &look);
	ok = breaker != NULL && admin_set_text(breaker, "state", states[look.state]) &&
	     admin_set_number(breaker, "failures", look.failures) &&
	     admin_set_seconds(breaker, "open_seconds", look.left) &&
	     admin_set_number(breaker, "gates_open", look.open) &&
	     admin_set_number(breaker, "gates", look.buckets) &&
	     json_object_set(object, "breaker", breaker) == 0;
	json_decref(breaker);
	return ok;
}

/* Of the upstream only its origin: a path may be a secret (the URL of a webhook is one). */
static json_t *provider_json(struct provider *provider, usec_t now)
{
	static const char *const modes[] = {
		[MODE_ENFORCE] = "enforce", [MODE_OBSERVE] = "observe", [MODE_OFF] = "off"};
	const struct provider_config *config = provider->config;
	json_t *object = json_object();

	if (object != NULL && admin_set_text(object, "name", config->name) &&
	    admin_set_text(object, "mode", modes[config->mode]) &&
	    admin_set_text(object, "upstream", config->upstream.origin) &&
	    set_route(object, config) && set_limits(object, config) &&
	    set_slots(object, provider, now) && set_breaker(object, provider, now))
		return object;
	json_decref(object);
	return NULL;
}

static enum MHD_Result providers(struct admin_request *request)
{
	struct app *app = request->admin->app;
	usec_t now = wall_clock_now(&app->clock);
	json_t *object = json_object(), *list = json_array();
	bool ok = object != NULL && list != NULL;

	for (size_t i = 0; ok && i < app->config->provider_count; i++)
		ok = json_array_append_new(list, provider_json(&app->providers[i], now)) == 0;
	ok = ok && json_object_set(object, "providers", list) == 0;
	json_decref(list);
	if (!ok) {
		json_decref(object);
		return MHD_NO;
	}
	return admin_reply_json(request, MHD_HTTP_OK, object);
}

/* --- the table ----------------------------------------------------------------------------------- */

static const struct admin_route routes[] = {
	{"/healthz", true, false, healthz, NULL},
	{"/readyz", true, false, readyz, NULL},
	{"/metrics", false, false, metrics_start, metrics_finish},
	{"/v1/providers", false, false, providers, NULL},
	{"/v1/operations", false, false, admin_operations_start, admin_operations_finish},
	{"/v1/operations/*/*", false, false, admin_operation_start, admin_operation_finish},
	{"/v1/operations/*/*/release", false, true, admin_release_start, admin_release_finish},
};

const struct admin_route *admin_route_find(const char *target)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (admin_path_matches(target, routes[i].pattern))
			return &routes[i];
	}
	return NULL;
}
