/* Key sources and what they read, with W20 to W22 and the malformed keys of B46. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/name.h"
#include "classify/json_scan.h"
#include "proxy/key.h"

#define FORM "application/x-www-form-urlencoded"

static struct key_source compile(const char *text)
{
	struct key_source source;
	char error[256] = "";

	if (key_source_parse(text, &source, error, sizeof(error)) != 0)
		fail_msg("%s: %s", text, error);
	return source;
}

static void refuse_source(const char *text, const char *hint)
{
	struct key_source source = {.part = 77};
	char error[256] = "";

	assert_int_equal(key_source_parse(text, &source, error, sizeof(error)), -1);
	assert_int_equal(source.part, 77);
	if (strstr(error, hint) == NULL)
		fail_msg("%s: \"%s\" does not say \"%s\"", text, error, hint);
}

static enum key_result extract(const char *text, const struct key_input *input, char *ret_key)
{
	struct key_source source = compile(text);
	char detail[KEY_DETAIL_MAX] = "";
	enum key_result result;

	memset(ret_key, 'x', OP_KEY_MAX + 1);
	result = key_extract(&source, 1, input, ret_key, detail);
	if (result == KEY_INVALID)
		assert_true(strlen(detail) > 10);
	key_source_done(&source);
	return result;
}

/* Each input is a heap copy of its exact size, so that a sanitizer sees a read beyond it. */
static enum key_result from_header(const char *source, const void *value, size_t len, char *ret_key)
{
	char *copy = malloc(len + 1);
	struct header_view header = {"idempotency-KEY", 15, copy, len};
	struct key_input input = {.headers = &header, .header_count = 1};
	enum key_result result;

	assert_non_null(copy);
	memcpy(copy, value, len);
	copy = realloc(copy, len == 0 ? 1 : len);
	assert_non_null(copy);
	header.value = copy;
	result = extract(source, &input, ret_key);
	free(copy);
	return result;
}

static enum key_result from_body(const char *source, const char *type, const void *body, size_t len,
				 char *ret_key)
{
	char *copy = malloc(len == 0 ? 1 : len);
	struct key_input input = {.body = copy, .body_len = len, .content_type = type};
	enum key_result result;

	assert_non_null(copy);
	memcpy(copy, body, len);
	result = extract(source, &input, ret_key);
	free(copy);
	return result;
}

static void header_is_key(const char *value, const char *key)
{
	char got[OP_KEY_MAX + 1];

	assert_int_equal(from_header("header:Idempotency-Key", value, strlen(value), got),
			 KEY_FOUND);
	assert_string_equal(got, key);
}

static void header_is_invalid(const char *value, size_t len)
{
	char got[OP_KEY_MAX + 1];

	assert_int_equal(from_header("header:Idempotency-Key", value, len, got), KEY_INVALID);
}

static void json(const char *source, const char *body, enum key_result result, const char *key)
{
	char got[OP_KEY_MAX + 1];
	enum key_result is = from_body(source, "application/json", body, strlen(body), got);

	if (is != result)
		fail_msg("%s of %s: %d", source, body, is);
	if (result == KEY_FOUND)
		assert_string_equal(got, key);
}

static void form(const char *body, enum key_result result, const char *key)
{
	char got[OP_KEY_MAX + 1];
	enum key_result is =
		from_body("form:invoice_id", FORM "; charset=utf-8", body, strlen(body), got);

	if (is != result)
		fail_msg("%s: %d", body, is);
	if (result == KEY_FOUND)
		assert_string_equal(got, key);
}

static void test_header(void **state)
{
	char longest[OP_KEY_MAX + 3];

	(void)state;
	header_is_key("abc", "abc");
	header_is_key(" \tabc ", "abc");
	header_is_key("a:b", "a:b");
	header_is_key("\"abc\"", "abc");
	header_is_key("\"a\\\"b\\\\c\"", "a\"b\\c");
	header_is_key("ab\"c", "ab\"c");
	memset(longest, 'k', sizeof(longest));
	longest[OP_KEY_MAX] = '\0';
	header_is_key(longest, longest);
}

