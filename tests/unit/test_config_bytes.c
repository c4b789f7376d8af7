/* Files that are no configuration at all: bytes, sizes, and every way to damage the sample. None of
 * it may crash, hang or leak; what is taken must have no problem. */
#include "tests/unit/config_fixture.h"

#include <unistd.h>

#define PREFIX "/tmp/stint-test-config-XXXXXX"

static void check_file(const char *bytes, size_t len, const char *expected)
{
	char path[] = PREFIX, *printed = NULL;
	int fd = mkstemp(path);
	struct config_problems problems;
	size_t printed_len = 0;
	FILE *out = open_memstream(&printed, &printed_len);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	close(fd);
	struct config *config = config_load(path, NULL, &problems);

	config_problems_print(&problems, "f", out);
	fclose(out);
	unlink(path);
	assert_string_equal(printed, expected);
	assert_int_equal(config == NULL, expected[0] != '\0');
	config_free(config);
	config_problems_done(&problems);
	free(printed);
}

#define CHECK_BYTES(bytes, expected) check_file(bytes, sizeof(bytes) - 1, expected)

static void test_bytes(void **state)
{
	(void)state;
	CHECK_BYTES(GOOD, "");
	CHECK_BYTES("\xef\xbb\xbf" GOOD, "");
	CHECK_BYTES("",
		    "f:1:1: the file is empty: write providers: {NAME: {route: /NAME, upstream: "
		    "https://HOST}}\n");
	CHECK_BYTES(GOOD "temp: /\0x\n", "f:2:8: a NUL byte: write plain UTF-8 text\n");
	CHECK_BYTES("temp: \xc3\xa9\xff\n",
		    "f:1:8: byte 0xff is not valid UTF-8: write plain UTF-8 text\n");
	CHECK_BYTES("temp: \xc0\xaf\n",
		    "f:1:7: byte 0xc0 is not valid UTF-8: write plain UTF-8 text\n");
	CHECK_BYTES("temp: \xed\xa0\x80\n",
		    "f:1:7: byte 0xed is not valid UTF-8: write plain UTF-8 text\n");
	CHECK_BYTES("temp: \xe2\x82",
		    "f:1:7: byte 0xe2 is not valid UTF-8: write plain UTF-8 text\n");
	CHECK_BYTES("\n\x1b[2J\n", "f:2:1: a control character: write plain UTF-8 text\n");
	CHECK_BYTES("\xff\xfe"
		    "a\0:\0",
		    "f:1:1: byte 0xff is not valid UTF-8: write plain UTF-8 text\n");
}

static void test_sizes(void **state)
{
	size_t size = (1 << 20) + 1;
	char *text = malloc(size);

	(void)state;
	assert_non_null(text);
	memset(text, '#', size);
	memcpy(text, GOOD, strlen(GOOD));
	check_file(text, size, "f:1:1: the file is larger than 1MiB: write a smaller one\n");
	check_file(text, size - 1, "");

	/* what a small number of bytes could blow up to */
	memset(text, '[', size - 1);
	check_file(text, size - 1, "f:1:17: nested more than 16 deep: no name of stint is\n");
	for (size_t i = 0; i + 1 < size; i += 2)
		memcpy(text + i, "- ", 2);
	check_file(text, size - 1, "f:1:33: nested more than 16 deep: no name of stint is\n");
	text[0] = '[';
	for (size_t i = 1; i + 1 < size; i += 2)
		memcpy(text + i, "a,", 2);
	check_file(text, size - 1, "f:1:2002: a mapping or list has at most 1000 entries\n");
	free(text);
}

static void test_missing_file(void **state)
{
	struct config_problems problems;

	(void)state;
	assert_null(config_load("/nonexistent/stint.yaml", NULL, &problems));
	assert_int_equal(problems.count, 1);
	assert_int_equal(problems.items[0].line, 0);
	assert_string_equal(problems.items[0].message,
			    "the file cannot be read: No such file or directory");
	config_problems_done(&problems);
	assert_null(config_load("/tmp", NULL, &problems));
	assert_string_equal(problems.items[0].message, "the file cannot be read: Is a directory");
	config_problems_done(&problems);
}

/* Whatever the text is: a configuration without problems, or problems and none. */
static void load_any(const char *text)
{
	struct config *config;
	char *problems = config_problems_of(text, &config);

	if (config == NULL)
		assert_true(problems[0] != '\0');
	free(problems);
	config_free(config);
}

static char *sample(size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	assert_non_null(out);
	config_sample(out);
	assert_int_equal(fclose(out), 0);
	return text;
}

/* The sample without its comments, so that each byte counts. */
static char *bare_sample(size_t *ret_len)
{
	size_t len, used = 0;
	char *text = sample(&len);

	for (size_t i = 0; i < len; i++) {
		if (text[i] == '#')
			i += strcspn(text + i, "\n");
		text[used++] = text[i];
	}
	text[used] = '\0';
	*ret_len = used;
	return text;
}

static void test_truncated(void **state)
{
	size_t len;
	char *text = bare_sample(&len);

	(void)state;
	for (size_t i = len; i-- > 0;) {
		text[i] = '\0';
		load_any(text);
	}
	free(text);
}

static void test_mutated(void **state)
{
	static const char bytes[] = ":\t{}[]-\"'#&*!|>%@,? \n\x80\xc3\x01$~0";
	size_t len, next = 0;
	char *text = bare_sample(&len);

	(void)state;
	for (size_t i = 0; i < len; i++) {
		char kept = text[i];

		text[i] = bytes[next++ % (sizeof(bytes) - 1)];
		load_any(text);
		text[i] = kept;
	}
	load_any(text);
	free(text);
}

/* More mistakes than anybody reads: the list is bounded, the refusal is not. */
static void test_many_problems(void **state)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct config_problems problems;

	(void)state;
	fputs("providers:\n", out);
	for (int i = 0; i < 900; i++)
		fprintf(out,
			"  p%d: {route: /p%d, upstream: \"http://h\", budget: {attempts: 2}, "
			"x: 1}\n",
			i, i);
	fclose(out);
	assert_null(config_load("f", text, &problems));
	assert_int_equal(problems.count, 151);
	assert_int_equal(problems.items[0].line, 0);
	assert_string_equal(problems.items[0].message,
			    "there are more problems than are shown here");
	config_problems_done(&problems);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),        cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_missing_file), cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_mutated),      cmocka_unit_test(test_many_problems),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
