/* Header lists, and what passes from one hop to the next (RFC 9110 section 7.6). */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/config.h"
#include "proxy/headers.h"

/* The list as one text, "Name: value|Name: value|". */
static void assert_list(const struct headers *headers, const char *expected)
{
	char text[4096];
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < headers->count; i++) {
		const struct header_view *item = &headers->items[i];

		assert_int_equal(strlen(item->name), item->name_len);
		assert_int_equal(strlen(item->value), item->value_len);
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s: %s|", item->name,
					item->value);
		assert_true(len < sizeof(text));
	}
	assert_string_equal(text, expected);
}

/* Reads "Name: value|..." into a list. */
static struct headers list_of(const char *text)
{
	struct headers headers;

	headers_init(&headers);
	while (*text != '\0') {
		size_t len = strcspn(text, "|"), name_len = strcspn(text, ":");

		assert_int_equal(headers_add(&headers, text, name_len, text + name_len + 2,
					     len - name_len - 2),
				 HEADERS_OK);
		text += len + 1;
	}
	return headers;
}

static void assert_request(const char *in, const struct provider_config *provider,
			   const char *expected)
{
	struct headers from = list_of(in), to;
	const char *detail = NULL;

	headers_init(&to);
	assert_int_equal(headers_filter_request(from.items, from.count, provider, &to, &detail),
			 HEADERS_OK);
	assert_null(detail);
	assert_list(&to, expected);
	headers_done(&from);
	headers_done(&to);
}

static void refuse_request(const char *in, const struct provider_config *provider)
{
	struct headers from = list_of(in), to;
	const char *detail = NULL;

	headers_init(&to);
	if (headers_filter_request(from.items, from.count, provider, &to, &detail) !=
	    HEADERS_REFUSED)
		fail_msg("not refused: %s", in);
	assert_non_null(detail);
	headers_done(&from);
	headers_done(&to);
}

static void assert_reply(const char *in, const char *expected)
{
	struct headers from = list_of(in), to;

	headers_init(&to);
	assert_int_equal(headers_filter_reply(from.items, from.count, &to), HEADERS_OK);
	assert_list(&to, expected);
	headers_done(&from);
	headers_done(&to);
}

static void test_list(void **state)
{
	struct headers headers = list_of("A: 1|b: 2|a: 3|C: |");

	(void)state;
	assert_string_equal(headers_find(&headers, "B")->value, "2");
	assert_string_equal(headers_find(&headers, "a")->value, "1");
	assert_null(headers_find(&headers, "aa"));
	assert_null(headers_find(&headers, ""));
	assert_int_equal(headers_count(&headers, "A"), 2);
	assert_int_equal(headers_set(&headers, "a", "9"), HEADERS_OK);
	assert_list(&headers, "b: 2|C: |a: 9|");
	assert_int_equal(headers_set(&headers, "b", "x\r\ny"), HEADERS_REFUSED);
	assert_list(&headers, "b: 2|C: |a: 9|");
	assert_int_equal(headers_remove(&headers, "c"), 1);
	assert_int_equal(headers_remove(&headers, "c"), 0);
	assert_list(&headers, "b: 2|a: 9|");
	headers_clear(&headers);
	assert_list(&headers, "");
	assert_int_equal(headers_add_text(&headers, "X", "y"), HEADERS_OK);
	assert_list(&headers, "X: y|");
	headers_done(&headers);
	headers_done(&headers);
}

static void test_growth(void **state)
{
	struct headers headers;
	char name[32], *value = malloc(50001);

	(void)state;
	assert_non_null(value);
	memset(value, 'v', 50000);
	value[50000] = '\0';
	headers_init(&headers);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "X-%d", i);
		value[i * 100] = '\0';
		assert_int_equal(headers_add_text(&headers, name, value), HEADERS_OK);
		value[i * 100] = 'v';
	}
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "X-%d", i);
		assert_string_equal(headers.items[i].name, name);
		assert_int_equal(strlen(headers.items[i].value), i * 100);
	}
	headers_done(&headers);
	free(value);
}

