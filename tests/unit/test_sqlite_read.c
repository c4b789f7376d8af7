/* What the SQLite ledger finds: due rows, lists, counts; and what its retention takes. */
#include "sqlite_fixture.h"

/* A record without a lease in this state. */
static struct op record(int n, enum op_state state)
{
	struct op op = attempting(n);
	op.state = state;
	op.deadline = 0;
	op.lease_until = 0;
	memset(op.token, 0, sizeof(op.token));
	memset(op.owner, 0, sizeof(op.owner));
	if (state == OP_SUCCEEDED || state == OP_FAILED || state == OP_EXHAUSTED)
		op.terminal = op.updated;
	if (state == OP_HELD)
		op.held_since = op.updated;
	if (state == OP_UNKNOWN)
		op.unresolved.bits[0] = 1;
	return op;
}

static void put(struct ledger *ledger, const char *provider, const char *key, const struct op *op)
{
	struct ledger_request request = insert_of(LEDGER_CHANGE, key, op);
	request.name.provider = provider;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
}

/* The keys of an answer, in order, with a blank behind each. */
static const char *keys_of(const struct ledger_request *request, char text[256])
{
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < request->row_count; i++)
		len += (size_t)snprintf(text + len, 256 - len, "%s ", request->rows[i].key);
	return text;
}

static void due(void **state)
{
	struct fixture *fixture = *state;
	struct ledger *ledger = fixture->ledger;
	char keys[256];
	struct op op = attempting(1);
	snprintf(op.owner, sizeof(op.owner), "%s", ledger->ops->instance(ledger));
	op.lease_until = T0 + 10;
	put(ledger, "pay", "lease", &op);
	op.lease_until = T0 + 11;
	put(ledger, "pay", "lease-later", &op);
	op = record(2, OP_READY);
	op.deadline = T0 + 10;
	put(ledger, "mail", "window", &op);
	op.unresolved.bits[0] = 1;
	op.repeat_until = T0 + 10;
	put(ledger, "mail", "window-and-repeat", &op);
	op.deadline = T0 + 11;
	put(ledger, "mail", "repeat", &op);
	op.repeat_until = T0 + 11;
	put(ledger, "mail", "repeat-later", &op);
	op = record(3, OP_UNKNOWN);
	op.deadline = T0;
	put(ledger, "pay", "unknown", &op);
	op = record(4, OP_READY); /* never charged: no window */
	put(ledger, "pay", "uncharged", &op);

	struct ledger_request request = {.verb = LEDGER_DUE, .now = T0 + 10, .filter.limit = 100};
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_string_equal(keys_of(&request, keys), "lease window window-and-repeat repeat ");
	assert_int_equal(request.rows[0].op.state, OP_ATTEMPTING);
	assert_int_equal(request.rows[0].op.lease_until, T0 + 10);
	assert_string_equal(request.rows[1].provider, "mail");
	ledger_request_done(&request);

	request.filter.limit = 2;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_string_equal(keys_of(&request, keys), "lease window ");
	ledger_request_done(&request);
	request.now = T0 + 9;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.row_count, 0);
	ledger_request_done(&request);
}

static struct ledger_request list_of(void)
{
	return (struct ledger_request){.verb = LEDGER_LIST,
				       .filter = {.state = -1, .class = -1, .limit = 100}};
}

static void expect_list(struct ledger *ledger, struct ledger_request request, const char *expected)
{
	char keys[256];
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_string_equal(keys_of(&request, keys), expected);
	assert_null(request.cursor);
	ledger_request_done(&request);
}

