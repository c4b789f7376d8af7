#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "proxy/admin_json.h"
#include "admin_fixture.h"

#define T0 (1764504000 * USEC_SEC) /* 2025-11-30T12:00:00Z */

static void assert_text(const json_t *object, const char *name, const char *value)
{
	const char *found = json_string_value(json_object_get(object, name));

	if (found == NULL)
		fail_msg("no text %s", name);
	assert_string_equal(found, value);
}

static void assert_number(const json_t *object, const char *name, int64_t value)
{
	const json_t *found = json_object_get(object, name);

	if (!json_is_integer(found))
		fail_msg("no number %s", name);
	assert_int_equal(json_integer_value(found), value);
}

static void assert_absent(const json_t *object, const char *name)
{
	if (json_object_get(object, name) != NULL)
		fail_msg("%s is there", name);
}

static void assert_problem(const struct reply *reply, int status, const char *type,
			   const char *in_detail)
{
	const char *detail;

	assert_int_equal(reply->status, status);
	assert_non_null(strstr(reply->head, "Content-Type: application/problem+json\r\n"));
	assert_text(reply->json, "type", type);
	assert_number(reply->json, "status", status);
	assert_non_null(json_string_value(json_object_get(reply->json, "title")));
	detail = json_string_value(json_object_get(reply->json, "detail"));
	assert_non_null(detail);
	if (strstr(detail, in_detail) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", in_detail, detail);
}

static struct op_attempt attempt(int n, usec_t start, enum outcome_class class, enum effect effect,
				 int status, enum fault fault)
{
	struct op_attempt made = {.n = (uint8_t)n,
				  .start = start,
				  .class = (uint8_t) class,
				  .effect = (uint8_t)effect,
				  .status = (uint16_t)status,
				  .fault = (uint8_t)fault};

	if (class != CLASS_NONE)
		made.ms = 40;
	snprintf(made.instance, sizeof(made.instance), "one");
	return made;
}

/* A row with everything in it. */
static struct ledger_row *add_row(struct fixture *f, const char *key)
{
	struct ledger_row *row = &f->fake.rows[f->fake.row_count++];

	assert_true(f->fake.row_count <= ROWS_MAX);
	*row = (struct ledger_row){
		.provider = TEXT("pay"),
		.tenant = TEXT(""),
		.scope = TEXT(""),
		.key = TEXT(key),
		.texts = {.method = TEXT("POST"), .target = TEXT("/charge?k=***")}};
	row->op.state = OP_READY;
	row->op.limit = 5;
	row->op.created = row->op.updated = T0;
	return row;
}

static void fill(struct ledger_row *row)
{
	struct op *op = &row->op;

	row->tenant = TEXT("acme \"&\" co");
	row->scope = TEXT("eu");
	row->texts.corrects = TEXT("invoice:41");
	memset(op->incarnation, 0xab, sizeof(op->incarnation));
	memset(op->fingerprint, 0x0f, sizeof(op->fingerprint));
	op->counter = 7;
	op->state = OP_SUCCEEDED;
	op->attempts = 3;
	op->generation = 1;
	op_set_add(&op->unresolved, 1);
	op_set_add(&op->unresolved, 2);
	op->disputed = true;
	op->updated = T0 + 5 * USEC_SEC + 678999;
	op->deadline = T0 + USEC_DAY;
	op->repeat_until = T0 + USEC_HOUR;
	op->terminal = T0 + 5 * USEC_SEC;
	op->next = T0; /* left from when it was ready */
	op->lease_until = T0 + USEC_MIN;
	snprintf(op->owner, sizeof(op->owner), "one");
	op->class = CLASS_SUCCESS;
	op->effect = EFFECT_DEFINITE;
	op->status = 201;
	snprintf(op->reason, sizeof(op->reason), "status-201");
	snprintf(op->remote_id, sizeof(op->remote_id), "ch_1");
	op->ring[0] = attempt(1, T0, CLASS_UNKNOWN, EFFECT_POSSIBLE, 0, FAULT_TIMEOUT);
	op->ring[1] = attempt(2, T0 + USEC_SEC, CLASS_UNKNOWN, EFFECT_POSSIBLE, 503, FAULT_NONE);
	op->ring[2] =
		attempt(3, T0 + 4 * USEC_SEC, CLASS_SUCCESS, EFFECT_DEFINITE, 201, FAULT_NONE);
	row->notes = TEXT("{\"kind\":\"late\",\"at\":\"2025-11-30T12:00:02.500Z\",\"n\":1}\n"
			  "no json\n"
			  "[1]\n"
			  "\n"
			  "{\"kind\":\"operator\",\"at\":\"2025-11-30T12:00:09.000Z\","
			  "\"action\":\"hold\"}");
}

/* --- tests --------------------------------------------------------------------------------------- */

static void test_health(void **state)
{
	struct fixture *f = fixture_new();
	struct reply *reply;

	(void)state;
	fixture_start(f);
	reply = get(f, "/healthz");
	assert_int_equal(reply->status, 200);
	assert_string_equal(reply->body, "ok\n");
	assert_non_null(strstr(reply->head, "Content-Type: text/plain"));
	assert_non_null(strstr(reply->head, "Cache-Control: no-store\r\n"));
	reply_done(reply);
	reply = ask(f, "HEAD", "/healthz?probe=1", "");
	assert_int_equal(reply->status, 200);
	assert_string_equal(reply->body, "");
	reply_done(reply);
	fixture_stop(f);
}

static void assert_ready(const struct fixture *f, bool ready, const char *ledger, bool draining)
{
	struct reply *reply = get(f, "/readyz");
	const json_t *detail = json_object_get(reply->json, "detail");

	assert_int_equal(reply->status, ready ? 200 : 503);
	assert_non_null(strstr(reply->head, "Content-Type: application/json\r\n"));
	assert_int_equal(json_is_true(json_object_get(reply->json, "ready")), ready);
	assert_text(detail, "ledger", ledger);
	assert_int_equal(json_is_true(json_object_get(detail, "draining")), draining);
	reply_done(reply);
}

static void set_unwell(struct fixture *f, const char *why)
{
	pthread_mutex_lock(&f->fake.lock);
	f->fake.unwell = why;
	pthread_mutex_unlock(&f->fake.lock);
}

static void test_readiness(void **state)
{
	struct fixture *f;

	(void)state;
	for (int required = 0; required < 2; required++) {
		f = fixture_new();
		f->config.ledger_required = required == 1;
		snprintf(f->app.ledger_error, sizeof(f->app.ledger_error), "no such directory");
		fixture_start(f);
		assert_ready(f, true, "ok", false);
		set_unwell(f, "disk full");
		assert_ready(f, required == 0, "disk full", false);
		set_unwell(f, NULL);
		f->app.ledger = NULL;
		assert_ready(f, required == 0, "no such directory", false);
		f->app.ledger = &f->fake.base;
		atomic_store(&f->app.draining, true);
		assert_ready(f, false, "ok", true);
		assert_int_equal(status_of(f, "GET", "/healthz", ""), 200);
		fixture_stop(f);
	}
}

static void test_paths_and_methods(void **state)
{
	static const char *const absent[] = {
		"/",
		"/nothing",
		"/v1",
		"/v1/",
		"/healthz/",
		"/healthzz",
		"//healthz",
		"/v1/operations/",
		"/v1/operations/pay",
		"/v1/operations/pay/",
		"/v1/operations//k",
		"/v1/operations/pay/k/history",
		"/v1/operations/pay/k/",
		"/v1%2Foperations",
		"http://localhost/healthz",
		"*",
		"/%00",
		"/%zz",
	};
	static const char *const present[] = {
		"/healthz",     "/readyz", "/metrics", "/v1/operations", "/v1/operations/pay/k",
		"/v1/providers"};
	static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH", "FOO"};
	struct fixture *f = fixture_new();
	struct reply *reply;

	(void)state;
	fixture_start(f);
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		reply = get(f, absent[i]);
		assert_problem(reply, 404, "about:blank", "/v1/operations");
		reply_done(reply);
	}
	for (size_t i = 0; i < 6; i++) {
		for (size_t k = 0; k < 5; k++) {
			reply = ask(f, methods[k], present[i],
				    "Content-Length: 0\r\nContent-Type: application/json\r\n");
			assert_problem(reply, 405, "about:blank", "GET");
			assert_non_null(strstr(reply->head, "Allow: GET, HEAD\r\n"));
			reply_done(reply);
		}
	}
	assert_int_equal(f->fake.asked, 0);
	fixture_stop(f);
}

