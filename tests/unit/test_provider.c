/* One provider among threads: slots, queues, gates by bucket, and what the ledger keeps of them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proxy/provider.h"

#define S USEC_SEC
#define NOW (20000 * USEC_DAY)

struct fixture {
	struct config all;
	struct provider_config config;
	struct provider provider;
	struct loop loop; /* never runs: what is granted is seen in the waiter */
	atomic_size_t pool;
	int changes;
};

static void on_block(void *data)
{
	((struct fixture *)data)->changes++;
}

static void set_up(struct fixture *f, int limit, char *header)
{
	memset(f, 0, sizeof(*f));
	f->config.name = (char *)(uintptr_t) "pay";
	f->config.concurrency_limit = limit;
	f->config.gate_header = header;
	f->config.gate = (struct gate_policy){
		.failures = 3, .open = 5 * S, .max = 60 * S, .ramp = 250 * USEC_MS};
	f->config.policy.retry_after_max = 60 * S;
	f->config.policy.attempt_connect = S;
	f->config.policy.attempt_total = 600 * S;
	assert_int_equal(provider_init(&f->provider, &f->config, &f->all, &f->pool), 0);
	f->provider.on_block = on_block;
	f->provider.on_block_data = f;
	assert_int_equal(loop_init(&f->loop), 0);
}

static void tear_down(struct fixture *f)
{
	assert_int_equal(f->provider.used, 0);
	assert_int_equal(f->provider.queue.count + f->provider.probe.count, 0);
	loop_close(&f->loop);
	loop_run(&f->loop);
	loop_done(&f->loop);
	provider_done(&f->provider);
}

static void ignore(struct loop_task *task)
{
	(void)task;
}

static struct gate_answer enter(struct fixture *f, struct gate_waiter *w, uint64_t bucket,
				usec_t now)
{
	memset(w, 0, sizeof(*w));
	w->loop = &f->loop;
	w->task.run = ignore;
	w->bucket = bucket;
	return provider_enter(&f->provider, w, now);
}

static uint64_t take(struct fixture *f, uint64_t bucket, usec_t now)
{
	struct gate_waiter waiter;
	struct gate_answer answer = enter(f, &waiter, bucket, now);

	assert_int_equal(answer.why, GATE_OPEN);
	return answer.ticket;
}

static struct gate_outcome advised(usec_t advice)
{
	return (struct gate_outcome){
		.repeatable_class = true, .rate_limited = true, .answered = true, .advice = advice};
}

static const struct gate_outcome well = {.answered_well = true, .answered = true, .advice = -1};
static const struct gate_outcome refused = {
	.repeatable_class = true, .breaker_failure = true, .advice = -1};

static void block(struct fixture *f, uint64_t bucket, usec_t advice, usec_t now)
{
	struct gate_outcome outcome = advised(advice);

	provider_settle(&f->provider, take(f, bucket, now), &outcome, now);
}

/* --- slots -------------------------------------------------------------------------------------- */

static void test_first_come(void **state)
{
	struct gate_waiter w[3];
	struct fixture f;
	uint64_t a, b;

	(void)state;
	set_up(&f, 2, NULL);
	a = take(&f, 0, NOW);
	b = take(&f, 0, NOW);
	for (int i = 0; i < 3; i++) {
		struct gate_answer answer = enter(&f, &w[i], 0, NOW);

		assert_int_equal(answer.why, GATE_CONCURRENCY);
		assert_int_equal(answer.until, USEC_MAX);
		assert_false(answer.rate_limited);
	}
	provider_settle(&f.provider, a, &well, NOW);
	assert_true(w[0].granted);
	assert_false(w[1].granted);
	/* The one in front leaves: the next one is served. */
	assert_int_equal(provider_forget(&f.provider, &w[1]), 0);
	assert_false(w[1].granted);
	provider_release(&f.provider, b, NOW);
	assert_true(w[2].granted);
	a = provider_forget(&f.provider, &w[0]);
	b = provider_forget(&f.provider, &w[2]);
	assert_true(a != 0 && b != 0 && a != b);
	assert_int_equal(provider_forget(&f.provider, &w[0]), 0);
	provider_release(&f.provider, a, NOW);
	provider_release(&f.provider, b, NOW);
	tear_down(&f);
}

