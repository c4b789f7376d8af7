/* Fingerprints: which requests count as the same, in each mode. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/digest.h"
#include "proxy/fingerprint.h"

struct print {
	uint8_t bytes[32];
};

static struct print print_input(const struct fingerprint_config *config,
				const struct fingerprint_input *input)
{
	/* A heap copy of the body's exact size: a sanitizer sees a read beyond it. */
	char *copy = malloc(input->body_len == 0 ? 1 : input->body_len);
	struct fingerprint_input exact = *input;
	struct print made, again;

	assert_non_null(copy);
	if (input->body_len > 0)
		memcpy(copy, input->body, input->body_len);
	exact.body = copy;
	assert_int_equal(fingerprint_compute(config, &exact, made.bytes), 0);
	assert_int_equal(fingerprint_compute(config, &exact, again.bytes), 0);
	assert_memory_equal(made.bytes, again.bytes, sizeof(made.bytes));
	free(copy);
	return made;
}

static struct print print_body(const struct fingerprint_config *config, const char *type,
			       const char *body, size_t len)
{
	struct fingerprint_input input = {.method = "POST",
					  .target = "/charges?x=1",
					  .content_type = type,
					  .body = body,
					  .body_len = len,
					  .total_length = -1};

	return print_input(config, &input);
}

static bool same(struct print a, struct print b)
{
	return memcmp(a.bytes, b.bytes, sizeof(a.bytes)) == 0;
}

static const struct fingerprint_config exact = {.mode = FINGERPRINT_EXACT};
static const struct fingerprint_config none = {.mode = FINGERPRINT_NONE};
static const struct fingerprint_config multipart = {.mode = FINGERPRINT_MULTIPART};

static char *pointers[] = {"/requested_at", "/meta/trace", "/list/0", "/a~1b"};
static const struct fingerprint_config json = {
	.mode = FINGERPRINT_JSON, .except = pointers, .except_count = 4};

static struct print exactly(const char *method, const char *target, const char *body)
{
	struct fingerprint_input input = {.method = method,
					  .target = target,
					  .body = body,
					  .body_len = strlen(body),
					  .total_length = -1};

	return print_input(&exact, &input);
}

/* The ledger keeps these for as long as its records. */
static void test_vectors(void **state)
{
	static const uint8_t expected[32] = {0x63, 0xb1, 0x1e, 0x39, 0x83, 0xe2, 0xf2, 0x64,
					     0xa8, 0xb2, 0xfd, 0xe7, 0xa8, 0x3e, 0xcc, 0xb4,
					     0x20, 0xbc, 0xf3, 0xe3, 0x39, 0xe6, 0x8c, 0x71,
					     0x52, 0xce, 0x00, 0x64, 0xa3, 0xad, 0xab, 0x7f};
	char key[44];

	(void)state;
	assert_memory_equal(exactly("POST", "/charges?x=1", "{\"a\":1}").bytes, expected, 32);
	fingerprint_upstream_key("payments", "", "acct_1", "inv-1", 0, key);
	assert_string_equal(key, "CqXLxA_fX4ojDcx6TK5CuaAknADc4vbhA6T9TfcUH0I");
}

static void test_exact(void **state)
{
	struct print base = exactly("POST", "/a", "{\"x\": 1}");

	(void)state;
	assert_true(same(base, exactly("POST", "/a", "{\"x\": 1}")));
	assert_false(same(base, exactly("PUT", "/a", "{\"x\": 1}")));
	assert_false(same(base, exactly("POST", "/a?", "{\"x\": 1}")));
	assert_false(same(base, exactly("POST", "/a", "{\"x\":1}")));
	/* Fields do not run into each other. */
	assert_false(same(exactly("POST", "/a", "bc"), exactly("POST", "/ab", "c")));
	assert_false(same(exactly("POST", "/a", "bc"), exactly("POST/", "a", "bc")));
}

static void test_none(void **state)
{
	struct fingerprint_input a = {.method = "POST", .target = "/a", .body = "x", .body_len = 1};
	struct fingerprint_input b = {.method = "PUT", .target = "/b", .body = "", .partial = true};

	(void)state;
	assert_true(same(print_input(&none, &a), print_input(&none, &b)));
	assert_false(same(print_input(&none, &a), print_input(&exact, &a)));
}

static void test_partial(void **state)
{
	struct fingerprint_input whole = {
		.method = "POST", .target = "/a", .body = "xyz", .body_len = 3, .total_length = -1};
	struct fingerprint_input partial = whole, longer = whole;

	(void)state;
	partial.partial = longer.partial = true;
	longer.total_length = 100;
	assert_false(same(print_input(&exact, &whole), print_input(&exact, &partial)));
	assert_false(same(print_input(&exact, &partial), print_input(&exact, &longer)));
	assert_false(same(print_input(&exact, &partial), print_input(&json, &partial)));
	assert_false(same(print_input(&multipart, &partial), print_input(&json, &partial)));
}

