/* Counters and histograms, constant in number: per provider, by closed enumerations only. Updated
 * with relaxed atomics from any thread; rendered as Prometheus text. */
#ifndef STINT_PROXY_METRICS_H
#define STINT_PROXY_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/ledger.h"
#include "classify/outcome.h"

/* How a delivery was answered: stint_deliveries_total{result}. */
#define DELIVERY_RESULTS(X)                                                                        \
	X(REPLY, "reply")     /* the provider's answer ended it */                                 \
	X(REPLAY, "replay")   /* from the ledger */                                                \
	X(REFUSED, "refused") /* a problem document */                                             \
	X(GONE, "gone")       /* the caller left first */

enum delivery_result {
#define X(id, text) RESULT_##id,
	DELIVERY_RESULTS(X)
#undef X
		RESULT_COUNT
};

#define HISTOGRAM_BUCKETS 14

/* The buckets' upper bounds: microseconds, and plain numbers. */
extern const uint64_t histogram_time_bounds[HISTOGRAM_BUCKETS - 1];
extern const uint64_t histogram_count_bounds[HISTOGRAM_BUCKETS - 1];

struct histogram {
	_Atomic uint64_t buckets[HISTOGRAM_BUCKETS]; /* not cumulative; the last is +Inf */
	_Atomic uint64_t count;
	_Atomic uint64_t sum; /* microseconds, or plain numbers */
};

#define METRICS_PROBLEMS_MAX 32

struct provider_metrics {
	_Atomic uint64_t attempts[CLASS_COUNT][EFFECT_COUNT];
	_Atomic uint64_t deliveries[RESULT_COUNT];
	_Atomic uint64_t
		refusals[METRICS_PROBLEMS_MAX]; /* enum problem_type; PROBLEM_COUNT: other */
	_Atomic uint64_t replays;
	_Atomic uint64_t hidden_resends;
	_Atomic uint64_t duplicate_effects;
	_Atomic uint64_t retry_after_capped;
	_Atomic uint64_t retry_after_invalid;
	_Atomic uint64_t sdk_retries;
	_Atomic uint64_t unknown_dropped;
	_Atomic uint64_t orphans;          /* findings that no record took */
	struct histogram attempt_duration; /* us */
	struct histogram
		hold_duration;     /* us: from the complete request to the answer's first byte */
	struct histogram overhead; /* us: of that, what was neither attempt nor wait */
	struct histogram attempts_per_success;
	struct histogram backlog_age; /* us: first attempts and retries, by original creation */
};

void metrics_attempt(struct provider_metrics *m, enum outcome_class class, enum effect effect,
		     usec_t duration);
void metrics_delivery(struct provider_metrics *m, enum delivery_result result, usec_t hold,
		      usec_t overhead);
/* problem: a name of design section 10 ("waiting"); unknown ones fold to "other". */
void metrics_refusal(struct provider_metrics *m, const char *problem);
void metrics_add(_Atomic uint64_t *counter, uint64_t n);
void metrics_observe(struct histogram *histogram, uint64_t value);
void metrics_observe_time(struct histogram *histogram, usec_t value);

#endif
