#include "classify/instant.h"

#include "classify/quantity.h"
#include "classify/text.h"

#define DAY_SECONDS 86400

struct civil {
	int year;
	int month; /* 1 to 12 */
	int day;
	int hour;
	int minute;
	int second;
};

/* What is left of the text; every reader below takes from its front or fails. */
struct reader {
	const char *at;
	size_t left;
};

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
				     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const days_short[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
static const char *const days_long[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
					"Friday", "Saturday", "Sunday"};

static bool take_word(struct reader *in, const char *word)
{
	size_t len = strlen(word);

	if (!text_starts(in->at, in->left, word))
		return false;
	in->at += len;
	in->left -= len;
	return true;
}

static bool take_name(struct reader *in, const char *const *names, size_t count, int *ret_index)
{
	for (size_t i = 0; i < count; i++) {
		if (take_word(in, names[i])) {
			*ret_index = (int)i;
			return true;
		}
	}
	return false;
}

static bool take_digits(struct reader *in, size_t count, int *ret_value)
{
	int value = 0;

	if (in->left < count)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!text_is_digit(in->at[i]))
			return false;
		value = value * 10 + (in->at[i] - '0');
	}
	in->at += count;
	in->left -= count;
	*ret_value = value;
	return true;
}

static bool take_month(struct reader *in, int *ret_month)
{
	int index;

	if (!take_name(in, months, 12, &index))
		return false;
	*ret_month = index + 1;
	return true;
}

static bool take_clock(struct reader *in, struct civil *civil)
{
	return take_digits(in, 2, &civil->hour) && take_word(in, ":") &&
	       take_digits(in, 2, &civil->minute) && take_word(in, ":") &&
	       take_digits(in, 2, &civil->second);
}

static bool leap_year(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return month == 2 && leap_year(year) ? 29 : days[month - 1];
}

/* Days since 1970-01-01 in the Gregorian calendar, for years from 0 on. Counted from 0000-03-01, so
 * that a leap day is the last of its year; 719468 days lie between the two. */
