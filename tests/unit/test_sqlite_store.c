/* The verbs of the SQLite ledger. */
#include "sqlite_fixture.h"

#define SAME(member) assert_int_equal(a->member, b->member)
#define SAME_BYTES(member) assert_memory_equal(a->member, b->member, sizeof(a->member))

static void assert_same_attempt(const struct op_attempt *a, const struct op_attempt *b)
{
	SAME(start);
	SAME(ms);
	SAME(status);
	SAME(n);
	SAME(class);
	SAME(effect);
	SAME(fault);
	SAME(has_verdict);
	SAME_BYTES(token);
	assert_string_equal(a->instance, b->instance);
}

static void assert_same_op(const struct op *a, const struct op *b)
{
	SAME_BYTES(incarnation);
	SAME(counter);
	SAME(state);
	SAME(disputed);
	SAME(quarantined);
	SAME(tombstone);
	SAME(unkeyed);
	SAME(reply_kept);
	SAME_BYTES(fingerprint);
	SAME(attempts);
	SAME(limit);
	SAME(generation);
	SAME(generation_first);
	SAME(unresolved.bits[0]);
	SAME(unresolved.bits[1]);
	SAME(created);
	SAME(updated);
	SAME(next);
	SAME(deadline);
	SAME(repeat_until);
	SAME(terminal);
	SAME(held_since);
	SAME(last_end);
	SAME(delivered);
	SAME_BYTES(token);
	assert_string_equal(a->owner, b->owner);
	SAME(lease_until);
	SAME(last_n);
	SAME(class);
	SAME(effect);
	SAME(fault);
	SAME(status);
	SAME(retry_never);
	assert_string_equal(a->reason, b->reason);
	SAME(settled_by_hand);
	SAME(success_repeatable);
	SAME_BYTES(credential);
	assert_string_equal(a->remote_id, b->remote_id);
	for (int i = 0; i < OP_RING; i++)
		assert_same_attempt(&a->ring[i], &b->ring[i]);
}

/* Every member at a value of its own, texts at their longest. */
static struct op full_op(void)
{
	struct op op = {
		.counter = UINT32_MAX,
		.state = OP_HELD,
		.disputed = true,
		.quarantined = true,
		.tombstone = true,
		.unkeyed = true,
		.reply_kept = true,
		.attempts = 99,
		.limit = 100,
		.generation = 3,
		.generation_first = 97,
		.unresolved = {{1ULL << 63 | 5, 1ULL << 35}},
		.created = T0,
		.updated = T0 + 1,
		.next = T0 + 2,
		.deadline = USEC_MAX,
		.repeat_until = T0 + 4,
		.terminal = T0 + 5,
		.held_since = T0 + 6,
		.last_end = T0 + 7,
		.delivered = T0 + 8,
		.lease_until = T0 + 9,
		.last_n = 98,
		.class = CLASS_RATE_LIMITED,
		.effect = EFFECT_POSSIBLE,
		.fault = FAULT_HIDDEN_RESEND,
		.status = 429,
		.retry_never = true,
		.settled_by_hand = true,
		.success_repeatable = true,
	};
	for (int i = 0; i < OP_FINGERPRINT_LEN; i++)
		op.fingerprint[i] = (uint8_t)(i + 200);
	for (int i = 0; i < 16; i++) {
		op.incarnation[i] = (uint8_t)i;
		op.token[i] = (uint8_t)(i + 100);
		op.credential[i] = (uint8_t)(255 - i);
	}
	memset(op.owner, 'o', sizeof(op.owner) - 1);
	memset(op.reason, 'r', sizeof(op.reason) - 1);
	memset(op.remote_id, 'i', sizeof(op.remote_id) - 1);
	for (int n = 85; n <= 100; n++) {
		struct op_attempt *attempt = &op.ring[(n - 1) % OP_RING];
		*attempt = (struct op_attempt){
			.start = INT64_MAX - n,
			.ms = UINT32_MAX,
			.status = UINT16_MAX,
			.n = (uint8_t)n,
			.class = CLASS_RATE_LIMITED,
			.effect = EFFECT_POSSIBLE,
			.fault = FAULT_CONNECT_TIMEOUT,
			.has_verdict = n % 2 == 0,
		};
		memset(attempt->token, n, sizeof(attempt->token));
		memset(attempt->instance, 'a', sizeof(attempt->instance) - 1);
	}
	return op;
}

