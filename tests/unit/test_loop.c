/* The loop: posting from other threads, order, closing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "proxy/loop.h"

#define THREADS 4
#define EACH 2000

struct note {
	struct loop_task task;
	struct loop *loop;
	pthread_t ran_on;
	int order, repeat, *counter;
	bool close;
};

static void note_run(struct loop_task *task)
{
	struct note *note = (struct note *)task;

	note->ran_on = pthread_self();
	note->order = ++*note->counter;
	if (note->repeat-- > 0)
		loop_post(note->loop, task);
	else if (note->close)
		loop_close(note->loop);
}

static void note_init(struct note *note, struct loop *loop, int *counter)
{
	*note = (struct note){.task.run = note_run, .loop = loop, .counter = counter};
}

static void test_order_and_closing(void **state)
{
	struct loop loop;
	struct note notes[10];
	int counter = 0;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	for (int i = 0; i < 10; i++) {
		note_init(&notes[i], &loop, &counter);
		loop_post(&loop, &notes[i].task);
	}
	assert_int_equal(counter, 0);
	loop_close(&loop); /* runs what is in it */
	assert_int_equal(counter, 10);
	loop_run(&loop);
	for (int i = 0; i < 10; i++)
		assert_int_equal(notes[i].order, i + 1);
	loop_done(&loop);
}

static void test_posts_itself(void **state)
{
	struct loop loop;
	struct note note;
	int counter = 0;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	note_init(&note, &loop, &counter);
	note.repeat = 99;
	note.close = true;
	loop_post(&loop, &note.task);
	loop_run(&loop);
	assert_int_equal(counter, 100);
	loop_done(&loop);
}

/* A task that comes after loop_close() is not lost: its owner waits for it. */
static void test_post_after_close(void **state)
{
	struct loop loop;
	struct note note;
	int counter = 0;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	loop_close(&loop);
	note_init(&note, &loop, &counter);
	loop_post(&loop, &note.task);
	assert_int_equal(counter, 0);
	loop_run(&loop);
	assert_int_equal(counter, 1);
	loop_done(&loop);
}

struct poster {
	pthread_t thread;
	struct loop *loop;
	struct note *notes;
};

static void *poster_main(void *data)
{
	struct poster *poster = data;

	for (int i = 0; i < EACH; i++)
		loop_post(poster->loop, &poster->notes[i].task);
	return NULL;
}

static void test_many_threads(void **state)
{
	struct loop loop;
	struct poster posters[THREADS];
	struct note *notes = calloc(THREADS * EACH, sizeof *notes);
	int counter = 0;

	(void)state;
	assert_non_null(notes);
	assert_int_equal(loop_init(&loop), 0);
	for (int i = 0; i < THREADS * EACH; i++)
		note_init(&notes[i], &loop, &counter);
	for (int i = 0; i < THREADS; i++) {
		posters[i].loop = &loop;
		posters[i].notes = notes + (ptrdiff_t)i * EACH;
		assert_int_equal(pthread_create(&posters[i].thread, NULL, poster_main, &posters[i]),
				 0);
	}
	while (counter < THREADS * EACH)
		uv_run(&loop.uv, UV_RUN_ONCE);
	for (int i = 0; i < THREADS; i++)
		pthread_join(posters[i].thread, NULL);
	for (int i = 0; i < THREADS * EACH; i++) {
		assert_true(pthread_equal(notes[i].ran_on, pthread_self()));
		if (i % EACH > 0)
			assert_true(notes[i].order > notes[i - 1].order);
	}
	loop_close(&loop);
	loop_run(&loop);
	loop_done(&loop);
	free(notes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_closing),
		cmocka_unit_test(test_posts_itself),
		cmocka_unit_test(test_post_after_close),
		cmocka_unit_test(test_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
