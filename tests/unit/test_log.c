#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/log.h"

/* Standard error goes to a file in memory between capture() and captured(). */
static int saved = -1, file = -1;
static char text[1 << 20];

static void capture(void)
{
	(void)fflush(stderr);
	saved = dup(STDERR_FILENO);
	file = memfd_create("log", MFD_CLOEXEC);
	assert_true(saved >= 0 && file >= 0);
	assert_true(dup2(file, STDERR_FILENO) == STDERR_FILENO);
	/* Lines of several threads are added, not laid over each other. */
	assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, O_APPEND), 0);
}

static char *captured(void)
{
	ssize_t len;

	assert_true(dup2(saved, STDERR_FILENO) == STDERR_FILENO);
	close(saved);
	len = pread(file, text, sizeof(text) - 1, 0);
	close(file);
	assert_true(len >= 0);
	text[len] = '\0';
	return text;
}

/* The one line that was written, without its end, as JSON. */
static json_t *parse_line(char *line)
{
	char *end = strchr(line, '\n');
	json_t *value;

	assert_non_null(end);
	assert_string_equal(end, "\n");
	*end = '\0';
	value = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(value);
	return value;
}

static void assert_member(const json_t *object, const char *name, const char *value)
{
	const char *found = json_string_value(json_object_get(object, name));

	assert_non_null(found);
	assert_string_equal(found, value);
}

static void write_delivery(enum log_level level)
{
	struct log_line line;

	log_begin(&line, level, "delivery");
	log_text(&line, "provider", "pay");
	log_text(&line, "absent", NULL);
	log_text(&line, "key", "invoice 42");
	log_text(&line, "empty", "");
	log_number(&line, "attempts", -3);
	log_seconds(&line, "ms", 1234567);
	log_bool(&line, "replayed", true);
	log_bool(&line, "made", false);
	log_end(&line);
}

static void test_json(void **state)
{
	json_t *line;
	char *written;

	(void)state;
	log_setup(LOG_LEVEL_INFO, true);
	capture();
	write_delivery(LOG_LEVEL_INFO);
	written = captured();
	assert_non_null(strstr(written, "\"ms\":1234.567,"));
	line = parse_line(written);
	assert_int_equal(json_object_size(line), 10);
	assert_member(line, "level", "info");
	assert_member(line, "event", "delivery");
	assert_member(line, "provider", "pay");
	assert_member(line, "key", "invoice 42");
	assert_member(line, "empty", "");
	assert_int_equal(json_integer_value(json_object_get(line, "attempts")), -3);
	assert_true(json_is_true(json_object_get(line, "replayed")));
	assert_true(json_is_false(json_object_get(line, "made")));
	assert_int_equal(strlen(json_string_value(json_object_get(line, "time"))),
			 strlen("2026-11-30T12:00:00.000Z"));
	json_decref(line);
}

static void test_text(void **state)
{
	static const struct {
		enum log_level level;
		const char *start;
	} levels[] = {
		{LOG_LEVEL_DEBUG, " debug delivery provider=pay "},
		{LOG_LEVEL_INFO, " info  delivery provider=pay "},
		{LOG_LEVEL_WARN, " warn  delivery provider=pay "},
		{LOG_LEVEL_ERROR, " error delivery provider=pay "},
	};

	(void)state;
	log_setup(LOG_LEVEL_DEBUG, false);
	for (size_t i = 0; i < 4; i++) {
		char *line;

		capture();
		write_delivery(levels[i].level);
		line = captured();
		assert_int_equal(strcspn(line, " "), strlen("2026-11-30T12:00:00.000Z"));
		assert_int_equal(line[23], 'Z');
		line += 24;
		assert_memory_equal(line, levels[i].start, strlen(levels[i].start));
		assert_string_equal(strstr(line, "key="),
				    "key=\"invoice 42\" empty=\"\" attempts=-3 ms=1234.567 "
				    "replayed=true made=false\n");
	}
}

