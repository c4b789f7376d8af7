#include "classify/advice.h"

#include "classify/instant.h"
#include "classify/json_scan.h"
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

/* Takes in one value that was there, `rc` being what advice_value() said of it: a larger wait
 * replaces the one already in the advice. Returns whether it could be read. */
static bool take_in(struct advice *advice, int rc, usec_t wait, const char *where, size_t where_len,
		    const char *text, size_t text_len)
{
	bool larger = rc > 0 && wait > 0 && wait > advice->wait;

	if (rc < 0)
		advice->invalid = true;
	if (larger)
		advice->wait = wait;
	if (larger || advice->where == NULL) {
		advice->where = where;
		advice->where_len = where_len;
		advice->text = text;
		advice->text_len = text_len;
	}
	return rc > 0;
}

/* Asks every line of one name. Returns whether any could be read; a larger wait replaces the one
 * already in the advice. */
static bool ask(const struct facts *facts, const struct question *question, struct advice *advice)
{
	bool readable = false;

	for (size_t i = 0; i < facts->header_count; i++) {
		const struct header_view *line = &facts->headers[i];
		usec_t reference_wall, wait = 0;
		int rc;

		if (!named(line, question->name))
			continue;
		/* Here, and not for every reply: few have such a line, and most have a Date. */
		reference_wall = advice_reference(facts);
		if (question->retry_after)
			rc = advice_retry_after(line->value, line->value_len, reference_wall,
						&wait);
		else
			rc = advice_value(line->value, line->value_len, question->unit,
					  reference_wall, &wait);
		if (take_in(advice, rc, wait, line->name, line->name_len, line->value,
			    line->value_len))
			readable = true;
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
	struct advice advice = {.wait = -1};
	struct advice aside = {.wait = -1};

	for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
		/* Whether Retry-After is there decides a class, so it is looked at in any case;
		 * what it says and whether it can be read counts only where it is asked. */
		struct advice *into = advice.wait > 0 ? &aside : &advice;

		if (!ask(facts, &questions[i], into))
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
	if (advice->stated)
		return;
	for (size_t i = 0; i < count; i++) {
		struct question question = {sources[i].header, false, sources[i].unit};

		if (sources[i].header != NULL && ask(facts, &question, advice))
			advice->stated = true;
	}
}

/* One scalar of the body; as advice_value(). */
static int body_value(const struct json_value *value, enum advice_unit unit, usec_t reference_wall,
		      usec_t *ret_wait)
{
	char text[ADVICE_TEXT_MAX + 1];

	if (value->type == JSON_TYPE_NULL)
		return 0;
	if ((value->type != JSON_TYPE_STRING && value->type != JSON_TYPE_NUMBER) ||
	    !json_scan_copy(value, text, sizeof(text)))
		return -1;
	return advice_value(text, strlen(text), unit, reference_wall, ret_wait);
}

void advice_add_body(const struct facts *facts, const struct advice_source *sources, size_t count,
		     struct advice *advice)
{
	bool stated = false;

	if (advice->stated)
		return;
	for (size_t i = 0; i < count; i++) {
		const char *pointer = sources[i].pointer;
		struct json_value value;
		usec_t wait = 0;
		int rc;

		if (pointer == NULL ||
		    !json_scan_find(facts->body, facts->body_len, pointer, &value))
			continue;
		rc = body_value(&value, sources[i].unit, advice_reference(facts), &wait);
		if (take_in(advice, rc, wait, pointer, strlen(pointer), value.text, value.len))
			stated = true;
	}
	advice->stated = stated;
}