/* Bodies are read and dropped; what sends too much is cut off. */
static void test_bodies(void **state)
{
	struct fixture *f = fixture_new();
	struct reply *reply;
	char block[4097];
	int fd;

	(void)state;
	fixture_start(f);
	fd = caller_connect(f);
	caller_send(fd, "POST /v1/operations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
			"Content-Length: 13\r\n\r\n{\"a\":");
	caller_send(fd, "\"bcdefg\"");
	reply = caller_read(fd);
	assert_int_equal(reply->status, 405);
	reply_done(reply);
	fd = caller_connect(f);
	caller_send(fd, "POST /v1/operations HTTP/1.1\r\nHost: localhost\r\n"
			"Content-Length: 100000000\r\n\r\n");
	memset(block, 'x', sizeof(block) - 1);
	block[sizeof(block) - 1] = '\0';
	for (int i = 0; i < 100000000 / 4096; i++) {
		if (send(fd, block, 4096, MSG_NOSIGNAL) < 0)
			break;
		assert_true(i < 20000);
	}
	close(fd);
	assert_int_equal(status_of(f, "GET", "/healthz", ""), 200);
	fixture_stop(f);
}

static void test_operation_in_full(void **state)
{
	static const char *const kinds[] = {"attempt", "attempt", "late", "attempt", "operator"};
	struct fixture *f = fixture_new();
	const json_t *history, *entry;
	struct reply *reply;
	char hex[65];

	(void)state;
	fill(add_row(f, "invoice:42/charge"));
	fixture_start(f);
	reply = get(f,
		    "/v1/operations/pay/invoice:42%2Fcharge?tenant=acme+%22%26%22%20co&scope=eu");
	assert_int_equal(reply->status, 200);
	assert_string_equal(f->fake.name[3], "invoice:42/charge");
	assert_text(reply->json, "provider", "pay");
	assert_text(reply->json, "tenant", "acme \"&\" co");
	assert_text(reply->json, "scope", "eu");
	assert_text(reply->json, "key", "invoice:42/charge");
	for (int i = 0; i < 64; i++)
		hex[i] = i % 2 == 0 ? '0' : 'f';
	hex[64] = '\0';
	assert_text(reply->json, "fingerprint", hex);
	assert_text(reply->json, "method", "POST");
	assert_text(reply->json, "target", "/charge?k=***");
	assert_text(reply->json, "state", "succeeded");
	assert_text(reply->json, "class", "success");
	assert_text(reply->json, "effect", "definite");
	assert_number(reply->json, "status", 201);
	assert_text(reply->json, "reason", "status-201");
	assert_number(reply->json, "attempts", 3);
	assert_number(reply->json, "limit", 5);
	assert_number(reply->json, "unresolved", 2);
	assert_true(json_is_true(json_object_get(reply->json, "disputed")));
	assert_text(reply->json, "created", "2025-11-30T12:00:00.000Z");
	assert_text(reply->json, "updated", "2025-11-30T12:00:05.678Z");
	assert_text(reply->json, "deadline", "2025-12-01T12:00:00.000Z");
	assert_text(reply->json, "repeat_until", "2025-11-30T13:00:00.000Z");
	assert_text(reply->json, "terminal", "2025-11-30T12:00:05.000Z");
	assert_number(reply->json, "generation", 1);
	assert_text(reply->json, "remote_id", "ch_1");
	assert_text(reply->json, "version", "abababababababababababababababab-7");
	assert_text(reply->json, "corrects", "invoice:41");
	assert_absent(reply->json, "corrected_by");
	assert_absent(reply->json, "owner");
	assert_absent(reply->json, "lease_until");
	assert_absent(reply->json, "next");
	history = json_object_get(reply->json, "history");
	assert_int_equal(json_array_size(history), 5);
	for (size_t i = 0; i < 5; i++)
		assert_text(json_array_get(history, i), "kind", kinds[i]);
	entry = json_array_get(history, 0);
	assert_number(entry, "n", 1);
	assert_text(entry, "at", "2025-11-30T12:00:00.000Z");
	assert_number(entry, "ms", 40);
	assert_text(entry, "class", "unknown");
	assert_text(entry, "effect", "possible");
	assert_text(entry, "fault", "timeout");
	assert_text(entry, "instance", "one");
	assert_absent(entry, "status");
	entry = json_array_get(history, 3);
	assert_number(entry, "status", 201);
	assert_absent(entry, "fault");
	assert_text(json_array_get(history, 4), "action", "hold");
	reply_done(reply);
	fixture_stop(f);
}

