/* Replayable bodies: bytes, bounds and what is given back. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proxy/body.h"

static char temp_dir[64];

struct world {
	atomic_size_t used;
	struct body_limits limits;
	size_t descriptors;
};

static size_t count_entries(const char *dir)
{
	DIR *open_dir = opendir(dir);
	size_t count = 0;

	assert_non_null(open_dir);
	while (readdir(open_dir) != NULL)
		count++;
	closedir(open_dir);
	return count;
}

static int set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->limits = (struct body_limits){.memory = 5000,
					     .max = 20000,
					     .temp_dir = temp_dir,
					     .pool_used = &world->used,
					     .pool_max = 100000};
	world->descriptors = count_entries("/proc/self/fd");
	*state = world;
	return 0;
}

/* Nothing is left of a body: no memory of the pool, no descriptor, no file. */
static int tear_down(void **state)
{
	struct world *world = *state;

	assert_int_equal(atomic_load(&world->used), 0);
	assert_int_equal(count_entries("/proc/self/fd"), world->descriptors);
	assert_int_equal(count_entries(temp_dir), 2);
	free(world);
	return 0;
}

static void fill(char *data, size_t len, size_t offset)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (char)((i + offset) * 7 % 251);
}

static enum body_result append(struct body *body, size_t len)
{
	char *data = malloc(len + 1);
	enum body_result result;

	assert_non_null(data);
	fill(data, len, body->length);
	result = body_append(body, data, len);
	free(data);
	return result;
}

static void assert_content(const struct body *body, size_t length)
{
	char *expected = malloc(length + 1), *got = malloc(length + 1), *heap;
	const char *data;
	size_t at = 0;

	assert_non_null(expected);
	assert_non_null(got);
	assert_int_equal(body->length, length);
	fill(expected, length, 0);
	while (at < length) {
		ssize_t count =
			body_read(body, at, got + at, 777 < length - at ? 777 : length - at + 1);

		assert_true(count > 0);
		at += (size_t)count;
	}
	assert_int_equal(at, length);
	assert_memory_equal(got, expected, length);
	assert_int_equal(body_read(body, length, got, 1), 0);
	assert_int_equal(body_read(body, length + 5, got, 1), 0);
	assert_int_equal(body_view(body, &data, &heap), 0);
	assert_memory_equal(data, expected, length);
	free(heap);
	free(expected);
	free(got);
}

static void test_empty(void **state)
{
	struct world *world = *state;
	struct body body;
	const char *data;
	char *heap;

	body_init(&body, &world->limits);
	assert_int_equal(body_append(&body, NULL, 0), BODY_OK);
	assert_content(&body, 0);
	assert_int_equal(body_view(&body, &data, &heap), 0);
	assert_non_null(data);
	assert_null(heap);
	body_done(&body);
	body_done(&body);
}

/* Around the limits of B32, in pieces of several sizes. */
static void test_sizes(void **state)
{
	struct world *world = *state;
	static const size_t sizes[] = {1,    1023, 1024,  1025,  2500, 4999,
				       5000, 5001, 10000, 19999, 20000};
	static const size_t pieces[] = {1, 7, 1000, 4096, 20000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (size_t j = 0; j < sizeof(pieces) / sizeof(pieces[0]); j++) {
			struct body body;

			body_init(&body, &world->limits);
			while (body.length < sizes[i]) {
				size_t left = sizes[i] - body.length;

				assert_int_equal(append(&body, left < pieces[j] ? left : pieces[j]),
						 BODY_OK);
			}
			assert_content(&body, sizes[i]);
			assert_true((body.fd >= 0) == (sizes[i] > 5000));
			assert_true(atomic_load(&world->used) <= 5000);
			assert_true(body.fd < 0 || atomic_load(&world->used) == 0);
			body_done(&body);
		}
	}
}

static void test_too_large(void **state)
{
	struct world *world = *state;
	struct body body;

	body_init(&body, &world->limits);
	assert_int_equal(append(&body, 20001), BODY_TOO_LARGE);
	assert_content(&body, 0);
	assert_int_equal(append(&body, 19999), BODY_OK);
	assert_int_equal(append(&body, 2), BODY_TOO_LARGE);
	assert_int_equal(body_append(&body, "x", SIZE_MAX), BODY_TOO_LARGE);
	assert_content(&body, 19999);
	assert_int_equal(append(&body, 1), BODY_OK);
	assert_content(&body, 20000);
	body_done(&body);
}

/* When all bodies together have used up the memory, the next ones go to files. */
static void test_pool(void **state)
{
	struct world *world = *state;
	struct body bodies[12];
	size_t in_memory = 0;

	world->limits.pool_max = 8000;
	for (size_t i = 0; i < 12; i++) {
		body_init(&bodies[i], &world->limits);
		assert_int_equal(append(&bodies[i], 900), BODY_OK);
		assert_int_equal(append(&bodies[i], 900), BODY_OK);
		in_memory += bodies[i].fd < 0 ? 1 : 0;
		assert_true(atomic_load(&world->used) <= 8000);
	}
	assert_in_range(in_memory, 1, 4);
	for (size_t i = 0; i < 12; i++) {
		assert_content(&bodies[i], 1800);
		body_done(&bodies[i]);
	}
}

/* No file can be made: an error, and what there was is still there and goes on being good. */
static void test_no_file(void **state)
{
	struct world *world = *state;
	struct body body;

	world->limits.temp_dir = "/nonexistent/dir";
	body_init(&body, &world->limits);
	assert_int_equal(append(&body, 4000), BODY_OK);
	errno = 0;
	assert_int_equal(append(&body, 2000), BODY_ERROR);
	assert_int_equal(errno, ENOENT);
	assert_content(&body, 4000);
	assert_int_equal(append(&body, 1000), BODY_OK);
	assert_content(&body, 5000);
	body_done(&body);
}

/* The disk is full in the middle of a piece: nothing of it counts, and no short body is read. */
static void test_disk_full(void **state)
{
	struct world *world = *state;
	struct rlimit before, small = {.rlim_cur = 8000, .rlim_max = RLIM_INFINITY};
	struct body body;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	body_init(&body, &world->limits);
	assert_int_equal(append(&body, 6000), BODY_OK);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(append(&body, 6000), BODY_ERROR);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_content(&body, 6000);
	assert_int_equal(append(&body, 6000), BODY_OK);
	assert_content(&body, 12000);
	assert_int_equal(ftruncate(body.fd, 3000), 0);
	assert_int_equal(body_read(&body, 3000, &small, 1), -1);
	assert_int_equal(errno, EIO);
	body_done(&body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_empty, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sizes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_large, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pool, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_file, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_disk_full, set_up, tear_down),
	};
	int failed;

	/* RLIMIT_FSIZE plays the full disk; its signal would end the test. */
	signal(SIGXFSZ, SIG_IGN);
	snprintf(temp_dir, sizeof(temp_dir), "/tmp/stint-test-body-XXXXXX");
	if (mkdtemp(temp_dir) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(temp_dir);
	return failed;
}
