#include "proxy/metrics.h"

#include <string.h>

#include "proxy/problem.h"

/* Upper bounds in microseconds: 100 us to a day, for attempts, holds, overhead and ages alike. */
const uint64_t histogram_time_bounds[HISTOGRAM_BUCKETS - 1] = {
	100,     500,     1000,     5000,     25000,     100000,      500000,
	1000000, 5000000, 20000000, 60000000, 600000000, 86400000000,
};

/* Upper bounds of plain numbers: attempts. */
const uint64_t histogram_count_bounds[HISTOGRAM_BUCKETS - 1] = {1,  2,  3,  4,  5,  6,  8,
								10, 15, 20, 30, 50, 100};

static void observe(struct histogram *histogram, const uint64_t *bounds, uint64_t value)
{
	size_t i = 0;

	while (i < HISTOGRAM_BUCKETS - 1 && value > bounds[i])
		i++;
	metrics_add(&histogram->buckets[i], 1);
	metrics_add(&histogram->sum, value);
	metrics_add(&histogram->count, 1);
}

void metrics_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void metrics_observe(struct histogram *histogram, uint64_t value)
{
	observe(histogram, histogram_count_bounds, value);
}

void metrics_observe_time(struct histogram *histogram, usec_t value)
{
	observe(histogram, histogram_time_bounds, value > 0 ? (uint64_t)value : 0);
}

void metrics_attempt(struct provider_metrics *m, enum outcome_class class, enum effect effect,
		     usec_t duration)
{
	metrics_add(&m->attempts[class][effect], 1);
	metrics_observe_time(&m->attempt_duration, duration);
}

void metrics_delivery(struct provider_metrics *m, enum delivery_result result, usec_t hold,
		      usec_t overhead)
{
	metrics_add(&m->deliveries[result], 1);
	metrics_observe_time(&m->hold_duration, hold);
	metrics_observe_time(&m->overhead, overhead);
}

_Static_assert(PROBLEM_COUNT < METRICS_PROBLEMS_MAX, "every problem has a counter, and \"other\"");

void metrics_refusal(struct provider_metrics *m, const char *problem)
{
	size_t i = 0;

	while (i < PROBLEM_COUNT && strcmp(problem_name((enum problem_type)i), problem) != 0)
		i++;
	metrics_add(&m->refusals[i], 1); /* PROBLEM_COUNT is "other" */
}