static void test_injection(void **state)
{
	static const char *const names[] = {"",    "a b",      "a:", "a\r\nb", "a\n",
					    "a\t", "\xc3\xa9", "a(", "a\x7f",  " a"};
	struct headers headers;

	(void)state;
	headers_init(&headers);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(headers_add_text(&headers, names[i], "x"), HEADERS_REFUSED);
	assert_int_equal(headers_add(&headers, "a\0b", 3, "x", 1), HEADERS_REFUSED);
	assert_int_equal(headers_add(&headers, "a", 1, "x\0y", 3), HEADERS_REFUSED);
	assert_int_equal(headers_add_text(&headers, "a", "x\ry"), HEADERS_REFUSED);
	assert_int_equal(headers_add_text(&headers, "a", "x\ny"), HEADERS_REFUSED);
	assert_int_equal(headers_add_text(&headers, "a", "x\r\nSet-Cookie: y"), HEADERS_REFUSED);
	assert_int_equal(headers.count, 0);
	assert_int_equal(headers_add_text(&headers, "!#$%&'*+-.^_`|~09azAZ", " \xe9\t "),
			 HEADERS_OK);
	assert_string_equal(headers.items[0].value, " \xe9\t ");
	headers_done(&headers);
}

static void test_request_filter(void **state)
{
	(void)state;
	assert_request(
		"Host: x|Accept: */*|connection: keep-alive|Keep-Alive: timeout=5|"
		"Proxy-Connection: x|Proxy-Authenticate: x|Proxy-Authorization: x|TE: trailers|"
		"Trailer: x|Transfer-Encoding: chunked|Upgrade: h2c|HTTP2-Settings: x|"
		"Expect: 100-continue|Content-Length: 3|Stint: x|Stint-Attempts: 3|"
		"STINT-anything: y|Stinted: z|Authorization: Bearer t|Idempotency-Key: k|",
		NULL,
		"Accept: */*|Stinted: z|Authorization: Bearer t|Idempotency-Key: k|Via: 1.1 "
		"stint|");
	assert_request("", NULL, "Via: 1.1 stint|");
	assert_request("Via: 1.0 a|X: 1|X: 2|Via: 1.1 b|", NULL,
		       "Via: 1.0 a|X: 1|X: 2|Via: 1.1 b|Via: 1.1 stint|");
}

static void test_request_connection(void **state)
{
	(void)state;
	assert_request("Connection: close, X-Hop ,,x-two|X-Hop: 1|X-TWO: 2|X-Three: 3|X-Ho: 4|"
		       "Connection: X-Four|X-Four: 5|",
		       NULL, "X-Three: 3|X-Ho: 4|Via: 1.1 stint|");
	refuse_request("Connection: authorization|", NULL);
	refuse_request("Connection: close, Authorization|Authorization: x|", NULL);
	refuse_request("Connection: Host|", NULL);
	refuse_request("Connection: close|Connection: content-length|", NULL);
	refuse_request("Connection: a b|", NULL);
	refuse_request("Connection: \"x\"|", NULL);
	refuse_request(
		"Connection: a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,"
		"a|",
		NULL);
	assert_request("Connection:  ,\t,|A: 1|", NULL, "A: 1|Via: 1.1 stint|");
}

static struct key_source compile(const char *text)
{
	struct key_source source;
	char error[256];

	assert_int_equal(key_source_parse(text, &source, error, sizeof(error)), 0);
	return source;
}

static void test_request_guard(void **state)
{
	struct key_source keys[] = {compile("json:/id"),
				    compile("template:{header:X-Job}:{json:/id}")};
	struct key_source scope = compile("header:Stripe-Account");
	struct provider_config provider = {.key_from = keys,
					   .key_from_count = 2,
					   .scope = &scope,
					   .scope_count = 1,
					   .has_tenant = true,
					   .tenant = compile("header:X-Tenant"),
					   .idempotency_header = "Idem-Key"};

	(void)state;
	refuse_request("Connection: x-job|", &provider);
	refuse_request("Connection: stripe-account|", &provider);
	refuse_request("Connection: X-Tenant|X-Tenant: a|", &provider);
	refuse_request("Connection: idem-key|", &provider);
	assert_request("Connection: X-Other|X-Other: 1|X-Tenant: a|", &provider,
		       "X-Tenant: a|Via: 1.1 stint|");
	key_source_done(&keys[0]);
	key_source_done(&keys[1]);
	key_source_done(&scope);
	key_source_done(&provider.tenant);
}