/* B43: a thousand that are cancelled midway, in every way there is, leak nothing. */
static void test_no_leak(void **state)
{
	struct gate_waiter *w = calloc(1000, sizeof(*w));
	struct fixture f;

	(void)state;
	assert_non_null(w);
	set_up(&f, 3, NULL);
	for (int i = 0; i < 1000; i++) {
		struct gate_answer answer = enter(&f, &w[i], 0, NOW + i);

		if (answer.why == GATE_OPEN)
			w[i].ticket = answer.ticket;
		if (i % 7 == 3) {
			int victim = i - i % 3;
			uint64_t ticket = provider_forget(&f.provider, &w[victim]);

			if (ticket != 0 && i % 2 == 0)
				provider_release(&f.provider, ticket, NOW + i);
			else if (ticket != 0)
				provider_settle(&f.provider, ticket, &well, NOW + i);
		}
	}
	for (bool more = true; more;) {
		more = false;
		for (int i = 0; i < 1000; i++) {
			uint64_t ticket = provider_forget(&f.provider, &w[i]);

			more = more || ticket != 0;
			if (ticket != 0)
				provider_release(&f.provider, ticket, NOW + 1000);
		}
	}
	for (int i = 0; i < 3; i++)
		w[i].ticket = take(&f, 0, NOW + 2000);
	for (int i = 0; i < 3; i++)
		provider_release(&f.provider, w[i].ticket, NOW + 2000);
	tear_down(&f);
	free(w);
}

/* W30: while it is blocked a thousand are told the time, and take no slot and no place. */
static void test_w30(void **state)
{
	struct gate_waiter w;
	int used, waiting, step = 0;
	struct fixture f;
	usec_t blocked;

	(void)state;
	set_up(&f, 64, NULL);
	block(&f, 0, 60 * S, NOW);
	for (int i = 0; i < 1000; i++) {
		struct gate_answer answer = enter(&f, &w, 0, NOW + i);

		assert_int_equal(answer.why, GATE_BLOCKED);
		/* 1, 2, 4, ... at a time, and all by the end of the ramp. */
		assert_int_equal(answer.until - NOW - 60 * S, step * 250 * USEC_MS);
		if (i + 1 == (2 << step) - 1 && step < 6)
			step++;
		assert_true(answer.rate_limited);
		assert_null(w.queue);
	}
	provider_look(&f.provider, NOW + S, &blocked, &used, &waiting);
	assert_int_equal(blocked, 59 * S);
	assert_int_equal(used, 0);
	assert_int_equal(waiting, 0);
	tear_down(&f);
}

/* A block begins: who waits for a slot is woken without one, and learns the time. */
static void test_block_wakes_queue(void **state)
{
	struct gate_outcome outcome = advised(9 * S);
	struct gate_waiter w[2];
	struct fixture f;
	uint64_t ticket;

	(void)state;
	set_up(&f, 1, NULL);
	ticket = take(&f, 0, NOW);
	enter(&f, &w[0], 0, NOW);
	enter(&f, &w[1], 0, NOW);
	provider_settle(&f.provider, ticket, &outcome, NOW);
	for (int i = 0; i < 2; i++) {
		assert_true(w[i].granted);
		assert_int_equal(provider_forget(&f.provider, &w[i]), 0);
	}
	tear_down(&f);
}

/* --- the probe ---------------------------------------------------------------------------------- */

