/* pure-test: Retry-After values made by the grammar of RFC 9110 section 5.6.7 and 10.2.3 (dates by the
 * C library's calendar), read back to what they were made of; and the same values damaged, which must
 * never become a negative wait or one that the text does not say. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "classify/advice.h"

#define ROUNDS 100000
#define BASE ((time_t)1792567680) /* 21 October 2026 */

struct sample {
	char text[64];
	usec_t wait; /* from BASE */
};

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void make_date(uint64_t *seed, const char *format, struct sample *ret_sample)
{
	/* Within the fifty years that RFC 850's two digits can say, and never past. */
	time_t at = BASE + 1 + (time_t)(next(seed) % (49ULL * 365 * 86400));
	struct tm tm;

	assert_non_null(gmtime_r(&at, &tm));
	assert_true(strftime(ret_sample->text, sizeof(ret_sample->text), format, &tm) > 0);
	ret_sample->wait = (usec_t)(at - BASE) * USEC_SEC;
}

static void make(uint64_t *seed, struct sample *ret_sample)
{
	uint64_t seconds = next(seed) % 1000000, fraction = next(seed) % 1000000;

	switch (next(seed) % 5) {
	case 0:
		(void)snprintf(ret_sample->text, sizeof(ret_sample->text), "%llu",
			       (unsigned long long)seconds);
		ret_sample->wait = (usec_t)seconds * USEC_SEC;
		return;
	case 1:
		(void)snprintf(ret_sample->text, sizeof(ret_sample->text), "%llu.%06llu",
			       (unsigned long long)seconds, (unsigned long long)fraction);
		ret_sample->wait = (usec_t)(seconds * 1000000 + fraction);
		return;
	case 2:
		make_date(seed, "%a, %d %b %Y %H:%M:%S GMT", ret_sample);
		return;
	case 3:
		make_date(seed, "%A, %d-%b-%y %H:%M:%S GMT", ret_sample);
		return;
	default:
		make_date(seed, "%a %b %e %H:%M:%S %Y", ret_sample);
		return;
	}
}

static void test_well_formed(void **state)
{
	uint64_t seed = 20261130;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct sample sample;
		usec_t wait = -1;

		make(&seed, &sample);
		if (advice_retry_after(sample.text, strlen(sample.text), BASE * USEC_SEC, &wait) !=
			    1 ||
		    wait != sample.wait)
			fail_msg("\"%s\": %lld us, expected %lld us", sample.text, (long long)wait,
				 (long long)sample.wait);
	}
}

/* Changes, drops or doubles one byte. */
static size_t damage(uint64_t *seed, char *text, size_t len)
{
	size_t at = next(seed) % len;

	switch (next(seed) % 3) {
	case 0:
		text[at] = (char)next(seed);
		return len;
	case 1:
		memmove(text + at, text + at + 1, len - at - 1);
		return len - 1;
	default:
		memmove(text + at + 1, text + at, len - at);
		return len + 1;
	}
}

static void test_damaged(void **state)
{
	uint64_t seed = 9110;
	int unreadable = 0;

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		struct sample sample;
		usec_t wait = -1;
		size_t len;
		char *exact;
		int result;

		make(&seed, &sample);
		len = damage(&seed, sample.text, strlen(sample.text));
		/* A block of its own length, so that a sanitizer sees a read beyond it. */
		exact = malloc(len > 0 ? len : 1);
		assert_non_null(exact);
		memcpy(exact, sample.text, len);
		result = advice_retry_after(exact, len, BASE * USEC_SEC, &wait);
		free(exact);
		if (result == 1)
			assert_true(wait >= 0);
		else
			assert_int_equal(wait, -1);
		unreadable += result != 1;
	}
	/* The parser is strict: most damage is seen. */
	assert_true(unreadable > ROUNDS / 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well_formed),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