static void test_operation_in_flight_and_new(void **state)
{
	struct fixture *f = fixture_new();
	const json_t *entry;
	struct ledger_row *row;
	struct reply *reply;

	(void)state;
	row = add_row(f, "running");
	row->op.state = OP_ATTEMPTING;
	row->op.attempts = 1;
	row->op.lease_until = T0 + USEC_MIN;
	snprintf(row->op.owner, sizeof(row->op.owner), "one");
	row->op.ring[0] = attempt(1, T0, CLASS_NONE, EFFECT_NONE, 0, FAULT_NONE);
	row = add_row(f, "new");
	row->op.next = T0 + USEC_SEC;
	row->texts.method = row->texts.target = NULL;
	row = add_row(f, "odd");
	row->tenant = TEXT("caf\xe9");
	fixture_start(f);
	reply = get(f, "/v1/operations/pay/running");
	assert_text(reply->json, "owner", "one");
	assert_text(reply->json, "lease_until", "2025-11-30T12:01:00.000Z");
	assert_absent(reply->json, "class");
	entry = json_array_get(json_object_get(reply->json, "history"), 0);
	assert_number(entry, "n", 1);
	assert_absent(entry, "class");
	assert_absent(entry, "ms");
	reply_done(reply);
	reply = get(f, "/v1/operations/pay/new?tenant=&scope=");
	assert_text(reply->json, "state", "ready");
	assert_text(reply->json, "next", "2025-11-30T12:00:01.000Z");
	assert_text(reply->json, "tenant", "");
	for (size_t i = 0; i < 10; i++) {
		static const char *const left_out[] = {
			"class",    "effect",       "status",    "reason", "deadline",
			"terminal", "repeat_until", "remote_id", "method", "target"};

		assert_absent(reply->json, left_out[i]);
	}
	assert_int_equal(json_array_size(json_object_get(reply->json, "history")), 0);
	reply_done(reply);
	reply = get(f, "/v1/operations/pay/odd?tenant=caf%E9");
	assert_text(reply->json, "tenant", "caf?");
	reply_done(reply);
	fixture_stop(f);
}

