/* Every result code that a libcurl may give, in every phase: what fault it becomes, and that the
 * verdict follows from the one proof of "not sent" and from nothing that the code says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "classify/classify.h"
#include "proxy/upstream_private.h"

/* 7.88 ends at CURLE_UNRECOVERABLE_POLL (99); 8.x goes on. What neither knows must be safe too. */
#define CODES 256

static struct verdict verdict_of(enum fault fault, bool sent, int status)
{
	struct facts facts = {.method = "POST", .path = "/", .fault = fault, .sent = sent};
	struct verdict verdict;

	facts.status = status;
	classify(&facts, NULL, &verdict);
	return verdict;
}

static void test_not_sent(void **state)
{
	const struct fault_context context = {.sent = false};

	(void)state;
	for (int code = 0; code < CODES; code++) {
		enum fault fault = fault_from_curl((CURLcode)code, &context);
		struct verdict verdict = verdict_of(fault, false, 0);

		assert_int_not_equal(fault, FAULT_NONE);
		assert_int_equal(verdict.class, CLASS_TRANSIENT);
		assert_int_equal(verdict.effect, EFFECT_NONE);
	}
}

static void test_sent_without_an_answer(void **state)
{
	(void)state;
	for (int code = 0; code < CODES; code++) {
		for (int began = 0; began < 2; began++) {
			const struct fault_context context = {.sent = true, .head_began = began};
			enum fault fault = fault_from_curl((CURLcode)code, &context);
			struct verdict verdict = verdict_of(fault, true, 0);

			assert_int_not_equal(fault, FAULT_NONE);
			assert_int_equal(verdict.class, CLASS_UNKNOWN);
			assert_int_equal(verdict.effect, EFFECT_POSSIBLE);
		}
	}
}

static void test_answered(void **state)
{
	const struct fault_context context = {.sent = true, .head_began = true, .head_done = true};

	(void)state;
	assert_int_equal(fault_from_curl(CURLE_OK, &context), FAULT_NONE);
	for (int code = 1; code < CODES; code++) {
		enum fault fault = fault_from_curl((CURLcode)code, &context);

		assert_int_equal(fault, FAULT_CUT);
		assert_int_equal(verdict_of(fault, true, 200).class, CLASS_UNKNOWN);
		assert_int_equal(verdict_of(fault, true, 422).effect, EFFECT_POSSIBLE);
	}
}

static void test_names(void **state)
{
	static const struct {
		CURLcode code;
		bool sent, began;
		enum fault fault;
	} rows[] = {
		{CURLE_COULDNT_RESOLVE_HOST, false, false, FAULT_RESOLVE},
		{CURLE_COULDNT_CONNECT, false, false, FAULT_CONNECT},
		{CURLE_OPERATION_TIMEDOUT, false, false, FAULT_CONNECT_TIMEOUT},
		{CURLE_SSL_CONNECT_ERROR, false, false, FAULT_TLS},
		{CURLE_PEER_FAILED_VERIFICATION, false, false, FAULT_TLS},
		{CURLE_OUT_OF_MEMORY, false, false, FAULT_LOCAL},
		{CURLE_GOT_NOTHING, true, false, FAULT_CLOSED},
		{CURLE_RECV_ERROR, true, false, FAULT_RESET},
		{CURLE_SEND_ERROR, true, false, FAULT_RESET},
		{CURLE_RECV_ERROR, true, true, FAULT_CUT},
		{CURLE_OPERATION_TIMEDOUT, true, false, FAULT_TIMEOUT},
		{CURLE_WEIRD_SERVER_REPLY, true, false, FAULT_PROTOCOL},
		{CURLE_COULDNT_CONNECT, true, false, FAULT_HIDDEN_RESEND},
		{CURLE_OUT_OF_MEMORY, true, true, FAULT_HEAD_TOO_LARGE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct fault_context context = {.sent = rows[i].sent,
						      .head_began = rows[i].began};

		assert_int_equal(fault_from_curl(rows[i].code, &context), rows[i].fault);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_sent),
		cmocka_unit_test(test_sent_without_an_answer),
		cmocka_unit_test(test_answered),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
