/* pure-test: the JSON reader behind rules, on texts that are right, wrong and malicious. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "classify/json_scan.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Looks up in a block of exactly the text's size, so that ASan sees a byte too many. 0: not found,
 * 1: found and equal to `want` (any, if NULL), -1: found and not equal. */
static int find_bytes(const char *text, size_t len, const char *pointer, const char *want)
{
	char *body = malloc(len > 0 ? len : 1);
	struct json_value value;
	int rc = 0;

	assert_non_null(body);
	memcpy(body, text, len);
	if (json_scan_find(body, len, pointer, &value)) {
		assert_true(value.text >= body && value.text + value.len <= body + len);
		rc = want == NULL || json_scan_equal(&value, want) ? 1 : -1;
	}
	free(body);
	return rc;
}

static int find(const char *text, const char *pointer, const char *want)
{
	return find_bytes(text, strlen(text), pointer, want);
}

static void test_valid(void **state)
{
	static const char *const good[] = {
		"{}",
		"[]",
		"0",
		"-0",
		"-0.0e-0",
		"1E+2",
		"123.456e7",
		"true",
		"false",
		"null",
		"\"\"",
		" \t\r\n{ \"a\" : [ 1 , 2 ] , \"b\" : { } } \n",
		"[[[[]]],{}]",
		"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uABcd\"",
		"\"\\ud83d\\ude00\"",
		"\"\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"",
		"\"\x7f\"",
		"{\"a\":1,\"a\":2}",
		"1e400",
		"123456789012345678901234567890",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		if (find(good[i], "", NULL) != 1)
			print_message("refused: %s\n", good[i]);
		assert_int_equal(find(good[i], "", NULL), 1);
	}
}

static void test_invalid(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"{",
		"}",
		"[",
		"]",
		"[1,]",
		"[,1]",
		"[1 2]",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1,}",
		"{,}",
		"{a:1}",
		"{'a':1}",
		"{1:2}",
		"{\"a\" 1}",
		"{\"a\":1 \"b\":2}",
		"01",
		"-",
		"+1",
		".5",
		"1.",
		"1.e2",
		"1e",
		"1e+",
		"0x5",
		"NaN",
		"Infinity",
		"- 1",
		"tru",
		"truee",
		"True",
		"nul",
		"nulll",
		"\"",
		"\"\\\"",
		"\"\\x\"",
		"\"\\u12\"",
		"\"\\u12g4\"",
		"\"\\ud800\"",
		"\"\\udc00\"",
		"\"\\ud800\\u0041\"",
		"\"\\ud800\\n\"",
		"\"\\ud83d\\ud83d\"",
		"\"\n\"",
		"\"\t\"",
		"\"\x1f\"",
		"\"\x80\"",
		"\"\xc0\x80\"",
		"\"\xc1\xbf\"",
		"\"\xe0\x9f\xbf\"",
		"\"\xed\xa0\x80\"",
		"\"\xf0\x8f\xbf\xbf\"",
		"\"\xf4\x90\x80\x80\"",
		"\"\xf5\x80\x80\x80\"",
		"\"\xc2\"",
		"\"\xe2\x82\"",
		"\"\xf0\x9f\x98\"",
		"\"\xff\"",
		"{} {}",
		"{}x",
		"1 2",
		"[1]]",
		"/**/{}",
		"\xef\xbb\xbf{}",
		"<html>",
		"data: {}",
		"[\"a\":1]",
		"{\"a\":[}]",
		"\f{}",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		if (find(bad[i], "", NULL) != 0)
			print_message("read: %s\n", bad[i]);
		assert_int_equal(find(bad[i], "", NULL), 0);
	}
}

static void test_nul(void **state)
{
	(void)state;
	assert_int_equal(find_bytes("{}\0", 3, "", NULL), 0);
	assert_int_equal(find_bytes("\0{}", 3, "", NULL), 0);
	assert_int_equal(find_bytes("\"a\0b\"", 5, "", NULL), 0);
	assert_int_equal(find_bytes("{\0}", 3, "", NULL), 0);
	assert_int_equal(find_bytes("", 0, "", NULL), 0);
	assert_false(json_scan_find(NULL, 0, "", NULL));
	assert_false(json_scan_find(NULL, 5, "/a", NULL));
	/* An escaped one ends neither a value nor a name. */
	assert_int_equal(find("\"a\\u0000\"", "", "a"), -1);
	assert_int_equal(find("\"\\u0000\"", "", ""), -1);
	assert_int_equal(find("{\"a\\u0000\":1}", "/a", NULL), 0);
}