/* The ring keeps 16; a long note list stays whole and in order. */
static void test_history_is_merged(void **state)
{
	struct op op = {.attempts = 40};
	char notes[4096] = "";
	size_t len = 0;
	json_t *history;
	int last = 24;

	(void)state;
	for (int n = 25; n <= 40; n++)
		op.ring[(n - 1) % OP_RING] = attempt(n, T0 + n * USEC_SEC, CLASS_TRANSIENT,
						     EFFECT_NONE, 408, FAULT_NONE);
	for (int n = 25; n < 50; n++)
		len += (size_t)snprintf(notes + len, sizeof(notes) - len,
					"{\"kind\":\"late\",\"at\":\"2025-11-30T12:00:%02d.000Z\","
					"\"n\":%d}\n",
					n, n);
	history = admin_history_json(&op, notes);
	assert_int_equal(json_array_size(history), 41);
	for (size_t i = 0; i < 32; i++) {
		const json_t *entry = json_array_get(history, i);

		assert_text(entry, "kind", i % 2 == 0 ? "attempt" : "late");
		last += i % 2 == 0;
		assert_number(entry, "n", last);
	}
	json_decref(history);
	/* Notes without a time stay behind the one before them. */
	history = admin_history_json(&op, "{\"kind\":\"operator\"}");
	assert_text(json_array_get(history, 0), "kind", "operator");
	json_decref(history);
}

/* A release and the attempts before and after it, all within one millisecond. */
static void test_history_of_one_millisecond(void **state)
{
	static const char note[] = "{\"kind\":\"operator\",\"at\":\"2025-11-30T12:00:00.000Z\","
				   "\"after\":1,\"action\":\"release\"}";
	struct op op = {.attempts = 2};
	json_t *history;

	(void)state;
	op.ring[0] = attempt(1, T0 + 100, CLASS_AUTH, EFFECT_NONE, 401, FAULT_NONE);
	op.ring[1] = attempt(2, T0 + 300, CLASS_SUCCESS, EFFECT_DEFINITE, 200, FAULT_NONE);
	history = admin_history_json(&op, note);
	assert_int_equal(json_array_size(history), 3);
	assert_number(json_array_get(history, 0), "n", 1);
	assert_text(json_array_get(history, 1), "action", "release");
	assert_number(json_array_get(history, 2), "n", 2);
	json_decref(history);
}

