#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "admin_fixture.h"

#define T0 (1764504000 * USEC_SEC)
#define TARGET "/v1/operations/pay/k/release?tenant=acme"
#define VERSION "abababababababababababababababab-7"
#define GOOD "{\"version\":\"" VERSION "\",\"actor\":\"ada\",\"reason\":\"new key\"}"

static struct reply *post(const struct fixture *f, const char *target, const char *body)
{
	char *request = NULL;
	struct reply *reply;
	int fd = caller_connect(f);

	assert_true(asprintf(&request,
			     "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
			     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			     target, strlen(body), body) > 0);
	caller_send(fd, request);
	free(request);
	reply = caller_read(fd);
	return reply;
}

static void assert_status(const struct fixture *f, const char *target, const char *body, int status)
{
	struct reply *reply = post(f, target, body);

	if (reply->status != status)
		fail_msg("%d for %s: %s", reply->status, body, reply->body);
	if (status != 200)
		assert_non_null(strstr(reply->head, "application/problem+json"));
	reply_done(reply);
}

static const char *text(const json_t *object, const char *name)
{
	const char *found = json_string_value(json_object_get(object, name));

	return found != NULL ? found : "(absent)";
}

/* One operation that is held since ten seconds ago for its credential, with one attempt of three. */
static struct fixture *start_held(void)
{
	struct fixture *f = fixture_new();
	struct ledger_row *row = &f->fake.rows[f->fake.row_count++];
	struct op *op = &row->op;
	usec_t now = wall_clock_now(&f->app.clock);

	f->app.providers[0].auth_pause = auth_pause_new(1);
	assert_non_null(f->app.providers[0].auth_pause);
	*row = (struct ledger_row){
		.provider = TEXT("pay"),
		.tenant = TEXT("acme"),
		.scope = TEXT(""),
		.key = TEXT("k"),
		.texts = {.method = TEXT("POST"), .target = TEXT("/charge")},
		.notes = TEXT("{\"kind\":\"late\",\"at\":\"2025-11-30T12:00:02.500Z\",\"n\":1}")};
	memset(op->incarnation, 0xab, sizeof(op->incarnation));
	memset(op->credential, 0x11, sizeof(op->credential));
	op->counter = 7;
	op->state = OP_HELD;
	op->attempts = 1;
	op->limit = 3;
	op->created = now - 20 * USEC_SEC;
	op->held_since = now - 10 * USEC_SEC;
	op->deadline = now + USEC_HOUR;
	op->last_n = 1;
	op->class = CLASS_AUTH;
	op->status = 401;
	op->ring[0] = (struct op_attempt){.n = 1,
					  .start = now - 15 * USEC_SEC,
					  .ms = 40,
					  .class = CLASS_AUTH,
					  .status = 401,
					  .has_verdict = true};
	fixture_start(f);
	return f;
}

static void test_release(void **state)
{
	struct fixture *f = start_held();
	struct auth_pause *pause = f->app.providers[0].auth_pause;
	struct op *op = &f->fake.rows[0].op;
	usec_t deadline = op->deadline;
	const json_t *history, *entry;
	struct reply *reply;

	(void)state;
	auth_pause_report(pause, op->credential, AUTH_REPORT_REFUSED, USEC_SEC);
	assert_int_equal(auth_pause_count(pause), 1);
	reply = post(f, TARGET, GOOD);
	assert_int_equal(reply->status, 200);
	assert_string_equal(text(reply->json, "state"), "ready");
	assert_string_equal(text(reply->json, "version"), "abababababababababababababababab-8");
	assert_int_equal(json_integer_value(json_object_get(reply->json, "attempts")), 1);
	history = json_object_get(reply->json, "history");
	assert_int_equal(json_array_size(history), 3);
	entry = json_array_get(history, 2);
	assert_string_equal(text(entry, "kind"), "operator");
	assert_string_equal(text(entry, "action"), "release");
	assert_string_equal(text(entry, "actor"), "ada");
	assert_string_equal(text(entry, "reason"), "new key");
	assert_int_equal(strlen(text(entry, "at")), strlen("2025-11-30T12:00:02.500Z"));
	reply_done(reply);
	assert_int_equal(f->fake.verb, LEDGER_CHANGE);
	assert_int_equal(f->fake.asked, 2);
	assert_string_equal(f->fake.name[1], "acme");
	assert_int_equal(op->state, OP_READY);
	assert_int_equal(op->counter, 8);
	/* The ten seconds that it was held do not count. */
	assert_in_range(op->deadline - deadline, 10 * USEC_SEC, 40 * USEC_SEC);
	assert_non_null(strstr(f->fake.note, "\"action\":\"release\""));
	assert_null(strchr(f->fake.note, '\n'));
	assert_int_equal(auth_pause_count(pause), 0);
	/* It is not held any more: by the old version, and by the new one. */
	assert_status(f, TARGET, GOOD, 409);
	assert_status(f, TARGET,
		      "{\"version\":\"abababababababababababababababab-8\",\"actor\":\"a\","
		      "\"reason\":\"r\"}",
		      409);
	fixture_stop(f);
}