/* RFC 6901 section 5. */
static void test_rfc6901(void **state)
{
	static const char doc[] = "{\"foo\": [\"bar\", \"baz\"], \"\": 0, \"a/b\": 1, \"c%d\": 2, "
				  "\"e^f\": 3, \"g|h\": 4, \"i\\\\j\": 5, \"k\\\"l\": 6, "
				  "\" \": 7, \"m~n\": 8}";
	static const struct {
		const char *pointer;
		const char *want;
	} cases[] = {
		{"/foo/0", "bar"}, {"/foo/1", "baz"}, {"/", "0"},     {"/a~1b", "1"},
		{"/c%d", "2"},     {"/e^f", "3"},     {"/g|h", "4"},  {"/i\\j", "5"},
		{"/k\"l", "6"},    {"/ ", "7"},       {"/m~0n", "8"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(find(doc, cases[i].pointer, cases[i].want), 1);
	assert_int_equal(find(doc, "", NULL), 1);
	assert_int_equal(find(doc, "/foo", NULL), 1);
}

static void test_nothing_there(void **state)
{
	static const char doc[] = "{\"a\":{\"b\":[10,{\"c\":null}]},\"n\":5,\"s\":\"x\"}";
	static const char *const pointers[] = {
		"/b",
		"/a/b/2",
		"/a/b/-",
		"/a/b/00",
		"/a/b/01",
		"/a/b/-1",
		"/a/b/1e0",
		"/a/b/",
		"/a/b/18446744073709551616",
		"/a/b/99999999999999999999999",
		"/n/0",
		"/s/0",
		"/a/b/1/c/d",
		"/A",
		"/a ",
		"/a/b/0/0",
		"//",
		"/a//b",
	};
	static const char *const malformed[] = {"a", "a/b", "/~", "/~2", "/a~", "~0", "/a/~x"};

	(void)state;
	assert_int_equal(find(doc, "/a/b/1/c", "null"), 1);
	assert_int_equal(find(doc, "/a/b/0", "10"), 1);
	for (size_t i = 0; i < COUNT(pointers); i++) {
		assert_true(json_scan_pointer_valid(pointers[i]));
		assert_int_equal(find(doc, pointers[i], NULL), 0);
	}
	for (size_t i = 0; i < COUNT(malformed); i++) {
		assert_false(json_scan_pointer_valid(malformed[i]));
		assert_int_equal(find(doc, malformed[i], NULL), 0);
	}
}

static void test_equal(void **state)
{
	(void)state;
	assert_int_equal(find("20429", "", "20429"), 1);
	assert_int_equal(find("\"20429\"", "", "20429"), 1);
	assert_int_equal(find("20429.0", "", "20429"), -1);
	assert_int_equal(find("true", "", "true"), 1);
	assert_int_equal(find("\"a\"", "", "A"), -1);
	assert_int_equal(find("\"ab\"", "", "a"), -1);
	assert_int_equal(find("\"a\"", "", "ab"), -1);
	assert_int_equal(find("\"\"", "", ""), 1);
	assert_int_equal(find("\"\\u0061\\/\\n\"", "", "a/\n"), 1);
	assert_int_equal(find("\"\\u00e9\\u20ac\\ud83d\\ude00\"", "",
			      "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
			 1);
	assert_int_equal(find("\"\xc3\xa9\"", "", "\xc3\xa9"), 1);
	assert_int_equal(find("[]", "", "[]"), -1);
	assert_int_equal(find("{}", "", ""), -1);
	assert_int_equal(find("null", "", ""), -1);
	assert_int_equal(find("{\"\\u0061\":1}", "/a", "1"), 1);
	assert_int_equal(find("{\"\\ud83d\\ude00\":1}", "/\xf0\x9f\x98\x80", "1"), 1);
	assert_int_equal(find("{\"a\\u002fb\":1}", "/a~1b", "1"), 1);
}

/* Readers disagree about which of two members counts, so neither does; elsewhere they may be. */
static void test_duplicates(void **state)
{
	(void)state;
	assert_int_equal(find("{\"a\":1,\"a\":1}", "/a", NULL), 0);
	assert_int_equal(find("{\"a\":1,\"\\u0061\":2}", "/a", NULL), 0);
	assert_int_equal(find("{\"a\":{\"b\":1},\"a\":{}}", "/a/b", NULL), 0);
	assert_int_equal(find("{\"a\":{\"b\":1,\"b\":2}}", "/a", NULL), 1);
	assert_int_equal(find("{\"x\":{\"a\":1,\"a\":1},\"a\":3}", "/a", "3"), 1);
}

static void nested(char *text, size_t depth)
{
	memset(text, '[', depth);
	memset(text + depth, ']', depth);
	text[2 * depth] = '\0';
}

static void test_depth(void **state)
{
	static char text[200001];

	(void)state;
	nested(text, JSON_SCAN_DEPTH);
	assert_int_equal(find(text, "", NULL), 1);
	nested(text, JSON_SCAN_DEPTH + 1);
	assert_int_equal(find(text, "", NULL), 0);
	nested(text, 100000);
	assert_int_equal(find(text, "/0/0", NULL), 0);
	memset(text, '[', sizeof(text) - 1);
	assert_int_equal(find(text, "", NULL), 0);
}

/* Width is no depth. */
static void test_wide(void **state)
{
	static char text[30002];

	(void)state;
	text[0] = '[';
	for (size_t i = 0; i < 10000; i++)
		memcpy(text + 1 + 3 * i, "[],", 3);
	text[30000] = ']';
	text[30001] = '\0';
	assert_int_equal(find(text, "/9999", NULL), 1);
	assert_int_equal(find(text, "/10000", NULL), 0);
}

static void test_copy(void **state)
{
	struct json_value value;
	char text[6];

	(void)state;
	assert_true(json_scan_find("[\"a\\u20acb\"]", 12, "/0", &value));
	assert_true(json_scan_copy(&value, text, sizeof(text)));
	assert_string_equal(text, "a\xe2\x82\xac"
				  "b");
	assert_true(json_scan_find("12345", 5, "", &value));
	assert_true(json_scan_copy(&value, text, sizeof(text)));
	assert_string_equal(text, "12345");
	assert_true(json_scan_find("\"123456\"", 8, "", &value));
	assert_false(json_scan_copy(&value, text, sizeof(text)));
	assert_true(json_scan_find("\"\\u0000\"", 8, "", &value));
	assert_false(json_scan_copy(&value, text, sizeof(text)));
	assert_true(json_scan_find("{}", 2, "", &value));
	assert_false(json_scan_copy(&value, text, sizeof(text)));
	assert_true(json_scan_find("\"\"", 2, "", &value));
	assert_true(json_scan_copy(&value, text, 1));
	assert_string_equal(text, "");
	assert_false(json_scan_copy(&value, text, 0));
}

/* Which of the ways not to find something it is, and in which order they count. */
static void test_look_up(void **state)
{
	static const struct {
		const char *text;
		const char *pointer;
		enum json_scan_result result;
	} cases[] = {
		{"{\"a\":1}", "/a", JSON_SCAN_FOUND},
		{"{\"a\":null}", "/a", JSON_SCAN_FOUND},
		{"{\"a\":1}", "/b", JSON_SCAN_ABSENT},
		{"{\"a\":\"\\ud83d\"}", "/b", JSON_SCAN_ABSENT},
		{"", "", JSON_SCAN_MALFORMED},
		{"{\"a\":1", "/a", JSON_SCAN_MALFORMED},
		{"{\"a\":1}x", "/a", JSON_SCAN_MALFORMED},
		{"{\"a\":1,\"a\":2", "/a", JSON_SCAN_MALFORMED},
		{"{\"a\":\"\\ud83d\"", "/a", JSON_SCAN_MALFORMED},
		{"{\"a\":1}", "a", JSON_SCAN_MALFORMED},
		{"{\"a\":1,\"a\":1}", "/a", JSON_SCAN_DUPLICATE},
		{"{\"a\":{},\"a\":1}", "/a/b", JSON_SCAN_DUPLICATE},
		{"{\"a\":\"\\ud83d\",\"a\":1}", "/a", JSON_SCAN_DUPLICATE},
		/* The same name to a reader that replaces what is no character. */
		{"{\"\\ud83d\":1,\"\\ufffd\":2}", "/\xef\xbf\xbd", JSON_SCAN_DUPLICATE},
		{"{\"b\":\"\\ud83d\",\"a\":1}", "/a", JSON_SCAN_MISENCODED},
		{"{\"a\":1,\"b\":\"\\udc00\"}", "/a", JSON_SCAN_MISENCODED},
		{"{\"\\ud83d\\u0041\":0,\"a\":1}", "/a", JSON_SCAN_MISENCODED},
		{"{\"b\":\"caf\xe9\",\"a\":1}", "/a", JSON_SCAN_MISENCODED},
		{"{\"b\":\"\xe2\x82\",\"a\":1}", "/a", JSON_SCAN_MISENCODED},
		{"{\"\xff\":0,\"a\":1}", "/a", JSON_SCAN_MISENCODED},
		{"{\"b\":caf\xe9,\"a\":1}", "/a", JSON_SCAN_MALFORMED},
	};
	char text[2 * JSON_SCAN_DEPTH + 3];
	struct json_value value = {.text = "untouched"};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		enum json_scan_result result = json_scan_look_up(
			cases[i].text, strlen(cases[i].text), cases[i].pointer, &value);

		if (result != cases[i].result)
			fail_msg("%s of %s: %d", cases[i].pointer, cases[i].text, (int)result);
		if (result != JSON_SCAN_FOUND && result != JSON_SCAN_MISENCODED)
			assert_string_equal(value.text, "untouched");
		value.text = "untouched";
		assert_int_equal(find(cases[i].text, cases[i].pointer, NULL),
				 result == JSON_SCAN_FOUND);
	}
	nested(text, JSON_SCAN_DEPTH + 1);
	assert_int_equal(json_scan_look_up(text, strlen(text), "", &value), JSON_SCAN_DEEP);
	assert_int_equal(json_scan_look_up(text, JSON_SCAN_DEPTH + 1, "", &value), JSON_SCAN_DEEP);
	assert_int_equal(json_scan_look_up(text, JSON_SCAN_DEPTH, "", &value), JSON_SCAN_MALFORMED);
	assert_string_equal(value.text, "untouched");
}

/* Half a character is neither left out nor the end of its string. */
static void test_misencoded_text(void **state)
{
	static const char body[] = "{\"a\":\"x\\ud83dy\",\"b\":\"x\xe9y\",\"c\":\"xy\"}";
	static const struct {
		const char *pointer;
		const char *text;
	} cases[] = {
		{"/a", "x\xef\xbf\xbdy"},
		{"/b", "x\xe9y"},
		{"/c", "xy"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct json_value value;
		char text[8];

		assert_int_equal(
			json_scan_look_up(body, sizeof(body) - 1, cases[i].pointer, &value),
			JSON_SCAN_MISENCODED);
		assert_true(json_scan_copy(&value, text, sizeof(text)));
		assert_string_equal(text, cases[i].text);
		assert_true(json_scan_equal(&value, cases[i].text));
	}
}

static const char sample[] =
	"{\"error\":{\"code\":\"insufficient_quota\",\"n\":[1,-2.5e3,true,false,null],"
	"\"t\":\"\\ud83d\\ude00\\n\xe2\x82\xac\"},\"list\":[{\"extensions\":{\"code\":\"X\"}}]}";

/* No beginning of an object is a whole one. */
static void test_every_cut(void **state)
{
	(void)state;
	assert_int_equal(find(sample, "/error/code", "insufficient_quota"), 1);
	assert_int_equal(find(sample, "/list/0/extensions/code", "X"), 1);
	for (size_t len = 0; len < sizeof(sample) - 1; len++)
		assert_int_equal(find_bytes(sample, len, "/error/code", NULL), 0);
}

/* Every byte replaced by every other: no crash, and nothing found outside the text. */
static void test_every_byte(void **state)
{
	char text[sizeof(sample)];
	size_t found = 0;

	(void)state;
	for (size_t at = 0; at < sizeof(sample) - 1; at++) {
		for (int byte = 0; byte < 256; byte++) {
			memcpy(text, sample, sizeof(sample));
			text[at] = (char)byte;
			if (find_bytes(text, sizeof(sample) - 1, "/error/t", NULL) != 0)
				found++;
		}
	}
	/* Inside strings and numbers most printable bytes are as good as any. */
	assert_true(found > 1000 && found < (sizeof(sample) - 1) * 256 / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid),         cmocka_unit_test(test_invalid),
		cmocka_unit_test(test_nul),           cmocka_unit_test(test_rfc6901),
		cmocka_unit_test(test_nothing_there), cmocka_unit_test(test_equal),
		cmocka_unit_test(test_duplicates),    cmocka_unit_test(test_depth),
		cmocka_unit_test(test_wide),          cmocka_unit_test(test_copy),
		cmocka_unit_test(test_look_up),       cmocka_unit_test(test_misencoded_text),
		cmocka_unit_test(test_every_cut),     cmocka_unit_test(test_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
