/* Request targets: let in, routed, rebuilt, redacted. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/config.h"
#include "proxy/target.h"

static bool let_in(const char *method, const char *raw, size_t len)
{
	char *copy = malloc(len == 0 ? 1 : len);
	const char *detail = NULL;
	bool ok;

	assert_non_null(copy);
	memcpy(copy, raw, len);
	ok = target_check(method, copy, len, &detail);
	assert_true(ok == (detail == NULL));
	free(copy);
	return ok;
}

static void test_check(void **state)
{
	static const char *const good[] = {
		"/",       "/a?b=c",    "//host/x", "/@host",         "/../..",
		"/a|b{c}", "/\xc3\xa9", "/%0d%0a",  "/a?u=http://x/", "/\"<>\\^`"};
	static const char *const bad[] = {"",       "*",    "a",     "http://x/", "HTTP://x",
					  "x:80",   "?a",   "/a b",  "/a\tb",     "/a\r\nX: y",
					  "/a\x7f", "/a#b", "/\x01", "@x/"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(let_in("GET", good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(let_in("GET", bad[i], strlen(bad[i])));
	assert_false(let_in("GET", "/a\0b", 4));
	assert_true(let_in("OPTIONS", "*", 1));
	assert_false(let_in("OPTIONS", "**", 2));
	assert_false(let_in("CONNECT", "x:443", 5));
	assert_false(let_in("CONNECT", "/x", 2));
	for (int byte = 0; byte < 256; byte++) {
		char raw[2] = {'/', (char)byte};

		assert_true(let_in("GET", raw, 2) == (byte > 0x20 && byte != 0x7f && byte != '#'));
	}
}

enum { PAY, PAY_EU, ROOT, HOST, V6, OWN, PROVIDERS };

static struct provider_config providers[PROVIDERS] = {
	[PAY] = {.name = "pay", .route_kind = ROUTE_PREFIX, .route_prefix = "/pay"},
	[PAY_EU] = {.name = "pay-eu", .route_kind = ROUTE_PREFIX, .route_prefix = "/pay/eu"},
	[ROOT] = {.name = "root", .route_kind = ROUTE_PREFIX, .route_prefix = ""},
	[HOST] = {.name = "host", .route_kind = ROUTE_HOST, .route_host = "Stripe.internal"},
	[V6] = {.name = "v6", .route_kind = ROUTE_HOST, .route_host = "[::1]"},
	[OWN] = {.name = "own", .route_kind = ROUTE_LISTEN},
};

static void assert_route(size_t count, const char *host, const char *raw, const char *name)
{
	struct config config = {.providers = providers, .provider_count = count};
	const struct provider_config *got = target_route(
		&config, NULL, host, host == NULL ? 0 : strlen(host), raw, strlen(raw));

	if (name == NULL)
		assert_null(got);
	else if (got == NULL)
		fail_msg("no route for %s", raw);
	else
		assert_string_equal(got->name, name);
}

static void test_route(void **state)
{
	struct config config = {.providers = providers, .provider_count = PROVIDERS};

	(void)state;
	assert_route(PROVIDERS, NULL, "/pay", "pay");
	assert_route(PROVIDERS, "x", "/pay/", "pay");
	assert_route(PROVIDERS, "x", "/pay?x", "pay");
	assert_route(PROVIDERS, "x", "/pay/../x", "pay");
	assert_route(PROVIDERS, "x", "/pay/eu", "pay-eu");
	assert_route(PROVIDERS, "x", "/pay/eu/x", "pay-eu");
	assert_route(PROVIDERS, "x", "/pay/eux", "pay");
	assert_route(PROVIDERS, "x", "/payments", "root");
	assert_route(PROVIDERS, "x", "/Pay", "root");
	assert_route(PROVIDERS, "x", "//pay", "root");
	assert_route(PROVIDERS, "x", "*", "root");
	assert_route(2, "x", "/payments", NULL);
	assert_route(2, "x", "/", NULL);
	assert_route(2, "x", "*", NULL);
	assert_route(2, "x", "/pa", NULL);
	assert_route(0, "x", "/pay", NULL);
	assert_route(PROVIDERS, "stripe.INTERNAL", "/pay", "host");
	assert_route(PROVIDERS, "stripe.internal:8380", "/pay", "host");
	assert_route(PROVIDERS, "stripe.internal.", "/pay", "host");
	assert_route(PROVIDERS, "stripe.internal.:80", "/pay", "host");
	assert_route(PROVIDERS, "[::1]:80", "/pay", "v6");
	assert_route(PROVIDERS, "[::1]", "/pay", "v6");
	assert_route(PROVIDERS, "[::1", "/pay", "pay");
	assert_route(PROVIDERS, "xstripe.internal", "/pay", "pay");
	assert_route(PROVIDERS, "stripe.internal.evil", "/pay", "pay");
	assert_route(PROVIDERS, "", "/pay", "pay");
	assert_route(PROVIDERS, ":80", "/pay", "pay");
	/* An own listener takes whatever comes in there. */
	assert_ptr_equal(target_route(&config, &providers[OWN], "stripe.internal", 15, "/pay", 4),
			 &providers[OWN]);
}

static void assert_built(const struct provider_config *provider, const char *path, const char *raw,
			 const char *upstream, const char *rest)
{
	struct provider_config copy = *provider;
	char base[64], *got;
	const char *got_rest;

	snprintf(base, sizeof(base), "%s", path);
	copy.upstream.path = base;
	assert_int_equal(target_build(&copy, raw, strlen(raw), &got, &got_rest), 0);
	assert_string_equal(got, upstream);
	assert_string_equal(got_rest, rest);
	free(got);
}

