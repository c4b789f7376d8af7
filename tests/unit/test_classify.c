/* pure-test: names, the default table, and classify() without rules. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "classify/classify.h"
#include "classify/table.h"

#define LINE(n, v)                                                                                 \
	{                                                                                          \
		.name = (n), .name_len = sizeof(n) - 1, .value = (v), .value_len = sizeof(v) - 1   \
	}

static const struct header_view retry_after[] = {LINE("retry-after", "7")};

static struct facts reply(int status)
{
	return (struct facts){.method = "POST",
			      .path = "/v1/charges",
			      .status = status,
			      .sent = true,
			      .received_wall = 1700000000 * USEC_SEC};
}

static struct facts broken(enum fault fault, bool sent)
{
	struct facts facts = reply(0);

	facts.fault = fault;
	facts.sent = sent;
	return facts;
}

static struct verdict verdict_of(const struct facts *facts)
{
	struct verdict verdict;

	memset(&verdict, 0xa5, sizeof(verdict));
	classify(facts, NULL, &verdict);
	assert_true(table_pair_legal(verdict.class, verdict.effect));
	assert_int_equal(verdict.status, facts->status);
	assert_int_equal(verdict.fault, facts->fault);
	assert_int_equal(verdict.rule_wait, -1);
	assert_false(verdict.resolves);
	assert_non_null(memchr(verdict.reason, '\0', REASON_MAX));
	assert_true(strlen(verdict.reason) > 0);
	return verdict;
}

static void check(struct facts facts, const char *class, const char *effect, const char *reason)
{
	struct verdict verdict = verdict_of(&facts);

	assert_string_equal(outcome_class_name(verdict.class), class);
	assert_string_equal(effect_name(verdict.effect), effect);
	assert_string_equal(verdict.reason, reason);
	assert_false(verdict.retry_never);
}

static void test_names(void **state)
{
	static const char *const classes[] = {"none",      "success",  "invalid",
					      "auth",      "quota",    "rate_limited",
					      "transient", "deferred", "unknown"};
	enum outcome_class class = CLASS_COUNT;
	enum effect effect = EFFECT_COUNT;
	enum fault fault = FAULT_COUNT;

	(void)state;
	assert_int_equal(CLASS_COUNT, sizeof(classes) / sizeof(classes[0]));
	for (int i = 0; i < CLASS_COUNT; i++) {
		assert_string_equal(outcome_class_name((enum outcome_class)i), classes[i]);
		assert_true(outcome_class_parse(classes[i], &class));
		assert_int_equal(class, i);
	}
	for (int i = 0; i < EFFECT_COUNT; i++) {
		assert_true(effect_parse(effect_name((enum effect)i), &effect));
		assert_int_equal(effect, i);
	}
	for (int i = 0; i < FAULT_COUNT; i++) {
		const char *name = fault_name((enum fault)i);

		assert_true(fault_parse(name, &fault));
		assert_int_equal(fault, i);
		/* Names are reasons: hyphenated words. */
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz-"), strlen(name));
	}
	assert_string_equal(fault_name(FAULT_REFUSED_STREAM), "refused-stream");
}

static void test_names_outside(void **state)
{
	enum outcome_class class = CLASS_QUOTA;
	enum effect effect = EFFECT_DEFINITE;
	enum fault fault = FAULT_TLS;

	(void)state;
	assert_string_equal(outcome_class_name(CLASS_COUNT), "other");
	assert_string_equal(outcome_class_name((enum outcome_class) - 1), "other");
	assert_string_equal(effect_name((enum effect)77), "other");
	assert_string_equal(fault_name((enum fault) - 5), "other");
	assert_false(outcome_class_parse("other", &class));
	assert_false(outcome_class_parse("Success", &class));
	assert_false(outcome_class_parse("", &class));
	assert_false(outcome_class_parse(NULL, &class));
	assert_false(effect_parse("maybe", &effect));
	assert_false(fault_parse("timeout ", &fault));
	assert_int_equal(class, CLASS_QUOTA);
	assert_int_equal(effect, EFFECT_DEFINITE);
	assert_int_equal(fault, FAULT_TLS);
}

/* The table of section 5 said a second time, as ranges that the later lines override. */
struct expectation {
	int first;
	int last;
	const char *class;
	const char *effect;
};

static const struct expectation plain[] = {
	{-10, 1100, "unknown", "possible"}, {200, 399, "success", "definite"},
	{400, 499, "invalid", "none"},      {501, 501, "invalid", "none"},
	{505, 505, "invalid", "none"},      {401, 401, "auth", "none"},
	{403, 403, "auth", "none"},         {407, 407, "auth", "none"},
	{429, 429, "rate_limited", "none"}, {408, 408, "transient", "none"},
	{421, 421, "transient", "none"},    {423, 423, "transient", "none"},
	{425, 425, "transient", "none"},    {511, 511, "transient", "none"},
};