static void test_wait_for_probe(void **state)
{
	struct gate_waiter w[3];
	usec_t now = NOW + 60 * S;
	struct fixture f;
	uint64_t probe;

	(void)state;
	set_up(&f, 64, NULL);
	block(&f, 0, 3600 * S, NOW);
	for (int round = 0; round < 2; round++) {
		struct gate_outcome none = {
			.repeatable_class = true, .possible = true, .advice = -1};

		probe = take(&f, 0, now);
		for (int i = 0; i < 3; i++) {
			struct gate_answer answer = enter(&f, &w[i], 0, now);

			assert_int_equal(answer.why, GATE_PROBE_OUT);
			/* Not the probe's lease of ten minutes: when it comes back. */
			assert_int_equal(answer.until, USEC_MAX);
			/* The cause is that of the last block: a probe without an answer closed it. */
			assert_int_equal(answer.rate_limited, round == 0);
		}
		assert_int_equal(provider_forget(&f.provider, &w[1]), 0);
		provider_settle(&f.provider, probe, round == 0 ? &none : &well, now);
		assert_true(w[0].granted && w[2].granted);
		assert_false(w[1].granted);
		assert_int_equal(w[0].ticket, 0);
		if (round == 0) {
			assert_int_equal(enter(&f, &w[0], 0, now).until, now + 60 * S);
			now += 60 * S;
		}
	}
	provider_settle(&f.provider, take(&f, 0, now), &well, now);
	assert_int_equal(enter(&f, &w[0], 0, now).why, GATE_RAMP);
	assert_int_equal(enter(&f, &w[0], 0, now).until, now + 250 * USEC_MS);
	assert_null(w[0].queue);
	tear_down(&f);
}

/* The probe is given back without an outcome: the next one takes its place. */
static void test_probe_released(void **state)
{
	struct gate_waiter w;
	usec_t now = NOW + 60 * S;
	struct fixture f;
	uint64_t probe;

	(void)state;
	set_up(&f, 64, NULL);
	block(&f, 0, 3600 * S, NOW);
	probe = take(&f, 0, now);
	assert_true(provider_may_send(&f.provider, probe, now));
	assert_int_equal(enter(&f, &w, 0, now).why, GATE_PROBE_OUT);
	provider_release(&f.provider, probe, now);
	assert_true(w.granted);
	probe = take(&f, 0, now);
	provider_settle(&f.provider, probe, &well, now);
	tear_down(&f);
}

static void test_breaker(void **state)
{
	struct provider_breaker look;
	struct gate_waiter w;
	struct gate_answer answer;
	struct fixture f;
	uint64_t early;
	usec_t blocked;
	int used, waiting;

	(void)state;
	set_up(&f, 64, NULL);
	early = take(&f, 0, NOW);
	for (int i = 0; i < 3; i++)
		provider_settle(&f.provider, take(&f, 0, NOW), &refused, NOW);
	answer = enter(&f, &w, 0, NOW + S);
	assert_int_equal(answer.why, GATE_BREAKER);
	assert_int_equal(answer.until, NOW + 5 * S);
	assert_false(answer.rate_limited);
	assert_false(provider_may_send(&f.provider, early, NOW + S));
	provider_release(&f.provider, early, NOW + S);
	provider_look(&f.provider, NOW + S, &blocked, &used, &waiting);
	assert_int_equal(blocked, 4 * S);
	provider_look_breaker(&f.provider, NOW + S, &look);
	assert_int_equal(look.state, GATE_BREAKER_OPEN);
	assert_int_equal(look.left, 4 * S);
	assert_int_equal(look.open, 1);
	provider_look_breaker(&f.provider, NOW + 5 * S, &look);
	assert_int_equal(look.state, GATE_BREAKER_HALF_OPEN);
	/* It is this process's own: nothing of it is kept. */
	assert_int_equal(f.changes, 0);
	tear_down(&f);

	/* A plain proxy keeps nobody back. */
	set_up(&f, 64, NULL);
	provider_done(&f.provider);
	f.config.mode = MODE_OFF;
	assert_int_equal(provider_init(&f.provider, &f.config, &f.all, &f.pool), 0);
	for (int i = 0; i < 100; i++)
		provider_settle(&f.provider, take(&f, 0, NOW), &refused, NOW);
	tear_down(&f);
}