static void test_header_malformed(void **state)
{
	static const struct {
		const char *value;
		size_t len;
	} bad[] = {
		{"", 0},
		{"  ", 2},
		{"a\x01"
		 "b",
		 3},
		{"a b", 3},
		{"a\0b", 3},
		{"\xf0\x9f\x98\x80", 4},
		{"a\x7f", 2},
		{"\"\"", 2},
		{"\"abc", 4},
		{"\"", 1},
		{"\"a\" ;x=1", 8},
		{"\"a\";x=1", 7},
		{"\"a\\\"", 4},
		{"\"a\\n\"", 5},
		{"\"a b\"", 5},
		{"\"a\"b", 4},
		{"\"a\", \"b\"", 8},
		{"\"\xc3\xa9\"", 4},
	};
	char longer[OP_KEY_MAX + 3];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		header_is_invalid(bad[i].value, bad[i].len);
	memset(longer, 'k', sizeof(longer));
	header_is_invalid(longer, OP_KEY_MAX + 1);
	longer[0] = longer[OP_KEY_MAX + 2] = '"';
	header_is_invalid(longer, OP_KEY_MAX + 3);
}

/* The answer to a malformed key is stable and says nothing of its value. */
static void test_header_detail(void **state)
{
	struct header_view header = {"Idempotency-Key", 15, "sec ret", 7};
	struct key_input input = {.headers = &header, .header_count = 1};
	struct key_source source = compile("header:Idempotency-Key");
	char first[KEY_DETAIL_MAX], second[KEY_DETAIL_MAX], key[OP_KEY_MAX + 1];

	(void)state;
	assert_int_equal(key_extract(&source, 1, &input, key, first), KEY_INVALID);
	assert_int_equal(key_extract(&source, 1, &input, key, second), KEY_INVALID);
	assert_string_equal(first, second);
	assert_null(strstr(first, "sec"));
	key_source_done(&source);
}

static void test_header_lines(void **state)
{
	struct header_view headers[] = {{"Idempotency-Key", 15, "a", 1},
					{"Other", 5, "b", 1},
					{"IDEMPOTENCY-KEY", 15, "a", 1}};
	struct key_input input = {.headers = headers, .header_count = 3};
	char key[OP_KEY_MAX + 1];

	(void)state;
	assert_int_equal(extract("header:Idempotency-Key", &input, key), KEY_INVALID);
	input.header_count = 2;
	assert_int_equal(extract("header:Idempotency-Key", &input, key), KEY_FOUND);
	assert_int_equal(extract("header:Idempotency-Ke", &input, key), KEY_NONE);
	assert_int_equal(extract("header:Missing", &input, key), KEY_NONE);
}

static void test_header_part(void **state)
{
	char key[OP_KEY_MAX + 1];
	const char *source = "header:Idempotency-Key;part=2;sep=,";

	(void)state;
	assert_int_equal(from_header(source, "a, b ,c", 7, key), KEY_FOUND);
	assert_string_equal(key, "b");
	assert_int_equal(from_header(source, "a", 1, key), KEY_INVALID);
	assert_int_equal(from_header(source, "a,", 2, key), KEY_INVALID);
	assert_int_equal(from_header(source, "a,,c", 4, key), KEY_INVALID);
	assert_int_equal(from_header("header:Idempotency-Key;part=2;sep= ", "Bearer t0", 9, key),
			 KEY_FOUND);
	assert_string_equal(key, "t0");
	assert_int_equal(from_header("header:Idempotency-Key;part=1", "x,y", 3, key), KEY_FOUND);
	assert_string_equal(key, "x");
}

