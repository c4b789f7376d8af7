#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/metrics_text.h"
#include "proxy/problem.h"
#include "proxy/provider.h"
#include "proxy/version.h"

/* --- a strict reader of the text format 0.0.4 ---------------------------------------------------- */

#define SERIES_MAX 4096

struct series {
	char id[512];  /* name{labels} as written */
	size_t family; /* index */
	double value;
};

struct page {
	struct series series[SERIES_MAX];
	size_t count;
	char families[64][128];
	char types[64][16];
	size_t family_count;
};

static size_t read_name(const char *text)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");

	assert_true(len > 0 && (text[0] < '0' || text[0] > '9'));
	return len;
}

/* {name="value",...}: returns what follows it. */
static const char *read_labels(const char *at)
{
	assert_int_equal(*at, '{');
	do {
		at++;
		at += read_name(at);
		assert_memory_equal(at, "=\"", 2);
		for (at += 2; *at != '"'; at++) {
			assert_true((unsigned char)*at >= 0x20);
			if (*at == '\\')
				assert_non_null(memchr("\\\"n", *++at, 3));
		}
		at++;
	} while (*at == ',');
	assert_int_equal(*at, '}');
	return at + 1;
}

static void read_comment(struct page *page, const char *line)
{
	size_t len;

	if (strncmp(line, "# HELP ", 7) == 0) {
		len = read_name(line + 7);
		assert_int_equal(line[7 + len], ' ');
		assert_true(strlen(line + 8 + len) > 5);
		for (size_t i = 0; i < page->family_count; i++)
			assert_false(strlen(page->families[i]) == len &&
				     strncmp(page->families[i], line + 7, len) == 0);
		snprintf(page->families[page->family_count], 128, "%.*s", (int)len, line + 7);
		page->types[page->family_count++][0] = '\0';
		return;
	}
	assert_memory_equal(line, "# TYPE ", 7);
	len = read_name(line + 7);
	assert_true(page->family_count > 0);
	assert_int_equal(strlen(page->families[page->family_count - 1]), len);
	assert_memory_equal(page->families[page->family_count - 1], line + 7, len);
	assert_int_equal(line[7 + len], ' ');
	assert_string_equal(page->types[page->family_count - 1], "");
	snprintf(page->types[page->family_count - 1], 16, "%s", line + 8 + len);
	assert_true(strcmp(line + 8 + len, "counter") == 0 ||
		    strcmp(line + 8 + len, "gauge") == 0 ||
		    strcmp(line + 8 + len, "histogram") == 0);
}

static void read_series(struct page *page, const char *line)
{
	struct series *series = &page->series[page->count++];
	const char *type = page->types[page->family_count - 1];
	const char *family = page->families[page->family_count - 1];
	size_t len = read_name(line);
	const char *rest = line[len] == '{' ? read_labels(line + len) : line + len;
	const char *suffix = line + strlen(family);
	char *end;

	assert_true(page->count < SERIES_MAX);
	/* The series of a family stand together, under its TYPE. */
	assert_true(strlen(family) <= len);
	assert_memory_equal(line, family, strlen(family));
	if (strcmp(type, "histogram") == 0)
		assert_true(strncmp(suffix, "_bucket{", 8) == 0 ||
			    strncmp(suffix, "_sum{", 5) == 0 || strncmp(suffix, "_count{", 7) == 0);
	else
		assert_int_equal(strlen(family), len);
	assert_int_equal(strcmp(type, "counter") == 0,
			 len > 6 && memcmp(line + len - 6, "_total", 6) == 0);
	assert_int_equal(*rest, ' ');
	snprintf(series->id, sizeof(series->id), "%.*s", (int)(rest - line), line);
	series->family = page->family_count - 1;
	series->value = strtod(rest + 1, &end);
	assert_true(end > rest + 1 && *end == '\0' && isfinite(series->value));
	assert_true(series->value >= 0);
	for (size_t i = 0; i + 1 < page->count; i++)
		assert_string_not_equal(page->series[i].id, series->id);
}

static struct page *read_page(char *text, size_t len)
{
	struct page *page = calloc(1, sizeof(*page));
	char *line;

