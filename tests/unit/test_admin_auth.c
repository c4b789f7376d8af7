#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "admin_fixture.h"

#define TOKEN "correct-horse"
#define BEARER "Authorization: Bearer " TOKEN "\r\n"

static void write_token(struct fixture *f, const void *text, size_t len)
{
	FILE *file = fopen(f->token_file, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, len, file), len);
	assert_int_equal(fclose(file), 0);
	f->config.admin_token_file = f->token_file;
}

/* A listener as on another address than loopback. */
static struct fixture *start_elsewhere(void)
{
	struct fixture *f = fixture_new();

	f->config.admin_listen.loopback = false;
	write_token(f, TOKEN "\n", strlen(TOKEN) + 1);
	fixture_start(f);
	return f;
}

static void test_matrix_elsewhere(void **state)
{
	static const struct {
		const char *target;
		int without, with;
	} cases[] = {
		{"/healthz", 200, 200},      {"/readyz", 200, 200},
		{"/metrics", 401, 200},      {"/v1/operations", 401, 200},
		{"/v1/providers", 401, 200}, {"/v1/operations/pay/k", 401, 404},
		{"/nothing", 401, 404},      {"/healthz/", 401, 404},
		{"/metrics?x=1", 401, 200},  {"/v1/operations?limit=0", 401, 400},
		{"//metrics", 401, 404},     {"/%6detrics", 401, 404},
	};
	struct fixture *f = start_elsewhere();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct reply *reply = ask(f, "GET", cases[i].target, "");

		assert_int_equal(reply->status, cases[i].without);
		if (reply->status == 401) {
			assert_non_null(strstr(reply->head, "WWW-Authenticate: Bearer"));
			assert_non_null(strstr(reply->head, "application/problem+json"));
			assert_null(strstr(reply->body, "correct"));
		}
		reply_done(reply);
		assert_int_equal(status_of(f, "GET", cases[i].target, BEARER), cases[i].with);
		assert_int_equal(status_of(f, "POST", cases[i].target, "Content-Length: 0\r\n"),
				 cases[i].without == 200 ? 405 : 401);
	}
	/* Host names are not checked where a token is. */
	assert_int_equal(status_of(f, "GET", "/metrics", BEARER "Host: stint.internal\r\n"), 200);
	fixture_stop(f);
}

/* What a change must carry: each is sent without a body, so 400 is what comes after the check. */
static void test_changes(void **state)
{
#define TYPE "Content-Type: application/json\r\n"
	static const struct {
		const char *headers;
		int here, elsewhere; /* a loopback listener; another one, with the token */
	} cases[] = {
		{TYPE, 400, 400},
		{"", 415, 415},
		{"Content-Type: application/json ; charset=utf-8\r\n", 400, 400},
		{"content-type: APPLICATION/JSON\r\n", 400, 400},
		{"Content-Type: text/plain\r\n", 415, 415},
		{"Content-Type: text/plain; application/json\r\n", 415, 415},
		{"Content-Type: application/jsonp\r\n", 415, 415},
		{"Content-Type: application/problem+json\r\n", 415, 415},
		{"Content-Type: application/x-www-form-urlencoded\r\n", 415, 415},
		{TYPE "Content-Type: text/plain\r\n", 415, 415},
		{TYPE "Origin: http://localhost\r\n", 400, 400},
		{TYPE "Origin: HTTP://LocalHost\r\n", 400, 400},
		{TYPE "Origin: http://127.0.0.1:8381\r\nHost: 127.0.0.1:8381\r\n", 400, 400},
		{TYPE "Origin: https://localhost\r\n", 403, 400},
		{TYPE "Origin: http://localhost:81\r\n", 403, 403},
		{TYPE "Origin: http://localhost.evil.example\r\n", 403, 403},
		{TYPE "Origin: http://evil.example\r\n", 403, 403},
		{TYPE "Origin: http://127.0.0.1:80\r\nHost: 127.0.0.1:8381\r\n", 403, 403},
		{TYPE "Origin: null\r\n", 403, 403},
		{TYPE "Origin: \r\n", 403, 403},
		{TYPE "Origin: http://\r\n", 403, 403},
		{TYPE "Origin: localhost\r\n", 403, 403},
		{TYPE "Origin: http://localhost\r\nOrigin: http://localhost\r\n", 403, 403},
		{"Origin: http://evil.example\r\n", 403, 403},
	};
	static const char target[] = "/v1/operations/pay/k/release";
	struct fixture *here = fixture_new(), *elsewhere = start_elsewhere();
	char headers[512];

	(void)state;
	fixture_start(here);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(headers, sizeof(headers), "%sContent-Length: 0\r\n", cases[i].headers);
		assert_int_equal(status_of(here, "POST", target, headers), cases[i].here);
		assert_int_equal(status_of(elsewhere, "POST", target, headers), 401);
		snprintf(headers, sizeof(headers), BEARER "%sContent-Length: 0\r\n",
			 cases[i].headers);
		assert_int_equal(status_of(elsewhere, "POST", target, headers), cases[i].elsewhere);
	}
	assert_int_equal(
		status_of(here, "POST", target, TYPE "Host: evil.example\r\nContent-Length: 0\r\n"),
		403);
	assert_int_equal(here->fake.asked + elsewhere->fake.asked, 0);
	fixture_stop(here);
	fixture_stop(elsewhere);