/* --- buckets ------------------------------------------------------------------------------------ */

static struct header_view header(const char *name, const char *value)
{
	return (struct header_view){name, strlen(name), value, strlen(value)};
}

static void test_bucket(void **state)
{
	static const uint8_t secret[BUCKET_KEY_LEN] = {1};
	char by[] = "Authorization";
	struct header_view a[] = {header("Accept", "x"), header("authorization", "Bearer a")};
	struct header_view b[] = {header("Authorization", "Bearer b")};
	struct header_view two[] = {b[0], a[1]};
	struct header_view spaced[] = {header("Authorization", " Bearer a ")};
	struct fixture f, g;
	uint64_t bucket;

	(void)state;
	set_up(&f, 4, by);
	set_up(&g, 4, NULL);
	bucket = provider_bucket(&f.provider, a, 2);
	assert_int_not_equal(bucket, 0);
	assert_int_equal(provider_bucket(&f.provider, a + 1, 1), bucket);
	assert_int_equal(provider_bucket(&f.provider, spaced, 1), bucket);
	assert_int_not_equal(provider_bucket(&f.provider, b, 1), bucket);
	assert_int_not_equal(provider_bucket(&f.provider, two, 2), bucket);
	assert_int_equal(provider_bucket(&f.provider, a, 1), 0);
	assert_int_equal(provider_bucket(&f.provider, NULL, 0), 0);
	assert_int_equal(provider_bucket(&g.provider, a, 2), 0);
	/* Under the ledger's secret it is the same in the next process. */
	provider_set_secret(&f.provider, secret);
	assert_int_not_equal(provider_bucket(&f.provider, a, 2), bucket);
	bucket = provider_bucket(&f.provider, a, 2);
	tear_down(&f);
	set_up(&f, 4, by);
	assert_int_not_equal(provider_bucket(&f.provider, a, 2), bucket);
	provider_set_secret(&f.provider, secret);
	assert_int_equal(provider_bucket(&f.provider, a, 2), bucket);
	tear_down(&f);
	tear_down(&g);
}

/* Each bucket has its block, breaker and probe; the slots are the provider's. */
static void test_buckets(void **state)
{
	char by[] = "Authorization";
	struct provider_breaker look;
	struct gate_waiter w, behind;
	usec_t now = NOW + 60 * S;
	struct fixture f;
	uint64_t a, b, c;

	(void)state;
	set_up(&f, 2, by);
	block(&f, 11, 3600 * S, NOW);
	for (int i = 0; i < 3; i++)
		provider_settle(&f.provider, take(&f, 12, NOW), &refused, NOW);
	assert_int_equal(enter(&f, &w, 11, NOW).why, GATE_BLOCKED);
	assert_int_equal(enter(&f, &w, 12, NOW).why, GATE_BREAKER);
	provider_settle(&f.provider, take(&f, 13, NOW), &well, NOW);
	provider_settle(&f.provider, take(&f, 0, NOW), &well, NOW);
	provider_look_breaker(&f.provider, NOW, &look);
	assert_int_equal(look.state, GATE_BREAKER_OPEN);
	assert_int_equal(look.open, 1);
	assert_int_equal(look.buckets, 4);

	/* Who waits for 11's probe stands in nobody's way. */
	a = take(&f, 11, now);
	assert_int_equal(enter(&f, &w, 11, now).why, GATE_PROBE_OUT);
	b = take(&f, 13, now);
	assert_int_equal(enter(&f, &behind, 14, now).why, GATE_CONCURRENCY);
	provider_release(&f.provider, b, now);
	assert_true(behind.granted);
	assert_false(w.granted);
	c = provider_forget(&f.provider, &behind);
	assert_true(provider_may_send(&f.provider, a, now));
	assert_true(provider_may_send(&f.provider, c, now));
	provider_settle(&f.provider, a, &well, now);
	assert_true(w.granted);
	provider_release(&f.provider, c, now);
	tear_down(&f);
}

