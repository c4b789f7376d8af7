/* The unit of time of the whole program: signed microseconds, with arithmetic that saturates.
 *
 * Plain `usec_t` values are monotonic unless a name says wall. USEC_MAX stands for "never". */
#ifndef STINT_CLASSIFY_USEC_H
#define STINT_CLASSIFY_USEC_H

#include <stdint.h>

typedef int64_t usec_t;

#define USEC_MAX INT64_MAX
#define USEC_MS ((usec_t)1000)
#define USEC_SEC ((usec_t)1000000)
#define USEC_MIN (60 * USEC_SEC)
#define USEC_HOUR (60 * USEC_MIN)
#define USEC_DAY (24 * USEC_HOUR)

/* a + b for b >= 0; USEC_MAX instead of an overflow. */
static inline usec_t usec_add(usec_t a, usec_t b)
{
	return a > USEC_MAX - b ? USEC_MAX : a + b;
}

/* a * n for a, n >= 0; USEC_MAX instead of an overflow. */
static inline usec_t usec_mul(usec_t a, int64_t n)
{
	return n != 0 && a > USEC_MAX / n ? USEC_MAX : a * n;
}

static inline usec_t usec_min(usec_t a, usec_t b)
{
	return a < b ? a : b;
}

static inline usec_t usec_max(usec_t a, usec_t b)
{
	return a > b ? a : b;
}

#endif