static void test_levels(void **state)
{
	(void)state;
	for (int level = LOG_LEVEL_DEBUG; level <= LOG_LEVEL_ERROR; level++) {
		log_setup((enum log_level)level, true);
		for (int of = LOG_LEVEL_DEBUG; of <= LOG_LEVEL_ERROR; of++) {
			capture();
			write_delivery((enum log_level)of);
			log_message((enum log_level)of, "event", "%d", of);
			if (of < level)
				assert_string_equal(captured(), "");
			else
				assert_string_not_equal(captured(), "");
		}
	}
}

/* What goes in, and what a JSON reader gets out. */
static void test_escaping(void **state)
{
	static const struct {
		const char *value, *read;
	} cases[] = {
		{"quote\" slash\\ /", "quote\" slash\\ /"},
		{"line\nfeed\r\ttab\x01\x1b[31m\x7f", "line\nfeed\r\ttab\x01\x1b[31m\x7f"},
		{"grüße €😀", "grüße €😀"},
		{"\xff\xfe", "??"},
		{"a\xc3", "a?"},
		{"\xc0\xaf", "??"},
		{"\xe0\x80\xaf", "???"},
		{"\xed\xa0\x80", "???"},
		{"\xf4\x90\x80\x80", "????"},
		{"\xf0\x8f\xbf\xbf", "????"},
		{"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
		{"\xe2\x82", "??"},
		{"\xc2\x9b"
		 "31m",
		 "\xc2\x9b"
		 "31m"},
		{"\xc2\xa0", "\xc2\xa0"},
	};

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		bool json = i % 2 == 0;
		struct log_line line;
		char *written;

		log_setup(LOG_LEVEL_INFO, json);
		capture();
		log_begin(&line, LOG_LEVEL_INFO, "e");
		log_text(&line, "value", cases[i / 2].value);
		log_end(&line);
		written = captured();
		for (const char *c = written; *c != '\0' && *c != '\n'; c++) {
			assert_false((unsigned char)*c < 0x20 || *c == 0x7f);
			assert_false((unsigned char)c[0] == 0xc2 && (unsigned char)c[1] < 0xa0);
		}
		if (json) {
			json_t *read = parse_line(written);

			assert_member(read, "value", cases[i / 2].read);
			json_decref(read);
		} else {
			assert_string_equal(strchr(written, '\n'), "\n");
		}
	}
}

static void test_text_quotes(void **state)
{
	static const struct {
		const char *value, *shown;
	} cases[] = {
		{"plain:42/x", " v=plain:42/x\n"},
		{"a=b", " v=\"a=b\"\n"},
		{"a b", " v=\"a b\"\n"},
		{"a\"b", " v=\"a\\\"b\"\n"},
		{"ü", " v=\"ü\"\n"},
		{"a\nb", " v=\"a\\u000ab\"\n"},
	};

	(void)state;
	log_setup(LOG_LEVEL_INFO, false);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct log_line line;

		capture();
		log_begin(&line, LOG_LEVEL_INFO, "e");
		log_text(&line, "v", cases[i].value);
		log_end(&line);
		assert_string_equal(strstr(captured(), " v="), cases[i].shown);
	}
}

/* Lines of every length around the bound: whole members, a mark, never more than the bound. */
static void test_bound(void **state)
{
	char value[LOG_LINE_MAX + 64];

	(void)state;
	for (size_t len = LOG_LINE_MAX - 200; len < LOG_LINE_MAX + 60; len++) {
		for (int json = 0; json < 2; json++) {
			struct log_line line;
			char *written;
			bool whole;

			memset(value, 'x', len);
			value[len] = '\0';
			if (len % 3 == 0)
				value[len - 1] = '\n'; /* an escape at the very end */
			log_setup(LOG_LEVEL_INFO, json == 1);
			capture();
			log_begin(&line, LOG_LEVEL_INFO, "e");
			log_number(&line, "before", 1);
			log_text(&line, "value", value);
			log_number(&line, "after", 1);
			log_end(&line);
			written = captured();
			assert_true(strlen(written) <= LOG_LINE_MAX);
			assert_int_equal(written[strlen(written) - 1], '\n');
			assert_non_null(strstr(written, "before"));
			whole = strstr(written, "value") != NULL &&
				strstr(written, "after") != NULL;
			assert_int_equal(whole, strstr(written, "truncated") == NULL);
			if (len > LOG_LINE_MAX - 10)
				assert_false(whole);
			if (len < LOG_LINE_MAX - 150)
				assert_true(whole);
			if (json == 1) {
				json_t *read = parse_line(written);

				if (!whole)
					assert_true(
						json_is_true(json_object_get(read, "truncated")));
				json_decref(read);
			}
		}
	}
}