static struct print of_json(const char *body)
{
	return print_body(&json, "application/json", body, strlen(body));
}

static void test_json(void **state)
{
	struct print base =
		of_json("{\"amount\":5,\"requested_at\":\"a\",\"meta\":{\"trace\":1,\"k\":2}}");

	(void)state;
	assert_true(same(base, of_json("{\"meta\":{\"k\":2},\"amount\":5}")));
	assert_true(same(
		base, of_json(" { \"requested_at\" : {\"x\":[1]}, \"amount\":5,\n\"meta\":{\"k\":2,"
			      "\"trace\":null}}")));
	assert_true(same(of_json("{\"s\":\"\\u0061\\/\"}"), of_json("{\"s\":\"a/\"}")));
	assert_false(same(base, of_json("{\"meta\":{\"k\":3},\"amount\":5}")));
	assert_false(same(base, of_json("{\"meta\":{\"k\":2},\"amount\":5,\"x\":null}")));
	assert_false(same(base, of_json("{\"meta\":{\"k\":2},\"amount\":\"5\"}")));
	assert_false(same(base, of_json("{\"meta\":{\"k\":2},\"amount\":5.0}")));
	assert_true(same(of_json("{\"list\":[1,2]}"), of_json("{\"list\":[9,2]}")));
	assert_false(same(of_json("{\"list\":[1,2]}"), of_json("{\"list\":[2]}")));
	assert_false(same(of_json("{\"list\":[1,2]}"), of_json("{\"list\":[1,3]}")));
	assert_true(same(of_json("{\"a/b\":1}"), of_json("{}")));
	assert_false(same(of_json("{}"), of_json("[]")));
}

/* What is not JSON, or costs too much as a tree, counts by its bytes; it never equals a canonical
 * body. */
static void test_json_exact(void **state)
{
	static const char *const odd[] = {"",
					  "{",
					  "{\"requested_at\":1",
					  "{\"a\":1,\"a\":1}",
					  "{\"a\":\"\xff\"}",
					  "x=1",
					  "{\"a\":123456789012345678901234567890}",
					  "{\"a\":1e999}",
					  "{\"a\":1}x"};
	char deep[600];

	(void)state;
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		for (size_t j = 0; j < sizeof(odd) / sizeof(odd[0]); j++)
			assert_true(same(of_json(odd[i]), of_json(odd[j])) == (i == j));
	}
	memset(deep, '[', 300);
	memset(deep + 300, ']', 299);
	deep[599] = '\0';
	assert_false(same(of_json(deep), of_json("[]")));
	/* canonical text, taken exactly elsewhere */
	assert_false(same(of_json("{\"b\":1}"), print_body(&exact, NULL, "{\"b\":1}", 7)));
}

static void test_json_many_values(void **state)
{
	size_t len = 2 * 150000 + 1;
	char *body = malloc(len + 1);
	struct print first;

	(void)state;
	assert_non_null(body);
	for (size_t i = 0; i < len; i += 2)
		memcpy(body + i, "1,", 2);
	body[0] = '[';
	body[len - 1] = ']';
	body[1] = '1';
	first = print_body(&json, NULL, body, len);
	body[2] = ' ';
	assert_false(same(first, print_body(&json, NULL, body, len)));
	free(body);
}

#define PART "Content-Disposition: form-data; name=\"a\"\r\n\r\n"

static struct print parts(const char *type, const char *body)
{
	return print_body(&multipart, type, body, strlen(body));
}

static void test_multipart(void **state)
{
	struct print base = parts("multipart/form-data; boundary=xx",
				  "--xx\r\n" PART "1\r\n--xx\r\n" PART "2\r\n--xx--\r\n");

	(void)state;
	assert_true(
		same(base, parts("Multipart/Form-Data; charset=utf-8; Boundary=\"y y\"",
				 "--y y\r\n" PART "1\r\n--y y \t\r\n" PART "2\r\n--y y--\r\n")));
	assert_false(same(base, parts("multipart/form-data; boundary=xx",
				      "--xx\r\n" PART "1\r\n--xx\r\n" PART "3\r\n--xx--\r\n")));
	assert_false(same(base, parts("multipart/form-data; boundary=xx",
				      "--xx\r\n" PART "2\r\n--xx\r\n" PART "1\r\n--xx--\r\n")));
	assert_false(same(base, parts("multipart/form-data; boundary=xx",
				      "--xx\r\n" PART "1\r\n--xx--\r\n")));
	assert_false(
		same(base, parts("multipart/form-data; boundary=xx",
				 "pre\r\n--xx\r\n" PART "1\r\n--xx\r\n" PART "2\r\n--xx--\r\n")));
	assert_true(same(parts("multipart/mixed; boundary=a", "--a\r\n\r\nx\r\n--a--"),
			 parts("multipart/mixed; boundary=b", "--b\r\n\r\nx\r\n--b--")));
	assert_false(same(parts("multipart/mixed; boundary=a", "--a\r\n\r\nx\r\n--a--"),
			  parts("multipart/mixed; boundary=b", "--b\r\n\r\nxy\r\n--b--")));
}

