#include "proxy/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#define SLEW_MAX ((usec_t)500)
#define SLEW_SPAN USEC_SEC /* a slew is spread over this long, so that time never steps back */
#define JUMP USEC_SEC

static usec_t read_clock(clockid_t id)
{
	struct timespec now;

	/* Cannot fail for these two clocks and a valid pointer. */
	if (clock_gettime(id, &now) != 0)
		abort();
	return (usec_t)now.tv_sec * USEC_SEC + (usec_t)(now.tv_nsec / 1000);
}

usec_t clock_boot(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

void wall_clock_init(struct wall_clock *clock)
{
	atomic_store(&clock->offset, read_clock(CLOCK_REALTIME) - clock_boot());
	atomic_store(&clock->frozen_until, 0);
	atomic_store(&clock->sequence, 0);
	atomic_store(&clock->slew, 0);
	atomic_store(&clock->slew_from, 0);
	clock->reported = 0;
}

/* The part of a slew that has taken effect at `boot`. With |slew| below its span the slope of
 * boot + slewed() is positive: time goes on, a little slower or faster. */
static usec_t slewed(usec_t slew, usec_t from, usec_t boot)
{
	usec_t since = boot - from;

	if (since <= 0)
		return 0;
	return since >= SLEW_SPAN ? slew : slew * since / SLEW_SPAN;
}

usec_t wall_clock_now(const struct wall_clock *clock)
{
	unsigned before;
	usec_t offset, slew, from, boot;

	/* A sequence lock over three atomics: the writer is one thread, once a second. The clock is
	 * read inside, or a reader that was held up would apply an older state to a newer time. */
	do {
		before = atomic_load(&clock->sequence);
		offset = atomic_load(&clock->offset);
		slew = atomic_load(&clock->slew);
		from = atomic_load(&clock->slew_from);
		boot = clock_boot();
	} while ((before & 1) != 0 || before != atomic_load(&clock->sequence));
	return boot + offset + slewed(slew, from, boot);
}

usec_t wall_clock_tick(struct wall_clock *clock, usec_t lease)
{
	usec_t boot = clock_boot();
	usec_t slew = atomic_load(&clock->slew), from = atomic_load(&clock->slew_from);
	usec_t offset = atomic_load(&clock->offset) + slewed(slew, from, boot);
	usec_t difference = read_clock(CLOCK_REALTIME) - (boot + offset);
	usec_t next = difference, jump = difference - clock->reported;

	if (next > SLEW_MAX)
		next = SLEW_MAX;
	else if (next < -SLEW_MAX)
		next = -SLEW_MAX;

	atomic_fetch_add(&clock->sequence, 1);
	atomic_store(&clock->offset, offset);
	atomic_store(&clock->slew, next);
	atomic_store(&clock->slew_from, boot);
	atomic_fetch_add(&clock->sequence, 1);

	/* A jump is a change since the last tick that no slewing explains: one that is being slewed
	 * away for hours is reported once. */
	if (jump <= JUMP && jump >= -JUMP) {
		clock->reported = difference;
		return 0;
	}
	clock->reported = difference;
	atomic_store(&clock->frozen_until, usec_add(boot, usec_max(lease, 0)));
	return difference != 0 ? difference : jump;
}

bool wall_clock_frozen(const struct wall_clock *clock)
{
	return clock_boot() < atomic_load(&clock->frozen_until);
}