static void test_json(void **state)
{
	(void)state;
	json("json:/id", "{\"id\":\"inv-1\"}", KEY_FOUND, "inv-1");
	json("json:/id", " {\"x\":[1,{\"id\":2}], \"id\" : 42 } ", KEY_FOUND, "42");
	json("json:/id", "{\"id\":123456789012345678901234567890}", KEY_FOUND,
	     "123456789012345678901234567890");
	json("json:/id", "{\"n\":1e999,\"id\":\"a\"}", KEY_FOUND, "a");
	json("json:/id", "{\"id\":-1.50e+3}", KEY_FOUND, "-1.50e+3");
	json("json:/a/1/b", "{\"a\":[0,{\"b\":\"x\"},{\"b\":\"y\"}]}", KEY_FOUND, "x");
	json("json:/a~1b/~0", "{\"a/b\":{\"~\":\"x\"}}", KEY_FOUND, "x");
	json("json:/id", "{\"\\u0069d\":\"\\u0061\\/b\"}", KEY_FOUND, "a/b");
	json("json:/", "{\"\":\"x\"}", KEY_FOUND, "x");
	json("json:/a/01", "{\"a\":[0,1]}", KEY_NONE, NULL);
	json("json:/a/-", "{\"a\":[0,1]}", KEY_NONE, NULL);
	json("json:/id", "{\"id\":null}", KEY_NONE, NULL);
	json("json:/id", "{\"other\":1}", KEY_NONE, NULL);
	json("json:/id/x", "{\"id\":\"a\"}", KEY_NONE, NULL);
	json("json:/id", "[]", KEY_NONE, NULL);
	json("json:/id", "\"id\"", KEY_NONE, NULL);
}

static void test_json_invalid(void **state)
{
	(void)state;
	json("json:/id", "{\"id\":\"\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":true}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":{}}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":[1]}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"a b\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"a\\u0000b\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"\\u00e9\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"\\ud83d\\ude00\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"\\ud83d\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"a\\ud83d\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"a\xe9\"}", KEY_INVALID, NULL);
	/* Readers differ in which of two they take. */
	json("json:/id", "{\"id\":\"a\",\"id\":\"a\"}", KEY_INVALID, NULL);
	json("json:/id", "{\"id\":\"a\",\"i\\u0064\":\"b\"}", KEY_INVALID, NULL);
	json("json:/a/id", "{\"a\":{\"id\":1},\"a\":{}}", KEY_INVALID, NULL);
	/* Elsewhere it does not change the key. */
	json("json:/id", "{\"x\":1,\"x\":2,\"y\":{\"id\":1,\"id\":2},\"id\":\"a\"}", KEY_FOUND,
	     "a");
	json("json:/id", "{\"x\":\"caf\xe9\",\"id\":\"a\"}", KEY_FOUND, "a");
	json("json:/id", "{\"id\":\"a\",\"x\":\"\\ud83d\"}", KEY_FOUND, "a");
}

/* A key that does not fit is no other key, and not "not present". */
static void test_json_long(void **state)
{
	char body[OP_KEY_MAX + 16];

	(void)state;
	for (int quoted = 0; quoted <= 1; quoted++) {
		for (int len = OP_KEY_MAX; len <= OP_KEY_MAX + 1; len++) {
			char key[OP_KEY_MAX + 2];
			const char *quote = quoted ? "\"" : "";

			memset(key, '1', sizeof(key));
			key[len] = '\0';
			snprintf(body, sizeof(body), "{\"id\":%s%s%s}", quote, key, quote);
			json("json:/id", body, len > OP_KEY_MAX ? KEY_INVALID : KEY_FOUND, key);
		}
	}
}

static void test_json_malformed(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"{",
		"}",
		"{\"id\":\"a\"",
		"{\"id\":\"a\"}x",
		"{\"id\":\"a\",}",
		"{id:1}",
		"{\"id\":01}",
		"{\"id\":1.}",
		"{\"id\":.1}",
		"{\"id\":+1}",
		"{\"id\":1e}",
		"{\"id\":-}",
		"{\"id\":\"a\n\"}",
		"{\"id\":\"\\x\"}",
		"{\"id\":\"\\u12g4\"}",
		"{\"id\":\"\\u12",
		"{\"id\":tru}",
		"{\"id\":nul",
		"{\"id\" \"a\"}",
		"{\"id\":\"a\" \"b\":1}",
		"[1,]",
		"[1 2]",
		"{\"id\":\"a\"}{}",
		"'id'",
		"{\"id\":NaN}",
		"{,\"id\":\"a\"}",
		"{\"id\":\"a\\",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		json("json:/id", bad[i], KEY_NONE, NULL);
}

