/* pure-test: waiting advice, and the readers of numbers, dates and rate limits under it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classify/advice.h"
#include "classify/classify.h"
#include "classify/instant.h"
#include "classify/quantity.h"
#include "classify/ratelimit.h"
#include "classify/rules.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Wed, 21 Oct 2026 07:28:00 GMT, by `date -u -d ... +%s` */
#define NOW (1792567680 * USEC_SEC)
#define NOW_TEXT "Wed, 21 Oct 2026 07:28:00 GMT"

/* A 429 with up to eight header lines, each in a heap block of its own so that ASan sees the bytes
 * around it. */
struct reply {
	struct facts facts;
	struct header_view lines[8];
};

static void reply_init(struct reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	reply->facts = (struct facts){.method = "POST",
				      .path = "/",
				      .status = 429,
				      .sent = true,
				      .headers = reply->lines,
				      .received_wall = NOW};
}

static char *copy(const char *text, size_t len)
{
	char *bytes = malloc(len > 0 ? len : 1);

	assert_non_null(bytes);
	memcpy(bytes, text, len);
	return bytes;
}

static void reply_add(struct reply *reply, const char *name, const char *value)
{
	struct header_view *line = &reply->lines[reply->facts.header_count++];

	line->name_len = strlen(name);
	line->name = copy(name, line->name_len);
	line->value_len = strlen(value);
	line->value = copy(value, line->value_len);
}

static void reply_done(struct reply *reply)
{
	for (size_t i = 0; i < reply->facts.header_count; i++) {
		free((void *)(uintptr_t)reply->lines[i].name);
		free((void *)(uintptr_t)reply->lines[i].value);
	}
}

/* Reads the advice of a reply whose lines are given as name, value, ..., NULL. */
static struct advice advice_of(const char *name, ...)
{
	struct reply reply;
	struct advice advice;
	va_list list;

	reply_init(&reply);
	va_start(list, name);
	while (name != NULL) {
		reply_add(&reply, name, va_arg(list, const char *));
		name = va_arg(list, const char *);
	}
	va_end(list);
	advice_read(&reply.facts, &advice);
	reply_done(&reply);
	return advice;
}

static void check(struct advice advice, usec_t wait, bool invalid)
{
	assert_int_equal(advice.wait, wait);
	assert_int_equal(advice.invalid, invalid);
}

static void test_seconds(void **state)
{
	static const struct {
		const char *text;
		usec_t wait;
	} good[] = {
		{"1", USEC_SEC},
		{"007", 7 * USEC_SEC},
		{"1.5", 1500000},
		{" 2.5 ", 2500000},
		{"\t3\t ", 3 * USEC_SEC},
		{"0.503", 503000},
		{"0.129", 129000},
		{"299.997", 299997000},
		{"292.052427053", 292052428},
		{"0.0000001", 1},
		{"1.0000000000", USEC_SEC},
		{"1.00000000000000000000000000000000000001", USEC_SEC + 1},
		{"86400", USEC_DAY},
		{"9223372036854.775807", USEC_MAX}, /* the longest time there is */
		{"00000000000000000000000000000000000000000004", 4 * USEC_SEC},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		struct advice advice = advice_of("Retry-After", good[i].text, NULL);

		check(advice, good[i].wait, false);
		assert_true(advice.retry_after);
	}
}

static void test_unreadable(void **state)
{
	static const char *const bad[] = {
		"inf",
		"Infinity",
		"nan",
		"NaN",
		"1e10000",
		"1e3",
		"1,5",
		"5s",
		"6m0s",
		"0x5",
		"\xc2\xb2",
		"",
		" ",
		"-1",
		"-0",
		"+1",
		"1.",
		".5",
		"1..5",
		"1.5.",
		"1 2",
		"1;q=1",
		"9223372036855",
		"9223372036854.9",
		"18446744073709551616",
		"99999999999999999999999999999999999999",
		"5\n",
		"null",
		"1, 2",
		"\xff",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct advice advice = advice_of("Retry-After", bad[i], NULL);

		if (advice.wait > 0 || !advice.invalid)
			print_message("read: \"%s\"\n", bad[i]);
		check(advice, -1, true);
		assert_false(advice.retry_after);
		assert_false(advice.stated);
	}
}

static void test_nul_in_value(void **state)
{
	static const struct header_view line = {"Retry-After", 11, "5\0", 2};
	struct facts facts = {.status = 429, .sent = true, .headers = &line, .header_count = 1};
	struct advice advice;

	(void)state;
	advice_read(&facts, &advice);
	check(advice, -1, true);
}

/* A zero is readable, and no advice; a past date is counted. */
static void test_zero_and_past(void **state)
{
	struct advice advice = advice_of("Retry-After", "0", NULL);

	(void)state;
	check(advice, -1, false);
	assert_true(advice.retry_after);
	check(advice_of("Retry-After", "0.000", NULL), -1, false);
	check(advice_of("Retry-After-Ms", "-1", NULL), -1, true);
	check(advice_of("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT", NULL), -1, true);
	check(advice_of("Retry-After", NOW_TEXT, NULL), -1, true);
	check(advice_of(NULL), -1, false);
}