static void test_keys_in_paths(void **state)
{
	static const struct {
		const char *target, *key;
	} good[] = {
		{"/v1/operations/pay/a%2Fb%2fc", "a/b/c"},
		{"/v1/operations/pay/a+b", "a+b"}, /* no form: a plus is a plus */
		{"/v1/operations/pay/%61%3Fb%25%23", "a?b%#"},
		{"/v1/operations/p%61y/k%26x=y?tenant=t", "k&x=y"},
		{"/v1/operations/pay/..%2F..", "../.."},
		{"/v1/operations/pay/..", ".."},
	};
	static const struct {
		const char *target, *detail;
	} bad[] = {
		{"/v1/operations/pay/%", "key"},
		{"/v1/operations/pay/%4", "key"},
		{"/v1/operations/pay/%zz", "key"},
		{"/v1/operations/pay/a%00b", "key"},
		{"/v1/operations/pay/a%20b", "key"},
		{"/v1/operations/pay/%C3%A9", "key"},
		{"/v1/operations/p%/k", "provider"},
		{"/v1/operations/pay/k?state=ready", "state"},
		{"/v1/operations/pay/k?tenant=a&tenant=b", "tenant"},
		{"/v1/operations/pay/k?scope=%f", "scope"},
	};
	struct fixture *f = fixture_new();
	struct reply *reply;
	char target[512] = "/v1/operations/pay/";

	(void)state;
	fixture_start(f);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		reply = get(f, good[i].target);
		assert_problem(reply, 404, "about:blank", "no such operation");
		assert_string_equal(f->fake.name[0], "pay");
		assert_string_equal(f->fake.name[3], good[i].key);
		assert_int_equal(f->fake.verb, LEDGER_GET);
		assert_true(f->fake.filter.want_notes);
		reply_done(reply);
	}
	f->fake.asked = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reply = get(f, bad[i].target);
		assert_problem(reply, 400, "urn:stint:bad-request", bad[i].detail);
		reply_done(reply);
	}
	memset(target + strlen(target), 'k', 256);
	reply = get(f, target);
	assert_problem(reply, 400, "urn:stint:bad-request", "key");
	reply_done(reply);
	assert_int_equal(f->fake.asked, 0);
	fixture_stop(f);
}

static void test_filters_pass_through(void **state)
{
	struct fixture *f = fixture_new();
	struct reply *reply;

	(void)state;
	fixture_start(f);
	reply = get(f, "/v1/operations");
	assert_int_equal(reply->status, 200);
	assert_int_equal(json_array_size(json_object_get(reply->json, "operations")), 0);
	assert_true(json_is_null(json_object_get(reply->json, "next")));
	assert_int_equal(f->fake.verb, LEDGER_LIST);
	assert_int_equal(f->fake.filter.state, -1);
	assert_int_equal(f->fake.filter.class, -1);
	assert_int_equal(f->fake.filter.before, 0);
	assert_int_equal(f->fake.filter.limit, ADMIN_LIST_DEFAULT);
	for (int i = 0; i < 4; i++)
		assert_string_equal(f->fake.texts[i], "-");
	reply_done(reply);
	reply = get(f,
		    "/v1/operations?&state=unknown&provider=p%61y&class=rate_limited&tenant=a+b%2B&"
		    "key_prefix=invoice%3A%2F&before=2025-11-30T13:00:00.5%2B01:00&limit=17&&"
		    "cursor=at-0&");
	assert_int_equal(reply->status, 200);
	assert_int_equal(f->fake.filter.state, OP_UNKNOWN);
	assert_int_equal(f->fake.filter.class, CLASS_RATE_LIMITED);
	assert_true(f->fake.filter.before == T0 + 500 * USEC_MS);
	assert_int_equal(f->fake.filter.limit, 17);
	assert_string_equal(f->fake.texts[0], "pay");
	assert_string_equal(f->fake.texts[1], "a b+");
	assert_string_equal(f->fake.texts[2], "invoice:/");
	assert_string_equal(f->fake.texts[3], "at-0");
	reply_done(reply);
	reply = get(
		f, "/v1/operations?before=2025-11-30T13:00:00+01:00&tenant=&key_prefix&limit=1000");
	assert_int_equal(reply->status, 200);
	assert_true(f->fake.filter.before == T0);
	assert_string_equal(f->fake.texts[1], "");
	assert_string_equal(f->fake.texts[2], "");
	reply_done(reply);
	fixture_stop(f);
}