#undef TYPE
}

static void test_own_origin(void **state)
{
	static const struct {
		const char *origin, *host;
		bool own;
	} cases[] = {
		{"http://localhost:8381", "localhost:8381", true},
		{"http://localhost:8381", "localhost", true},
		{"http://localhost:8381", "localhost:80", false},
		{"http://localhost:80", "localhost", false},
		{"http://localhost:83811", "localhost", false},
		{"http://localhost:83811", "localhost:8381", false},
		{"http://[::1]:8381", "[::1]:8381", true},
		{"http://[::1]:8381", "[::1]", true},
		{"http://[::1]:8382", "[::1]", false},
		{"http://localhost", "", false},
		{"http://:8381", "", false},
		{"http://localhost/", "localhost", false},
		{"http://user@localhost", "localhost", false},
	};
	const struct admin_auth auth = {.checks_host = true, .port = 8381};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (admin_auth_origin_is_own(&auth, cases[i].origin, strlen(cases[i].origin),
					     cases[i].host, strlen(cases[i].host)) != cases[i].own)
			fail_msg("%s at %s", cases[i].origin, cases[i].host);
	}
}

static void test_tokens(void **state)
{
	static const char *const good[] = {
		BEARER,
		"Authorization: bearer " TOKEN "\r\n",
		"authorization: BEARER   " TOKEN "  \r\n",
	};
	static const char *const bad[] = {
		"",
		"Authorization: " TOKEN "\r\n",
		"Authorization: Bearer\r\n",
		"Authorization: Bearer \r\n",
		"Authorization: Bearer correct-hors\r\n",
		"Authorization: Bearer correct-horsee\r\n",
		"Authorization: Bearer Correct-horse\r\n",
		"Authorization: Bearer wrong\r\n",
		"Authorization: Bearer" TOKEN "\r\n",
		"Authorization: Bearer " TOKEN " " TOKEN "\r\n",
		"Authorization: Basic " TOKEN "\r\n",
		"Authorization: Bearer " TOKEN "\r\nAuthorization: Bearer wrong\r\n",
		"Authorization: Bearer wrong\r\nAuthorization: Bearer " TOKEN "\r\n",
		"X-Authorization: Bearer " TOKEN "\r\n",
	};
	struct fixture *f = start_elsewhere();

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(status_of(f, "GET", "/v1/operations", good[i]), 200);
	f->fake.asked = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(status_of(f, "GET", "/v1/operations", bad[i]), 401);
	assert_int_equal(f->fake.asked, 0);
	fixture_stop(f);
}

static void test_token_files(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		const char *error; /* NULL: good, and the token is TOKEN */
	} cases[] = {
		{TOKEN, 13, NULL},           {TOKEN "\n", 14, NULL},
		{TOKEN "\r\n\n", 16, NULL},  {"", 0, "empty"},
		{"\n\r\n", 3, "empty"},      {"two words\n", 10, "one word"},
		{"a\0b", 3, "one word"},     {"caf\xc3\xa9", 5, "one word"},
		{" " TOKEN, 14, "one word"}, {TOKEN "\nmore\n", 19, "one word"},
	};
	char error[256], *huge;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture *f = fixture_new();
		struct admin_auth auth;
		int rc;

		f->config.admin_listen.loopback = false;
		write_token(f, cases[i].text, cases[i].len);
		error[0] = '\0';
		rc = admin_auth_init(&auth, &f->config, error, sizeof(error));
		assert_int_equal(rc, cases[i].error != NULL ? -1 : 0);
		if (rc == 0)
			assert_true(admin_auth_token_matches(&auth, "Bearer " TOKEN, 20));
		else
			assert_non_null(strstr(error, cases[i].error));
		assert_null(strstr(error, "horse"));
		admin_auth_done(&auth);
		loop_close(&f->app.control);
		loop_run(&f->app.control);
		fixture_free(f);
	}
	huge = malloc(ADMIN_TOKEN_MAX + 1);
	assert_non_null(huge);
	memset(huge, 'x', ADMIN_TOKEN_MAX + 1);
	for (size_t len = ADMIN_TOKEN_MAX; len <= ADMIN_TOKEN_MAX + 1; len++) {
		struct fixture *f = fixture_new();
		struct admin_auth auth;

		write_token(f, huge, len);
		assert_int_equal(admin_auth_init(&auth, &f->config, error, sizeof(error)),
				 len > ADMIN_TOKEN_MAX ? -1 : 0);
		loop_close(&f->app.control);
		loop_run(&f->app.control);
		fixture_free(f);
	}
	free(huge);
}