static void test_precedence(void **state)
{
	(void)state;
	check(advice_of("Retry-After", "1", "retry-after-ms", "250", NULL), 250000, false);
	check(advice_of("x-ms-retry-after-ms", "1500", NULL), 1500000, false);
	check(advice_of("RETRY-AFTER", "2", NULL), 2 * USEC_SEC, false);
	check(advice_of("x-ms-retry-after-ms", "9", "Retry-After-MS", "7", NULL), 7000, false);
	check(advice_of("retry-after-ms", "0.5", NULL), 500, false);
	/* Unreadable: the next in rank speaks, and it is counted. */
	check(advice_of("retry-after-ms", "250ms", "Retry-After", "1", NULL), USEC_SEC, true);
	check(advice_of("retry-after-ms", "", "x-ms-retry-after-ms", "x", "Retry-After", "1", NULL),
	      USEC_SEC, true);
	/* Zero: it has said nothing. */
	check(advice_of("retry-after-ms", "0", "Retry-After", "30", NULL), 30 * USEC_SEC, false);
	/* What is outranked is not counted. */
	check(advice_of("retry-after-ms", "250", "Retry-After", "soon", NULL), 250000, false);
	/* Names that merely look alike. */
	check(advice_of("Retry-After-Seconds", "9", "X-Retry-After", "9", NULL), -1, false);
}

static void test_several_lines(void **state)
{
	(void)state;
	check(advice_of("Retry-After", "3", "retry-after", "9", "Retry-After", "5", NULL),
	      9 * USEC_SEC, false);
	check(advice_of("Retry-After", "never", "Retry-After", "4", NULL), 4 * USEC_SEC, true);
	check(advice_of("Retry-After", "4", "Retry-After", "-4", NULL), 4 * USEC_SEC, true);
	check(advice_of("Retry-After", "1", "Retry-After", "Wed, 21 Oct 2026 07:28:42 GMT", NULL),
	      42 * USEC_SEC, false);
}

/* With Date and no Age the wait is a difference of two of the provider's own times. */
static void test_skewed_clock(void **state)
{
	static const char at_37[] = "Wed, 21 Oct 2026 09:00:37 GMT";
	static const char nine[] = "Wed, 21 Oct 2026 09:00:00 GMT";
	usec_t local = (9 * 3600 - (7 * 3600 + 28 * 60)) * USEC_SEC; /* NOW to nine */

	(void)state;
	check(advice_of("Retry-After", at_37, "Date", nine, NULL), 37 * USEC_SEC, false);
	check(advice_of("date", nine, "Retry-After", at_37, NULL), 37 * USEC_SEC, false);
	check(advice_of("Retry-After", at_37, "Date", nine, "Age", "0", NULL),
	      local + 37 * USEC_SEC, false);
	check(advice_of("Age", "12", "Retry-After", at_37, "Date", nine, NULL),
	      local + 37 * USEC_SEC, false);
	check(advice_of("Retry-After", at_37, NULL), local + 37 * USEC_SEC, false);
	check(advice_of("Retry-After", at_37, "Date", "yesterday", NULL), local + 37 * USEC_SEC,
	      false);
	check(advice_of("Retry-After", at_37, "Date", nine, "Date", nine, NULL),
	      local + 37 * USEC_SEC, false);
	check(advice_of("Retry-After", at_37, "Date", " Wednesday, 21-Oct-26 09:00:00 GMT ", NULL),
	      37 * USEC_SEC, false);
	/* A delta does not care. */
	check(advice_of("Retry-After", "3", "Date", nine, NULL), 3 * USEC_SEC, false);
}

static void test_clock_extremes(void **state)
{
	static const usec_t clocks[] = {INT64_MIN, -1, 0, INT64_MAX};

	(void)state;
	for (size_t i = 0; i < COUNT(clocks); i++) {
		struct reply reply;
		struct advice advice;

		reply_init(&reply);
		reply.facts.received_wall = clocks[i];
		reply_add(&reply, "Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT");
		reply_add(&reply, "Retry-After", "Wednesday, 21-Oct-26 07:28:00 GMT");
		advice_read(&reply.facts, &advice);
		assert_true(clocks[i] == INT64_MAX ? advice.wait == -1 : advice.wait > 0);
		reply_done(&reply);
	}
}

static usec_t http_date(const char *text, usec_t now)
{
	char *bytes = copy(text, strlen(text));
	usec_t wall = -7;
	bool ok = instant_http(bytes, strlen(text), now, &wall);

	free(bytes);
	return ok ? wall / USEC_SEC : -7;
}

