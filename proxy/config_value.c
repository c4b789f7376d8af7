#include "proxy/config_value.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* More digits than this overflow every unit that there is. */
#define DIGITS_MAX 15
#define GUESS_MAX ((double)1e15)

struct unit {
	const char *name;
	int64_t worth;
};

/* Strict names first: these are printed, from the largest on. */
static const struct unit durations[] = {
	{"d", USEC_DAY}, {"h", USEC_HOUR}, {"m", USEC_MIN}, {"s", USEC_SEC}, {"ms", USEC_MS},
};

static const struct unit sizes[] = {
	{"GiB", 1073741824},
	{"MiB", 1048576},
	{"KiB", 1024},
	{"B", 1},
};

/* What people write elsewhere. Compared without case. */
static const struct unit other_durations[] = {
	{"", USEC_SEC},
	{"us", 1},
	{"msec", USEC_MS},
	{"msecs", USEC_MS},
	{"millis", USEC_MS},
	{"millisecond", USEC_MS},
	{"milliseconds", USEC_MS},
	{"ms", USEC_MS},
	{"s", USEC_SEC},
	{"sec", USEC_SEC},
	{"secs", USEC_SEC},
	{"second", USEC_SEC},
	{"seconds", USEC_SEC},
	{"m", USEC_MIN},
	{"min", USEC_MIN},
	{"mins", USEC_MIN},
	{"minute", USEC_MIN},
	{"minutes", USEC_MIN},
	{"h", USEC_HOUR},
	{"hr", USEC_HOUR},
	{"hrs", USEC_HOUR},
	{"hour", USEC_HOUR},
	{"hours", USEC_HOUR},
	{"d", USEC_DAY},
	{"day", USEC_DAY},
	{"days", USEC_DAY},
	{"w", 7 * USEC_DAY},
	{"week", 7 * USEC_DAY},
	{"weeks", 7 * USEC_DAY},
};

static const struct unit other_sizes[] = {
	{"", 1},
	{"b", 1},
	{"byte", 1},
	{"bytes", 1},
	{"k", 1024},
	{"kb", 1024},
	{"kib", 1024},
	{"m", 1048576},
	{"mb", 1048576},
	{"mib", 1048576},
	{"g", 1073741824},
	{"gb", 1073741824},
	{"gib", 1073741824},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int parse_strict(const char *text, const struct unit *units, size_t count,
			int64_t *ret_value)
{
	size_t digits = strspn(text, "0123456789");

	if (digits == 0 || digits > DIGITS_MAX)
		return -1;
	for (size_t i = 0; i < count; i++)
		if (strcmp(text + digits, units[i].name) == 0) {
			*ret_value = usec_mul(strtoll(text, NULL, 10), units[i].worth);
			return 0;
		}
	return -1;
}

/* One or more terms of number, space and unit ("1m30s", "1.5 s"), summed up. */
static int parse_loose(const char *text, const struct unit *units, size_t count, double *ret_value)
{
	double sum = 0;

	for (;;) {
		text += strspn(text, " ");
		if (*text == '\0')
			break;
		size_t digits = strspn(text, "0123456789.");
		char number[DIGITS_MAX + 1];

		if (digits == 0 || digits > DIGITS_MAX)
			return -1;
		memcpy(number, text, digits);
		number[digits] = '\0';
		double value;

		if (value_factor(number, &value) != 0)
			return -1;
		text += digits;
		text += strspn(text, " ");
		size_t letters = 0;

		while (isalpha((unsigned char)text[letters]))
			letters++;
		const struct unit *unit = NULL;

		for (size_t i = 0; i < count && unit == NULL; i++)
			if (strlen(units[i].name) == letters &&
			    strncasecmp(text, units[i].name, letters) == 0)
				unit = &units[i];
		if (unit == NULL)
			return -1;
		sum += value * (double)unit->worth;
		text += letters;
	}
	*ret_value = sum;
	return sum >= 0 && sum < GUESS_MAX ? 0 : -1;
}

int value_duration(const char *text, usec_t *ret_value, char *ret_hint)
{
	double guess;

	if (parse_strict(text, durations, COUNT(durations), ret_value) == 0)
		return 0;
	ret_hint[0] = '\0';
	if (*text != '\0' &&
	    parse_loose(text, other_durations, COUNT(other_durations), &guess) == 0)
		value_print_duration((usec_t)guess, ret_hint);
	return -1;
}

int value_size(const char *text, int64_t *ret_value, char *ret_hint)
{
	double guess;

	if (parse_strict(text, sizes, COUNT(sizes), ret_value) == 0)
		return 0;
	ret_hint[0] = '\0';
	if (*text != '\0' && parse_loose(text, other_sizes, COUNT(other_sizes), &guess) == 0)
		value_print_size((int64_t)guess, ret_hint);
	return -1;
}

int value_int(const char *text, int64_t *ret_value)
{
	const char *digits = text + (*text == '-');
	size_t len = strspn(digits, "0123456789");

	if (len == 0 || digits[len] != '\0')
		return -1;
	errno = 0;
	long long value = strtoll(text, NULL, 10);

	if (errno != 0)
		return -1;
	*ret_value = value;
	return 0;
}

int value_factor(const char *text, double *ret_value)
{
	size_t whole = strspn(text, "0123456789");
	const char *rest = text + whole;

	if (whole == 0 || whole > DIGITS_MAX)
		return -1;
	double value = (double)strtoll(text, NULL, 10);

	if (*rest == '.') {
		size_t places = strspn(rest + 1, "0123456789");
		double worth = 1;

		if (places == 0 || places > DIGITS_MAX || rest[1 + places] != '\0')
			return -1;
		for (size_t i = 1; i <= places; i++)
			worth *= 10;
		/* not strtod: it reads the decimal point by locale */
		value += (double)strtoll(rest + 1, NULL, 10) / worth;
	} else if (*rest != '\0') {
		return -1;
	}
	*ret_value = value;
	return 0;
}

static void print_value(int64_t value, const struct unit *units, size_t count,
			char ret_text[VALUE_TEXT])
{
	for (size_t i = 0; i < count; i++)
		if (value != 0 && value % units[i].worth == 0) {
			snprintf(ret_text, VALUE_TEXT, "%" PRId64 "%s", value / units[i].worth,
				 units[i].name);
			return;
		}
}

void value_print_duration(usec_t value, char ret_text[VALUE_TEXT])
{
	snprintf(ret_text, VALUE_TEXT, "0s");
	/* 60s and 24h are how the design and the samples write them */
	if (value == USEC_MIN)
		snprintf(ret_text, VALUE_TEXT, "60s");
	else if (value == USEC_DAY)
		snprintf(ret_text, VALUE_TEXT, "24h");
	else
		print_value((value + USEC_MS - 1) / USEC_MS * USEC_MS, durations, COUNT(durations),
			    ret_text);
}

void value_print_size(int64_t value, char ret_text[VALUE_TEXT])
{
	snprintf(ret_text, VALUE_TEXT, "0B");
	print_value(value, sizes, COUNT(sizes), ret_text);
}

bool value_is_token(const char *text)
{
	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++)
		if (!isalnum((unsigned char)*text) && strchr("!#$%&'*+-.^_`|~", *text) == NULL)
			return false;
	return true;
}
