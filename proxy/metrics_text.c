#include "proxy/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/problem.h"
#include "proxy/provider.h"
#include "proxy/version.h"

/* What the ledger says of one provider, or of all that are not configured. */
struct ledger_view {
	int64_t count[OP_STATE_COUNT][CLASS_COUNT];
	int64_t unresolved, disputed;
	usec_t oldest_unresolved, oldest_eligible; /* 0: none */
};

struct page {
	FILE *out;
	const struct metrics_scrape *scrape;
	struct ledger_view *ledger; /* one for each provider, then "other" */
	size_t ledger_count;
};

struct metric {
	const char *name;
	const char *type;
	const char *help;
	enum { EACH_PROVIDER, FROM_LEDGER, ONCE } scope;
	size_t offset; /* of a counter or histogram in struct provider_metrics */
	void (*render)(const struct page *page, const struct metric *metric, size_t index);
};

static const char other[] = "other";

/* --- pieces of text ------------------------------------------------------------------------------ */

static const char *provider_name(const struct page *page, size_t index)
{
	if (index >= page->scrape->provider_count)
		return other;
	return page->scrape->providers[index].config->name;
}

/* NAME SUFFIX {provider="..." and no brace yet: more labels may follow. */
static void begin(const struct page *page, const struct metric *metric, const char *suffix,
		  size_t index)
{
	(void)fprintf(page->out, "%s%s{provider=\"", metric->name, suffix);
	for (const char *c = provider_name(page, index); *c != '\0'; c++) {
		if (*c == '\n') {
			(void)fputs("\\n", page->out);
			continue;
		}
		if (*c == '"' || *c == '\\')
			(void)fputc('\\', page->out);
		(void)fputc(*c, page->out);
	}
	(void)fputc('"', page->out);
}

static void end(const struct page *page, uint64_t value)
{
	(void)fprintf(page->out, "} %" PRIu64 "\n", value);
}

/* Microseconds as decimal seconds, without trailing zeros. */
static void put_seconds(FILE *out, uint64_t value)
{
	uint64_t fraction = value % (uint64_t)USEC_SEC;
	int digits = 6;

	(void)fprintf(out, "%" PRIu64, value / (uint64_t)USEC_SEC);
	if (fraction == 0)
		return;
	for (; fraction % 10 == 0; digits--)
		fraction /= 10;
	(void)fprintf(out, ".%0*" PRIu64, digits, fraction);
}

static void end_seconds(const struct page *page, usec_t value)
{
	(void)fputs("} ", page->out);
	put_seconds(page->out, value > 0 ? (uint64_t)value : 0);
	(void)fputc('\n', page->out);
}

/* --- from memory --------------------------------------------------------------------------------- */