static void test_http_dates(void **state)
{
	static const struct {
		const char *text;
		int64_t seconds;
	} good[] = {
		{"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
		{"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
		{"Sun Nov  6 08:49:37 1994", 784111777},
		{"Wed Oct 21 07:28:00 2026", 1792567680},
		{NOW_TEXT, 1792567680},
		{"Thu, 01 Jan 1970 00:00:00 GMT", 0},
		{"Thu, 29 Feb 2024 00:00:00 GMT", 1709164800},
		{"Tue, 29 Feb 2000 23:59:59 GMT", 951868799},
		{"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800},
		{"Fri, 31 Dec 9999 23:59:59 GMT", 253402300799},
		{"Mon, 21 Oct 2026 07:28:00 GMT", 1792567680}, /* a Wednesday */
	};

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++)
		assert_int_equal(http_date(good[i].text, NOW), good[i].seconds);
}

static void test_http_dates_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"Sun",
		"Sun, 31 Feb 2026 00:00:00 GMT",
		"Sun, 29 Feb 2025 00:00:00 GMT",
		"Mon, 29 Feb 2100 00:00:00 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 31 Nov 1994 08:49:37 GMT",
		"Sun, 6 Nov 1994 08:49:37 GMT",
		"sun, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 gmt",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, 06 Nov 1994 08:49:37 +0000",
		"Sun, 06 Nov 1994 08:49:37",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		" Sun, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 GMTx",
		"Sun, 06 Nov 94 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:00:00 GMT",
		"Sun, 06 Nov 1994 08:60:00 GMT",
		"Sun, 06 Nov 1994 08:49:60 GMT",
		"Sun, 06 Nov 1994 23:59:61 GMT",
		"Sun, 06 Nov 1994 8:49:37 GMT",
		"Sun,06 Nov 1994 08:49:37 GMT",
		"Sun  06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 19945 08:49:37 GMT",
		"Sun, 06-Nov-94 08:49:37 GMT",
		"Sunday, 06-Nov-1994 08:49:37 GMT",
		"Sunday, 06 Nov 94 08:49:37 GMT",
		"Sunday, 31-Feb-26 08:49:37 GMT",
		"Sun Nov 6 08:49:37 1994",
		"Sun Nov 06 08:49:37 94",
		"Sun Nov  0 08:49:37 1994",
		"Sun Feb 31 08:49:37 2026",
		"1994-11-06T08:49:37Z",
		"784111777",
		"20261021",
		"Sun, 06 Nov -994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:3x GMT",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		if (http_date(bad[i], NOW) != -7)
			print_message("read: \"%s\"\n", bad[i]);
		assert_int_equal(http_date(bad[i], NOW), -7);
	}
}

/* Every day of 1900 to 2199, against a calendar that counts one by one. */
static void test_calendar(void **state)
{
	static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
					    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int64_t day = -25567; /* 1900-01-01 */

	(void)state;
	for (int year = 1900; year < 2200; year++) {
		bool leap = year % 4 == 0 && (year % 100 != 0 || year == 2000);

		for (int month = 0; month < 12; month++) {
			int last = days[month] + (month == 1 && leap ? 1 : 0);
			char text[64];

			for (int d = 1; d <= last; d++, day++) {
				snprintf(text, sizeof(text), "Sun, %02d %s %d 00:00:00 GMT", d,
					 names[month], year);
				if (day != -7)
					assert_int_equal(http_date(text, NOW), day * 86400);
			}
			snprintf(text, sizeof(text), "Sun, %02d %s %d 00:00:00 GMT", last + 1,
				 names[month], year);
			assert_int_equal(http_date(text, NOW), -7);
		}
	}
}

/* Up to 50 years ahead is the future, a second more is the past. */
static void test_fifty_years(void **state)
{
	(void)state;
	assert_int_equal(http_date("Sunday, 21-Oct-76 07:28:00 GMT", NOW), 3370490880);
	assert_int_equal(http_date("Sunday, 21-Oct-76 07:28:01 GMT", NOW), 214730881);
	assert_int_equal(http_date("Sunday, 22-Oct-76 00:00:00 GMT", NOW), 214790400);
	assert_int_equal(http_date("Sunday, 01-Jan-77 00:00:00 GMT", NOW), 220924800);
	assert_int_equal(http_date("Sunday, 31-Dec-75 23:59:59 GMT", NOW), 3345062399);
	assert_int_equal(http_date("Sunday, 01-Jan-27 00:00:00 GMT", NOW), 1798761600);
	assert_int_equal(http_date("Sunday, 01-Jan-00 00:00:00 GMT", NOW), 946684800);
	/* Late in a century the next one is near: 2099 reads "05" as 2105. */
	assert_int_equal(http_date("Thursday, 01-Jan-05 00:00:00 GMT", 4086720000 * USEC_SEC),
			 4260211200);
	/* 29 February belongs to the year that is found. */
	assert_int_equal(http_date("Sunday, 29-Feb-28 00:00:00 GMT", NOW), 1835395200);
	assert_int_equal(http_date("Sunday, 29-Feb-27 00:00:00 GMT", NOW), -7);
}

