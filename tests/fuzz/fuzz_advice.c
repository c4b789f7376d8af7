/* Waiting advice from bytes that nobody vouches for: no text makes a wait of zero, a negative one or
 * one beyond what its parser can say, and none keeps the verdict from being complete.
 *
 * The input: one byte picks the unit of the provider's own source, two the status; then lines of
 * "name-digit value" (0 retry-after-ms, 1 x-ms-retry-after-ms, 2 Retry-After, 3 Date, 4 Age, 5 the
 * provider's own header), an empty line, and the body. */
#include <string.h>

#include "classify/advice.h"
#include "classify/classify.h"
#include "classify/instant.h"
#include "classify/rules.h"
#include "classify/table.h"
#include "tests/fuzz/fuzz.h"

#define LINES_MAX 16
#define NOW ((usec_t)1792567680 * USEC_SEC)

static const char *const names[] = {
	"retry-after-ms", "x-ms-retry-after-ms", "Retry-After", "Date", "Age", "X-Reset"};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

struct input {
	enum advice_unit unit;
	struct header_view lines[LINES_MAX];
	struct facts facts;
};

static const char *read_lines(const char *at, const char *end, struct input *input)
{
	while (at < end && *at != '\n' && input->facts.header_count < LINES_MAX) {
		const char *feed = memchr(at, '\n', (size_t)(end - at));
		const char *stop = feed != NULL ? feed : end;
		const char *name = names[(unsigned char)*at % NAME_COUNT];

		input->lines[input->facts.header_count++] =
			(struct header_view){name, strlen(name), at + 1, (size_t)(stop - at - 1)};
		at = feed != NULL ? feed + 1 : end;
	}
	return at < end ? at + 1 : end;
}

static void read_input(const uint8_t *data, size_t size, struct input *ret_input)
{
	const char *at = (const char *)data + 3, *end = (const char *)data + size;

	memset(ret_input, 0, sizeof(*ret_input));
	ret_input->unit = (enum advice_unit)(data[0] % ADVICE_UNIT_COUNT);
	ret_input->facts = (struct facts){.method = "POST",
					  .path = "/",
					  .status = 200 + (data[1] << 8 | data[2]) % 400,
					  .sent = true,
					  .headers = ret_input->lines,
					  .received_wall = NOW};
	at = read_lines(at, end, ret_input);
	ret_input->facts.body = at;
	ret_input->facts.body_len = (size_t)(end - at);
}

/* Each unit alone. 0 is a value; what is written is one in any case. */
static void check_values(const struct header_view *line)
{
	for (int i = 0; i <= ADVICE_UNIT_COUNT; i++) {
		usec_t wait = -7;
		int rc = i < ADVICE_UNIT_COUNT
				 ? advice_value(line->value, line->value_len, (enum advice_unit)i,
						NOW, &wait)
				 : advice_retry_after(line->value, line->value_len, NOW, &wait);

		MUST(rc == 1 || rc == 0 || rc == -1);
		MUST(rc == 1 ? wait >= 0 : true);
		/* The epochs end in the year 5138, whatever their unit, and dates in 9999. */
		if (rc == 1 && (i == ADVICE_UNIT_EPOCH || i == ADVICE_UNIT_EPOCH_MS))
			MUST(wait <= (usec_t)100000000000 * USEC_SEC * 10);
		if (rc == 1 && i == ADVICE_UNIT_RFC3339)
			MUST(wait <= (usec_t)253402300800 * USEC_SEC - NOW + USEC_DAY);
	}
}

static void check_reference(const struct facts *facts)
{
	usec_t wall = advice_reference(facts);

	/* The received time, or a date that can be written down. */
	MUST(wall == facts->received_wall || wall <= (usec_t)253402300800 * USEC_SEC);
}

static void check_advice(const struct advice *advice)
{
	MUST(advice->wait == -1 || advice->wait > 0);
	MUST(advice->wait == -1 || advice->stated);
	MUST(advice->where != NULL || (!advice->invalid && !advice->stated));
}

static void check_verdict(const struct input *input, const struct verdict *verdict)
{
	MUST(verdict->advice == -1 || verdict->advice > 0);
	MUST(verdict->class > CLASS_NONE && verdict->class < CLASS_COUNT);
	MUST(table_pair_legal(verdict->class, verdict->effect));
	MUST(verdict->status == input->facts.status);
	MUST(verdict->reason[0] != '\0' && memchr(verdict->reason, '\0', REASON_MAX) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct advice_source sources[3] = {{.header = "X-Reset"}, {.pointer = "/w"}};
	struct ruleset rules = {.sources = sources, .source_count = 2, .inspect_max = 4096};
	struct advice advice;
	struct verdict verdict, plain;
	struct input input;

	if (size < 3)
		return 0;
	read_input(data, size, &input);
	sources[0].unit = sources[1].unit = input.unit;
	for (size_t i = 0; i < input.facts.header_count; i++)
		check_values(&input.lines[i]);
	check_reference(&input.facts);
	advice_read(&input.facts, &advice);
	check_advice(&advice);
	classify(&input.facts, &rules, &verdict);
	check_verdict(&input, &verdict);
	classify_advice(&input.facts, &rules, NULL, verdict.class, &advice);
	check_advice(&advice);
	MUST(advice.wait == verdict.advice && advice.invalid == verdict.advice_invalid);
	/* Where to look for advice never changes what a reply means. */
	classify(&input.facts, NULL, &plain);
	MUST(plain.class == verdict.class && plain.effect == verdict.effect);
	/* The body is read only where it was said to be needed. */
	rules.source_count = 1;
	classify(&input.facts, &rules, &plain);
	rules.source_count = 2;
	MUST(plain.advice == verdict.advice || rules_need_body(&rules, &input.facts));
	return 0;
}