static void list_filters(void **state)
{
	struct ledger *ledger = ((struct fixture *)*state)->ledger;
	for (int i = 0; i < OP_STATE_COUNT; i++) {
		struct op op = i == OP_ATTEMPTING ? attempting(i) : record(i, (enum op_state)i);
		op.class = i == OP_FAILED ? CLASS_INVALID : CLASS_NONE;
		if (i == OP_HELD)
			op.unresolved.bits[1] = 4;
		put(ledger, i % 2 ? "pay" : "mail", op_state_name((enum op_state)i), &op);
	}
	struct ledger_request list = list_of();
	expect_list(ledger, list, "held unknown exhausted failed succeeded attempting ready ");
	for (int i = 0; i < OP_STATE_COUNT; i++) {
		char expected[64];
		snprintf(expected, sizeof(expected), "%s ", op_state_name((enum op_state)i));
		list.filter.state = i;
		expect_list(ledger, list, i == OP_UNKNOWN ? "held unknown " : expected);
		list.filter.provider = i % 2 ? "pay" : "mail";
		list.filter.class = i == OP_FAILED ? CLASS_INVALID : CLASS_NONE;
		list.filter.before = T0 + i + 1;
		expect_list(ledger, list, i == OP_UNKNOWN ? "unknown " : expected);
		list.filter.before = T0 + i;
		expect_list(ledger, list, "");
		list = list_of();
	}
	list.filter.provider = "pay";
	expect_list(ledger, list, "unknown failed attempting ");
	list = list_of();
	list.filter.tenant = "other";
	expect_list(ledger, list, "");
	list.filter.tenant = "acme";
	list.filter.key_prefix = "h";
	expect_list(ledger, list, "held ");
	list.filter.key_prefix = "%"; /* no pattern */
	expect_list(ledger, list, "");
}

static void list_pages(void **state)
{
	struct ledger *ledger = ((struct fixture *)*state)->ledger;
	char seen[512] = "";
	for (int i = 0; i < 10; i++) {
		char key[12];
		struct op op = record(i / 4, OP_SUCCEEDED); /* equal creation times */
		snprintf(key, sizeof(key), "%d", i);
		struct ledger_request write = insert_of(LEDGER_CHANGE, key, &op);
		write.note = "{}";
		assert_int_equal(ask(ledger, &write), LEDGER_OK);
	}
	char *cursor = NULL;
	for (int page = 0; page < 4; page++) {
		struct ledger_request list = list_of();
		list.filter.limit = 3;
		list.filter.cursor = cursor;
		list.filter.want_notes = page > 0;
		assert_int_equal(ask(ledger, &list), LEDGER_OK);
		assert_int_equal(list.row_count, page < 3 ? 3 : 1);
		for (size_t i = 0; i < list.row_count; i++) {
			strncat(seen, list.rows[i].key, 1);
			assert_true((list.rows[i].notes != NULL) == (page > 0));
		}
		free(cursor);
		cursor = list.cursor;
		list.cursor = NULL;
		assert_true((cursor != NULL) == (page < 3));
		ledger_request_done(&list);
	}
	assert_string_equal(seen, "9876543210");

	const char *bad[] = {"", "x", "12", "12-", "12-x", "12-1 "};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ledger_request list = list_of();
		list.filter.cursor = bad[i];
		assert_int_equal(ask(ledger, &list), LEDGER_ABSENT);
	}
}

