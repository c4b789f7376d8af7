#include "classify/advice.h"

#include "classify/instant.h"
#include "classify/quantity.h"
#include "classify/ratelimit.h"
#include "classify/text.h"

/* Where a bare number stops being a delta and starts being an epoch, in its own unit. */
#define DELTA_MAX ((usec_t)1000000)
#define EPOCH_MIN ((usec_t)1000000000)
#define EPOCH_MAX ((usec_t)100000000000)
#define EPOCH_MS_MIN ((usec_t)1000000000000)
#define EPOCH_MS_MAX ((usec_t)1000000000000000)

#define RATELIMIT_ITEMS 16

static const char *const unit_names[ADVICE_UNIT_COUNT] = {
#define X(id, text) [ADVICE_UNIT_##id] = text,
	ADVICE_UNITS(X)
#undef X
};

const char *advice_unit_name(enum advice_unit unit)
{
	return (size_t)unit < ADVICE_UNIT_COUNT ? unit_names[unit] : "other";
}

bool advice_unit_parse(const char *text, enum advice_unit *ret_unit)
{
	if (text == NULL)
		return false;
	for (size_t i = 0; i < ADVICE_UNIT_COUNT; i++) {
		if (strcmp(unit_names[i], text) == 0) {
			*ret_unit = (enum advice_unit)i;
			return true;
		}
	}
	return false;
}

static int until(usec_t wall, usec_t reference_wall, usec_t *ret_wait)
{
	usec_t wait;

	if (wall <= reference_wall)
		return -1;
	if (__builtin_sub_overflow(wall, reference_wall, &wait))
		wait = USEC_MAX;
	*ret_wait = wait;
	return 1;
}

/* A number in seconds, as `seconds` in microseconds, that may be a delta or either epoch. */
static int guess(usec_t seconds, usec_t reference_wall, usec_t *ret_wait)
{
	if (seconds <= DELTA_MAX * USEC_SEC) {
		*ret_wait = seconds;
		return 1;
	}
	if (seconds >= EPOCH_MIN * USEC_SEC && seconds <= EPOCH_MAX * USEC_SEC)
		return until(seconds, reference_wall, ret_wait);
	return -1;
}

static int epoch_value(const char *text, size_t len, usec_t reference_wall, usec_t *ret_wait)
{
	usec_t value;

	if (quantity_decimal(text, len, USEC_SEC, &value)) {
		int rc = guess(value, reference_wall, ret_wait);

		if (rc > 0 || value <= EPOCH_MAX * USEC_SEC)
			return rc;
	}
	if (quantity_decimal(text, len, USEC_MS, &value) && value >= EPOCH_MS_MIN * USEC_MS &&
	    value <= EPOCH_MS_MAX * USEC_MS)
		return until(value, reference_wall, ret_wait);
	return -1;
}

static int ratelimit_value(const char *text, size_t len, usec_t *ret_wait)
{
	struct ratelimit_item items[RATELIMIT_ITEMS];
	size_t count;
	int64_t longest = -1;

	if (!ratelimit_parse(text, len, items, RATELIMIT_ITEMS, &count))
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (items[i].remaining == 0 && items[i].reset > longest)
			longest = items[i].reset;
	}
	if (longest < 0)
		return 0;
	*ret_wait = usec_mul(longest, USEC_SEC);
	return 1;
}

int advice_value(const char *text, size_t len, enum advice_unit unit, usec_t reference_wall,
		 usec_t *ret_wait)
{
	usec_t value;

	text_trim(&text, &len);
	switch (unit) {
	case ADVICE_UNIT_S:
		if (!quantity_decimal(text, len, USEC_SEC, &value))
			return -1;
		if (value >= EPOCH_MIN * USEC_SEC)
			return epoch_value(text, len, reference_wall, ret_wait);
		break;
	case ADVICE_UNIT_MS:
		if (!quantity_decimal(text, len, USEC_MS, &value))
			return -1;
		if (value >= EPOCH_MS_MIN * USEC_MS)
			return epoch_value(text, len, reference_wall, ret_wait);
		break;
	case ADVICE_UNIT_EPOCH:
	case ADVICE_UNIT_EPOCH_MS:
		return epoch_value(text, len, reference_wall, ret_wait);
	case ADVICE_UNIT_GO_DURATION:
		if (!quantity_go(text, len, &value))
			return -1;
		break;
	case ADVICE_UNIT_RFC3339:
		if (!instant_rfc3339(text, len, &value))
			return -1;
		return until(value, reference_wall, ret_wait);
	case ADVICE_UNIT_RATELIMIT:
		return ratelimit_value(text, len, ret_wait);
	case ADVICE_UNIT_COUNT:
	default:
		return -1;
	}
	*ret_wait = value;
	return 1;
}

