#include "classify/quantity.h"

#include "classify/text.h"

/* Nine digits of fraction times an hour in microseconds stay below INT64_MAX; what follows them can
 * only round up. */
#define FRACTION_DIGITS 9
#define FRACTION_SCALE INT64_C(1000000000)

static size_t digits_at(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && text_is_digit(text[n]))
		n++;
	return n;
}

static bool whole_part(const char *text, size_t len, int64_t *ret_value)
{
	int64_t value = 0;

	for (size_t i = 0; i < len; i++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, text[i] - '0', &value))
			return false;
	}
	*ret_value = value;
	return true;
}

static usec_t fraction_part(const char *text, size_t len, usec_t unit)
{
	int64_t value = 0;
	bool more = false;

	for (size_t i = 0; i < FRACTION_DIGITS; i++)
		value = value * 10 + (i < len ? text[i] - '0' : 0);
	for (size_t i = FRACTION_DIGITS; i < len; i++)
		more = more || text[i] != '0';
	value *= unit;
	return value / FRACTION_SCALE + (value % FRACTION_SCALE != 0 || more ? 1 : 0);
}

/* Reads a number at the start of the text and says how much of the text it took. */
static bool decimal_prefix(const char *text, size_t len, usec_t unit, size_t *ret_used,
			   usec_t *ret_value)
{
	size_t used = digits_at(text, len);
	usec_t value;
	size_t fraction;

	if (used == 0 || !whole_part(text, used, &value) ||
	    __builtin_mul_overflow(value, unit, &value))
		return false;
	if (used < len && text[used] == '.') {
		used++;
		fraction = digits_at(text + used, len - used);
		if (fraction == 0 ||
		    __builtin_add_overflow(value, fraction_part(text + used, fraction, unit),
					   &value))
			return false;
		used += fraction;
	}
	*ret_used = used;
	*ret_value = value;
	return true;
}

bool quantity_decimal(const char *text, size_t len, usec_t unit, usec_t *ret_value)
{
	size_t used;
	usec_t value;

	if (!decimal_prefix(text, len, unit, &used, &value) || used != len)
		return false;
	*ret_value = value;
	return true;
}

struct go_unit {
	const char *text;
	usec_t usec;   /* microseconds in one, at least 1 */
	usec_t divide; /* 1000 for nanoseconds, else 1 */
};

/* Longer names stand before their own beginnings. */
static const struct go_unit go_units[] = {
	{"ns", 1, 1000},     {"us", 1, 1},       {"\xc2\xb5s", 1, 1}, /* U+00B5 MICRO SIGN */
	{"\xce\xbcs", 1, 1}, /* U+03BC GREEK SMALL LETTER MU */
	{"ms", USEC_MS, 1},  {"s", USEC_SEC, 1}, {"m", USEC_MIN, 1},  {"h", USEC_HOUR, 1},
};

static const struct go_unit *go_unit_at(const char *text, size_t len)
{
	for (size_t i = 0; i < sizeof(go_units) / sizeof(go_units[0]); i++) {
		if (text_starts(text, len, go_units[i].text))
			return &go_units[i];
	}
	return NULL;
}

bool quantity_go(const char *text, size_t len, usec_t *ret_value)
{
	usec_t total = 0;
	size_t at = 0;

	if (text_equal(text, len, "0")) {
		*ret_value = 0;
		return true;
	}
	while (at < len) {
		size_t number = at;
		const struct go_unit *unit;
		size_t used;
		usec_t part;

		while (number < len && (text_is_digit(text[number]) || text[number] == '.'))
			number++;
		unit = go_unit_at(text + number, len - number);
		if (unit == NULL ||
		    !decimal_prefix(text + at, number - at, unit->usec, &used, &part) ||
		    used != number - at)
			return false;
		part = part / unit->divide + (part % unit->divide != 0 ? 1 : 0);
		if (__builtin_add_overflow(total, part, &total))
			return false;
		at = number + strlen(unit->text);
	}
	if (len == 0)
		return false;
	*ret_value = total;
	return true;
}