static void stats(void **state)
{
	struct ledger *ledger = ((struct fixture *)*state)->ledger;
	struct op op = record(1, OP_SUCCEEDED);
	op.class = CLASS_SUCCESS;
	put(ledger, "pay", "a", &op);
	put(ledger, "pay", "b", &op);
	op.tombstone = true;
	put(ledger, "pay", "c", &op);
	op.disputed = true;
	put(ledger, "mail", "a", &op);
	op = attempting(1);
	put(ledger, "pay", "d", &op);
	op = record(5, OP_UNKNOWN);
	put(ledger, "pay", "e", &op);
	op = record(4, OP_UNKNOWN);
	op.unkeyed = true;
	put(ledger, "pay", "f", &op);
	op = record(30, OP_READY);
	put(ledger, "pay", "g", &op);
	op.next = T0 + 20;
	put(ledger, "pay", "h", &op);
	op.next = T0 + 41;
	put(ledger, "mail", "i", &op);

	struct ledger_request request = {.verb = LEDGER_STATS, .now = T0 + 40};
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	char text[512] = "";
	size_t len = 0;
	for (size_t i = 0; i < request.stat_count; i++)
		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "%s/%s/%s=%d ", request.stats[i].provider,
			op_state_name(request.stats[i].state),
			outcome_class_name(request.stats[i].class), (int)request.stats[i].count);
	assert_string_equal(text, "mail/ready/none=1 mail/succeeded/success=1 "
				  "pay/attempting/none=1 pay/ready/none=2 pay/succeeded/success=3 "
				  "pay/unknown/none=2 ");
	assert_int_equal(request.provider_stat_count, 2);
	struct ledger_provider_stat *mail = &request.provider_stats[0], *pay = mail + 1;
	assert_string_equal(mail->provider, "mail");
	assert_int_equal(mail->unresolved, 0);
	assert_int_equal(mail->oldest_unresolved, 0);
	assert_int_equal(mail->disputed, 1);
	assert_int_equal(mail->oldest_eligible, 0);
	assert_string_equal(pay->provider, "pay");
	assert_int_equal(pay->unresolved, 2);
	assert_int_equal(pay->unresolved_keyed, 1);
	assert_int_equal(pay->oldest_unresolved, T0 + 4);
	assert_int_equal(pay->disputed, 0);
	assert_int_equal(pay->oldest_eligible, T0 + 20);
	ledger_request_done(&request);
}

static struct ledger_request retain_of(void)
{
	return (struct ledger_request){.verb = LEDGER_RETAIN, .retention.provider = "pay"};
}

static void retain_terminal(void **state)
{
	struct ledger *ledger = ((struct fixture *)*state)->ledger;
	struct op op = succeeded(attempting(1));
	op.reply_kept = true;
	snprintf(op.remote_id, sizeof(op.remote_id), "pay_1");
	struct ledger_texts texts = {.method = (char *)"POST", .target = (char *)"/v1"};
	struct ledger_request write = insert_of(LEDGER_CHANGE, "k", &op);
	write.texts = &texts;
	write.note = "{}";
	write.reply = make_reply(200, "", "secret");
	assert_int_equal(ask(ledger, &write), LEDGER_OK);
	ledger_reply_unref(write.reply);
	put(ledger, "mail", "k", &op);
	put(ledger, "pay", "younger", &(struct op){.state = OP_FAILED, .terminal = T0 + USEC_MIN});

	struct ledger_request request = retain_of();
	request.retention.replies_before = op.terminal;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.taken, 0);
	request.retention.replies_before = op.terminal + 1;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.taken, 1);
	assert_int_equal(request.dropped, 0);
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.taken, 0);

	struct ledger_request get = {
		.verb = LEDGER_GET, .name = named("k"), .filter.want_notes = true};
	assert_int_equal(ask(ledger, &get), LEDGER_OK);
	assert_true(get.found.op.tombstone);
	assert_false(get.found.op.reply_kept);
	assert_int_equal(get.found.op.counter, op.counter + 1); /* who has read it reads again */
	assert_int_equal(get.found.op.state, OP_SUCCEEDED);
	assert_int_equal(get.found.op.attempts, 1);
	assert_int_equal(get.found.op.terminal, op.terminal);
	assert_int_equal(get.found.op.ring[0].n, 0);
	assert_memory_equal(get.found.op.fingerprint, op.fingerprint, OP_FINGERPRINT_LEN);
	assert_string_equal(get.found.op.remote_id, "pay_1");
	assert_null(get.found.reply);
	assert_null(get.found.notes);
	assert_null(get.found.texts.target);
	ledger_request_done(&get);

	/* The record goes, also one that was never trimmed. */
	request.retention.replies_before = 0;
	request.retention.tombstones_before = T0 + USEC_MIN;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.taken, 1);
	assert_int_equal(state_of(ledger, "k"), -1);
	request.retention.tombstones_before = T0 + USEC_MIN + 1;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.taken, 1);
	request.retention.provider = "mail";
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.taken, 1);
}