static void test_long_event_and_message(void **state)
{
	char value[LOG_LINE_MAX + 64];
	struct log_line line;
	json_t *read;

	(void)state;
	memset(value, 'e', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	log_setup(LOG_LEVEL_INFO, true);
	for (size_t len = LOG_LINE_MAX - 150; len < sizeof(value) - 1; len++) {
		value[len] = '\0';
		capture();
		log_begin(&line, LOG_LEVEL_INFO, value);
		log_number(&line, "n", 1);
		log_end(&line);
		read = parse_line(captured());
		assert_true(json_object_get(read, "n") != NULL ||
			    json_object_get(read, "truncated") != NULL);
		json_decref(read);
		value[len] = 'e';
	}
	capture();
	log_message(LOG_LEVEL_WARN, "odd", "%s", value);
	read = parse_line(captured());
	assert_int_equal(strlen(json_string_value(json_object_get(read, "message"))), 1023);
	assert_true(json_is_true(json_object_get(read, "truncated")));
	json_decref(read);
	capture();
	log_message(LOG_LEVEL_WARN, "odd", "%d of \"%s\"", 7, "a\nb");
	read = parse_line(captured());
	assert_member(read, "message", "7 of \"a\nb\"");
	assert_null(json_object_get(read, "truncated"));
	json_decref(read);
}

/* One write for each line: a socket that keeps messages apart shows the calls. */
static void test_one_write(void **state)
{
	int pair[2], err = dup(STDERR_FILENO);
	char message[LOG_LINE_MAX + 1];

	(void)state;
	log_setup(LOG_LEVEL_INFO, true);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_true(dup2(pair[1], STDERR_FILENO) == STDERR_FILENO);
	write_delivery(LOG_LEVEL_INFO);
	write_delivery(LOG_LEVEL_INFO);
	assert_true(dup2(err, STDERR_FILENO) == STDERR_FILENO);
	close(err);
	close(pair[1]);
	for (int i = 0; i < 2; i++) {
		ssize_t len = recv(pair[0], message, sizeof(message) - 1, 0);

		assert_true(len > 0);
		message[len] = '\0';
		json_decref(parse_line(message));
	}
	assert_int_equal(recv(pair[0], message, sizeof(message), 0), 0);
	close(pair[0]);
}

/* A standard error that is closed stops nothing. */
static void test_nowhere_to_write(void **state)
{
	int err = dup(STDERR_FILENO);

	(void)state;
	log_setup(LOG_LEVEL_INFO, true);
	close(STDERR_FILENO);
	write_delivery(LOG_LEVEL_ERROR);
	assert_true(dup2(err, STDERR_FILENO) == STDERR_FILENO);
	close(err);
}

#define THREADS 4
#define LINES 500

static void *write_many(void *data)
{
	for (int i = 0; i < LINES; i++) {
		struct log_line line;

		log_begin(&line, LOG_LEVEL_INFO, "many");
		log_number(&line, "thread", (int64_t)(intptr_t)data);
		log_number(&line, "i", i);
		log_end(&line);
		if (i % 50 == 0)
			log_setup(LOG_LEVEL_INFO, true);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	int next[THREADS] = {0};
	char *rest, *line;

	(void)state;
	log_setup(LOG_LEVEL_INFO, true);
	capture();
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_many, (void *)(intptr_t)i),
				 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	rest = captured();
	while ((line = strsep(&rest, "\n")) != NULL && line[0] != '\0') {
		json_t *read = json_loads(line, 0, NULL);
		json_int_t thread;

		assert_non_null(read);
		thread = json_integer_value(json_object_get(read, "thread"));
		assert_int_equal(json_integer_value(json_object_get(read, "i")), next[thread]);
		next[thread]++;
		json_decref(read);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(next[i], LINES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_escaping),
		cmocka_unit_test(test_text_quotes),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_long_event_and_message),
		cmocka_unit_test(test_one_write),
		cmocka_unit_test(test_nowhere_to_write),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