static void test_malformed_queries(void **state)
{
	static const struct {
		const char *query, *detail;
	} cases[] = {
		{"state=nonsense", "state"},
		{"state=", "state"},
		{"state", "state"},
		{"state=Ready", "state"},
		{"class=nonsense", "class"},
		{"class=", "class"},
		{"provider=", "provider"},
		{"limit=0", "limit"},
		{"limit=1001", "limit"},
		{"limit=-1", "limit"},
		{"limit=%201", "limit"},
		{"limit=+1", "limit"},
		{"limit=1x", "limit"},
		{"limit=abc", "limit"},
		{"limit=", "limit"},
		{"limit=99999999999999999999", "limit"},
		{"limit=0x10", "limit"},
		{"before=yesterday", "before"},
		{"before=2025-02-30T00:00:00Z", "before"},
		{"before=1969-12-31T00:00:00Z", "before"},
		{"before=", "before"},
		{"cursor=", "cursor"},
		{"cursor=elsewhere", "cursor"},
		{"tenant=%", "tenant"},
		{"tenant=%2", "tenant"},
		{"tenant=%2x", "tenant"},
		{"tenant=a%00b", "tenant"},
		{"key_prefix=%GG", "key_prefix"},
		{"tenant=a&tenant=a", "tenant"},
		{"state=ready&state=held", "state"},
		{"stat=ready", "\"stat\""},
		{"scope=x", "\"scope\""},
		{"=x", "\"\""},
		{"st%61te=ready", "st%61te"},
		{"a%22b<script>=1", "<script>"},
		{"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee=1",
		 "\"aaaaaaaaaabbbbbbbbbbccccccccccdd\""},
	};
	struct fixture *f = fixture_new();
	char target[256];

	(void)state;
	fixture_start(f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reply *reply;

		snprintf(target, sizeof(target), "/v1/operations?%s", cases[i].query);
		reply = get(f, target);
		assert_problem(reply, 400, "urn:stint:bad-request", cases[i].detail);
		reply_done(reply);
	}
	fixture_stop(f);
}

static void test_pages(void **state)
{
	static const char *const keys[] = {"a", "b", "c", "d", "e"};
	struct fixture *f = fixture_new();
	char target[128] = "/v1/operations?limit=2";
	size_t seen = 0, pages = 0;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		fill(add_row(f, keys[i]));
	fixture_start(f);
	for (bool more = true; more; pages++) {
		struct reply *reply = get(f, target);
		const json_t *list = json_object_get(reply->json, "operations");
		const json_t *next = json_object_get(reply->json, "next");

		for (size_t i = 0; i < json_array_size(list); i++) {
			assert_text(json_array_get(list, i), "key", keys[seen++]);
			assert_absent(json_array_get(list, i), "history");
		}
		more = json_is_string(next);
		if (more)
			snprintf(target, sizeof(target), "/v1/operations?limit=2&cursor=%s",
				 json_string_value(next));
		else
			assert_true(json_is_null(next));
		reply_done(reply);
	}
	assert_int_equal(pages, 3);
	assert_int_equal(seen, 5);
	fixture_stop(f);
}

static void test_ledger_away(void **state)
{
	static const enum ledger_result results[] = {LEDGER_AWAY, LEDGER_FULL, LEDGER_DAMAGED};
	static const char *const targets[] = {"/v1/operations", "/v1/operations/pay/k"};
	struct fixture *f = fixture_new();
	struct reply *reply;

	(void)state;
	f->fake.error = "the queue is full";
	snprintf(f->app.ledger_error, sizeof(f->app.ledger_error), "cannot open it");
	fixture_start(f);
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < 3; k++) {
			f->fake.result = results[k];
			reply = get(f, targets[i]);
			assert_problem(reply, 503, "urn:stint:ledger-away", "the queue is full");
			assert_non_null(strstr(reply->head, "Retry-After: 5\r\n"));
			reply_done(reply);
		}
		f->app.ledger = NULL;
		reply = get(f, targets[i]);
		assert_problem(reply, 503, "urn:stint:ledger-away", "cannot open it");
		reply_done(reply);
		/* What is wrong with the request is said all the same. */
		assert_int_equal(status_of(f, "GET", "/v1/operations?limit=0", ""), 400);
		f->app.ledger = &f->fake.base;
	}
	fixture_stop(f);
}