static void test_refused(void **state)
{
	struct fixture *f = start_held();
	struct op before = f->fake.rows[0].op;
	struct reply *reply;

	(void)state;
	assert_status(f, "/v1/operations/pay/k/release", GOOD, 404);
	assert_status(f, "/v1/operations/pay/other/release?tenant=acme", GOOD, 404);
	assert_status(f, "/v1/operations/pay/k/release?tenant=acme&scope=eu", GOOD, 404);
	assert_status(f, "/v1/operations/pay/k/release?tenant=acme&state=held", GOOD, 400);
	assert_status(f, "/v1/operations/pay/%zz/release?tenant=acme", GOOD, 400);
	reply = post(f, TARGET,
		     "{\"version\":\"abababababababababababababababab-6\",\"actor\":\"a\","
		     "\"reason\":\"r\"}");
	assert_int_equal(reply->status, 409);
	assert_string_equal(text(reply->json, "version"), VERSION);
	assert_string_equal(text(reply->json, "state"), "held");
	reply_done(reply);
	assert_memory_equal(&f->fake.rows[0].op, &before, sizeof(before));
	f->fake.race = true; /* somebody is faster between the reading and the writing */
	assert_status(f, TARGET, GOOD, 409);
	assert_int_equal(f->fake.rows[0].op.state, OP_HELD);
	f->fake.race = false;
	f->fake.result = LEDGER_AWAY;
	f->fake.error = "disk full";
	assert_status(f, TARGET, GOOD, 503);
	fixture_stop(f);
}

/* Whatever state it is in but held, and a provider that is gone from the configuration. */
static void test_states(void **state)
{
	struct fixture *f = start_held();

	(void)state;
	for (int i = 0; i < OP_STATE_COUNT; i++) {
		if (i == OP_HELD)
			continue;
		f->fake.rows[0].op.state = (enum op_state)i;
		assert_status(f, TARGET, GOOD, 409);
		assert_int_equal(f->fake.rows[0].op.state, i);
	}
	f->fake.rows[0].op.state = OP_HELD;
	f->fake.rows[0].provider = TEXT("old");
	assert_status(f, "/v1/operations/old/k/release?tenant=acme", GOOD, 409);
	assert_int_equal(f->fake.rows[0].op.counter, 7);
	fixture_stop(f);
}