static uint64_t load(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static const void *member(const struct page *page, const struct metric *metric, size_t index)
{
	return (const char *)&page->scrape->providers[index].metrics + metric->offset;
}

static void render_counter(const struct page *page, const struct metric *metric, size_t index)
{
	begin(page, metric, "", index);
	end(page, load(member(page, metric, index)));
}

static void render_attempts(const struct page *page, const struct metric *metric, size_t index)
{
	const struct provider_metrics *m = &page->scrape->providers[index].metrics;

	for (int class = 0; class < CLASS_COUNT; class ++) {
		for (int effect = 0; effect < EFFECT_COUNT; effect++) {
			begin(page, metric, "", index);
			(void)fprintf(page->out, ",class=\"%s\",effect=\"%s\"",
				      outcome_class_name((enum outcome_class) class),
				      effect_name((enum effect)effect));
			end(page, load(&m->attempts[class][effect]));
		}
	}
}

static void render_deliveries(const struct page *page, const struct metric *metric, size_t index)
{
	static const char *const names[] = {
#define X(id, text) text,
		DELIVERY_RESULTS(X)
#undef X
	};

	for (int i = 0; i < RESULT_COUNT; i++) {
		begin(page, metric, "", index);
		(void)fprintf(page->out, ",result=\"%s\"", names[i]);
		end(page, load(&page->scrape->providers[index].metrics.deliveries[i]));
	}
}

static void render_refusals(const struct page *page, const struct metric *metric, size_t index)
{
	for (int i = 0; i <= PROBLEM_COUNT; i++) {
		begin(page, metric, "", index);
		(void)fprintf(page->out, ",reason=\"%s\"",
			      i < PROBLEM_COUNT ? problem_name((enum problem_type)i) : other);
		end(page, load(&page->scrape->providers[index].metrics.refusals[i]));
	}
}

/* The count is the sum of the buckets as read here: the histogram's own may be ahead of them or
 * behind while others observe, and +Inf must equal it. */
static void put_histogram(const struct page *page, const struct metric *metric, size_t index,
			  const uint64_t *bounds, bool time)
{
	const struct histogram *histogram = member(page, metric, index);
	uint64_t count = 0;

	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		count += load(&histogram->buckets[i]);
		begin(page, metric, "_bucket", index);
		(void)fputs(",le=\"", page->out);
		if (i == HISTOGRAM_BUCKETS - 1)
			(void)fputs("+Inf", page->out);
		else if (time)
			put_seconds(page->out, bounds[i]);
		else
			(void)fprintf(page->out, "%" PRIu64, bounds[i]);
		(void)fputc('"', page->out);
		end(page, count);
	}
	begin(page, metric, "_sum", index);
	(void)fputs("} ", page->out);
	if (time)
		put_seconds(page->out, load(&histogram->sum));
	else
		(void)fprintf(page->out, "%" PRIu64, load(&histogram->sum));
	(void)fputc('\n', page->out);
	begin(page, metric, "_count", index);
	end(page, count);
}

static void render_times(const struct page *page, const struct metric *metric, size_t index)
{
	put_histogram(page, metric, index, histogram_time_bounds, true);
}

static void render_counts(const struct page *page, const struct metric *metric, size_t index)
{
	put_histogram(page, metric, index, histogram_count_bounds, false);
}

static void render_blocked(const struct page *page, const struct metric *metric, size_t index)
{
	usec_t blocked;
	int used, waiting;

	provider_look(&page->scrape->providers[index], page->scrape->now, &blocked, &used,
		      &waiting);
	begin(page, metric, "", index);
	end_seconds(page, blocked);
}

static void render_auth_paused(const struct page *page, const struct metric *metric, size_t index)
{
	begin(page, metric, "", index);
	end(page, (uint64_t)auth_pause_count(page->scrape->providers[index].auth_pause));
}

/* --- from the ledger ----------------------------------------------------------------------------- */

static void render_operations(const struct page *page, const struct metric *metric, size_t index)
{
	for (int state = 0; state < OP_STATE_COUNT; state++) {
		for (int class = 0; class < CLASS_COUNT; class ++) {
			begin(page, metric, "", index);
			(void)fprintf(page->out, ",state=\"%s\",class=\"%s\"",
				      op_state_name((enum op_state)state),
				      outcome_class_name((enum outcome_class) class));
			end(page, (uint64_t)page->ledger[index].count[state][class]);
		}
	}
}

static void render_unknown(const struct page *page, const struct metric *metric, size_t index)
{
	begin(page, metric, "", index);
	end(page, (uint64_t)page->ledger[index].unresolved);
}

static void render_disputed(const struct page *page, const struct metric *metric, size_t index)
{
	begin(page, metric, "", index);
	end(page, (uint64_t)page->ledger[index].disputed);
}

static void put_age(const struct page *page, const struct metric *metric, size_t index,
		    usec_t since)
{
	begin(page, metric, "", index);
	end_seconds(page, since > 0 ? page->scrape->now - since : 0);
}

static void render_oldest_unknown(const struct page *page, const struct metric *metric,
				  size_t index)
{
	put_age(page, metric, index, page->ledger[index].oldest_unresolved);
}