static bool rfc3339(const char *text, usec_t *ret_wall)
{
	char *bytes = copy(text, strlen(text));
	bool ok = instant_rfc3339(bytes, strlen(text), ret_wall);

	free(bytes);
	return ok;
}

static void test_rfc3339(void **state)
{
	static const struct {
		const char *text;
		usec_t wall;
	} good[] = {
		{"2026-10-21T07:28:00Z", NOW},
		{"2026-10-21t07:28:00z", NOW},
		{"2026-10-21T09:28:00+02:00", NOW},
		{"2026-10-20T23:58:00-07:30", NOW},
		{"2026-10-21T07:28:00.5Z", NOW + 500000},
		{"2026-10-21T07:28:09.000001Z", NOW + 9 * USEC_SEC + 1},
		{"2026-10-21T07:28:00.0000001+00:00", NOW + 1},
		{"1985-04-12T23:20:50.52Z", 482196050520000},
		{"1990-12-31T23:59:60Z", 662688000000000},
		{"1990-12-31T15:59:60-08:00", 662688000000000},
	};
	static const char *const bad[] = {
		"",
		"2026-10-21",
		"2026-10-21T07:28:00",
		"2026-10-21 07:28:00Z",
		"2026-10-21T07:28Z",
		"2026-02-31T00:00:00Z",
		"2026-13-01T00:00:00Z",
		"2026-00-01T00:00:00Z",
		"2026-10-00T00:00:00Z",
		"2026-10-21T24:00:00Z",
		"2026-10-21T07:28:60Z",
		"1990-12-31T23:59:60-08:00",
		"2026-10-21T07:28:00.Z",
		"2026-10-21T07:28:00,5Z",
		"2026-10-21T07:28:00+0200",
		"2026-10-21T07:28:00+24:00",
		"2026-10-21T07:28:00+02:60",
		"2026-10-21T07:28:00ZZ",
		"2026-1-1T00:00:00Z",
		"+2026-10-21T07:28:00Z",
		"2026-10-21T07:28:00.5",
		"2026-10-21T07:28:00 Z",
	};
	usec_t wall;

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		assert_true(rfc3339(good[i].text, &wall));
		assert_int_equal(wall, good[i].wall);
	}
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_false(rfc3339(bad[i], &wall));
}

static void test_go_durations(void **state)
{
	static const struct {
		const char *text;
		usec_t value;
	} good[] = {
		{"17ms", 17000},
		{"1s", USEC_SEC},
		{"6m30s", 390 * USEC_SEC},
		{"6m0s", 360 * USEC_SEC},
		{"1h2m3.5s", 3723500000},
		{"0", 0},
		{"0s", 0},
		{"1ns", 1},
		{"1001ns", 2},
		{"1.5us", 2},
		{"3\xc2\xb5s", 3},
		{"4\xce\xbcs", 4},
		{"1.5h", 5400 * USEC_SEC},
		{"2562047h", 2562047 * USEC_HOUR},
	};
	static const char *const bad[] = {
		"",
		"1",
		"s",
		"-1s",
		"+1s",
		"1 s",
		" 1s",
		"1s ",
		"1.s",
		".5s",
		"1..5s",
		"1d",
		"1sx",
		"m",
		"1m30",
		"00",
		"0.",
		"1S",
		"2562047789h",
		"99999999999999999999s",
		"2562047788015215h30m",
		"\xc2\xb5s",
		"1\xc2",
		"1e3s",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		usec_t value = -1;

		assert_true(quantity_go(good[i].text, strlen(good[i].text), &value));
		assert_int_equal(value, good[i].value);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		char *bytes = copy(bad[i], strlen(bad[i]));
		usec_t value = -1;

		if (quantity_go(bytes, strlen(bad[i]), &value))
			print_message("read: \"%s\"\n", bad[i]);
		assert_int_equal(value, -1);
		free(bytes);
	}
}

static usec_t value_of(const char *text, const char *unit_text)
{
	enum advice_unit unit;
	usec_t wait = -7;
	int rc;

	assert_true(advice_unit_parse(unit_text, &unit));
	assert_string_equal(advice_unit_name(unit), unit_text);
	rc = advice_value(text, strlen(text), unit, NOW, &wait);
	if (rc <= 0)
		assert_int_equal(wait, -7);
	return rc > 0 ? wait : rc == 0 ? -2 : -1;
}

