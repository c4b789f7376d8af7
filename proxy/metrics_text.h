/* The metrics as Prometheus text (exposition format 0.0.4): one table of names, types and help, and
 * the same series in every scrape, whatever the traffic. */
#ifndef STINT_PROXY_METRICS_TEXT_H
#define STINT_PROXY_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "classify/usec.h"

struct ledger_request;
struct provider;

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What one scrape shows. Nothing is owned. */
struct metrics_scrape {
	struct provider *providers;
	size_t provider_count;
	/* An answered LEDGER_STATS; NULL: the ledger is away, and what it would count is left out
	 * rather than shown as 0. Records of providers that are not configured (any more) are counted
	 * under provider="other". */
	const struct ledger_request *stats;
	bool store_up;
	usec_t now; /* ledger time */
};

/* The text, malloc'ed and the caller's; NULL: out of memory. Any thread that may read the stats. */
char *metrics_text(const struct metrics_scrape *scrape, size_t *ret_len);

#endif