/* --- what the ledger keeps ---------------------------------------------------------------------- */

static void test_kept(void **state)
{
	struct gate_outcome outcome = advised(3600 * S);
	struct provider_block change;
	struct fixture f;
	uint64_t probe, straggler;

	(void)state;
	set_up(&f, 64, NULL);
	assert_false(provider_next_block(&f.provider, NOW, &change));
	straggler = take(&f, 0, NOW);
	block(&f, 0, 10 * S, NOW);
	assert_int_equal(f.changes, 1);
	assert_true(provider_next_block(&f.provider, NOW, &change));
	assert_int_equal(change.bucket, 0);
	assert_int_equal(change.block.until, NOW + 10 * S);
	assert_false(change.block.probing);
	assert_true(change.block.rate_limited);
	/* One write for one change, and one at a time. */
	assert_false(provider_next_block(&f.provider, NOW, &change));
	provider_settle(&f.provider, straggler, &outcome, NOW + S);
	assert_int_equal(f.changes, 1);
	assert_false(provider_next_block(&f.provider, NOW + S, &change));
	provider_block_written(&f.provider, &change, true, NOW + S);
	assert_true(provider_next_block(&f.provider, NOW + S, &change));
	assert_int_equal(change.block.until, NOW + 61 * S);
	assert_true(change.block.probing);
	/* It failed: again. */
	provider_block_written(&f.provider, &change, false, NOW + S);
	assert_true(provider_next_block(&f.provider, NOW + S, &change));
	provider_block_written(&f.provider, &change, true, NOW + S);
	assert_false(provider_next_block(&f.provider, NOW + 61 * S, &change));
	probe = take(&f, 0, NOW + 61 * S);
	assert_false(provider_next_block(&f.provider, NOW + 61 * S, &change));
	provider_settle(&f.provider, probe, &well, NOW + 62 * S);
	assert_int_equal(f.changes, 2);
	assert_true(provider_next_block(&f.provider, NOW + 62 * S, &change));
	assert_int_equal(change.block.until, 0);
	assert_false(change.block.probing);
	provider_block_written(&f.provider, &change, true, NOW + 62 * S);
	assert_false(provider_next_block(&f.provider, NOW + 62 * S, &change));
	tear_down(&f);
}

/* A block that is over by its time alone is taken away too. */
static void test_over(void **state)
{
	struct provider_block change;
	struct fixture f;

	(void)state;
	set_up(&f, 64, NULL);
	block(&f, 0, 10 * S, NOW);
	assert_true(provider_next_block(&f.provider, NOW, &change));
	provider_block_written(&f.provider, &change, true, NOW);
	assert_false(provider_next_block(&f.provider, NOW + 10 * S - 1, &change));
	assert_true(provider_next_block(&f.provider, NOW + 10 * S, &change));
	assert_int_equal(change.block.until, 0);
	provider_block_written(&f.provider, &change, true, NOW + 10 * S);
	assert_false(provider_next_block(&f.provider, NOW + 20 * S, &change));
	tear_down(&f);
}