static void test_units(void **state)
{
	enum advice_unit unit;

	(void)state;
	assert_int_equal(value_of(" 2.5 ", "s"), 2500000);
	assert_int_equal(value_of("1500", "ms"), 1500000);
	assert_int_equal(value_of("6m30s", "go-duration"), 390 * USEC_SEC);
	assert_int_equal(value_of("2026-10-21T07:28:37Z", "rfc3339"), 37 * USEC_SEC);
	assert_int_equal(value_of("2026-10-21T07:27:37Z", "rfc3339"), -1);
	assert_int_equal(value_of("5", "rfc3339"), -1);
	assert_int_equal(value_of("-1", "s"), -1);
	assert_int_equal(value_of("0", "ms"), 0);
	assert_int_equal(value_of("17ms", "s"), -1);
	assert_false(advice_unit_parse("seconds", &unit));
	assert_false(advice_unit_parse(NULL, &unit));
	assert_string_equal(advice_unit_name(ADVICE_UNIT_COUNT), "other");
}

static void test_epochs(void **state)
{
	static const char *const units[] = {"epoch", "epoch-ms"};

	(void)state;
	for (size_t i = 0; i < COUNT(units); i++) {
		assert_int_equal(value_of("1792567717", units[i]), 37 * USEC_SEC);
		assert_int_equal(value_of("1792567717.25", units[i]), 37250000);
		assert_int_equal(value_of("1792567717000", units[i]), 37 * USEC_SEC);
		assert_int_equal(value_of("30", units[i]), 30 * USEC_SEC);
		assert_int_equal(value_of("0", units[i]), 0);
		assert_int_equal(value_of("1000000", units[i]), 1000000 * USEC_SEC);
		/* Past, between the magnitudes, beyond them, broken. */
		assert_int_equal(value_of("1792567680", units[i]), -1);
		assert_int_equal(value_of("1700000000", units[i]), -1);
		assert_int_equal(value_of("1700000000000", units[i]), -1);
		assert_int_equal(value_of("1000001", units[i]), -1);
		assert_int_equal(value_of("999999999", units[i]), -1);
		assert_int_equal(value_of("500000000000", units[i]), -1);
		assert_int_equal(value_of("1792567717000000", units[i]), -1);
		assert_int_equal(value_of("99999999999999999999", units[i]), -1);
		assert_int_equal(value_of("-1", units[i]), -1);
		assert_int_equal(value_of("", units[i]), -1);
	}
	/* A delta's unit with an epoch in it. */
	assert_int_equal(value_of("1792567717", "s"), 37 * USEC_SEC);
	assert_int_equal(value_of("1792567717000", "s"), 37 * USEC_SEC);
	assert_int_equal(value_of("1792567717000", "ms"), 37 * USEC_SEC);
	assert_int_equal(value_of("999999999", "s"), 999999999 * USEC_SEC);
}

static void test_ratelimit_values(void **state)
{
	(void)state;
	assert_int_equal(value_of("\"default\";r=0;t=30", "ratelimit"), 30 * USEC_SEC);
	assert_int_equal(value_of("\"a\";r=0;t=5, \"b\";r=0;t=50, \"c\";r=9;t=500", "ratelimit"),
			 50 * USEC_SEC);
	assert_int_equal(value_of("\"default\";r=1;t=30", "ratelimit"), -2);
	assert_int_equal(value_of("\"default\";r=0", "ratelimit"), -2);
	assert_int_equal(value_of("\"default\";t=30", "ratelimit"), -2);
	assert_int_equal(value_of("\"default\";r=0;t=0", "ratelimit"), 0);
	assert_int_equal(value_of("\"default\";r=0;t=-30", "ratelimit"), -1);
	assert_int_equal(value_of("\"default;r=0;t=30", "ratelimit"), -1);
}

static void test_ratelimit(void **state)
{
	static const char spaced[] = "\"a\";q=100 ;w=60"; /* no space goes before a semicolon */
	static const char line[] = " \"per\\\"burst\";q=100;w=60; pk=:cHsdsRa894==:, daily; q=1000;"
				   "w=86400;x;y=?1;z=*t/1;d=-1.25;s=\"a;b\";at=@1700000000 ";
	struct ratelimit_item items[3];
	size_t count = 99;

	(void)state;
	assert_false(ratelimit_parse(spaced, sizeof(spaced) - 1, items, 3, &count));
	assert_int_equal(count, 99);
	assert_true(ratelimit_parse(line, sizeof(line) - 1, items, 3, &count));
	assert_int_equal(count, 2);
	assert_int_equal(items[0].quota, 100);
	assert_int_equal(items[0].window, 60);
	assert_int_equal(items[0].remaining, -1);
	assert_int_equal(items[0].reset, -1);
	assert_memory_equal(items[0].name, "per\\\"burst", items[0].name_len);
	assert_int_equal(items[1].quota, 1000);
	assert_int_equal(items[1].window, 86400);
	assert_memory_equal(items[1].name, "daily", items[1].name_len);
	assert_false(ratelimit_parse(line, sizeof(line) - 1, items, 1, &count));
	assert_true(ratelimit_parse("\"a\";r=5;r=0", 11, items, 1, &count));
	assert_int_equal(items[0].remaining, 0);
	assert_true(ratelimit_parse("", 0, items, 1, &count));
	assert_int_equal(count, 0);
}