static void test_json_depth(void **state)
{
	char body[2 * JSON_SCAN_DEPTH + 64], key[OP_KEY_MAX + 1];

	(void)state;
	for (int depth = JSON_SCAN_DEPTH - 2; depth <= JSON_SCAN_DEPTH; depth++) {
		size_t len = 0;

		len += (size_t)snprintf(body, sizeof(body), "{\"id\":\"a\",\"x\":");
		memset(body + len, '[', (size_t)depth);
		memset(body + len + depth, ']', (size_t)depth);
		len += 2 * (size_t)depth;
		body[len++] = '}';
		assert_int_equal(from_body("json:/id", NULL, body, len, key),
				 depth < JSON_SCAN_DEPTH ? KEY_FOUND : KEY_INVALID);
	}
	memset(body, '[', sizeof(body));
	assert_int_equal(from_body("json:/id", NULL, body, sizeof(body), key), KEY_INVALID);
}

/* A body cut anywhere, or with any one byte changed, is read within its bounds, and a cut one never
 * gives a key. */
static void test_json_sweep(void **state)
{
	static const char body[] = "{\"a\":[1,-2.5e3,true,null,\"\\ud83d\\ude00\\n\"],\"b\":{"
				   "\"id\":\"inv-1\"},\"c\":{}}";
	char changed[sizeof(body)], key[OP_KEY_MAX + 1];

	(void)state;
	for (size_t len = 0; len < sizeof(body) - 1; len++)
		assert_int_equal(from_body("json:/b/id", NULL, body, len, key), KEY_NONE);
	assert_int_equal(from_body("json:/b/id", NULL, body, sizeof(body) - 1, key), KEY_FOUND);
	for (size_t at = 0; at < sizeof(body) - 1; at++) {
		for (int byte = 0; byte < 256; byte++) {
			memcpy(changed, body, sizeof(body));
			changed[at] = (char)byte;
			from_body("json:/b/id", NULL, changed, sizeof(body) - 1, key);
		}
	}
}

static void test_form(void **state)
{
	char key[OP_KEY_MAX + 1];

	(void)state;
	form("invoice_id=42", KEY_FOUND, "42");
	form("x=1&invoice_id=a%3Ab&y=2", KEY_FOUND, "a:b");
	form("invoice%5fid=42", KEY_FOUND, "42");
	form("x=1", KEY_NONE, NULL);
	form("", KEY_NONE, NULL);
	form("xinvoice_id=1&invoice_idx=2", KEY_NONE, NULL);
	form("invoice_id=1&invoice_id=1", KEY_INVALID, NULL);
	form("invoice_id=1&invoice%5Fid=2", KEY_INVALID, NULL);
	form("invoice_id=", KEY_INVALID, NULL);
	form("invoice_id", KEY_INVALID, NULL);
	form("invoice_id=a+b", KEY_INVALID, NULL);
	form("invoice_id=a%20b", KEY_INVALID, NULL);
	form("invoice_id=a%00b", KEY_INVALID, NULL);
	form("invoice_id=a%zz", KEY_INVALID, NULL);
	form("invoice_id=a%4", KEY_INVALID, NULL);
	form("invoice_id=%", KEY_INVALID, NULL);
	assert_int_equal(from_body("form:a", "application/json", "a=1", 3, key), KEY_NONE);
	assert_int_equal(from_body("form:a", NULL, "a=1", 3, key), KEY_NONE);
	assert_int_equal(from_body("form:a", "Application/X-WWW-Form-Urlencoded", "a=1", 3, key),
			 KEY_FOUND);
	assert_int_equal(from_body("form:a", FORM "x", "a=1", 3, key), KEY_NONE);
}

