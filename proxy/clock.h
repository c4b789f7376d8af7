/* The program's clocks: BOOTTIME for durations, and ledger time, which is the wall clock at start
 * plus BOOTTIME, slewed and never backwards (design section 7, "Clock"). */
#ifndef STINT_PROXY_CLOCK_H
#define STINT_PROXY_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "classify/usec.h"

/* Read from any thread, ticked from one. */
struct wall_clock {
	_Atomic int64_t offset; /* wall = BOOTTIME + offset + what of the slew has taken effect */
	_Atomic int64_t frozen_until; /* BOOTTIME until which no lease may expire, after a jump */
	_Atomic int64_t slew;         /* spread over the second after slew_from */
	_Atomic int64_t slew_from;    /* BOOTTIME of the last tick */
	atomic_uint sequence;         /* odd while a tick writes */
	usec_t reported;              /* the ticking thread's: the last difference seen */
};

usec_t clock_boot(void); /* CLOCK_BOOTTIME, us */

void wall_clock_init(struct wall_clock *clock);
usec_t wall_clock_now(const struct wall_clock *clock);
/* Call about once a second: slews towards CLOCK_REALTIME by at most 500 us a call. Returns the
 * difference when it has changed by over a second since the last call (a jump: log it; no lease
 * expires for `lease` then), else 0: a jump that is being slewed away is reported once. */
usec_t wall_clock_tick(struct wall_clock *clock, usec_t lease);
bool wall_clock_frozen(const struct wall_clock *clock);

#endif