static void test_ratelimit_refused(void **state)
{
	static const char *const bad[] = {
		",",
		"\"a\",",
		"\"a\" \"b\"",
		"\"a\";",
		"\"a\";R=0",
		"\"a\";r=",
		"\"a\";r=x",
		"\"a\";r=1.5",
		"\"a\";r",
		"\"a\";r=?1",
		"\"a\";r=-1",
		"\"a\\x;r=0;t=1",
		"5;r=0",
		"\"a\";r=1234567890123456",
		"\"a\x80\"",
		"\"a\";x=1.2345",
		"\"a\";x=1.",
		"\"a\";x=-",
		"\"a\";x=:a",
		"\"a\";x=:\xff:",
		"\"a\";x=:a b:",
		"\"a\";x=?2",
		"\"a\";x=@",
		"\"a\";x=%",
		"\"",
		"\\",
		"limit=100, remaining=0",
		"(\"a\");r=0",
		"\"a\";r=0;t=3 0",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct ratelimit_item items[4];
		char *bytes = copy(bad[i], strlen(bad[i]));
		size_t count = 99;

		if (ratelimit_parse(bytes, strlen(bad[i]), items, 4, &count))
			print_message("read: %s\n", bad[i]);
		assert_int_equal(count, 99);
		free(bytes);
	}
	{
		/* A NUL is no member of any alphabet. */
		static const char nul[] = "\"a\";x=:\0:";
		struct ratelimit_item items[4];
		size_t count = 99;

		assert_false(ratelimit_parse(nul, sizeof(nul) - 1, items, 4, &count));
	}
}

static const struct advice_source sources[] = {
	{"X-RateLimit-Reset-Requests", ADVICE_UNIT_GO_DURATION, NULL},
	{"X-RateLimit-Reset", ADVICE_UNIT_EPOCH, NULL},
};
static const struct ruleset with_sources = {.sources = sources, .source_count = COUNT(sources)};

static struct verdict verdict_of(int status, const struct ruleset *rules, const char *name, ...)
{
	struct reply reply;
	struct verdict verdict;
	va_list list;

	reply_init(&reply);
	reply.facts.status = status;
	va_start(list, name);
	while (name != NULL) {
		reply_add(&reply, name, va_arg(list, const char *));
		name = va_arg(list, const char *);
	}
	va_end(list);
	classify(&reply.facts, rules, &verdict);
	reply_done(&reply);
	return verdict;
}

static void test_sources(void **state)
{
	struct verdict verdict;

	(void)state;
	verdict = verdict_of(429, &with_sources, "x-ratelimit-reset", "1792567717", NULL);
	assert_int_equal(verdict.advice, 37 * USEC_SEC);
	assert_false(verdict.advice_invalid);
	/* Against the provider's own clock. */
	verdict = verdict_of(429, &with_sources, "x-ratelimit-reset", "1792567717", "Date",
			     "Wed, 21 Oct 2026 07:28:30 GMT", NULL);
	assert_int_equal(verdict.advice, 7 * USEC_SEC);
	/* The largest of them, and those that cannot be read are counted. */
	verdict = verdict_of(429, &with_sources, "X-RateLimit-Reset", "1792567717",
			     "X-RateLimit-Reset-Requests", "6m30s", NULL);
	assert_int_equal(verdict.advice, 390 * USEC_SEC);
	verdict = verdict_of(429, &with_sources, "X-RateLimit-Reset", "1792567717",
			     "X-RateLimit-Reset-Requests", "-1", NULL);
	assert_int_equal(verdict.advice, 37 * USEC_SEC);
	assert_true(verdict.advice_invalid);
	/* A readable Retry-After beats them, a zero too; an unreadable one does not. */
	verdict = verdict_of(429, &with_sources, "Retry-After", "2", "X-RateLimit-Reset",
			     "1792567717", NULL);
	assert_int_equal(verdict.advice, 2 * USEC_SEC);
	verdict = verdict_of(429, &with_sources, "Retry-After", "0", "X-RateLimit-Reset",
			     "1792567717", NULL);
	assert_int_equal(verdict.advice, -1);
	verdict = verdict_of(429, &with_sources, "Retry-After", "inf", "X-RateLimit-Reset",
			     "1792567717", NULL);
	assert_int_equal(verdict.advice, 37 * USEC_SEC);
	assert_true(verdict.advice_invalid);
}

