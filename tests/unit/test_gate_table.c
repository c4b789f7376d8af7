/* pure-test */
/* Gates by bucket in a bounded table. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "budget/gate_table.h"

#define S USEC_SEC
#define T0 (1000 * S)
#define CAP (60 * S)
#define LEASE (15 * S)

static const struct gate_policy policy = {.failures = 3, .open = S, .max = S, .ramp = S};

static struct gate_slot slots[GATE_BUCKETS_MAX + 1]; /* each test begins with gate_table_init() */

static void close_slot(struct gate_slot *slot, usec_t advice, usec_t now)
{
	struct gate_outcome outcome = {
		.repeatable_class = true, .rate_limited = true, .advice = advice};
	struct gate_answer answer = gate_take(&slot->gate, now, LEASE);

	assert_int_equal(answer.why, GATE_OPEN);
	gate_settle(&slot->gate, answer.ticket, &outcome, CAP, now);
}

static void test_one_for_all(void **state)
{
	struct gate_table table;

	(void)state;
	gate_table_init(&table, slots, 1, 7, &policy);
	assert_ptr_equal(gate_table_at(&table, 0, T0), &slots[0]);
	assert_ptr_equal(gate_table_at(&table, 12345, T0), &slots[0]);
	assert_int_equal(slots[0].gate.limit, 7);
	assert_int_equal(slots[0].gate.policy.failures, 3);
}

static void test_each_its_own(void **state)
{
	struct gate_slot *a, *b;
	struct gate_table table;
	usec_t until;

	(void)state;
	gate_table_init(&table, slots, GATE_BUCKETS_MAX + 1, 7, &policy);
	a = gate_table_at(&table, 5, T0);
	b = gate_table_at(&table, 5 + GATE_HEADS, T0); /* of one chain */
	assert_ptr_not_equal(a, b);
	assert_ptr_not_equal(a, &slots[0]);
	assert_ptr_equal(gate_table_at(&table, 5, T0), a);
	assert_int_equal(b->gate.policy.ramp, S);
	close_slot(a, 30 * S, T0);
	assert_int_equal(gate_look(&a->gate, T0, 0, &until), GATE_BLOCKED);
	assert_int_equal(gate_look(&b->gate, T0, 0, &until), GATE_OPEN);
	assert_int_equal(gate_look(&slots[0].gate, T0, 0, &until), GATE_OPEN);
}

/* Only an idle one gives way, and of these the one that was not used for the longest time. */
static void test_full(void **state)
{
	struct gate_slot *blocked, *waited, *stored, *out, *old, *newer, *got;
	struct gate_table table;
	uint64_t ticket;

	(void)state;
	gate_table_init(&table, slots, 7, 7, &policy);
	blocked = gate_table_at(&table, 1, T0);
	waited = gate_table_at(&table, 2, T0);
	stored = gate_table_at(&table, 3, T0);
	out = gate_table_at(&table, 4, T0);
	old = gate_table_at(&table, 5, T0);
	newer = gate_table_at(&table, 6, T0);
	close_slot(blocked, 30 * S, T0);
	waited->waiting = 1;
	stored->stored = true;
	ticket = gate_take(&out->gate, T0, LEASE).ticket;
	old->gate.failures = 2;
	assert_ptr_equal(gate_table_at(&table, 6, T0 + 2 * S), newer);
	assert_ptr_equal(gate_table_at(&table, 5, T0 + S), old);

	got = gate_table_at(&table, 7, T0 + 3 * S);
	assert_ptr_equal(got, old);
	assert_int_equal(got->bucket, 7);
	assert_int_equal(got->gate.failures, 0);
	got->waiting = 1;
	assert_ptr_equal(gate_table_at(&table, 5, T0 + 4 * S), newer);
	newer->waiting = 1;
	/* None is idle: the surplus shares one. */
	assert_ptr_equal(gate_table_at(&table, 6, T0 + 5 * S), &slots[0]);
	assert_ptr_equal(gate_table_at(&table, 8, T0 + 5 * S), &slots[0]);
	/* Those that are there keep theirs. */
	assert_ptr_equal(gate_table_at(&table, 1, T0 + 5 * S), blocked);
	assert_ptr_equal(gate_table_at(&table, 4, T0 + 5 * S), out);
	gate_release(&out->gate, ticket);
	assert_ptr_equal(gate_table_at(&table, 9, T0 + 6 * S), out);
	out->waiting = 1;
	assert_ptr_equal(gate_table_at(&table, 10, T0 + 29 * S), &slots[0]);
	assert_ptr_equal(gate_table_at(&table, 10, T0 + 31 * S), blocked);
}

/* Many buckets come and go: each finds its own again, and none is in two chains. */
static void test_churn(void **state)
{
	struct gate_table table;
	uint64_t seed = 88172645463325252U;

	(void)state;
	gate_table_init(&table, slots, GATE_BUCKETS_MAX + 1, 7, &policy);
	for (int i = 0; i < 50000; i++) {
		uint64_t bucket;
		struct gate_slot *slot;
		int seen = 0;

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		bucket = 1 + seed % 3000;
		slot = gate_table_at(&table, bucket, T0 + i);
		assert_int_equal(slot->bucket, bucket);
		assert_ptr_equal(gate_table_at(&table, bucket, T0 + i), slot);
		if (i % 1000 != 0)
			continue;
		for (int head = 0; head < GATE_HEADS; head++)
			for (int at = table.heads[head]; at != 0; at = slots[at].next)
				seen++;
		assert_int_equal(seen, table.count - 1);
	}
	assert_int_equal(table.count, GATE_BUCKETS_MAX + 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_for_all),
		cmocka_unit_test(test_each_its_own),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_churn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