static const struct expectation with_retry_after[] = {
	{403, 403, "rate_limited", "none"},
	{413, 413, "rate_limited", "none"},
};

static const struct expectation *expected(int status, bool advised)
{
	const struct expectation *found = NULL;

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (status >= plain[i].first && status <= plain[i].last)
			found = &plain[i];
	}
	for (size_t i = 0; advised && i < sizeof(with_retry_after) / sizeof(plain[0]); i++) {
		if (status == with_retry_after[i].first)
			found = &with_retry_after[i];
	}
	return found;
}

static void test_every_status(void **state)
{
	(void)state;
	for (int advised = 0; advised < 2; advised++) {
		for (int status = -10; status <= 1100; status++) {
			const struct expectation *want = expected(status, advised != 0);
			struct facts facts = reply(status);
			char reason[32];

			if (status == 0)
				continue; /* no reply: test_no_reply() */
			facts.headers = retry_after;
			facts.header_count = (size_t)advised;
			snprintf(reason, sizeof(reason), "status-%d", status);
			check(facts, want->class, want->effect,
			      status >= 100 && status <= 999 ? reason : "status-other");
			assert_int_equal(verdict_of(&facts).advice, advised ? 7 * USEC_SEC : -1);
		}
	}
}

static void test_header_never_widens(void **state)
{
	static const int once[] = {201, 301, 307, 400, 401, 404, 422};
	static const int again[] = {429, 502, 503, 413};

	(void)state;
	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
		struct facts facts = reply(once[i]);

		facts.headers = retry_after;
		facts.header_count = 1;
		assert_false(table_may_repeat(verdict_of(&facts).class));
	}
	for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
		struct facts facts = reply(again[i]);

		facts.headers = retry_after;
		facts.header_count = 1;
		assert_true(table_may_repeat(verdict_of(&facts).class));
	}
}

/* Only a Retry-After that can be read tells a limiter from a missing permission. */
static void test_forbidden(void **state)
{
	static const struct header_view garbage[] = {LINE("Retry-After", "soon")};
	static const struct header_view millis[] = {LINE("Retry-After-Ms", "500")};
	static const struct header_view both[] = {LINE("Retry-After-Ms", "500"),
						  LINE("Retry-After", "60")};
	static const struct header_view zero[] = {LINE("Retry-After", "0")};
	struct facts facts = reply(403);

	(void)state;
	check(facts, "auth", "none", "status-403");
	facts.header_count = 1;
	facts.headers = garbage;
	check(facts, "auth", "none", "status-403");
	assert_true(verdict_of(&facts).advice_invalid);
	facts.headers = millis;
	check(facts, "auth", "none", "status-403");
	facts.headers = zero;
	check(facts, "rate_limited", "none", "status-403");
	assert_int_equal(verdict_of(&facts).advice, -1);
	facts.headers = both;
	facts.header_count = 2;
	check(facts, "rate_limited", "none", "status-403");
	assert_int_equal(verdict_of(&facts).advice, 500 * USEC_MS);
}

static void test_not_sent(void **state)
{
	(void)state;
	for (int i = 1; i < FAULT_COUNT; i++) {
		if (i == FAULT_HIDDEN_RESEND)
			continue;
		check(broken((enum fault)i, false), "transient", "none",
		      i == FAULT_CUT ? "response-cut" : fault_name((enum fault)i));
	}
	check(broken(FAULT_NONE, false), "transient", "none", "not-sent");
	check(broken((enum fault)99, false), "transient", "none", "other");
}

static void test_sent_without_reply(void **state)
{
	(void)state;
	for (int i = 1; i < FAULT_COUNT; i++) {
		if (i == FAULT_REFUSED_STREAM || i == FAULT_CUT)
			continue;
		check(broken((enum fault)i, true), "unknown", "possible",
		      fault_name((enum fault)i));
	}
	check(broken(FAULT_NONE, true), "unknown", "possible", "no-reply");
	check(broken(FAULT_CUT, true), "unknown", "possible", "response-cut");
	check(broken((enum fault)99, true), "unknown", "possible", "other");
	check(broken(FAULT_REFUSED_STREAM, true), "transient", "none", "refused-stream");
	/* The first send is what made the second one hidden. */
	check(broken(FAULT_HIDDEN_RESEND, false), "unknown", "possible", "hidden-resend");
}