	assert_non_null(page);
	assert_non_null(text);
	assert_int_equal(strlen(text), len);
	assert_true(len > 0 && text[len - 1] == '\n');
	for (char *at = text; *at != '\0';) {
		line = strsep(&at, "\n");
		assert_true(line[0] != '\0');
		if (line[0] == '#')
			read_comment(page, line);
		else
			read_series(page, line);
	}
	free(text);
	return page;
}

static double value_of(const struct page *page, const char *id)
{
	for (size_t i = 0; i < page->count; i++) {
		if (strcmp(page->series[i].id, id) == 0)
			return page->series[i].value;
	}
	fail_msg("no series %s", id);
	return -1;
}

static size_t family_size(const struct page *page, const char *family)
{
	size_t n = 0;

	for (size_t i = 0; i < page->count; i++)
		n += strcmp(page->families[page->series[i].family], family) == 0;
	return n;
}

static const char *type_of(const struct page *page, const char *family)
{
	for (size_t i = 0; i < page->family_count; i++) {
		if (strcmp(page->families[i], family) == 0)
			return page->types[i];
	}
	return NULL;
}

/* --- what is scraped ----------------------------------------------------------------------------- */

#define NOW (1000 * USEC_DAY)

struct fixture {
	struct config all;
	struct provider_config configs[3];
	struct provider providers[3];
	atomic_size_t pool;
	struct ledger_request stats;
	struct ledger_stat counts[8];
	struct ledger_provider_stat totals[4];
	struct metrics_scrape scrape;
};

static void set_up(struct fixture *f, size_t count, const char *const *names)
{
	memset(f, 0, sizeof(*f));
	for (size_t i = 0; i < count; i++) {
		f->configs[i].name = (char *)(uintptr_t)names[i];
		f->configs[i].concurrency_limit = 4;
		f->configs[i].policy.retry_after_max = USEC_HOUR;
		assert_int_equal(provider_init(&f->providers[i], &f->configs[i], &f->all, &f->pool),
				 0);
	}
	f->stats.stats = f->counts;
	f->stats.provider_stats = f->totals;
	f->scrape = (struct metrics_scrape){.providers = f->providers,
					    .provider_count = count,
					    .stats = &f->stats,
					    .store_up = true,
					    .now = NOW};
}

static void tear_down(struct fixture *f)
{
	for (size_t i = 0; i < f->scrape.provider_count; i++)
		provider_done(&f->providers[i]);
}

static struct page *scrape(const struct fixture *f)
{
	size_t len = 0;
	char *text = metrics_text(&f->scrape, &len);

	return read_page(text, len);
}

static void add_count(struct fixture *f, const char *provider, enum op_state state,
		      enum outcome_class class, int64_t count)
{
	f->counts[f->stats.stat_count++] =
		(struct ledger_stat){(char *)(uintptr_t)provider, state, class, count};
}

static void add_total(struct fixture *f, struct ledger_provider_stat total)
{
	f->totals[f->stats.provider_stat_count++] = total;
}

static const char *const pay_and_mail[] = {"pay", "mail"};

/* --- tests --------------------------------------------------------------------------------------- */