/* A 500 that tells when its limits reset has met none of them. */
static void test_sources_elsewhere(void **state)
{
	static const struct rule_status any[] = {{503, 503}};
	static const struct rule rule = {.name = "busy",
					 .statuses = any,
					 .status_count = 1,
					 .class = CLASS_UNKNOWN,
					 .effect = EFFECT_POSSIBLE,
					 .wait_advice = true};
	static const struct ruleset rules = {
		.rules = &rule, .count = 1, .sources = sources, .source_count = COUNT(sources)};
	struct verdict verdict;

	(void)state;
	verdict = verdict_of(500, &rules, "X-RateLimit-Reset", "1792567717", NULL);
	assert_int_equal(verdict.advice, -1);
	verdict = verdict_of(500, &rules, "Retry-After", "4", "X-RateLimit-Reset", "1792567717",
			     NULL);
	assert_int_equal(verdict.advice, 4 * USEC_SEC);
	verdict = verdict_of(503, &rules, "X-RateLimit-Reset", "1792567717", NULL);
	assert_int_equal(verdict.advice, 37 * USEC_SEC);
}

static const struct advice_source in_body[] = {
	{NULL, ADVICE_UNIT_GO_DURATION, "/error/details/0/retryDelay"},
	{"X-RateLimit-Reset", ADVICE_UNIT_EPOCH, NULL},
	{NULL, ADVICE_UNIT_S, "/wait"},
};

/* `line`: the value of a Retry-After (`X-RateLimit-Reset` where it is ten digits), or NULL. */
static struct verdict verdict_of_body(int status, const char *line, const char *body)
{
	struct ruleset rules = {
		.sources = in_body, .source_count = COUNT(in_body), .inspect_max = 256};
	struct reply reply;
	struct verdict verdict;
	size_t len = strlen(body);
	char *bytes = copy(body, len);

	reply_init(&reply);
	reply.facts.status = status;
	reply.facts.body = bytes;
	reply.facts.body_len = len;
	if (line != NULL)
		reply_add(&reply, strlen(line) == 10 ? "X-RateLimit-Reset" : "Retry-After", line);
	classify(&reply.facts, &rules, &verdict);
	reply_done(&reply);
	free(bytes);
	return verdict;
}

