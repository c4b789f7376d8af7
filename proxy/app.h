/* What the whole process shares: configuration, clock, ledger, providers, the table of live
 * operations, workers. Built by serve.c, read by everyone. */
#ifndef STINT_PROXY_APP_H
#define STINT_PROXY_APP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "budget/ledger.h"
#include "proxy/clock.h"
#include "proxy/config.h"
#include "proxy/loop.h"
#include "proxy/provider.h"

struct live;    /* live.h: operations that deliveries of this process are working on */
struct pending; /* pending.h: settles that could not be written yet */
struct worker;
struct front_sockets; /* front_listen.h: unix sockets, bound once for all workers */

struct app {
	const struct config *config;
	struct wall_clock clock;
	_Atomic(struct ledger *)
		ledger;         /* NULL until it could be opened (the control thread tries) */
	char ledger_error[256]; /* why it is not open; the control thread's */
	struct live *live;
	struct pending *pending;
	struct provider *providers; /* config->provider_count of them, same order */
	struct worker *workers;
	int worker_count;
	struct loop control; /* signals, admin, sweeping */
	atomic_size_t replay_used;
	atomic_bool draining;
	usec_t started;                /* wall */
	struct front_sockets *sockets; /* front_new() makes it; NULL at first */
};

/* The ledger's word on itself, or why it is not open; NULL: fine. On the control thread. */
const char *app_ledger_health(struct app *app);
struct provider *app_find_provider(struct app *app, const char *name);

#endif