static void test_names_and_types(void **state)
{
	static const struct {
		const char *name, *type;
	} wanted[] = {
		{"stint_attempts_total", "counter"},
		{"stint_deliveries_total", "counter"},
		{"stint_operations", "gauge"},
		{"stint_refusals_total", "counter"},
		{"stint_replays_total", "counter"},
		{"stint_unknown_outcomes", "gauge"},
		{"stint_oldest_unknown_seconds", "gauge"},
		{"stint_disputed_operations", "gauge"},
		{"stint_oldest_eligible_seconds", "gauge"},
		{"stint_backlog_age_seconds", "histogram"},
		{"stint_attempts_per_success", "histogram"},
		{"stint_attempt_duration_seconds", "histogram"},
		{"stint_hold_duration_seconds", "histogram"},
		{"stint_overhead_seconds", "histogram"},
		{"stint_provider_blocked_seconds", "gauge"},
		{"stint_auth_paused", "gauge"},
		{"stint_retry_after_capped_total", "counter"},
		{"stint_retry_after_invalid_total", "counter"},
		{"stint_hidden_resends_total", "counter"},
		{"stint_sdk_retries_total", "counter"},
		{"stint_duplicate_effects_total", "counter"},
		{"stint_unknown_dropped_total", "counter"},
		{"stint_store_up", "gauge"},
		{"stint_build_info", "gauge"},
	};
	const size_t count = sizeof(wanted) / sizeof(wanted[0]);
	struct fixture f;
	struct page *page;
	char id[256];

	(void)state;
	set_up(&f, 2, pay_and_mail);
	page = scrape(&f);
	assert_int_equal(page->family_count, count);
	for (size_t i = 0; i < count; i++) {
		assert_non_null(type_of(page, wanted[i].name));
		assert_string_equal(type_of(page, wanted[i].name), wanted[i].type);
		assert_true(family_size(page, wanted[i].name) > 0);
	}
	snprintf(id, sizeof(id), "stint_build_info{version=\"%s\",revision=\"%s\"}",
		 stint_version(), stint_revision());
	assert_true(value_of(page, id) == 1);
	assert_true(value_of(page, "stint_store_up{store=\"sqlite\"}") == 1);
	free(page);
	tear_down(&f);
}

static void test_products_are_whole(void **state)
{
	struct fixture f;
	struct page *page;

	(void)state;
	set_up(&f, 2, pay_and_mail);
	page = scrape(&f);
	assert_int_equal(family_size(page, "stint_attempts_total"), 2 * CLASS_COUNT * EFFECT_COUNT);
	assert_int_equal(family_size(page, "stint_operations"),
			 3 * OP_STATE_COUNT * CLASS_COUNT); /* "other" too */
	assert_int_equal(family_size(page, "stint_refusals_total"), 2 * (PROBLEM_COUNT + 1));
	assert_int_equal(family_size(page, "stint_deliveries_total"), 2 * RESULT_COUNT);
	assert_int_equal(family_size(page, "stint_overhead_seconds"), 2 * (HISTOGRAM_BUCKETS + 2));
	free(page);
	tear_down(&f);
}

static void test_counters(void **state)
{
	struct fixture f;
	struct provider_metrics *m = &f.providers[1].metrics;
	struct page *page;

	(void)state;
	set_up(&f, 2, pay_and_mail);
	metrics_attempt(m, CLASS_RATE_LIMITED, EFFECT_NONE, 1);
	metrics_attempt(m, CLASS_RATE_LIMITED, EFFECT_NONE, 1);
	metrics_attempt(m, CLASS_UNKNOWN, EFFECT_POSSIBLE, 1);
	metrics_delivery(m, RESULT_GONE, 1, 1);
	metrics_refusal(m, "key-reuse");
	metrics_refusal(m, "queue-full");
	metrics_refusal(m, "queue-full");
	metrics_refusal(m, "never heard of");
	metrics_refusal(m, "");
	metrics_add(&m->replays, 3);
	metrics_add(&m->hidden_resends, 4);
	metrics_add(&m->duplicate_effects, 5);
	metrics_add(&m->retry_after_capped, 6);
	metrics_add(&m->retry_after_invalid, 7);
	metrics_add(&m->sdk_retries, 8);
	metrics_add(&m->unknown_dropped, UINT64_C(1) << 40);
	page = scrape(&f);
#define IS(id, number) assert_true(value_of(page, id) == (number))
	IS("stint_attempts_total{provider=\"mail\",class=\"rate_limited\",effect=\"none\"}", 2);
	IS("stint_attempts_total{provider=\"mail\",class=\"unknown\",effect=\"possible\"}", 1);
	IS("stint_attempts_total{provider=\"mail\",class=\"unknown\",effect=\"none\"}", 0);
	IS("stint_attempts_total{provider=\"pay\",class=\"rate_limited\",effect=\"none\"}", 0);
	IS("stint_deliveries_total{provider=\"mail\",result=\"gone\"}", 1);
	IS("stint_deliveries_total{provider=\"mail\",result=\"replay\"}", 0);
	IS("stint_refusals_total{provider=\"mail\",reason=\"key-reuse\"}", 1);
	IS("stint_refusals_total{provider=\"mail\",reason=\"queue-full\"}", 2);
	IS("stint_refusals_total{provider=\"mail\",reason=\"other\"}", 2);
	IS("stint_replays_total{provider=\"mail\"}", 3);
	IS("stint_hidden_resends_total{provider=\"mail\"}", 4);
	IS("stint_duplicate_effects_total{provider=\"mail\"}", 5);
	IS("stint_retry_after_capped_total{provider=\"mail\"}", 6);
	IS("stint_retry_after_invalid_total{provider=\"mail\"}", 7);
	IS("stint_sdk_retries_total{provider=\"mail\"}", 8);
	IS("stint_unknown_dropped_total{provider=\"mail\"}", 1099511627776.0);
	IS("stint_unknown_dropped_total{provider=\"pay\"}", 0);
	free(page);
	tear_down(&f);
}