static void round_trip(void **state)
{
	struct fixture *fixture = *state;
	struct op op = full_op();
	struct ledger_texts texts = {(char *)"POST", (char *)"/v1/x?a=redacted",
				     (char *)"\"quoted key\"", (char *)"old", (char *)"new"};
	struct ledger_request write = insert_of(LEDGER_CHANGE, "k", &op);
	write.texts = &texts;
	write.note = "{\"kind\":\"operator\"}";
	write.reply = ledger_reply_new(429, strdup("A: b\r\nC: \xff\r\n"), 12,
				       memcpy(malloc(3), "a\0b", 3), 3);
	write.reply->close_delimited = true;
	assert_int_equal(ask(fixture->ledger, &write), LEDGER_OK);
	ledger_reply_unref(write.reply);

	struct ledger_request get = {
		.verb = LEDGER_GET, .name = named("k"), .filter.want_notes = true};
	assert_int_equal(ask(fixture->ledger, &get), LEDGER_OK);
	assert_string_equal(get.found.provider, "pay");
	assert_string_equal(get.found.tenant, "acme");
	assert_string_equal(get.found.scope, "");
	assert_string_equal(get.found.key, "k");
	assert_same_op(&get.found.op, &op);
	assert_string_equal(get.found.texts.method, "POST");
	assert_string_equal(get.found.texts.target, "/v1/x?a=redacted");
	assert_string_equal(get.found.texts.upstream_key, "\"quoted key\"");
	assert_string_equal(get.found.texts.corrects, "old");
	assert_string_equal(get.found.texts.corrected_by, "new");
	assert_string_equal(get.found.notes, "{\"kind\":\"operator\"}");
	assert_non_null(get.found.reply);
	assert_int_equal(get.found.reply->status, 429);
	assert_int_equal(get.found.reply->head_len, 12);
	assert_memory_equal(get.found.reply->head, "A: b\r\nC: \xff\r\n", 12);
	assert_int_equal(get.found.reply->body_len, 3);
	assert_memory_equal(get.found.reply->body, "a\0b", 3);
	assert_true(get.found.reply->close_delimited);
	ledger_request_done(&get);
}

static void claim_and_conflict(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(1), other = attempting(2);
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &op);
	assert_int_equal(ask(fixture->ledger, &claim), LEDGER_OK);
	assert_null(claim.found.provider);

	struct ledger_request second = insert_of(LEDGER_CLAIM, "k", &other);
	assert_int_equal(ask(fixture->ledger, &second), LEDGER_CONFLICT);
	assert_same_op(&second.found.op, &op);
	ledger_request_done(&second);

	/* A name is all four of its parts. */
	struct ledger_request tenant = insert_of(LEDGER_CLAIM, "k", &other);
	tenant.name.tenant = "";
	assert_int_equal(ask(fixture->ledger, &tenant), LEDGER_OK);
	struct ledger_request scope = insert_of(LEDGER_CLAIM, "k", &other);
	scope.name.scope = "acme";
	assert_int_equal(ask(fixture->ledger, &scope), LEDGER_OK);
}

static void claim_repeated(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(1), other = op;
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &op);
	assert_int_equal(ask(fixture->ledger, &claim), LEDGER_OK);
	/* The same token again: its answer was lost, and nothing more is charged. */
	assert_int_equal(ask(fixture->ledger, &claim), LEDGER_OK);
	assert_null(claim.found.provider);
	other.incarnation[0]++;
	struct ledger_request stranger = insert_of(LEDGER_CLAIM, "k", &other);
	assert_int_equal(ask(fixture->ledger, &stranger), LEDGER_CONFLICT);
	ledger_request_done(&stranger);
}

