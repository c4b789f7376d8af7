#include "proxy/worker.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proxy/exchange.h"
#include "proxy/log.h"

#define DRAIN_TICK_MS 20

void worker_random(struct worker *worker, void *ret_bytes, size_t len)
{
	if (worker->random_left < len) {
		size_t got = 0;

		while (got < sizeof(worker->random)) {
			ssize_t n =
				getrandom(worker->random + got, sizeof(worker->random) - got, 0);

			if (n < 0 && errno != EINTR)
				abort(); /* tokens that can be guessed are worse than none */
			if (n > 0)
				got += (size_t)n;
		}
		worker->random_left = sizeof(worker->random);
	}
	worker->random_left -= len;
	memcpy(ret_bytes, worker->random + worker->random_left, len);
	memset(worker->random + worker->random_left, 0, len);
}

static void drain(struct loop_task *task);

int worker_init(struct worker *worker, struct app *app, int index, char *error, size_t error_len)
{
	memset(worker, 0, sizeof(*worker));
	worker->app = app;
	worker->index = index;
	worker->drain_task.run = drain;
	if (loop_init(&worker->loop) != 0) {
		(void)snprintf(error, error_len, "cannot make an event loop");
		return -1;
	}
	if (uv_timer_init(&worker->loop.uv, &worker->grace) != 0 ||
	    upstream_new(&worker->loop, &worker->upstream) != 0) {
		(void)snprintf(error, error_len, "cannot set up libcurl on an event loop");
		return -1;
	}
	worker->grace.data = worker;
	return front_new(app, &worker->loop, exchange_start, worker, error, error_len,
			 &worker->front);
}

static void *run(void *data)
{
	struct worker *worker = data;

	loop_run(&worker->loop);
	return NULL;
}

int worker_start(struct worker *worker)
{
	int result = pthread_create(&worker->thread, NULL, run, worker);

	worker->thread_started = result == 0;
	return -result;
}

/* --- the end: front, then upstream, then the timer and the loop ---------------------------------- */

static void on_grace_closed(uv_handle_t *handle)
{
	struct worker *worker = handle->data;

	loop_close(&worker->loop);
}

static void on_upstream_closed(void *data)
{
	struct worker *worker = data;

	uv_close((uv_handle_t *)&worker->grace, on_grace_closed);
}

static void on_front_closed(void *data)
{
	struct worker *worker = data;

	worker->front = NULL;
	upstream_close(worker->upstream, on_upstream_closed, worker);
}

static void on_tick(uv_timer_t *timer)
{
	struct worker *worker = timer->data;
	usec_t boot = clock_boot();

	if (!worker->cut && boot >= worker->grace_ends) {
		worker->cut = true;
		if (worker->exchange_count > 0)
			log_message(LOG_LEVEL_WARN, "drain-cut",
				    "worker=%d deliveries=%zu: attempts in flight are cut",
				    worker->index, worker->exchange_count);
		exchange_cut_all(worker);
	}
	/* Answers still going out get no more time than the grace, unlike outcomes. */
	if (worker->exchange_count > 0 || (front_busy(worker->front) > 0 && !worker->cut))
		return;
	uv_timer_stop(timer);
	front_close(worker->front, on_front_closed, worker);
}

static void drain(struct loop_task *task)
{
	struct worker *worker = CONTAINER_OF(task, struct worker, drain_task);

	worker->draining = true;
	worker->grace_ends = usec_add(clock_boot(), worker->app->config->drain);
	front_drain(worker->front);
	exchange_drain_all(worker);
	uv_timer_start(&worker->grace, on_tick, 0, DRAIN_TICK_MS);
}

void worker_drain(struct worker *worker)
{
	loop_post(&worker->loop, &worker->drain_task);
}

void worker_join(struct worker *worker)
{
	if (worker->thread_started)
		pthread_join(worker->thread, NULL);
	worker->thread_started = false;
	loop_done(&worker->loop);
}