static void retain_others(void **state)
{
	struct ledger *ledger = ((struct fixture *)*state)->ledger;
	struct op op = record(1, OP_HELD);
	put(ledger, "pay", "held", &op);
	op.unresolved.bits[0] = 1;
	put(ledger, "pay", "held-unresolved", &op);
	op = record(1, OP_READY);
	put(ledger, "pay", "charged", &op);
	op.attempts = 0;
	op.delivered = T0 + 1;
	put(ledger, "pay", "uncharged", &op);
	op.delivered = T0 + USEC_HOUR;
	put(ledger, "pay", "uncharged-but-delivered", &op);
	op = attempting(1);
	put(ledger, "pay", "attempting", &op);
	op = record(1, OP_UNKNOWN);
	put(ledger, "pay", "unknown", &op);

	struct ledger_request request = retain_of();
	request.retention.replies_before = request.retention.tombstones_before = T0 + USEC_MIN;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.taken, 2);
	assert_int_equal(request.dropped, 0);
	struct ledger_request list = list_of();
	expect_list(ledger, list,
		    "unknown attempting uncharged-but-delivered charged held-unresolved ");
}

static void retain_unknown(void **state)
{
	struct ledger *ledger = ((struct fixture *)*state)->ledger;
	for (int i = 0; i < 6; i++) {
		char key[12];
		struct op op = record(i, i == 1 ? OP_ATTEMPTING : OP_UNKNOWN);
		op.unresolved.bits[0] = 1;
		op.unkeyed = i < 5;
		snprintf(key, sizeof(key), "%d", i);
		put(ledger, "pay", key, &op);
	}
	struct ledger_request request = retain_of(), list = list_of();
	request.retention.unknown_before = T0 + 2; /* 0 is older, 1 is running */
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.dropped, 1);
	expect_list(ledger, list, "5 4 3 2 1 ");
	request.retention.unknown_max = 2; /* of 2, 3, 4 the oldest */
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.dropped, 1);
	assert_int_equal(request.taken, 1);
	expect_list(ledger, list, "5 4 3 1 ");
	request.retention.cost = true; /* the keyed one counts as well */
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.dropped, 1);
	expect_list(ledger, list, "5 4 1 ");
	request.retention.unknown_before = T0 + USEC_MIN;
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	assert_int_equal(request.dropped, 2);
	expect_list(ledger, list, "1 ");
}

static void retain_in_chunks(void **state)
{
	struct ledger *ledger = ((struct fixture *)*state)->ledger;
	enum { COUNT = 900 };
	struct ledger_request *writes = calloc(COUNT, sizeof(*writes));
	char(*keys)[12] = calloc(COUNT, sizeof(*keys));
	struct op op = record(1, OP_SUCCEEDED);
	assert_true(writes && keys);
	for (int i = 0; i < COUNT; i++) {
		snprintf(keys[i], sizeof(keys[i]), "%d", i);
		writes[i] = insert_of(LEDGER_CHANGE, keys[i], &op);
	}
	ask_all(ledger, writes, COUNT);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(writes[i].result, LEDGER_OK);
	struct ledger_request request = retain_of();
	request.retention.replies_before = T0 + USEC_MIN;
	const int expected[] = {500, 400, 0};
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask(ledger, &request), LEDGER_OK);
		assert_int_equal(request.taken, expected[i]);
	}
	request.retention.tombstones_before = T0 + USEC_MIN;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask(ledger, &request), LEDGER_OK);
		assert_int_equal(request.taken, expected[i]);
	}
	free(keys);
	free(writes);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(due),
		TEST(list_filters),
		TEST(list_pages),
		TEST(stats),
		TEST(retain_terminal),
		TEST(retain_others),
		TEST(retain_unknown),
		TEST(retain_in_chunks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