/* The status is kept, and means nothing. */
static void test_cut_reply(void **state)
{
	static const int statuses[] = {101, 200, 302, 400, 401, 404, 413, 422, 429, 500, 501, 503};
	static const enum fault faults[] = {FAULT_CUT,    FAULT_RESET,         FAULT_CLOSED,
					    FAULT_IDLE,   FAULT_TOTAL,         FAULT_PROTOCOL,
					    FAULT_CALLER, FAULT_TLS,           FAULT_UPLOAD,
					    FAULT_LOCAL,  FAULT_REFUSED_STREAM};

	(void)state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
			struct facts facts = broken(faults[k], true);
			struct verdict verdict;

			facts.status = statuses[i];
			facts.headers = retry_after;
			facts.header_count = 1;
			verdict = verdict_of(&facts);
			assert_int_equal(verdict.class, CLASS_UNKNOWN);
			assert_int_equal(verdict.effect, EFFECT_POSSIBLE);
			assert_int_equal(verdict.advice, 7 * USEC_SEC);
		}
	}
}

static void test_cut_reasons(void **state)
{
	struct facts facts = broken(FAULT_RESET, true);

	(void)state;
	check(facts, "unknown", "possible", "reset");
	facts.status = 200;
	check(facts, "unknown", "possible", "response-cut");
	facts.fault = FAULT_IDLE;
	check(facts, "unknown", "possible", "idle-timeout");
}

/* A head over its bound: the status settles. */
static void test_head_too_large(void **state)
{
	struct facts facts = broken(FAULT_HEAD_TOO_LARGE, true);

	(void)state;
	check(facts, "unknown", "possible", "head-too-large");
	facts.status = 200;
	check(facts, "success", "definite", "status-200");
	facts.status = 422;
	check(facts, "invalid", "none", "status-422");
	facts.status = 500;
	check(facts, "unknown", "possible", "status-500");
}

/* What contradicts "not sent", and what only seems to. */
static void test_contradictions(void **state)
{
	struct facts facts = reply(200);

	(void)state;
	facts.sent = false;
	check(facts, "success", "definite", "status-200");
	facts.status = 500;
	check(facts, "unknown", "possible", "status-500");
	/* A forward proxy said 200 to CONNECT, then TLS failed. */
	facts = broken(FAULT_TLS, false);
	facts.status = 200;
	facts.headers = retry_after;
	facts.header_count = 1;
	check(facts, "transient", "none", "tls");
	assert_int_equal(verdict_of(&facts).advice, -1);
}

static void test_stored_reply(void **state)
{
	static const struct header_view yes[] = {LINE("idempotent-replayed", " true")};
	static const struct header_view no[] = {LINE("Idempotent-Replayed", "false")};
	struct facts facts = reply(500);
	struct verdict verdict;

	(void)state;
	facts.headers = yes;
	facts.header_count = 1;
	verdict = verdict_of(&facts);
	assert_int_equal(verdict.class, CLASS_UNKNOWN);
	assert_true(verdict.retry_never);
	assert_string_equal(verdict.reason, "status-500-replayed");
	facts.headers = no;
	check(facts, "unknown", "possible", "status-500");
	facts.headers = yes;
	facts.status = 200;
	check(facts, "success", "definite", "status-200");
	facts.status = 402;
	check(facts, "invalid", "none", "status-402");
}

static void test_pairs(void **state)
{
	(void)state;
	for (int class = -1; class <= CLASS_COUNT; class ++) {
		for (int effect = -1; effect <= EFFECT_COUNT; effect++) {
			bool legal = effect == EFFECT_NONE;

			if (class == CLASS_SUCCESS)
				legal = effect == EFFECT_DEFINITE;
			if (class == CLASS_UNKNOWN)
				legal = effect == EFFECT_POSSIBLE;
			if (class <= CLASS_NONE || class == CLASS_COUNT)
				legal = false;
			assert_int_equal(
				table_pair_legal((enum outcome_class) class, (enum effect)effect),
				legal);
		}
	}
}

/* Facts as empty as they come. */
static void test_empty_facts(void **state)
{
	struct facts facts = {0};

	(void)state;
	check(facts, "transient", "none", "not-sent");
	facts.sent = true;
	check(facts, "unknown", "possible", "no-reply");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_outside),
		cmocka_unit_test(test_every_status),
		cmocka_unit_test(test_header_never_widens),
		cmocka_unit_test(test_forbidden),
		cmocka_unit_test(test_not_sent),
		cmocka_unit_test(test_sent_without_reply),
		cmocka_unit_test(test_cut_reply),
		cmocka_unit_test(test_cut_reasons),
		cmocka_unit_test(test_head_too_large),
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_stored_reply),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_empty_facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