static void test_body_values(void **state)
{
	static const struct {
		const char *body;
		usec_t wait;
		bool invalid;
	} rows[] = {
		{"{\"error\": {\"details\": [{\"retryDelay\": \"3.5s\"}]}}", 3500 * USEC_MS, false},
		{"{\"error\": {\"details\": [{\"retryDelay\": \"3\\u002e5s\"}]}}", 3500 * USEC_MS,
		 false},
		{"{\"error\": {\"details\": [{\"retryDelay\": \"12.345678901s\"}]}}", 12345679,
		 false},
		{"{\"wait\": 7}", 7 * USEC_SEC, false},
		{"{\"wait\": \" 7.25 \"}", 7250 * USEC_MS, false},
		{"{\"wait\": 1792567717}", 37 * USEC_SEC, false},
		/* the largest; one that cannot be read is counted beside it */
		{"{\"wait\": 9, \"error\": {\"details\": [{\"retryDelay\": \"3s\"}]}}",
		 9 * USEC_SEC, false},
		{"{\"wait\": 2, \"error\": {\"details\": [{\"retryDelay\": \"x\"}]}}", 2 * USEC_SEC,
		 true},
		/* nothing is there */
		{"{\"wait\": null}", -1, false},
		{"{\"waits\": 7}", -1, false},
		{"{\"wait\": 0}", -1, false},
		{"", -1, false},
		{"{\"wait\": 7", -1, false},
		{"{\"wait\": 7} ]", -1, false},
		{"{\"wait\": 7, \"wait\": 8}", -1, false},
		/* unreadable */
		{"{\"wait\": true}", -1, true},
		{"{\"wait\": [7]}", -1, true},
		{"{\"wait\": {}}", -1, true},
		{"{\"wait\": -7}", -1, true},
		{"{\"wait\": 7e3}", -1, true},
		{"{\"wait\": \"inf\"}", -1, true},
		{"{\"wait\": \"7\\u0000\"}", -1, true},
		{"{\"wait\": 99999999999999999999999999}", -1, true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct verdict verdict = verdict_of_body(429, NULL, rows[i].body);

		if (verdict.advice != rows[i].wait || verdict.advice_invalid != rows[i].invalid)
			print_error("%s\n", rows[i].body);
		assert_int_equal(verdict.advice, rows[i].wait);
		assert_int_equal(verdict.advice_invalid, rows[i].invalid);
	}
}

static void test_body_bounds(void **state)
{
	char body[400];

	(void)state;
	/* of 256 bytes, and of 257 */
	snprintf(body, sizeof(body), "{\"wait\": 7}%245s", "");
	assert_int_equal(verdict_of_body(429, NULL, body).advice, 7 * USEC_SEC);
	snprintf(body, sizeof(body), "{\"wait\": 7}%246s", "");
	assert_int_equal(verdict_of_body(429, NULL, body).advice, -1);
	/* A text over ADVICE_TEXT_MAX bytes; what it says would be good. */
	struct ruleset rules = {
		.sources = in_body, .source_count = COUNT(in_body), .inspect_max = 1024};
	struct facts facts = {.method = "POST", .path = "/", .status = 429, .sent = true};
	struct verdict verdict;

	for (int zeros = ADVICE_TEXT_MAX - 1; zeros <= ADVICE_TEXT_MAX; zeros++) {
		snprintf(body, sizeof(body), "{\"wait\": \"%0*d\"}", zeros + 1, 7);
		facts.body = body;
		facts.body_len = strlen(body);
		classify(&facts, &rules, &verdict);
		assert_int_equal(verdict.advice, zeros < ADVICE_TEXT_MAX ? 7 * USEC_SEC : -1);
		assert_int_equal(verdict.advice_invalid, zeros == ADVICE_TEXT_MAX);
	}
	/* Not all of it is there, or it is not looked into. */
	facts.body = "{\"wait\": 7}";
	facts.body_len = strlen(facts.body);
	classify(&facts, &rules, &verdict);
	assert_int_equal(verdict.advice, 7 * USEC_SEC);
	facts.body_truncated = true;
	classify(&facts, &rules, &verdict);
	assert_int_equal(verdict.advice, -1);
	facts.body_truncated = false;
	rules.inspect_max = 0;
	classify(&facts, &rules, &verdict);
	assert_int_equal(verdict.advice, -1);
	facts.body = NULL;
	facts.body_len = 0;
	rules.inspect_max = 1024;
	classify(&facts, &rules, &verdict);
	assert_int_equal(verdict.advice, -1);
}

/* The headers first, in their order, and only what may be repeated. */
static void test_body_rank(void **state)
{
	static const char body[] = "{\"wait\": 7}";

	(void)state;
	assert_int_equal(verdict_of_body(429, "3", body).advice, 3 * USEC_SEC);
	assert_int_equal(verdict_of_body(429, "0", body).advice, -1);
	assert_int_equal(verdict_of_body(429, "soon", body).advice, 7 * USEC_SEC);
	assert_true(verdict_of_body(429, "soon", body).advice_invalid);
	assert_int_equal(verdict_of_body(429, "1792567717", body).advice, 37 * USEC_SEC);
	/* A reset header of a failure that met no limit says nothing; the body of one does. */
	assert_int_equal(verdict_of_body(500, "1792567717", body).advice, 7 * USEC_SEC);
	assert_int_equal(verdict_of_body(408, NULL, body).advice, 7 * USEC_SEC);
	assert_int_equal(verdict_of_body(400, NULL, body).advice, -1);
	assert_int_equal(verdict_of_body(401, NULL, body).advice, -1);
	assert_int_equal(verdict_of_body(200, NULL, body).advice, -1);
}

/* What classify() took it from. */
static void test_where(void **state)
{
	struct ruleset rules = {
		.sources = in_body, .source_count = COUNT(in_body), .inspect_max = 256};
	struct reply reply;
	struct advice advice;

	(void)state;
	reply_init(&reply);
	classify_advice(&reply.facts, &rules, NULL, CLASS_RATE_LIMITED, &advice);
	assert_null(advice.where);
	reply_add(&reply, "retry-after-ms", "soon");
	reply_add(&reply, "Retry-After", "4");
	classify_advice(&reply.facts, &rules, NULL, CLASS_RATE_LIMITED, &advice);
	assert_int_equal(advice.where_len, strlen("Retry-After"));
	assert_memory_equal(advice.where, "Retry-After", advice.where_len);
	assert_memory_equal(advice.text, "4", advice.text_len);
	assert_true(advice.invalid);
	reply.facts.header_count = 1;
	classify_advice(&reply.facts, &rules, NULL, CLASS_RATE_LIMITED, &advice);
	assert_int_equal(advice.wait, -1);
	assert_memory_equal(advice.text, "soon", advice.text_len);
	reply.facts.header_count = 2;
	reply_done(&reply);
	reply_init(&reply);
	reply.facts.body = "{\"wait\": \"7\"}";
	reply.facts.body_len = strlen(reply.facts.body);
	classify_advice(&reply.facts, &rules, NULL, CLASS_UNKNOWN, &advice);
	assert_memory_equal(advice.where, "/wait", advice.where_len);
	assert_memory_equal(advice.text, "7", advice.text_len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seconds),
		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_nul_in_value),
		cmocka_unit_test(test_zero_and_past),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_several_lines),
		cmocka_unit_test(test_skewed_clock),
		cmocka_unit_test(test_clock_extremes),
		cmocka_unit_test(test_http_dates),
		cmocka_unit_test(test_http_dates_refused),
		cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_fifty_years),
		cmocka_unit_test(test_rfc3339),
		cmocka_unit_test(test_go_durations),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_ratelimit_values),
		cmocka_unit_test(test_ratelimit),
		cmocka_unit_test(test_ratelimit_refused),
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_sources_elsewhere),
		cmocka_unit_test(test_body_values),
		cmocka_unit_test(test_body_bounds),
		cmocka_unit_test(test_body_rank),
		cmocka_unit_test(test_where),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