#define D "stint_attempt_duration_seconds"

static void test_histograms(void **state)
{
	struct fixture f;
	struct provider_metrics *m = &f.providers[0].metrics;
	struct page *page;
	const char buckets_of_pay[] = D "_bucket{provider=\"pay\"";
	double before = 0;
	size_t buckets = 0;

	(void)state;
	set_up(&f, 2, pay_and_mail);
	metrics_attempt(m, CLASS_SUCCESS, EFFECT_DEFINITE, 100); /* a bound belongs to its bucket */
	metrics_attempt(m, CLASS_SUCCESS, EFFECT_DEFINITE, 101);
	metrics_attempt(m, CLASS_SUCCESS, EFFECT_DEFINITE,
			-5); /* a clock's fault is no huge number */
	metrics_attempt(m, CLASS_SUCCESS, EFFECT_DEFINITE, 2 * USEC_SEC + 250 * USEC_MS);
	metrics_attempt(m, CLASS_SUCCESS, EFFECT_DEFINITE, 3 * USEC_DAY);
	metrics_observe(&m->attempts_per_success, 1);
	metrics_observe(&m->attempts_per_success, 7);
	metrics_observe_time(&m->backlog_age, USEC_HOUR);
	page = scrape(&f);
	IS(D "_bucket{provider=\"pay\",le=\"0.0001\"}", 2);
	IS(D "_bucket{provider=\"pay\",le=\"0.0005\"}", 3);
	IS(D "_bucket{provider=\"pay\",le=\"1\"}", 3);
	IS(D "_bucket{provider=\"pay\",le=\"5\"}", 4);
	IS(D "_bucket{provider=\"pay\",le=\"86400\"}", 4);
	IS(D "_bucket{provider=\"pay\",le=\"+Inf\"}", 5);
	IS(D "_count{provider=\"pay\"}", 5);
	IS(D "_sum{provider=\"pay\"}", 259202.250201);
	IS(D "_count{provider=\"mail\"}", 0);
	IS(D "_sum{provider=\"mail\"}", 0);
	IS("stint_attempts_per_success_bucket{provider=\"pay\",le=\"1\"}", 1);
	IS("stint_attempts_per_success_bucket{provider=\"pay\",le=\"6\"}", 1);
	IS("stint_attempts_per_success_bucket{provider=\"pay\",le=\"8\"}", 2);
	IS("stint_attempts_per_success_sum{provider=\"pay\"}", 8);
	IS("stint_backlog_age_seconds_sum{provider=\"pay\"}", 3600);
	for (size_t i = 0; i < page->count; i++) {
		if (strncmp(page->series[i].id, buckets_of_pay, strlen(buckets_of_pay)) != 0)
			continue;
		assert_true(page->series[i].value >= before);
		before = page->series[i].value;
		buckets++;
	}
	assert_int_equal(buckets, HISTOGRAM_BUCKETS);
	free(page);
	tear_down(&f);
}