static void render_oldest_eligible(const struct page *page, const struct metric *metric,
				   size_t index)
{
	put_age(page, metric, index, page->ledger[index].oldest_eligible);
}

/* --- of the process ------------------------------------------------------------------------------ */

static void render_store_up(const struct page *page, const struct metric *metric, size_t index)
{
	(void)index;
	(void)fprintf(page->out, "%s{store=\"sqlite\"} %d\n", metric->name,
		      page->scrape->store_up ? 1 : 0);
}

static void render_build_info(const struct page *page, const struct metric *metric, size_t index)
{
	(void)index;
	(void)fprintf(page->out, "%s{version=\"%s\",revision=\"%s\"} 1\n", metric->name,
		      stint_version(), stint_revision());
}

/* --- the table ----------------------------------------------------------------------------------- */

#define MEMBER(name) EACH_PROVIDER, offsetof(struct provider_metrics, name)

/* Durations are in seconds, ages too; design section 10 fixes the names. */
static const struct metric metrics[] = {
	{"stint_attempts_total", "counter", "Requests sent to the provider, or tried, by outcome.",
	 MEMBER(attempts), render_attempts},
	{"stint_deliveries_total", "counter", "Inbound requests by how they were answered.",
	 MEMBER(deliveries), render_deliveries},
	{"stint_operations", "gauge", "Operations in the ledger by state and last class.",
	 FROM_LEDGER, 0, render_operations},
	{"stint_refusals_total", "counter", "Problem documents sent, by their type.",
	 MEMBER(refusals), render_refusals},
	{"stint_replays_total", "counter", "Replies given from the ledger.", MEMBER(replays),
	 render_counter},
	{"stint_unknown_outcomes", "gauge",
	 "Operations with an attempt whose effect is possible and not settled.", FROM_LEDGER, 0,
	 render_unknown},
	{"stint_oldest_unknown_seconds", "gauge",
	 "Age of the oldest operation with an unknown outcome; 0 without one.", FROM_LEDGER, 0,
	 render_oldest_unknown},
	{"stint_disputed_operations", "gauge",
	 "Operations where what was learnt late contradicts what was decided.", FROM_LEDGER, 0,
	 render_disputed},
	{"stint_oldest_eligible_seconds", "gauge",
	 "How long the oldest operation that is ready and due has waited; 0 without one.",
	 FROM_LEDGER, 0, render_oldest_eligible},
	{"stint_backlog_age_seconds", "histogram",
	 "Age of the operation, from its creation, at each of its attempts.", MEMBER(backlog_age),
	 render_times},
	{"stint_attempts_per_success", "histogram",
	 "Attempts that an operation had taken when it succeeded.", MEMBER(attempts_per_success),
	 render_counts},
	{"stint_attempt_duration_seconds", "histogram", "Duration of attempts.",
	 MEMBER(attempt_duration), render_times},
	{"stint_hold_duration_seconds", "histogram",
	 "From the complete request to the first byte of its answer.", MEMBER(hold_duration),
	 render_times},
	{"stint_overhead_seconds", "histogram",
	 "The part of the hold that was neither an attempt nor a wait.", MEMBER(overhead),
	 render_times},
	{"stint_provider_blocked_seconds", "gauge",
	 "How long waiting advice or the breaker still closes the provider; 0 while it is open.",
	 EACH_PROVIDER, 0, render_blocked},
	{"stint_auth_paused", "gauge",
	 "Credentials that the provider keeps refusing, and that auth.pause_after has paused.",
	 EACH_PROVIDER, 0, render_auth_paused},
	{"stint_retry_after_capped_total", "counter", "Waiting advice beyond retry_after.max.",
	 MEMBER(retry_after_capped), render_counter},
	{"stint_retry_after_invalid_total", "counter", "Waiting advice that could not be read.",
	 MEMBER(retry_after_invalid), render_counter},
	{"stint_hidden_resends_total", "counter", "Second sends that the transport was kept from.",
	 MEMBER(hidden_resends), render_counter},
	{"stint_sdk_retries_total", "counter",
	 "Deliveries without a key that an SDK says are retries.", MEMBER(sdk_retries),
	 render_counter},
	{"stint_duplicate_effects_total", "counter",
	 "Second successes that no forwarded key and no idempotent method covered.",
	 MEMBER(duplicate_effects), render_counter},
	{"stint_unknown_dropped_total", "counter",
	 "Unknown operations that the expiry or the ring has removed.", MEMBER(unknown_dropped),
	 render_counter},
	{"stint_store_up", "gauge", "1 while the ledger's store works.", ONCE, 0, render_store_up},
	{"stint_build_info", "gauge", "Always 1; the labels say which build this is.", ONCE, 0,
	 render_build_info},
};