/* A ledger that does not answer: the request ends without it, others are served, and what comes back
 * later, or at the end, belongs to nobody. */
static void test_ledger_stuck(void **state)
{
	struct fixture *f = fixture_new();
	struct reply *reply;
	int waiting[3], gone;

	(void)state;
	fixture_start(f);
	f->admin->patience = 50 * USEC_MS;
	fake_set_stuck(&f->fake, true);
	reply = get(f, "/v1/operations");
	assert_problem(reply, 503, "urn:stint:ledger-away", "in time");
	reply_done(reply);
	reply = get(f, "/metrics");
	assert_int_equal(reply->status, 200);
	assert_non_null(strstr(reply->body, "stint_store_up{store=\"sqlite\"} 0\n"));
	assert_null(strstr(reply->body, "stint_operations"));
	reply_done(reply);
	fake_set_stuck(&f->fake, false);
	assert_int_equal(status_of(f, "GET", "/v1/operations", ""), 200);
	assert_int_equal(f->fake.asked, 3);

	f->admin->patience = 60 * USEC_SEC;
	fake_set_stuck(&f->fake, true);
	for (int i = 0; i < 3; i++) {
		waiting[i] = caller_connect(f);
		caller_send(waiting[i],
			    i == 0 ? "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
				   : "GET /v1/operations HTTP/1.1\r\nHost: localhost\r\n\r\n");
	}
	gone = caller_connect(f);
	caller_send(gone, "GET /v1/operations HTTP/1.1\r\nHost: localhost\r\n\r\n");
	close(gone);
	/* Until all four are out at the ledger. */
	for (int out = 0; out < 4;) {
		out = 0;
		pthread_mutex_lock(&f->fake.lock);
		for (struct ledger_request *r = f->fake.first; r != NULL; r = r->link)
			out++;
		pthread_mutex_unlock(&f->fake.lock);
		assert_int_equal(status_of(f, "GET", "/healthz", ""), 200);
	}
	fixture_begin_close(f);
	for (int i = 0; i < 3; i++) {
		reply = caller_read(waiting[i]);
		assert_int_equal(reply->status, i == 0 ? 200 : 503);
		reply_done(reply);
	}
	assert_int_equal(f->closed, 0); /* the calls are still out */
	fixture_end(f);
	fixture_free(f);
}

