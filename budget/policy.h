/* The part of a provider's configuration that decisions read: budget, attempt limits, backoff,
 * repeat-safety, waiting, retention. Plain values, filled by the configuration. */
#ifndef STINT_BUDGET_POLICY_H
#define STINT_BUDGET_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "classify/usec.h"

#define ATTEMPTS_CEILING 100 /* absolute: no configuration and no reopen exceeds it */
#define SCHEDULE_MAX (ATTEMPTS_CEILING - 1)

enum jitter { JITTER_NONE, JITTER_EQUAL, JITTER_FULL }; /* j = 0, 1/2, 1 of the backoff, added */

struct backoff {
	usec_t first;
	double factor; /* >= 1 */
	usec_t max;
	enum jitter jitter;
	/* schedule[i] is the wait after attempt i + 1; NULL: exponential */
	const usec_t *schedule;
	size_t schedule_len;
};

enum beyond { BEYOND_PROBE, BEYOND_STOP };
enum in_flight { IN_FLIGHT_JOIN, IN_FLIGHT_REFUSE };
enum duplicates { DUPLICATES_HARM, DUPLICATES_COST };

struct policy {
	int attempts; /* total, 1 to ATTEMPTS_CEILING */
	usec_t window;
	struct backoff backoff;

	usec_t attempt_timeout; /* last request byte to the reply's headers */
	usec_t attempt_connect;
	usec_t attempt_idle;
	usec_t attempt_total;
	usec_t attempt_least;
	usec_t attempt_reuse;
	usec_t lease; /* resolved: `auto` is connect + timeout + 2 s; 0 expires at once */

	usec_t hold;
	usec_t retry_after_max;
	enum beyond beyond;

	bool forwards_key;    /* idempotency: {header: ...} */
	usec_t key_retention; /* 0: not known */
	bool repeat_any_time; /* repeat: any-time, for PUT, DELETE, TRACE */
	enum in_flight in_flight;
	enum duplicates duplicates;

	usec_t retain_for;
	usec_t retain_key;
	usec_t unknown_unkeyed; /* unknown.unkeyed */
};

#endif