static void claim_of_ready(void **state)
{
	struct fixture *fixture = *state;
	struct op ready = attempting(1), claimed;
	ready.state = OP_READY;
	ready.counter = 4;
	insert(fixture->ledger, "k", &ready);
	claimed = attempting(1);
	claimed.counter = 5;

	struct ledger_request stale = swap_of(LEDGER_CLAIM, "k", &claimed, 3);
	assert_int_equal(ask(fixture->ledger, &stale), LEDGER_CONFLICT);
	assert_int_equal(stale.found.op.counter, 4);
	ledger_request_done(&stale);
	struct op stranger = claimed;
	stranger.incarnation[0]++;
	struct ledger_request other = swap_of(LEDGER_CLAIM, "k", &stranger, 4);
	assert_int_equal(ask(fixture->ledger, &other), LEDGER_CONFLICT);
	ledger_request_done(&other);
	struct ledger_request absent = swap_of(LEDGER_CLAIM, "nobody", &claimed, 4);
	assert_int_equal(ask(fixture->ledger, &absent), LEDGER_ABSENT);
	struct ledger_request good = swap_of(LEDGER_CLAIM, "k", &claimed, 4);
	assert_int_equal(ask(fixture->ledger, &good), LEDGER_OK);
	assert_int_equal(state_of(fixture->ledger, "k"), OP_ATTEMPTING);
}

static void settle_needs_token_and_version(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(7), done = succeeded(op);
	insert(fixture->ledger, "k", &op);

	struct ledger_request thief = settle_of("k", &done, 1, 8);
	assert_int_equal(ask(fixture->ledger, &thief), LEDGER_CONFLICT);
	assert_int_equal(thief.found.op.state, OP_ATTEMPTING);
	ledger_request_done(&thief);
	struct ledger_request stale = settle_of("k", &done, 2, 7);
	assert_int_equal(ask(fixture->ledger, &stale), LEDGER_CONFLICT);
	ledger_request_done(&stale);
	struct ledger_request absent = settle_of("nobody", &done, 1, 7);
	assert_int_equal(ask(fixture->ledger, &absent), LEDGER_ABSENT);
	assert_int_equal(state_of(fixture->ledger, "k"), OP_ATTEMPTING);

	struct ledger_request good = settle_of("k", &done, 1, 7);
	assert_int_equal(ask(fixture->ledger, &good), LEDGER_OK);
	assert_int_equal(state_of(fixture->ledger, "k"), OP_SUCCEEDED);
	/* The lease is gone, so the same settle cannot match again. */
	assert_int_equal(ask(fixture->ledger, &good), LEDGER_CONFLICT);
	ledger_request_done(&good);
	/* A record without a lease is not matched by an empty token. */
	struct op later = done;
	later.counter++;
	struct ledger_request empty = settle_of("k", &later, 2, 0);
	assert_int_equal(ask(fixture->ledger, &empty), LEDGER_CONFLICT);
	ledger_request_done(&empty);
}

static struct ledger_reply *reply_of(struct fixture *fixture, const char *key)
{
	struct ledger_request get = {.verb = LEDGER_GET, .name = named(key)};
	assert_int_equal(ask(fixture->ledger, &get), LEDGER_OK);
	struct ledger_reply *reply = ledger_reply_ref(get.found.reply);
	ledger_request_done(&get);
	return reply;
}

static void reply_is_kept(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(1), done = succeeded(op);
	done.reply_kept = true;
	insert(fixture->ledger, "k", &op);
	assert_null(reply_of(fixture, "k"));
	struct ledger_request settle = settle_of("k", &done, 1, 1);
	settle.reply = make_reply(201, "Location: /1\r\n", "made");
	assert_int_equal(ask(fixture->ledger, &settle), LEDGER_OK);
	assert_int_equal(atomic_load(&settle.reply->refs), 1);
	ledger_reply_unref(settle.reply);

	/* A change without a reply leaves it; it survives the process. */
	done.counter = 3;
	struct ledger_request change = swap_of(LEDGER_CHANGE, "k", &done, 2);
	assert_int_equal(ask(fixture->ledger, &change), LEDGER_OK);
	fixture_close(fixture);
	fixture_open(fixture);
	struct ledger_reply *reply = reply_of(fixture, "k");
	assert_non_null(reply);
	assert_int_equal(reply->status, 201);
	assert_int_equal(reply->head_len, 14);
	assert_memory_equal(reply->head, "Location: /1\r\n", 14);
	assert_int_equal(reply->body_len, 4);
	assert_memory_equal(reply->body, "made", 4);
	assert_false(reply->close_delimited);
	ledger_reply_unref(reply);

	/* A record that keeps none drops it. */
	done.counter = 4;
	done.reply_kept = false;
	change = swap_of(LEDGER_CHANGE, "k", &done, 3);
	assert_int_equal(ask(fixture->ledger, &change), LEDGER_OK);
	assert_null(reply_of(fixture, "k"));
}