/* One connection, many requests, the ledger between them. */
static void test_keep_alive(void **state)
{
	static const char pipelined[] = "GET /v1/operations HTTP/1.1\r\nHost: localhost\r\n\r\n"
					"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
					"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
					"GET /v1/operations/pay/x HTTP/1.1\r\nHost: localhost\r\n"
					"Connection: close\r\n\r\n";
	struct fixture *f = fixture_new();
	struct reply *reply;
	int fd, found = 0;

	(void)state;
	fixture_start(f);
	fd = caller_connect(f);
	caller_send(fd, pipelined);
	reply = caller_read(fd);
	assert_int_equal(reply->status, 200);
	for (const char *at = reply->body; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
		found++;
	assert_int_equal(found, 3);
	assert_non_null(strstr(reply->body, "HTTP/1.1 404"));
	assert_int_equal(f->fake.asked, 3);
	json_decref(reply->json);
	free(reply);
	fixture_stop(f);
}

static void test_metrics(void **state)
{
	struct fixture *f = fixture_new();
	usec_t now;
	struct reply *reply;

	(void)state;
	now = wall_clock_now(&f->app.clock);
	f->fake.stat = (struct ledger_stat){NULL, OP_UNKNOWN, CLASS_UNKNOWN, 3};
	f->fake.total.unresolved = 3;
	f->fake.total.oldest_unresolved = now - USEC_HOUR;
	metrics_attempt(&f->app.providers[0].metrics, CLASS_SUCCESS, EFFECT_DEFINITE, USEC_SEC);
	fixture_start(f);
	reply = get(f, "/metrics");
	assert_int_equal(reply->status, 200);
	assert_non_null(
		strstr(reply->head, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
	assert_int_equal(f->fake.verb, LEDGER_STATS);
	assert_true(f->fake.now >= now); /* what is due is counted by it */
	assert_non_null(strstr(reply->body, "stint_attempts_total{provider=\"pay\","
					    "class=\"success\",effect=\"definite\"} 1\n"));
	assert_non_null(strstr(reply->body, "stint_operations{provider=\"pay\",state=\"unknown\","
					    "class=\"unknown\"} 3\n"));
	assert_non_null(strstr(reply->body, "stint_oldest_unknown_seconds{provider=\"pay\"} 360"));
	assert_non_null(strstr(reply->body, "stint_store_up{store=\"sqlite\"} 1\n"));
	reply_done(reply);
	/* Reads that work do not make a store that cannot write a good one. */
	set_unwell(f, "disk full");
	reply = get(f, "/metrics");
	assert_non_null(strstr(reply->body, "stint_store_up{store=\"sqlite\"} 0\n"));
	assert_non_null(strstr(reply->body, "stint_operations{"));
	reply_done(reply);
	f->app.ledger = NULL;
	reply = get(f, "/metrics");
	assert_int_equal(reply->status, 200);
	assert_non_null(strstr(reply->body, "stint_store_up{store=\"sqlite\"} 0\n"));
	assert_null(strstr(reply->body, "stint_operations{"));
	reply_done(reply);
	fixture_stop(f);
}

static void test_providers(void **state)
{
	struct fixture *f = fixture_new();
	const json_t *list, *pay, *mail;
	struct gate_waiter waiter = {0};
	struct reply *reply;

	(void)state;
	assert_int_equal(
		provider_enter(&f->app.providers[0], &waiter, wall_clock_now(&f->app.clock)).why,
		GATE_OPEN);
	fixture_start(f);
	reply = get(f, "/v1/providers");
	assert_int_equal(reply->status, 200);
	assert_null(strstr(reply->body, "s3cr3t"));
	assert_int_equal(f->fake.asked, 0);
	list = json_object_get(reply->json, "providers");
	assert_int_equal(json_array_size(list), 2);
	pay = json_array_get(list, 0);
	assert_text(pay, "name", "pay");
	assert_text(pay, "mode", "enforce");
	assert_text(pay, "upstream", "https://pay.example:443");
	assert_text(json_object_get(pay, "route"), "prefix", "/pay");
	assert_number(json_object_get(pay, "limits"), "attempts", 5);
	assert_true(json_real_value(json_object_get(json_object_get(pay, "limits"), "hold")) ==
		    1.5);
	assert_true(json_real_value(json_object_get(pay, "blocked_seconds")) == 0);
	assert_number(json_object_get(pay, "slots"), "used", 1);
	assert_number(json_object_get(pay, "slots"), "limit", 4);
	assert_number(json_object_get(pay, "slots"), "waiting", 0);
	assert_text(json_object_get(pay, "breaker"), "state", "closed");
	assert_number(json_object_get(pay, "breaker"), "failures", 0);
	assert_number(json_object_get(pay, "breaker"), "gates", 1);
	assert_number(json_object_get(pay, "breaker"), "gates_open", 0);
	assert_true(json_real_value(
			    json_object_get(json_object_get(pay, "breaker"), "open_seconds")) == 0);
	mail = json_array_get(list, 1);
	assert_text(mail, "mode", "off");
	assert_text(json_object_get(mail, "route"), "host", "mail.internal");
	reply_done(reply);
	fixture_stop(f);
}

static void test_close_without_listener(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	admin_close(NULL, fixture_closed, f);
	assert_int_equal(f->closed, 1);
	loop_run(&f->app.control);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_health),
		cmocka_unit_test(test_readiness),
		cmocka_unit_test(test_paths_and_methods),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_operation_in_full),
		cmocka_unit_test(test_operation_in_flight_and_new),
		cmocka_unit_test(test_history_is_merged),
		cmocka_unit_test(test_history_of_one_millisecond),
		cmocka_unit_test(test_keys_in_paths),
		cmocka_unit_test(test_filters_pass_through),
		cmocka_unit_test(test_malformed_queries),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_ledger_away),
		cmocka_unit_test(test_ledger_stuck),
		cmocka_unit_test(test_keep_alive),
		cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_providers),
		cmocka_unit_test(test_close_without_listener),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