static void test_ledger(void **state)
{
	struct fixture f;
	struct page *page;

	(void)state;
	set_up(&f, 2, pay_and_mail);
	add_count(&f, "pay", OP_SUCCEEDED, CLASS_SUCCESS, 12);
	add_count(&f, "pay", OP_READY, CLASS_NONE, 1);
	add_count(&f, "gone", OP_UNKNOWN, CLASS_UNKNOWN, 2);
	add_count(&f, "long gone", OP_UNKNOWN, CLASS_UNKNOWN, 3);
	add_total(&f, (struct ledger_provider_stat){.provider = (char *)(uintptr_t) "pay",
						    .unresolved = 4,
						    .oldest_unresolved = NOW - 90 * USEC_SEC,
						    .disputed = 5,
						    .oldest_eligible = NOW - 1500 * USEC_MS});
	add_total(&f, (struct ledger_provider_stat){.provider = (char *)(uintptr_t) "gone",
						    .unresolved = 2,
						    .oldest_unresolved = NOW - 10 * USEC_SEC});
	add_total(&f, (struct ledger_provider_stat){.provider = (char *)(uintptr_t) "long gone",
						    .unresolved = 3,
						    .oldest_unresolved = NOW - 20 * USEC_SEC,
						    .oldest_eligible = NOW + USEC_HOUR});
	page = scrape(&f);
	IS("stint_operations{provider=\"pay\",state=\"succeeded\",class=\"success\"}", 12);
	IS("stint_operations{provider=\"pay\",state=\"ready\",class=\"none\"}", 1);
	IS("stint_operations{provider=\"other\",state=\"unknown\",class=\"unknown\"}", 5);
	IS("stint_operations{provider=\"mail\",state=\"unknown\",class=\"unknown\"}", 0);
	IS("stint_unknown_outcomes{provider=\"pay\"}", 4);
	IS("stint_unknown_outcomes{provider=\"mail\"}", 0);
	IS("stint_unknown_outcomes{provider=\"other\"}", 5);
	IS("stint_oldest_unknown_seconds{provider=\"pay\"}", 90);
	IS("stint_oldest_unknown_seconds{provider=\"mail\"}", 0);
	IS("stint_oldest_unknown_seconds{provider=\"other\"}", 20);
	IS("stint_disputed_operations{provider=\"pay\"}", 5);
	IS("stint_oldest_eligible_seconds{provider=\"pay\"}", 1.5);
	IS("stint_oldest_eligible_seconds{provider=\"other\"}", 0); /* never negative */
	free(page);
	tear_down(&f);
}

static void test_ledger_away(void **state)
{
	static const char *const left_out[] = {
		"stint_operations",
		"stint_unknown_outcomes",
		"stint_oldest_unknown_seconds",
		"stint_disputed_operations",
		"stint_oldest_eligible_seconds",
	};
	struct fixture f;
	struct page *with, *without;

	(void)state;
	set_up(&f, 2, pay_and_mail);
	with = scrape(&f);
	f.scrape.stats = NULL;
	f.scrape.store_up = false;
	without = scrape(&f);
	assert_true(value_of(without, "stint_store_up{store=\"sqlite\"}") == 0);
	for (size_t i = 0; i < 5; i++) {
		assert_non_null(type_of(with, left_out[i]));
		assert_null(type_of(without, left_out[i]));
	}
	assert_int_equal(without->family_count, with->family_count - 5);
	free(with);
	free(without);
	tear_down(&f);
}

/* B41: whatever happens, the same series. */
static void test_series_do_not_grow(void **state)
{
	struct fixture f;
	struct page *before, *after;

	(void)state;
	set_up(&f, 2, pay_and_mail);
	before = scrape(&f);
	for (int class = 0; class < CLASS_COUNT; class ++) {
		for (int effect = 0; effect < EFFECT_COUNT; effect++)
			metrics_attempt(&f.providers[0].metrics, (enum outcome_class) class,
					(enum effect)effect, 1000 * class);
	}
	for (int i = 0; i < 1000; i++) {
		char reason[32];

		snprintf(reason, sizeof(reason), "reason-%d", i);
		metrics_refusal(&f.providers[1].metrics, reason);
		metrics_delivery(&f.providers[1].metrics, (enum delivery_result)(i % RESULT_COUNT),
				 i * USEC_SEC, i);
	}
	add_count(&f, "some", OP_HELD, CLASS_AUTH, 1);
	add_count(&f, "stranger", OP_HELD, CLASS_AUTH, 1);
	after = scrape(&f);
	assert_int_equal(before->count, after->count);
	for (size_t i = 0; i < before->count; i++)
		assert_string_equal(before->series[i].id, after->series[i].id);
	assert_true(value_of(after, "stint_refusals_total{provider=\"mail\",reason=\"other\"}") ==
		    1000);
	free(before);
	free(after);
	tear_down(&f);
}

