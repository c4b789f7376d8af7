#include "proxy/timefmt.h"

#include <stdio.h>

#define LAST_SECOND INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

/* Days since 1970-01-01 to a date of the Gregorian calendar, and back, over eras of 400 years with
 * the year beginning in March (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"). No libc:
 * gmtime() and timegm() read the environment. */
static void date_of(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
	int64_t z = days + 719468;
	int64_t era = z / 146097, doe = z % 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;
	int month = (int)(mp < 10 ? mp + 3 : mp - 9);

	*ret_day = (int)(doy - (153 * mp + 2) / 5 + 1);
	*ret_month = month;
	*ret_year = (int)(yoe + era * 400 + (month <= 2 ? 1 : 0));
}

static int64_t days_of(int year, int month, int day)
{
	int64_t y = year - (month <= 2 ? 1 : 0) + 400; /* year 0 too stays positive */
	int64_t era = y / 400, yoe = y % 400;
	int64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

	return era * 146097 + doe - 719468 - 146097;
}

void timefmt_rfc3339(usec_t wall, char ret_text[TIMEFMT_MAX])
{
	int64_t seconds = wall < 0 ? 0 : wall / USEC_SEC;
	int ms = wall < 0 ? 0 : (int)(wall % USEC_SEC / USEC_MS);
	int year, month, day, rest;

	if (seconds > LAST_SECOND) {
		seconds = LAST_SECOND;
		ms = 999;
	}
	date_of(seconds / 86400, &year, &month, &day);
	rest = (int)(seconds % 86400);
	snprintf(ret_text, TIMEFMT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", year, month, day,
		 rest / 3600, rest / 60 % 60, rest % 60, ms);
}

/* A text that is read from the front; `bad` once something was not there. */
struct reader {
	const char *at, *end;
	bool bad;
};

static int read_digits(struct reader *reader, int count)
{
	int value = 0;

	for (int i = 0; i < count; i++) {
		if (reader->at == reader->end || *reader->at < '0' || *reader->at > '9') {
			reader->bad = true;
			return 0;
		}
		value = value * 10 + (*reader->at++ - '0');
	}
	return value;
}

/* Takes one of the characters of `set`. */
static char read_one_of(struct reader *reader, const char *set)
{
	for (; reader->at < reader->end && *set != '\0'; set++) {
		if (*reader->at == *set)
			return *reader->at++;
	}
	reader->bad = true;
	return '\0';
}

static usec_t read_fraction(struct reader *reader)
{
	usec_t value = 0, unit = USEC_SEC;

	if (reader->at == reader->end || *reader->at != '.')
		return 0;
	reader->at++;
	do {
		unit /= 10;
		value += unit * read_digits(reader, 1);
	} while (!reader->bad && reader->at < reader->end && *reader->at >= '0' &&
		 *reader->at <= '9');
	return value;
}

/* "Z" or "+hh:mm": seconds east of UTC. */
static int read_offset(struct reader *reader)
{
	char sign = read_one_of(reader, "Zz+-");
	int hours, minutes;

	if (sign != '+' && sign != '-')
		return 0;
	hours = read_digits(reader, 2);
	read_one_of(reader, ":");
	minutes = read_digits(reader, 2);
	reader->bad = reader->bad || hours > 23 || minutes > 59;
	return (hours * 3600 + minutes * 60) * (sign == '-' ? -1 : 1);
}

static int64_t read_date(struct reader *reader)
{
	int year, month, day, real_year, real_month, real_day;
	int64_t days;

	year = read_digits(reader, 4);
	read_one_of(reader, "-");
	month = read_digits(reader, 2);
	read_one_of(reader, "-");
	day = read_digits(reader, 2);
	if (reader->bad || month < 1 || month > 12 || day < 1) {
		reader->bad = true;
		return 0;
	}
	days = days_of(year, month, day);
	date_of(days + 146097, &real_year, &real_month, &real_day);
	reader->bad = real_day != day || real_month != month;
	return days;
}

bool timefmt_parse_rfc3339(const char *text, size_t len, usec_t *ret_wall)
{
	struct reader reader = {.at = text, .end = text + len};
	int64_t seconds = read_date(&reader) * 86400;
	int hour, minute, second, offset;
	usec_t fraction;

	read_one_of(&reader, "Tt ");
	hour = read_digits(&reader, 2);
	read_one_of(&reader, ":");
	minute = read_digits(&reader, 2);
	read_one_of(&reader, ":");
	second = read_digits(&reader, 2);
	fraction = read_fraction(&reader);
	offset = read_offset(&reader);
	if (reader.bad || reader.at != reader.end || hour > 23 || minute > 59 || second > 60)
		return false;
	seconds += hour * 3600 + minute * 60 + second - offset;
	*ret_wall = seconds * USEC_SEC + fraction;
	return true;
}