static void renew(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(3);
	insert(fixture->ledger, "k", &op);
	struct ledger_request request = {
		.verb = LEDGER_RENEW, .name = named("k"), .lease_until = T0 + USEC_MIN};
	memset(request.incarnation, 3, OP_INCARNATION_LEN);
	memset(request.token, 3, OP_TOKEN_LEN);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_OK);

	struct ledger_request get = {.verb = LEDGER_GET, .name = named("k")};
	assert_int_equal(ask(fixture->ledger, &get), LEDGER_OK);
	op.lease_until = T0 + USEC_MIN;
	assert_same_op(&get.found.op, &op);
	ledger_request_done(&get);

	memset(request.token, 4, OP_TOKEN_LEN);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_CONFLICT);
	memset(request.token, 3, OP_TOKEN_LEN);
	memset(request.incarnation, 4, OP_INCARNATION_LEN);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_CONFLICT);
	request.name.key = "nobody";
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_CONFLICT);
}

static struct ledger_request void_of(const char *key, uint8_t n, usec_t now)
{
	struct ledger_request request = {.verb = LEDGER_VOID, .name = named(key), .now = now};
	memset(request.incarnation, n, OP_INCARNATION_LEN);
	memset(request.token, n, OP_TOKEN_LEN);
	return request;
}

static void void_finds_its_claim(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(5), done;
	insert(fixture->ledger, "k", &op);
	struct ledger_request request = void_of("k", 5, T0);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_OK);
	assert_same_op(&request.found.op, &op);
	ledger_request_done(&request);

	/* In the ring after its lease ran out, whatever the version. */
	done = succeeded(op);
	done.counter = 9;
	struct ledger_request settle = settle_of("k", &done, 1, 5);
	assert_int_equal(ask(fixture->ledger, &settle), LEDGER_OK);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_OK);
	assert_int_equal(request.found.op.counter, 9);
	ledger_request_done(&request);

	/* The right token in another incarnation is another's. */
	memset(request.incarnation, 6, OP_INCARNATION_LEN);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_ABSENT);
	assert_null(request.found.provider);
}

static void void_comes_first(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(5);
	struct ledger_request request = void_of("k", 5, T0);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_ABSENT);
	assert_int_equal(ask(fixture->ledger, &request), LEDGER_ABSENT);

	struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &op);
	claim.now = T0 + 59 * USEC_SEC;
	assert_int_equal(ask(fixture->ledger, &claim), LEDGER_CONFLICT);
	assert_null(claim.found.provider);
	assert_int_equal(state_of(fixture->ledger, "k"), -1);

	/* As a swap too; then `found` says what is there. */
	struct op ready = op;
	ready.state = OP_READY;
	insert(fixture->ledger, "k", &ready);
	op.counter = 2;
	struct ledger_request swap = swap_of(LEDGER_CLAIM, "k", &op, 1);
	assert_int_equal(ask(fixture->ledger, &swap), LEDGER_CONFLICT);
	assert_int_equal(swap.found.op.state, OP_READY);
	ledger_request_done(&swap);

	swap.now = T0 + 60 * USEC_SEC;
	assert_int_equal(ask(fixture->ledger, &swap), LEDGER_OK);
}

static void void_memory_is_bounded(void **state)
{
	struct fixture *fixture = *state;
	for (int i = 0; i < 1025; i++) {
		struct ledger_request request = void_of("k", 0, T0);
		memcpy(request.token, &i, sizeof(i));
		assert_int_equal(ask(fixture->ledger, &request), LEDGER_ABSENT);
	}
	for (int i = 0; i < 1025; i += 1024) {
		struct op op = attempting(0);
		memset(op.token, 0, sizeof(op.token));
		memcpy(op.token, &i, sizeof(i));
		struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &op);
		assert_int_equal(ask(fixture->ledger, &claim), i ? LEDGER_CONFLICT : LEDGER_OK);
		ledger_request_done(&claim);
	}
}

static void texts_stay(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(1);
	struct ledger_texts first = {.method = (char *)"PUT", .target = (char *)"/a"};
	struct ledger_texts second = {.target = (char *)"/b", .corrected_by = (char *)"c"};
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &op);
	claim.texts = &first;
	assert_int_equal(ask(fixture->ledger, &claim), LEDGER_OK);
	op.counter = 2;
	struct ledger_request change = swap_of(LEDGER_CHANGE, "k", &op, 1);
	change.texts = &second;
	assert_int_equal(ask(fixture->ledger, &change), LEDGER_OK);
	struct ledger_request get = {.verb = LEDGER_GET, .name = named("k")};
	assert_int_equal(ask(fixture->ledger, &get), LEDGER_OK);
	assert_string_equal(get.found.texts.method, "PUT");
	assert_string_equal(get.found.texts.target, "/b");
	assert_null(get.found.texts.corrects);
	assert_string_equal(get.found.texts.corrected_by, "c");
	assert_null(get.found.notes);
	ledger_request_done(&get);
}