static int64_t civil_days(int year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* Seconds since the epoch. A leap second (:60) counts as the second after :59, and its caller says
 * whether it stands where one can. */
static bool civil_seconds(const struct civil *civil, int64_t *ret_seconds)
{
	if (civil->month < 1 || civil->month > 12 || civil->day < 1 ||
	    civil->day > month_days(civil->year, civil->month) || civil->hour > 23 ||
	    civil->minute > 59 || civil->second > 60)
		return false;
	*ret_seconds = civil_days(civil->year, civil->month, civil->day) * DAY_SECONDS +
		       civil->hour * 3600 + civil->minute * 60 + civil->second;
	return true;
}

/* A leap second is the last of a UTC day. */
static bool leap_second_placed(const struct civil *civil, int64_t seconds)
{
	return civil->second < 60 || seconds % DAY_SECONDS == 0;
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool read_imf(struct reader in, struct civil *civil)
{
	int day_name;

	return take_name(&in, days_short, 7, &day_name) && take_word(&in, ", ") &&
	       take_digits(&in, 2, &civil->day) && take_word(&in, " ") &&
	       take_month(&in, &civil->month) && take_word(&in, " ") &&
	       take_digits(&in, 4, &civil->year) && take_word(&in, " ") && take_clock(&in, civil) &&
	       take_word(&in, " GMT") && in.left == 0;
}

/* Sun Nov  6 08:49:37 1994 */
static bool read_asctime(struct reader in, struct civil *civil)
{
	int day_name;

	return take_name(&in, days_short, 7, &day_name) && take_word(&in, " ") &&
	       take_month(&in, &civil->month) && take_word(&in, " ") &&
	       (take_word(&in, " ") ? take_digits(&in, 1, &civil->day)
				    : take_digits(&in, 2, &civil->day)) &&
	       take_word(&in, " ") && take_clock(&in, civil) && take_word(&in, " ") &&
	       take_digits(&in, 4, &civil->year) && in.left == 0;
}

/* Sunday, 06-Nov-94 08:49:37 GMT, the year as written */
static bool read_rfc850(struct reader in, struct civil *civil)
{
	int day_name;

	return take_name(&in, days_long, 7, &day_name) && take_word(&in, ", ") &&
	       take_digits(&in, 2, &civil->day) && take_word(&in, "-") &&
	       take_month(&in, &civil->month) && take_word(&in, "-") &&
	       take_digits(&in, 2, &civil->year) && take_word(&in, " ") && take_clock(&in, civil) &&
	       take_word(&in, " GMT") && in.left == 0;
}

/* The other way round: a time as the calendar has it. */
static struct civil civil_of(usec_t wall)
{
	int64_t seconds = wall / USEC_SEC - (wall % USEC_SEC < 0 ? 1 : 0);
	int64_t days = seconds / DAY_SECONDS - (seconds % DAY_SECONDS < 0 ? 1 : 0);
	struct civil civil = {.year = 1970, .month = 1, .day = 1};
	int left;

	/* A clock outside the years that HTTP can write is no help in guessing a century. */
	if (days < 0 || days >= civil_days(9999, 1, 1))
		return civil;
	civil.year += (int)(days / 366);
	while (civil_days(civil.year + 1, 1, 1) <= days)
		civil.year++;
	while (civil.month < 12 && civil_days(civil.year, civil.month + 1, 1) <= days)
		civil.month++;
	civil.day += (int)(days - civil_days(civil.year, civil.month, 1));
	left = (int)(seconds - days * DAY_SECONDS);
	civil.hour = left / 3600;
	civil.minute = left / 60 % 60;
	civil.second = left % 60;
	return civil;
}

/* Where a time stands in its year, comparable across years whether they have a leap day or not. */
static int64_t place_in_year(const struct civil *civil)
{
	return (((int64_t)civil->month * 100 + civil->day) * 100 + civil->hour) * 10000 +
	       civil->minute * 100 + civil->second;
}

/* RFC 9110 section 5.6.7: what would be more than 50 years ahead is the latest year of the past
 * with the same two digits. At exactly 50 years the rest of the date decides. */
static void set_century(struct civil *civil, usec_t now_wall)
{
	struct civil now = civil_of(now_wall);

	civil->year += (now.year + 50 - civil->year) / 100 * 100;
	if (civil->year == now.year + 50 && place_in_year(civil) > place_in_year(&now))
		civil->year -= 100;
}

bool instant_http(const char *text, size_t len, usec_t now_wall, usec_t *ret_wall)
{
	struct reader in = {text, len};
	struct civil civil;
	int64_t seconds;

	if (read_rfc850(in, &civil))
		set_century(&civil, now_wall);
	else if (!read_imf(in, &civil) && !read_asctime(in, &civil))
		return false;
	if (!civil_seconds(&civil, &seconds) || !leap_second_placed(&civil, seconds))
		return false;
	*ret_wall = seconds * USEC_SEC;
	return true;
}

/* Z, or +hh:mm or -hh:mm as the seconds to take off for UTC. */
static bool take_offset(struct reader *in, int64_t *ret_seconds)
{
	int sign;
	int hour;
	int minute;

	if (take_word(in, "Z") || take_word(in, "z")) {
		*ret_seconds = 0;
		return true;
	}
	if (take_word(in, "+"))
		sign = 1;
	else if (take_word(in, "-"))
		sign = -1;
	else
		return false;
	if (!take_digits(in, 2, &hour) || !take_word(in, ":") || !take_digits(in, 2, &minute) ||
	    hour > 23 || minute > 59)
		return false;
	*ret_seconds = sign * (hour * 3600 + minute * 60);
	return true;
}

/* ".5" as microseconds, 0 where there is none. The number reader wants a digit before the point:
 * the last of the seconds serves, and is taken off again. */
static bool take_fraction(struct reader *in, usec_t *ret_usec)
{
	size_t digits = 1;
	usec_t value;

	*ret_usec = 0;
	if (in->left == 0 || *in->at != '.')
		return true;
	while (digits < in->left && text_is_digit(in->at[digits]))
		digits++;
	if (!quantity_decimal(in->at - 1, digits + 1, USEC_SEC, &value))
		return false;
	*ret_usec = value - (in->at[-1] - '0') * USEC_SEC;
	in->at += digits;
	in->left -= digits;
	return true;
}

bool instant_rfc3339(const char *text, size_t len, usec_t *ret_wall)
{
	struct reader in = {text, len};
	struct civil civil;
	int64_t seconds;
	int64_t offset;
	usec_t fraction;

	if (!take_digits(&in, 4, &civil.year) || !take_word(&in, "-") ||
	    !take_digits(&in, 2, &civil.month) || !take_word(&in, "-") ||
	    !take_digits(&in, 2, &civil.day) || !(take_word(&in, "T") || take_word(&in, "t")) ||
	    !take_clock(&in, &civil) || !take_fraction(&in, &fraction) ||
	    !take_offset(&in, &offset) || in.left != 0)
		return false;
	if (!civil_seconds(&civil, &seconds))
		return false;
	seconds -= offset;
	if (!leap_second_placed(&civil, seconds))
		return false;
	*ret_wall = seconds * USEC_SEC + fraction;
	return true;
}
