/* The clocks: never backwards, slewed, jumps reported once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <time.h>

#include "proxy/clock.h"

static usec_t wall(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (usec_t)now.tv_sec * USEC_SEC + now.tv_nsec / 1000;
}

static void test_follows_the_wall(void **state)
{
	struct wall_clock clock;
	usec_t before = wall(), now;

	(void)state;
	wall_clock_init(&clock);
	now = wall_clock_now(&clock);
	assert_true(now >= before - USEC_MS);
	assert_true(now <= wall() + USEC_MS);
	assert_int_equal(wall_clock_tick(&clock, USEC_SEC), 0);
	assert_false(wall_clock_frozen(&clock));
}

static void test_boot_goes_on(void **state)
{
	usec_t last = clock_boot();

	(void)state;
	assert_true(last > 0);
	for (int i = 0; i < 100000; i++) {
		usec_t now = clock_boot();

		assert_true(now >= last);
		last = now;
	}
}

/* Ours is ahead by 100 ms: it goes slower, and never back. */
static void test_never_backwards(void **state)
{
	struct wall_clock clock;
	usec_t last = 0;

	(void)state;
	wall_clock_init(&clock);
	atomic_fetch_add(&clock.offset, 100 * USEC_MS);
	for (int i = 0; i < 200000; i++) {
		usec_t now = wall_clock_now(&clock);

		assert_true(now >= last);
		last = now;
		if (i % 1000 == 0)
			assert_int_equal(wall_clock_tick(&clock, USEC_SEC), 0);
	}
	assert_int_equal(atomic_load(&clock.slew), -500);
}

/* A second after a tick its 500 us have been added in full, and no more. */
static void test_slew(void **state)
{
	struct wall_clock clock;

	(void)state;
	wall_clock_init(&clock);
	atomic_fetch_sub(&clock.offset, 100 * USEC_MS);
	wall_clock_tick(&clock, 0);
	assert_int_equal(atomic_load(&clock.slew), 500);
	for (int i = 1; i <= 3; i++) {
		usec_t offset = atomic_load(&clock.offset);

		atomic_fetch_sub(&clock.slew_from, 5 * USEC_SEC); /* as if that had passed */
		wall_clock_tick(&clock, 0);
		assert_int_equal(atomic_load(&clock.offset) - offset, 500);
	}
	/* Close to the wall it stops there. */
	wall_clock_init(&clock);
	atomic_fetch_sub(&clock.offset, 200);
	wall_clock_tick(&clock, 0);
	assert_in_range(atomic_load(&clock.slew), 100, 300);
}

static void test_jump(void **state)
{
	struct wall_clock clock;
	usec_t jump;

	(void)state;
	wall_clock_init(&clock);
	wall_clock_tick(&clock, USEC_MIN);
	atomic_fetch_sub(&clock.offset, USEC_HOUR); /* as if the wall had gone ahead */
	jump = wall_clock_tick(&clock, USEC_MIN);
	assert_in_range(jump, USEC_HOUR - USEC_SEC, USEC_HOUR + USEC_SEC);
	assert_true(wall_clock_frozen(&clock));
	assert_true(atomic_load(&clock.frozen_until) <= clock_boot() + USEC_MIN);
	/* It takes months to slew that away: said once, frozen once. */
	atomic_store(&clock.frozen_until, 0);
	assert_int_equal(wall_clock_tick(&clock, USEC_MIN), 0);
	assert_false(wall_clock_frozen(&clock));
	/* And back again. */
	atomic_fetch_add(&clock.offset, USEC_HOUR);
	assert_true(wall_clock_tick(&clock, 0) != 0);
	assert_false(wall_clock_frozen(&clock)); /* a lease of nothing */
}

static void *reader(void *data)
{
	const struct wall_clock *clock = data;
	usec_t last = 0;
	bool backwards = false;

	for (int i = 0; i < 200000; i++) {
		usec_t now = wall_clock_now(clock);

		backwards = backwards || now < last;
		last = now;
	}
	return backwards ? data : NULL;
}

static void test_threads(void **state)
{
	struct wall_clock clock;
	pthread_t threads[2];
	void *backwards;

	(void)state;
	wall_clock_init(&clock);
	atomic_fetch_add(&clock.offset, 100 * USEC_MS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reader, &clock), 0);
	for (int i = 0; i < 2000; i++)
		wall_clock_tick(&clock, 0);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &backwards);
		assert_null(backwards);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_follows_the_wall),
		cmocka_unit_test(test_boot_goes_on),
		cmocka_unit_test(test_never_backwards),
		cmocka_unit_test(test_slew),
		cmocka_unit_test(test_jump),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
