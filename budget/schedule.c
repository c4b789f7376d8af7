#include "budget/schedule.h"

/* first * factor^(exponent), by multiplication: libm's pow() is neither exact nor pure everywhere.
 * Ends early at `max`, so that the value never leaves what usec_t holds; a factor that is not a
 * number ends there too. */
static usec_t exponential(const struct backoff *backoff, int exponent)
{
	double limit = (double)backoff->max;
	double value = (double)backoff->first;

	if (!(value < limit))
		return backoff->max;
	if (backoff->factor == 1.0)
		return backoff->first;
	for (int i = 0; i < exponent; i++) {
		value *= backoff->factor;
		if (!(value < limit))
			return backoff->max;
	}
	return (usec_t)value;
}

usec_t backoff_base(const struct backoff *backoff, int done)
{
	int exponent = done > 1 ? done - 1 : 0;
	usec_t base;

	if (backoff->schedule && backoff->schedule_len > 0) {
		size_t i = (size_t)exponent;

		if (i >= backoff->schedule_len)
			i = backoff->schedule_len - 1;
		base = backoff->schedule[i];
	} else {
		base = exponential(backoff, exponent);
	}
	return usec_max(base, 1);
}

usec_t backoff_jitter(const struct backoff *backoff, int done)
{
	usec_t base = backoff_base(backoff, done);

	switch (backoff->jitter) {
	case JITTER_EQUAL:
		return base / 2;
	case JITTER_FULL:
		return base;
	case JITTER_NONE:
		break;
	}
	return 0;
}

usec_t backoff_wait(const struct backoff *backoff, int done, usec_t advice, uint64_t random)
{
	usec_t base = backoff_base(backoff, done);
	usec_t span = backoff_jitter(backoff, done);
	/* The bias of the remainder is below span / 2^64. */
	usec_t extra = (usec_t)(random % ((uint64_t)span + 1));

	return usec_add(usec_max(base, advice), extra);
}
