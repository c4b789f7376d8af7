#include "proxy/hints.h"

#include <stdio.h>

#include "budget/policy.h"
#include "proxy/headers.h"
#include "proxy/key.h"

#define FRACTION_MAX 12

/* 1 to 3 digits: 1 to 100. */
static bool parse_attempts(const struct header_view *header, int *ret_attempts)
{
	int value = 0;

	if (header->value_len < 1 || header->value_len > 3)
		return false;
	for (size_t i = 0; i < header->value_len; i++) {
		char c = header->value[i];

		if (c < '0' || c > '9')
			return false;
		value = value * 10 + (c - '0');
	}
	if (value < 1 || value > ATTEMPTS_CEILING)
		return false;
	*ret_attempts = value;
	return true;
}

/* Digits, and then perhaps a point and digits: more than 0 and at most a day. What is below a
 * microsecond counts as one, so that a deadline never becomes none. */
static bool parse_deadline(const struct header_view *header, usec_t *ret_deadline)
{
	const char *at = header->value, *end = at + header->value_len, *digits;
	usec_t value = 0, unit = USEC_SEC;
	bool below = false;

	for (digits = at; at < end && *at >= '0' && *at <= '9'; at++) {
		value = value * 10 + (*at - '0');
		if (value > USEC_DAY / USEC_SEC)
			return false;
	}
	if (at == digits || at - digits > 8)
		return false;
	value *= USEC_SEC;
	if (at < end) {
		if (*at++ != '.' || at == end || end - at > FRACTION_MAX)
			return false;
		for (; at < end; at++) {
			if (*at < '0' || *at > '9')
				return false;
			unit /= 10;
			value += (*at - '0') * unit;
			below = below || (unit == 0 && *at != '0');
		}
	}
	if (value == 0 && below)
		value = 1;
	if (value <= 0 || value > USEC_DAY || (value == USEC_DAY && below))
		return false;
	*ret_deadline = value;
	return true;
}

static bool refuse(char *ret_detail, const char *sentence)
{
	snprintf(ret_detail, HINTS_DETAIL_MAX, "%s", sentence);
	return false;
}

static bool read_hint(const struct header_view *header, struct hints *hints, char *ret_detail)
{
	char why[KEY_DETAIL_MAX];

	if (header_is(header, "Stint-Attempts")) {
		if (hints->attempts != 0)
			return refuse(ret_detail, "Stint-Attempts is there more than once");
		if (!parse_attempts(header, &hints->attempts))
			return refuse(ret_detail,
				      "Stint-Attempts must be an integer from 1 to 100");
	} else if (header_is(header, "Stint-Deadline")) {
		if (hints->deadline >= 0)
			return refuse(ret_detail, "Stint-Deadline is there more than once");
		if (!parse_deadline(header, &hints->deadline))
			return refuse(ret_detail, "Stint-Deadline must be a decimal number of "
						  "seconds above 0, at most 86400");
	} else if (header_is(header, "Stint-Corrects")) {
		if (hints->corrects[0] != '\0')
			return refuse(ret_detail, "Stint-Corrects is there more than once");
		if (key_from_text(header->value, header->value_len, hints->corrects, why) !=
		    KEY_FOUND)
			return refuse(ret_detail, "Stint-Corrects must be an operation's key, 1 to "
						  "255 visible ASCII characters");
	}
	return true;
}

bool hints_parse(const struct header_view *headers, size_t count, struct hints *ret_hints,
		 char *ret_detail)
{
	struct hints hints = {.deadline = -1};

	for (size_t i = 0; i < count; i++) {
		const struct header_view *header = &headers[i];

		/* All three names have this length, and few others. */
		if (header->name_len != sizeof("Stint-Attempts") - 1)
			continue;
		if (!read_hint(header, &hints, ret_detail))
			return false;
	}
	*ret_hints = hints;
	return true;
}