/* Malformed or otherwise typed: by the bytes, so that two such bodies differ in any byte. */
static void test_multipart_exact(void **state)
{
	static const char *const types[] = {
		NULL,
		"",
		"text/plain; boundary=xx",
		"multipart/form-data",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"xx",
		"multipart/form-data; boundary=\"xx\\",
		"multipart/form-data; boundary=yy",
		"multipart/form-data; boundary=xx; boundary=yy",
		"multipart/form-data; boundary",
		"multipart/form-data; "
		"boundary="
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
	static const char *const bodies[] = {"",
					     "--xx",
					     "--xx--x--xx",
					     "--xx\r\n" PART "1",
					     "--xx\r\n" PART "1\r\n--xx",
					     "--xx\r\n" PART "1\r\n--xxy\r\n" PART "2\r\n--xx--",
					     "--xx\nA: b\n\n1\n--xx--\n",
					     "--xx\r\nA: b\r\n--xx--",
					     "--xx\r\n--xx--"};
	const char *whole = "--xx\r\n" PART "1\r\n--xx--\r\n",
		   *other = "--xx\r\n" PART "1\r\n--xx--\r\n ";

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct print first = print_body(&multipart, types[i], whole, strlen(whole));

		assert_false(same(first, print_body(&multipart, types[i], other, strlen(other))));
		assert_true(same(first, print_body(&multipart, NULL, whole, strlen(whole))));
	}
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		assert_true(same(parts("multipart/form-data; boundary=xx", bodies[i]),
				 parts("text/plain", bodies[i])));
}

static void test_sweep(void **state)
{
	static const char form[] = "--xx\r\nA: b\r\n\r\n1\r\n--xx--\r\n";
	static const char object[] = "{\"list\":[{\"x\":1}],\"meta\":{\"trace\":\"\\u00e9\"}}";
	char text[sizeof(object)];

	(void)state;
	for (size_t len = 0; len < sizeof(form); len++)
		print_body(&multipart, "multipart/mixed; boundary=xx", form, len);
	for (size_t at = 0; at < sizeof(form) - 1; at++) {
		for (int byte = 0; byte < 256; byte++) {
			memcpy(text, form, sizeof(form));
			text[at] = (char)byte;
			print_body(&multipart, "multipart/mixed; boundary=xx", text,
				   sizeof(form) - 1);
		}
	}
	for (size_t len = 0; len < sizeof(object); len++)
		print_body(&json, NULL, object, len);
	for (size_t at = 0; at < sizeof(object) - 1; at++) {
		for (int byte = 0; byte < 256; byte++) {
			memcpy(text, object, sizeof(object));
			text[at] = (char)byte;
			print_body(&json, NULL, text, sizeof(object) - 1);
		}
	}
}

static void test_upstream_key(void **state)
{
	char base[44], other[44];
	static const char *const cases[][4] = {{"q", "t", "s", "k"}, {"p", "u", "s", "k"},
					       {"p", "t", "v", "k"}, {"p", "t", "s", "l"},
					       {"pt", "", "s", "k"}, {"p", "ts", "", "k"},
					       {"p", "t", "sk", ""}, {"p", "s", "t", "k"}};

	(void)state;
	fingerprint_upstream_key("p", "t", "s", "k", 0, base);
	assert_int_equal(strlen(base), 43);
	assert_int_equal(
		strspn(base, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
		43);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fingerprint_upstream_key(cases[i][0], cases[i][1], cases[i][2], cases[i][3], 0,
					 other);
		assert_string_not_equal(base, other);
	}
	fingerprint_upstream_key("p", "t", "s", "k", 1, other);
	assert_string_not_equal(base, other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_partial),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_exact),
		cmocka_unit_test(test_json_many_values),
		cmocka_unit_test(test_multipart),
		cmocka_unit_test(test_multipart_exact),
		cmocka_unit_test(test_sweep),
		cmocka_unit_test(test_upstream_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