static void test_build(void **state)
{
	(void)state;
	assert_built(&providers[PAY], "", "/pay/a?b=/c", "/a?b=/c", "/a?b=/c");
	assert_built(&providers[PAY], "/api", "/pay/a", "/api/a", "/a");
	assert_built(&providers[PAY], "/api", "/pay", "/api/", "/");
	assert_built(&providers[PAY], "/api", "/pay/", "/api/", "/");
	assert_built(&providers[PAY], "/api", "/pay?x=1", "/api/?x=1", "/?x=1");
	assert_built(&providers[PAY], "/api", "/pay/../x", "/api/../x", "/../x");
	assert_built(&providers[PAY], "", "/pay//evil/x", "//evil/x", "//evil/x");
	assert_built(&providers[PAY], "", "/pay/@evil", "/@evil", "/@evil");
	assert_built(&providers[PAY_EU], "/v1", "/pay/eu/%2e%2E/\xc3\xa9", "/v1/%2e%2E/\xc3\xa9",
		     "/%2e%2E/\xc3\xa9");
	assert_built(&providers[ROOT], "/api", "/x", "/api/x", "/x");
	assert_built(&providers[ROOT], "/api", "*", "*", "*");
	assert_built(&providers[HOST], "/api", "/pay/x", "/api/pay/x", "/pay/x");
	assert_built(&providers[OWN], "", "/pay/x", "/pay/x", "/pay/x");
}

static char *secret_names[] = {"key", "token", "api_key"};
static const struct strings secrets = {secret_names, 3};

static void assert_redacted(const char *target, const char *expected)
{
	char kind[TARGET_KIND_MAX];

	target_redact(target, &secrets, kind, sizeof(kind));
	assert_string_equal(kind, expected);
}

static void test_redact(void **state)
{
	(void)state;
	assert_redacted("/a/b", "/a/b");
	assert_redacted("/a?x=1&y=2", "/a?x=1&y=2");
	assert_redacted("/a?token=s3cret&x=1", "/a?token=***&x=1");
	assert_redacted("/a?x=1&TOKEN=s3cret", "/a?x=1&TOKEN=***");
	assert_redacted("/a?tok%65n=s3cret", "/a?tok%65n=***");
	assert_redacted("/a?token=s3=cr;et", "/a?token=***");
	assert_redacted("/a?card[token]=s3cret", "/a?card[token]=***");
	assert_redacted("/a?card%5Btoken%5D=s3cret", "/a?card%5Btoken%5D=***");
	assert_redacted("/a?token[]=s3cret", "/a?token[]=***");
	assert_redacted("/a?x=1;token=s3cret", "/a?x=***");
	assert_redacted("/a?next=/x?token=s3cret", "/a?next=***");
	assert_redacted("/a?next=%2Fx%3Ftoken%3Ds3cret%26y%3D1&z=1", "/a?next=***&z=1");
	assert_redacted("/a?token%3Ds3cret", "/a?***");
	assert_redacted("/a?token%3Ds3cret=1", "/a?***");
	assert_redacted("/a?tokens=1&mytoken=2&my_token=3&x-key=4",
			"/a?tokens=1&mytoken=2&my_token=3&x-key=4");
	assert_redacted("/a?token", "/a?token");
	assert_redacted("/a?token=", "/a?token=***");
	assert_redacted("/a?api_key=x&&=&?", "/a?api_key=***&&=&?");
	assert_redacted("/a?", "/a?");
	assert_redacted("", "");
}

static void test_redact_userinfo(void **state)
{
	(void)state;
	assert_redacted("//me:pw@host/x", "//***@host/x");
	assert_redacted("/https://me:p@w@host/x@y", "/https://***@host/x@y");
	assert_redacted("/a@b/c", "/a@b/c");
	assert_redacted("/x//host/a@b", "/x//host/a@b");
	assert_redacted("/a?cb=https://me:pw@host/x", "/a?cb=https://***@host/x");
	assert_redacted("/a?cb=https%3A%2f%2Fme%3Apw%40host%2Fx",
			"/a?cb=https%3A%2f%2F***%40host%2Fx");
}

static void test_redact_bytes(void **state)
{
	char kind[TARGET_KIND_MAX], target[4000];

	(void)state;
	assert_redacted("/\xc3\xa9", "/%C3%A9");
	/* Cut, and no secret beyond the cut or across it. */
	for (size_t at = 2; at < sizeof(target) - 40; at += 7) {
		memset(target, 'a', sizeof(target));
		memcpy(target, "/?", 2);
		memcpy(target + at, "&token=s3cret&x=1", 18);
		target_redact(target, &secrets, kind, sizeof(kind));
		assert_true(strlen(kind) < sizeof(kind));
		assert_null(strstr(kind, "s3c"));
		if (at + 17 > sizeof(kind))
			assert_string_equal(kind + strlen(kind) - 3, "...");
	}
	for (size_t size = 1; size < 40; size++) {
		target_redact("/a/b?token=s3cret&x=1", &secrets, target, size);
		assert_true(strlen(target) < size);
		assert_null(strstr(target, "s3"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),           cmocka_unit_test(test_route),
		cmocka_unit_test(test_build),           cmocka_unit_test(test_redact),
		cmocka_unit_test(test_redact_userinfo), cmocka_unit_test(test_redact_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