static void test_form_long(void **state)
{
	char body[2 + OP_KEY_MAX + 2], key[OP_KEY_MAX + 1];

	(void)state;
	memset(body, 'k', sizeof(body));
	memcpy(body, "a=", 2);
	assert_int_equal(from_body("form:a", FORM, body, 2 + OP_KEY_MAX, key), KEY_FOUND);
	assert_int_equal(strlen(key), OP_KEY_MAX);
	assert_int_equal(from_body("form:a", FORM, body, 2 + OP_KEY_MAX + 1, key), KEY_INVALID);
}

/* W20: the key comes from the intent, whatever the job's id. */
static void test_w20(void **state)
{
	const char *source = "template:invoice:{json:/invoice_id}:charge";

	(void)state;
	json(source, "{\"invoice_id\":42,\"job\":\"a1\"}", KEY_FOUND, "invoice:42:charge");
	json(source, "{\"job\":\"b2\",\"invoice_id\":\"42\"}", KEY_FOUND, "invoice:42:charge");
	json(source, "{\"invoice_id\":\"a:b%c\"}", KEY_FOUND, "invoice:a:b%c:charge");
	json(source, "{\"job\":\"b2\"}", KEY_NONE, NULL);
	json(source, "{\"invoice_id\":\"\"}", KEY_INVALID, NULL);
}

/* W21: one receipt for each recipient. */
static void test_w21(void **state)
{
	const char *source = "template:invoice:{json:/id}:receipt:{json:/to/email}";

	(void)state;
	json(source, "{\"id\":7,\"to\":{\"email\":\"a@example.com\"}}", KEY_FOUND,
	     "invoice:7:receipt:a@example.com");
	json(source, "{\"id\":7,\"to\":{\"email\":\"b@example.com\"}}", KEY_FOUND,
	     "invoice:7:receipt:b@example.com");
	json(source, "{\"id\":7}", KEY_NONE, NULL);
}

/* W22: one operation for each version. */
static void test_w22(void **state)
{
	const char *source = "template:sync:{json:/resource}:{json:/id}:{json:/version}";

	(void)state;
	json(source, "{\"resource\":\"user\",\"id\":1,\"version\":2}", KEY_FOUND, "sync:user:1:2");
	json(source, "{\"resource\":\"user\",\"id\":1,\"version\":3}", KEY_FOUND, "sync:user:1:3");
}

/* Values that hold the separator do not make another intent's key. */
static void test_template_is_injective(void **state)
{
	const char *source = "template:{json:/a}:{json:/b}";

	(void)state;
	json(source, "{\"a\":\"x:y\",\"b\":\"z\"}", KEY_FOUND, "x%3Ay:z");
	json(source, "{\"a\":\"x\",\"b\":\"y:z\"}", KEY_FOUND, "x:y:z");
	json(source, "{\"a\":\"x%3Ay\",\"b\":\"z\"}", KEY_FOUND, "x%253Ay:z");
}

static void test_template_length(void **state)
{
	char body[OP_KEY_MAX + 32], key[OP_KEY_MAX + 1];
	size_t len = (size_t)snprintf(body, sizeof(body), "{\"id\":\"");

	(void)state;
	memset(body + len, 'k', OP_KEY_MAX);
	memcpy(body + len + OP_KEY_MAX - 2, "\"}", 3);
	assert_int_equal(from_body("template:{json:/id}:x", NULL, body, strlen(body), key),
			 KEY_FOUND);
	assert_int_equal(strlen(key), OP_KEY_MAX);
	assert_int_equal(from_body("template:{json:/id}:xy", NULL, body, strlen(body), key),
			 KEY_INVALID);
}

