/* When the next attempt may start: exponential and list schedules, jitter and advice. Pure. */
#ifndef STINT_BUDGET_SCHEDULE_H
#define STINT_BUDGET_SCHEDULE_H

#include "budget/policy.h"

/* The bare backoff after `done` attempts (done >= 1), without jitter: schedule[done - 1] (the last
 * one beyond its end), or first * factor^(done - 1), at most max. Saturates, never below 1 us. */
usec_t backoff_base(const struct backoff *backoff, int done);

/* The largest jitter after `done` attempts: j x backoff. */
usec_t backoff_jitter(const struct backoff *backoff, int done);

/* wait = max(backoff, advice) + U(0, j x backoff): jitter only adds (design section 5).
 * advice < 0: none. random: 64 uniform bits. */
usec_t backoff_wait(const struct backoff *backoff, int done, usec_t advice, uint64_t random);

#endif