static void notes_append_within_a_bound(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(1);
	insert(fixture->ledger, "k", &op);
	for (int i = 0; i < 1200; i++) {
		char note[128];
		snprintf(note, sizeof(note), "{\"n\":%d,\"text\":\"%080d\"}", i, i);
		struct ledger_request change = swap_of(LEDGER_CHANGE, "k", &op, op.counter);
		op.counter++;
		change.note = note;
		assert_int_equal(ask(fixture->ledger, &change), LEDGER_OK);
		if (i != 1)
			continue;
		struct ledger_request get = {
			.verb = LEDGER_GET, .name = named("k"), .filter.want_notes = true};
		assert_int_equal(ask(fixture->ledger, &get), LEDGER_OK);
		assert_non_null(strstr(get.found.notes, "}\n{\"n\":1,"));
		ledger_request_done(&get);
	}
	struct ledger_request get = {
		.verb = LEDGER_GET, .name = named("k"), .filter.want_notes = true};
	assert_int_equal(ask(fixture->ledger, &get), LEDGER_OK);
	assert_true(strlen(get.found.notes) < 66000);
	assert_memory_equal(get.found.notes, "{\"n\":", 5);
	assert_non_null(strstr(get.found.notes, "\n{\"n\":1199,"));
	ledger_request_done(&get);
}

/* A batch: in order, and a request that cannot be written fails alone. */
static void batch_is_in_order(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(1), done = succeeded(op), bad = attempting(2);
	struct ledger_request requests[6] = {
		insert_of(LEDGER_CLAIM, "k", &op),        insert_of(LEDGER_CLAIM, NULL, &bad),
		{.verb = LEDGER_GET, .name = named("k")}, settle_of("k", &done, 1, 1),
		{.verb = LEDGER_GET, .name = named("k")}, insert_of(LEDGER_CLAIM, "k", &bad),
	};
	ask_all(fixture->ledger, requests, 6);
	assert_int_equal(requests[0].result, LEDGER_OK);
	assert_int_equal(requests[1].result, LEDGER_AWAY);
	assert_non_null(requests[1].error);
	assert_int_equal(requests[2].result, LEDGER_OK);
	assert_int_equal(requests[2].found.op.state, OP_ATTEMPTING);
	assert_int_equal(requests[3].result, LEDGER_OK);
	assert_int_equal(requests[4].result, LEDGER_OK);
	assert_int_equal(requests[4].found.op.state, OP_SUCCEEDED);
	assert_int_equal(requests[5].result, LEDGER_CONFLICT);
	for (int i = 0; i < 6; i++)
		ledger_request_done(&requests[i]);
	assert_null(fixture->ledger->ops->health(fixture->ledger));
}

static void queue_is_bounded(void **state)
{
	struct fixture *fixture = *state;
	struct ledger *ledger;
	char error[512];
	fixture_close(fixture);
	assert_int_equal(sqlite_store_open(fixture->path, false, 0, error, sizeof(error), &ledger),
			 0);
	struct op op = attempting(1);
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &op);
	assert_int_equal(ask(ledger, &claim), LEDGER_AWAY);
	assert_non_null(claim.error);
	struct ledger_request list = {.verb = LEDGER_LIST, .filter = {.state = -1, .class = -1}};
	assert_int_equal(ask(ledger, &list), LEDGER_AWAY);
	ledger->ops->close(ledger);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(round_trip),
		TEST(claim_and_conflict),
		TEST(claim_repeated),
		TEST(claim_of_ready),
		TEST(settle_needs_token_and_version),
		TEST(reply_is_kept),
		TEST(renew),
		TEST(void_finds_its_claim),
		TEST(void_comes_first),
		TEST(void_memory_is_bounded),
		TEST(texts_stay),
		TEST(notes_append_within_a_bound),
		TEST(batch_is_in_order),
		TEST(queue_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