static void test_restore(void **state)
{
	static const uint8_t secret[BUCKET_KEY_LEN] = {1};
	struct provider_block stored = {0, {NOW + 30 * S, true, true}};
	struct provider_block far = {0, {USEC_MAX, false, true}};
	struct provider_block other = {77, {NOW + 30 * S, false, true}};
	struct provider_block change;
	char by[] = "Authorization";
	struct gate_waiter w;
	struct fixture f;

	(void)state;
	set_up(&f, 64, NULL);
	assert_true(provider_restore(&f.provider, &stored, NOW));
	assert_int_equal(enter(&f, &w, 0, NOW).until, NOW + 30 * S);
	/* Nothing changed: nothing is written. */
	assert_false(provider_next_block(&f.provider, NOW, &change));
	assert_false(provider_restore(&f.provider, &other, NOW));
	tear_down(&f);

	/* No longer than the configuration can close it, and the row is put right. */
	set_up(&f, 64, NULL);
	assert_true(provider_restore(&f.provider, &far, NOW));
	assert_int_equal(enter(&f, &w, 0, NOW).until, NOW + 60 * S);
	assert_true(provider_next_block(&f.provider, NOW, &change));
	assert_int_equal(change.block.until, NOW + 60 * S);
	provider_block_written(&f.provider, &change, true, NOW);
	tear_down(&f);

	/* A row that is over is taken away. */
	set_up(&f, 64, NULL);
	assert_true(provider_restore(&f.provider, &stored, NOW + 2 * GATE_FORGET));
	assert_true(provider_next_block(&f.provider, NOW + 2 * GATE_FORGET, &change));
	assert_int_equal(change.block.until, 0);
	assert_false(change.block.probing);
	provider_block_written(&f.provider, &change, true, NOW + 2 * GATE_FORGET);
	tear_down(&f);

	/* Buckets mean something only under the ledger's secret. */
	set_up(&f, 64, by);
	assert_false(provider_restore(&f.provider, &other, NOW));
	block(&f, 78, 10 * S, NOW);
	assert_false(provider_next_block(&f.provider, NOW, &change));
	tear_down(&f);
	set_up(&f, 64, by);
	provider_set_secret(&f.provider, secret);
	assert_true(provider_restore(&f.provider, &other, NOW));
	assert_int_equal(enter(&f, &w, 77, NOW).until, NOW + 30 * S);
	provider_release(&f.provider, take(&f, 78, NOW), NOW);
	tear_down(&f);
}

/* --- threads ------------------------------------------------------------------------------------ */

#define THREADS 4
#define EACH 4000

struct worker {
	struct fixture *f;
	struct gate_waiter *waiters;
	pthread_t thread;
	_Atomic usec_t *clock;
	unsigned seed;
	int opened;
};

static void *work(void *data)
{
	struct worker *worker = data;
	struct fixture *f = worker->f;

	for (int i = 0; i < EACH; i++) {
		struct gate_waiter *w = &worker->waiters[i];
		usec_t now = atomic_fetch_add(worker->clock, USEC_MS);
		struct gate_answer answer = enter(f, w, (uint64_t)(i % 5), now);
		struct gate_outcome outcome = advised(2 * USEC_MS);
		uint64_t ticket = answer.ticket;

		worker->seed = worker->seed * 1103515245U + 12345U;
		if (answer.why != GATE_OPEN && answer.until == USEC_MAX)
			ticket = provider_forget(&f->provider, w);
		if (ticket == 0)
			continue;
		worker->opened++;
		(void)provider_may_send(&f->provider, ticket, now);
		switch (worker->seed >> 16 & 3) {
		case 0:
			provider_release(&f->provider, ticket, now);
			break;
		case 1:
			provider_settle(&f->provider, ticket, &outcome, now);
			break;
		default:
			provider_settle(&f->provider, ticket, &well, now);
		}
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[THREADS] = {0};
	_Atomic usec_t now = NOW;
	struct fixture f;
	char by[] = "X-Bucket";

	(void)state;
	set_up(&f, 3, by);
	f.provider.on_block = NULL;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.f = &f, .clock = &now, .seed = i};
		workers[i].waiters = calloc(EACH, sizeof(*workers[i].waiters));
		assert_non_null(workers[i].waiters);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_true(workers[i].opened > 0);
	}
	tear_down(&f); /* nothing is used, nobody waits; and what was granted is in the inbox */
	for (int i = 0; i < THREADS; i++)
		free(workers[i].waiters);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_come),
		cmocka_unit_test(test_no_leak),
		cmocka_unit_test(test_w30),
		cmocka_unit_test(test_block_wakes_queue),
		cmocka_unit_test(test_wait_for_probe),
		cmocka_unit_test(test_probe_released),
		cmocka_unit_test(test_breaker),
		cmocka_unit_test(test_bucket),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_over),
		cmocka_unit_test(test_restore),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