static void render_metric(const struct page *page, const struct metric *metric)
{
	size_t count = metric->scope == ONCE          ? 1
		       : metric->scope == FROM_LEDGER ? page->ledger_count
						      : page->scrape->provider_count;

	if (count == 0)
		return;
	(void)fprintf(page->out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help,
		      metric->name, metric->type);
	for (size_t i = 0; i < count; i++)
		metric->render(page, metric, i);
}

/* The view that a ledger's row belongs to. A provider that is itself called "other" shares its
 * series with what is not configured: no series may come twice. */
static struct ledger_view *view_of(const struct page *page, const char *name)
{
	size_t i = 0;

	while (i < page->scrape->provider_count && strcmp(provider_name(page, i), name) != 0)
		i++;
	for (size_t k = 0; i == page->scrape->provider_count && k < i; k++) {
		if (strcmp(provider_name(page, k), other) == 0)
			return &page->ledger[k];
	}
	return &page->ledger[i];
}

static usec_t older(usec_t a, usec_t b)
{
	return a == 0 ? b : b == 0 ? a : usec_min(a, b);
}

static bool read_stats(struct page *page)
{
	const struct ledger_request *stats = page->scrape->stats;
	bool named_other = false;

	for (size_t i = 0; i < page->scrape->provider_count; i++)
		named_other = named_other || strcmp(provider_name(page, i), other) == 0;
	page->ledger_count = page->scrape->provider_count + (named_other ? 0 : 1);
	page->ledger = calloc(page->ledger_count, sizeof(*page->ledger));
	if (page->ledger == NULL)
		return false;
	for (size_t i = 0; i < stats->stat_count; i++) {
		const struct ledger_stat *stat = &stats->stats[i];

		view_of(page, stat->provider)->count[stat->state][stat->class] += stat->count;
	}
	for (size_t i = 0; i < stats->provider_stat_count; i++) {
		const struct ledger_provider_stat *stat = &stats->provider_stats[i];
		struct ledger_view *view = view_of(page, stat->provider);

		view->unresolved += stat->unresolved;
		view->disputed += stat->disputed;
		view->oldest_unresolved = older(view->oldest_unresolved, stat->oldest_unresolved);
		view->oldest_eligible = older(view->oldest_eligible, stat->oldest_eligible);
	}
	return true;
}

char *metrics_text(const struct metrics_scrape *scrape, size_t *ret_len)
{
	struct page page = {.scrape = scrape};
	char *text = NULL;
	size_t len = 0;
	bool failed;

	if (scrape->stats != NULL && !read_stats(&page))
		return NULL;
	page.out = open_memstream(&text, &len);
	if (page.out == NULL) {
		free(page.ledger);
		return NULL;
	}
	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
		render_metric(&page, &metrics[i]);
	free(page.ledger);
	failed = ferror(page.out) != 0;
	if (fclose(page.out) != 0 || failed) {
		free(text);
		return NULL;
	}
	*ret_len = len;
	return text;
}