static void test_blocked(void **state)
{
	const struct gate_outcome limited = {
		.repeatable_class = true, .rate_limited = true, .advice = 30 * USEC_SEC};
	struct gate_waiter waiter = {0};
	struct gate_answer answer;
	struct fixture f;
	struct page *page;

	(void)state;
	set_up(&f, 2, pay_and_mail);
	answer = provider_enter(&f.providers[0], &waiter, NOW);
	assert_int_equal(answer.why, GATE_OPEN);
	provider_settle(&f.providers[0], answer.ticket, &limited, NOW);
	f.scrape.now = NOW + 500 * USEC_MS;
	page = scrape(&f);
	IS("stint_provider_blocked_seconds{provider=\"pay\"}", 29.5);
	IS("stint_provider_blocked_seconds{provider=\"mail\"}", 0);
	free(page);
	tear_down(&f);
}

static void test_odd_names(void **state)
{
	static const char *const names[] = {"a\"b\\c\nd", "other"};
	struct fixture f;
	struct page *page;

	(void)state;
	set_up(&f, 2, names);
	metrics_add(&f.providers[0].metrics.replays, 9);
	add_count(&f, "other", OP_HELD, CLASS_AUTH, 1);
	add_count(&f, "gone", OP_HELD, CLASS_AUTH, 2);
	page = scrape(&f); /* the reader refuses a series that comes twice */
	IS("stint_replays_total{provider=\"a\\\"b\\\\c\\nd\"}", 9);
	IS("stint_operations{provider=\"other\",state=\"held\",class=\"auth\"}", 3);
	free(page);
	tear_down(&f);
}

static void test_no_providers(void **state)
{
	struct fixture f;
	struct page *page;

	(void)state;
	set_up(&f, 0, NULL);
	page = scrape(&f);
	IS("stint_store_up{store=\"sqlite\"}", 1);
	assert_null(type_of(page, "stint_replays_total"));
	free(page);
	tear_down(&f);
}

#define THREADS 3
#define TIMES 5000

static void *count_up(void *data)
{
	struct provider_metrics *m = data;

	for (int i = 0; i < TIMES; i++) {
		metrics_attempt(m, CLASS_SUCCESS, EFFECT_DEFINITE, i);
		metrics_delivery(m, RESULT_REPLY, i, i);
		metrics_refusal(m, "held");
	}
	return NULL;
}

/* While others count, every page is a good one, and in the end nothing is lost. */
static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	struct fixture f;
	struct page *page;

	(void)state;
	set_up(&f, 1, pay_and_mail);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, count_up, &f.providers[0].metrics), 0);
	for (int i = 0; i < 5; i++) {
		page = scrape(&f);
		assert_true(value_of(page, D "_bucket{provider=\"pay\",le=\"+Inf\"}") ==
			    value_of(page, D "_count{provider=\"pay\"}"));
		free(page);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	page = scrape(&f);
	IS(D "_count{provider=\"pay\"}", THREADS * TIMES);
	IS("stint_deliveries_total{provider=\"pay\",result=\"reply\"}", THREADS * TIMES);
	IS("stint_refusals_total{provider=\"pay\",reason=\"held\"}", THREADS * TIMES);
	free(page);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_types),
		cmocka_unit_test(test_products_are_whole),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_histograms),
		cmocka_unit_test(test_ledger),
		cmocka_unit_test(test_ledger_away),
		cmocka_unit_test(test_series_do_not_grow),
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_no_providers),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