int advice_retry_after(const char *text, size_t len, usec_t reference_wall, usec_t *ret_wait)
{
	usec_t wall;

	text_trim(&text, &len);
	if (quantity_decimal(text, len, USEC_SEC, ret_wait))
		return 1;
	if (!instant_http(text, len, reference_wall, &wall))
		return -1;
	return until(wall, reference_wall, ret_wait);
}

static bool named(const struct header_view *line, const char *name)
{
	return text_equal_nocase(line->name, line->name_len, name);
}

usec_t advice_reference(const struct facts *facts)
{
	const struct header_view *date = NULL;
	usec_t wall;
	const char *text;
	size_t len;

	for (size_t i = 0; i < facts->header_count; i++) {
		const struct header_view *line = &facts->headers[i];

		/* A cached reply's Date is as old as its Age says, and two Dates are none. */
		if (named(line, "Age") || (named(line, "Date") && date != NULL))
			return facts->received_wall;
		if (named(line, "Date"))
			date = line;
	}
	if (date == NULL)
		return facts->received_wall;
	text = date->value;
	len = date->value_len;
	text_trim(&text, &len);
	if (!instant_http(text, len, facts->received_wall, &wall))
		return facts->received_wall;
	return wall;
}

/* One header name and how its value is read. */
struct question {
	const char *name;
	bool retry_after; /* read as Retry-After; else by unit */
	enum advice_unit unit;
};

/* Asks every line of one name. Returns whether any could be read; a larger wait replaces the one
 * already in the advice. */
static bool ask(const struct facts *facts, const struct question *question, usec_t reference_wall,
		struct advice *advice)
{
	bool readable = false;

	for (size_t i = 0; i < facts->header_count; i++) {
		const struct header_view *line = &facts->headers[i];
		usec_t wait;
		int rc;

		if (!named(line, question->name))
			continue;
		if (question->retry_after)
			rc = advice_retry_after(line->value, line->value_len, reference_wall,
						&wait);
		else
			rc = advice_value(line->value, line->value_len, question->unit,
					  reference_wall, &wait);
		if (rc < 0)
			advice->invalid = true;
		if (rc <= 0)
			continue;
		readable = true;
		if (wait > 0 && wait > advice->wait)
			advice->wait = wait;
	}
	return readable;
}

void advice_read(const struct facts *facts, struct advice *ret_advice)
{
	static const struct question questions[] = {
		{"retry-after-ms", false, ADVICE_UNIT_MS},
		{"x-ms-retry-after-ms", false, ADVICE_UNIT_MS},
		{"Retry-After", true, ADVICE_UNIT_S},
	};
	usec_t reference_wall = advice_reference(facts);
	struct advice advice = {.wait = -1};
	struct advice aside = {.wait = -1};

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		/* Whether Retry-After is there decides a class, so it is looked at in any case;
		 * what it says and whether it can be read counts only where it is asked. */
		struct advice *into = advice.wait > 0 ? &aside : &advice;

		if (!ask(facts, &questions[i], reference_wall, into))
			continue;
		advice.stated = true;
		if (questions[i].retry_after)
			advice.retry_after = true;
	}
	*ret_advice = advice;
}

void advice_add_sources(const struct facts *facts, const struct advice_source *sources,
			size_t count, struct advice *advice)
{
	usec_t reference_wall;

	if (advice->stated)
		return;
	reference_wall = advice_reference(facts);
	for (size_t i = 0; i < count; i++) {
		struct question question = {sources[i].header, false, sources[i].unit};

		if (ask(facts, &question, reference_wall, advice))
			advice->stated = true;
	}
}