static void test_reply_filter(void **state)
{
	(void)state;
	assert_reply(
		"Content-Type: a|Set-Cookie: a=1|Set-Cookie: b=2|Connection: X-Hop, close|X-Hop: "
		"1|Keep-Alive: timeout=5|Trailer: X|Transfer-Encoding: chunked|Content-Length: 3|"
		"Upgrade: h2c|Stint: state=succeeded|stint-X: y|Proxy-Authenticate: z|"
		"Expect: e|Retry-After: 7|",
		"Content-Type: a|Set-Cookie: a=1|Set-Cookie: b=2|Expect: e|Retry-After: 7|Via: "
		"1.1 stint|");
	/* A provider may name what it likes. */
	assert_reply("Connection: a b, authorization,X|Authorization: y|X: z|A: 1|",
		     "A: 1|Via: 1.1 stint|");
}

static void test_content_length(void **state)
{
	static const struct {
		const char *in;
		int result;
		int64_t length;
	} cases[] = {
		{"A: 1|", 0, -7},
		{"Content-Length: 0|", 1, 0},
		{"content-length:  12 |", 1, 12},
		{"Content-Length: 5|Content-Length: 5|", 1, 5},
		{"Content-Length: 5|Content-Length: 6|", -1, -7},
		{"Content-Length: |", -1, -7},
		{"Content-Length: -1|", -1, -7},
		{"Content-Length: +1|", -1, -7},
		{"Content-Length: 1, 1|", -1, -7},
		{"Content-Length: 0x5|", -1, -7},
		{"Content-Length: 999999999999999999|", 1, INT64_C(999999999999999999)},
		{"Content-Length: 9999999999999999999|", -1, -7},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct headers headers = list_of(cases[i].in);
		int64_t length = -7;

		assert_int_equal(headers_content_length(headers.items, headers.count, &length),
				 cases[i].result);
		assert_int_equal(length, cases[i].length);
		headers_done(&headers);
	}
}

static void test_serialise(void **state)
{
	struct headers headers = list_of("A: 1|B: |Set-Cookie: a: b|Set-Cookie:  c|"), again;
	char *text;
	size_t len;

	(void)state;
	assert_int_equal(headers_serialise(&headers, &text, &len), HEADERS_OK);
	assert_string_equal(text, "A: 1\r\nB: \r\nSet-Cookie: a: b\r\nSet-Cookie:  c\r\n");
	assert_int_equal(len, strlen(text));
	headers_init(&again);
	assert_int_equal(headers_parse(text, len, &again), HEADERS_OK);
	assert_list(&again, "A: 1|B: |Set-Cookie: a: b|Set-Cookie:  c|");
	headers_done(&again);
	free(text);
	headers_clear(&headers);
	assert_int_equal(headers_serialise(&headers, &text, &len), HEADERS_OK);
	assert_int_equal(len, 0);
	assert_int_equal(headers_parse(text, len, &headers), HEADERS_OK);
	free(text);
	headers_done(&headers);
}

/* A damaged block is refused or read within its bounds, never taken for more. */
static void test_parse_sweep(void **state)
{
	static const char whole[] = "A: 1\r\nBcd: \r\n";
	static const char *const bad[] = {
		"A",      "A: 1", "A: 1\r",       "A: 1\n",         "A:1\r\n",   ": 1\r\n",
		"A \r\n", "\r\n", "A: 1\r\n\r\n", "A: 1\rB: 2\r\n", "A : 1\r\n", "A:\r\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct headers headers;

		headers_init(&headers);
		assert_int_equal(headers_parse(bad[i], strlen(bad[i]), &headers), HEADERS_REFUSED);
		headers_done(&headers);
	}
	for (size_t at = 0; at < sizeof(whole) - 1; at++) {
		for (int byte = 0; byte < 256; byte++) {
			char *copy = malloc(sizeof(whole) - 1);
			struct headers headers;

			assert_non_null(copy);
			memcpy(copy, whole, sizeof(whole) - 1);
			copy[at] = (char)byte;
			headers_init(&headers);
			headers_parse(copy, sizeof(whole) - 1, &headers);
			assert_true(headers.count <= 2);
			headers_done(&headers);
			free(copy);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_injection),
		cmocka_unit_test(test_request_filter),
		cmocka_unit_test(test_request_connection),
		cmocka_unit_test(test_request_guard),
		cmocka_unit_test(test_reply_filter),
		cmocka_unit_test(test_content_length),
		cmocka_unit_test(test_serialise),
		cmocka_unit_test(test_parse_sweep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