static void test_order(void **state)
{
	struct key_source sources[] = {compile("header:A"), compile("json:/id"),
				       compile("header:B")};
	struct header_view headers[] = {{"b", 1, "from-b", 6}, {"a", 1, "x y", 3}};
	struct key_input input = {
		.headers = headers, .header_count = 1, .body = "{\"id\":1}", .body_len = 8};
	char key[OP_KEY_MAX + 1], detail[KEY_DETAIL_MAX];

	(void)state;
	assert_int_equal(key_extract(sources, 3, &input, key, detail), KEY_FOUND);
	assert_string_equal(key, "1");
	input.body = NULL;
	assert_int_equal(key_extract(sources, 3, &input, key, detail), KEY_FOUND);
	assert_string_equal(key, "from-b");
	/* A malformed source that is there decides, and a later good one does not. */
	input.header_count = 2;
	assert_int_equal(key_extract(sources, 3, &input, key, detail), KEY_INVALID);
	assert_int_equal(key_extract(sources, 0, &input, key, detail), KEY_NONE);
	for (int i = 0; i < 3; i++)
		key_source_done(&sources[i]);
}

static void test_parse_refuses(void **state)
{
	char longer[2000];

	(void)state;
	refuse_source("", "header:NAME");
	refuse_source("Idempotency-Key", "header:NAME");
	refuse_source("cookie:x", "header:NAME");
	refuse_source("header:", "header:Idempotency-Key");
	refuse_source("header:a b", "header:Idempotency-Key");
	refuse_source("header:X;part=0;sep=,", "part=N");
	refuse_source("header:X;part=100", "part=N");
	refuse_source("header:X;part=;sep=,", "part=N");
	refuse_source("header:X;part=1;sep=", "part=N");
	refuse_source("header:X;part=1;sep=,,", "part=N");
	refuse_source("header:X;sep=,", "part=N");
	refuse_source("json:", "json:/invoice_id");
	refuse_source("json:id", "json:/invoice_id");
	refuse_source("json:/a~2", "json:/invoice_id");
	refuse_source("json:/a~", "json:/invoice_id");
	refuse_source("form:", "form:invoice_id");
	refuse_source("template:", "same key");
	refuse_source("template:charge", "same key");
	refuse_source("template:{json:/a", "no }");
	refuse_source("template:{}", "unknown source");
	refuse_source("template:{template:x}", "unknown source");
	refuse_source("template:{json:/a}{json:/b}", "separator");
	refuse_source("template:{json:/a}x{json:/b}", "separator");
	refuse_source("template:a b{json:/a}", "visible");
	refuse_source("template:a}{json:/a}", "visible");
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, "header:", 7);
	longer[sizeof(longer) - 1] = '\0';
	refuse_source(longer, "longer");
}

static void test_questions(void **state)
{
	struct key_source header = compile("header:X-Id;part=2;sep=;");
	struct key_source mixed = compile("template:{header:X-Id}:{form:a}");
	struct key_source body = compile("json:/id");

	(void)state;
	assert_int_equal(header.part, 2);
	assert_int_equal(header.sep, ';');
	assert_string_equal(header.text, "header:X-Id;part=2;sep=;");
	assert_false(key_source_needs_body(&header));
	assert_true(key_source_needs_body(&mixed));
	assert_true(key_source_needs_body(&body));
	assert_true(key_source_reads_header(&header, "x-id", 4));
	assert_false(key_source_reads_header(&header, "x-i", 3));
	assert_true(key_source_reads_header(&mixed, "X-ID", 4));
	assert_false(key_source_reads_header(&body, "/id", 3));
	key_source_done(&header);
	key_source_done(&mixed);
	key_source_done(&body);
	key_source_done(&body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_header_malformed),
		cmocka_unit_test(test_header_detail),
		cmocka_unit_test(test_header_lines),
		cmocka_unit_test(test_header_part),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_invalid),
		cmocka_unit_test(test_json_long),
		cmocka_unit_test(test_json_malformed),
		cmocka_unit_test(test_json_depth),
		cmocka_unit_test(test_json_sweep),
		cmocka_unit_test(test_form),
		cmocka_unit_test(test_form_long),
		cmocka_unit_test(test_w20),
		cmocka_unit_test(test_w21),
		cmocka_unit_test(test_w22),
		cmocka_unit_test(test_template_is_injective),
		cmocka_unit_test(test_template_length),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_parse_refuses),
		cmocka_unit_test(test_questions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