static void test_bodies(void **state)
{
	static const struct {
		const char *body;
		int status;
	} cases[] = {
		{"", 400},
		{"{", 400},
		{"[]", 400},
		{"\"x\"", 400},
		{GOOD "x", 400},
		{"{}", 428},
		{"{\"actor\":\"a\",\"reason\":\"r\"}", 428},
		{"{\"version\":7,\"actor\":\"a\",\"reason\":\"r\"}", 400},
		{"{\"version\":null,\"actor\":\"a\",\"reason\":\"r\"}", 400},
		{"{\"version\":\"v\",\"reason\":\"r\"}", 400},
		{"{\"version\":\"v\",\"actor\":\"a\"}", 400},
		{"{\"version\":\"v\",\"actor\":\"\",\"reason\":\"r\"}", 400},
		{"{\"version\":\"v\",\"actor\":\"a\",\"reason\":\"  \"}", 400},
		{"{\"version\":\"v\",\"actor\":[\"a\"],\"reason\":\"r\"}", 400},
		{"{\"version\":\"v\",\"actor\":\"a\\nb\",\"reason\":\"r\"}", 400},
		{"{\"version\":\"v\",\"actor\":\"a\\u0000\",\"reason\":\"r\"}", 400},
		{"{\"version\":\"v\",\"actor\":\"a\",\"reason\":\"\xff\"}", 400},
		{"{\"version\":\"v\",\"version\":\"w\",\"actor\":\"a\",\"reason\":\"r\"}", 400},
		{"{\"version\":\"v\",\"actor\":\"a\",\"reason\":\"r\",\"reopen\":true}", 400},
		{"{\"version\":\"v\",\"actor\":\"a\",\"reason\":\"r\"}", 409},
	};
	struct fixture *f = start_held();
	char body[2048];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_status(f, TARGET, cases[i].body, cases[i].status);
	for (int over = 0; over < 2; over++) {
		snprintf(body, sizeof(body),
			 "{\"version\":\"v\",\"actor\":\"%0*d\",\"reason\":\"r\"}",
			 ADMIN_ACTOR_MAX + over, 0);
		assert_status(f, TARGET, body, over == 0 ? 409 : 400);
		snprintf(body, sizeof(body),
			 "{\"version\":\"v\",\"actor\":\"a\",\"reason\":\"%0*d\"}",
			 ADMIN_REASON_MAX + over, 0);
		assert_status(f, TARGET, body, over == 0 ? 409 : 400);
	}
	assert_int_equal(f->fake.rows[0].op.counter, 7);
	fixture_stop(f);
}

/* 64 KiB are read, in however many pieces; more is a 413, and much more ends the connection. */
static void test_size(void **state)
{
	struct fixture *f = start_held();
	char *body = malloc(ADMIN_BODY_MAX + 2);
	const size_t good = strlen(GOOD);
	struct reply *reply;
	int fd;

	(void)state;
	assert_non_null(body);
	memset(body, ' ', ADMIN_BODY_MAX + 1);
	memcpy(body, GOOD, good);
	body[ADMIN_BODY_MAX + 1] = '\0';
	assert_status(f, TARGET, body, 413);
	assert_int_equal(f->fake.asked, 0);
	fd = caller_connect(f);
	caller_send(fd, "POST " TARGET " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
			"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
	for (size_t i = 0; i < good; i++) {
		char piece[8];

		snprintf(piece, sizeof(piece), "1\r\n%c\r\n", GOOD[i]);
		caller_send(fd, piece);
	}
	caller_send(fd, "0\r\n\r\n");
	reply = caller_read(fd);
	assert_int_equal(reply->status, 200);
	reply_done(reply);
	f->fake.rows[0].op.state = OP_HELD;
	f->fake.rows[0].op.counter = 7;
	body[ADMIN_BODY_MAX] = '\0';
	assert_status(f, TARGET, body, 200);
	free(body);
	fixture_stop(f);
}

static void test_methods(void **state)
{
	static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"};
	struct fixture *f = start_held();

	(void)state;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		struct reply *reply =
			ask(f, methods[i], TARGET,
			    "Content-Type: application/json\r\nContent-Length: 0\r\n");

		assert_int_equal(reply->status, 405);
		assert_non_null(strstr(reply->head, "Allow: POST\r\n"));
		assert_null(strstr(reply->head, "Access-Control-"));
		reply_done(reply);
	}
	assert_status(f, "/v1/operations/pay/k/release/?tenant=acme", GOOD, 404);
	assert_status(f, "/v1/operations/pay//release?tenant=acme", GOOD, 404);
	assert_int_equal(f->fake.asked, 0);
	fixture_stop(f);
}

/* The ledger holds the question for too long: the caller is told, and nothing leaks. */
static void test_silent_ledger(void **state)
{
	struct fixture *f = start_held();
	struct reply *reply;
	int fd = caller_connect(f);

	(void)state;
	fake_set_stuck(&f->fake, true);
	caller_send(fd, "POST " TARGET " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
			"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
	reply = caller_read(fd);
	assert_int_equal(reply->status, 428); /* this far without the ledger */
	reply_done(reply);
	f->admin->patience = 50 * USEC_MS;
	reply = post(f, TARGET, GOOD);
	assert_int_equal(reply->status, 503);
	reply_done(reply);
	fake_set_stuck(&f->fake, false);
	fixture_stop(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_release),       cmocka_unit_test(test_refused),
		cmocka_unit_test(test_states),        cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_size),          cmocka_unit_test(test_methods),
		cmocka_unit_test(test_silent_ledger),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