/* What must keep it from starting does, in words. */
static void test_no_start(void **state)
{
	struct fixture *f = fixture_new();
	struct admin *admin = NULL;
	char error[256];

	(void)state;
	f->config.admin_listen.loopback = false;
	assert_int_equal(admin_new(&f->app, error, sizeof(error), &admin), -1);
	assert_non_null(strstr(error, "admin.token_file"));
	f->config.admin_token_file = f->token_file; /* which is not there */
	assert_int_equal(admin_new(&f->app, error, sizeof(error), &admin), -1);
	assert_non_null(strstr(error, "No such file"));
	f->config.admin_token_file = NULL;
	f->config.admin_listen.loopback = true;
	f->config.admin_listen.host = TEXT("192.0.2.1");
	assert_int_equal(admin_new(&f->app, error, sizeof(error), &admin), -1);
	assert_non_null(strstr(error, "127.0.0.1:0"));
	assert_null(admin);
	loop_close(&f->app.control);
	loop_run(&f->app.control);
	fixture_free(f);
}

/* Reads are open on loopback, with a token or without, right or wrong. */
static void test_loopback_is_open(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	write_token(f, TOKEN, strlen(TOKEN));
	fixture_start(f);
	assert_int_equal(status_of(f, "GET", "/v1/operations", ""), 200);
	assert_int_equal(status_of(f, "GET", "/metrics", BEARER), 200);
	assert_int_equal(status_of(f, "GET", "/metrics", "Authorization: Bearer wrong\r\n"), 200);
	fixture_stop(f);
}

/* DNS rebinding: a page of evil.example whose name now points to 127.0.0.1. */
static void test_hosts(void **state)
{
	static const char *const good[] = {
		"localhost",           "localhost:8381", "LocalHost:1", "127.0.0.1",
		"127.0.0.1:8381",      "127.8.9.1",      "10.1.2.3:80", "[::1]",
		"[::1]:8381",          "[2001:db8::1]",  "localhost:",  "stint.internal",
		"STINT.internal:8381",
	};
	static const char *const bad[] = {
		"evil.example",
		"evil.example:8381",
		"localhost.evil.example",
		"127.0.0.1.evil.example",
		"evil.example@localhost",
		"xlocalhost",
		"localhost.",
		"a.localhost",
		"localhost:80:80",
		"localhost:8x",
		"127.0.0.1:evil",
		"[::1",
		"[::1]evil",
		"[localhost]",
		"[127.0.0.1]",
		"::1",
		"127.1",
		"2130706433",
		"0x7f.0.0.1",
		"",
		":8381",
		"[]",
		"stint.internal.evil",
	};
	static const char *const targets[] = {"/healthz", "/readyz", "/metrics", "/v1/operations",
					      "/nothing"};
	struct fixture *f = fixture_new();
	struct reply *reply;
	char header[128];
	int fd;

	(void)state;
	fixture_start(f);
	f->admin->auth.host = "stint.internal";
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		snprintf(header, sizeof(header), "Host: %s\r\n", good[i]);
		assert_int_equal(status_of(f, "GET", "/v1/operations", header), 200);
	}
	f->fake.asked = 0;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(header, sizeof(header), "Host: %s\r\n", bad[i]);
		if (status_of(f, "GET", targets[i % 5], header) != 403)
			fail_msg("\"%s\" was let in", bad[i]);
	}
	assert_int_equal(
		status_of(f, "POST", "/metrics", "Content-Length: 0\r\nHost: evil.example\r\n"),
		403);
	assert_int_equal(
		status_of(f, "GET", "/metrics", "Host: localhost\r\nHost: evil.example\r\n"), 403);
	assert_int_equal(f->fake.asked, 0);
	/* No browser leaves it out. */
	fd = caller_connect(f);
	caller_send(fd, "GET /healthz HTTP/1.0\r\n\r\n");
	reply = caller_read(fd);
	assert_int_equal(reply->status, 200);
	reply_done(reply);
	fixture_stop(f);
}

static void test_unix_socket(void **state)
{
	struct fixture *f = fixture_new();

	(void)state;
	f->config.admin_listen =
		(struct listen_address){.text = f->socket, .path = f->socket, .loopback = true};
	fixture_start(f);
	assert_int_equal(status_of(f, "GET", "/v1/operations", ""), 200);
	assert_int_equal(status_of(f, "GET", "/v1/operations", "Host: stint\r\n"), 200);
	fixture_stop(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matrix_elsewhere), cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_token_files),      cmocka_unit_test(test_no_start),
		cmocka_unit_test(test_loopback_is_open), cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_unix_socket),      cmocka_unit_test(test_changes),
		cmocka_unit_test(test_own_origin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
