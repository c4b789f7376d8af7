/* A refusal is a problem document, or what the configuration makes of it; nothing that is put into
 * a JSON text breaks out of it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/config.h"
#include "proxy/headers.h"
#include "proxy/problem.h"
#include "proxy/refusal.h"

struct written {
	char *text;
	size_t len;
	int status;
	struct headers headers;
};

static struct written write_refusal(const struct provider_config *config, const char *detail)
{
	struct written written = {0};
	struct problem problem;

	problem_init(&problem, PROBLEM_EXHAUSTED, detail);
	headers_init(&written.headers);
	written.text =
		refusal_write(config, &problem, &written.headers, &written.status, &written.len);
	assert_non_null(written.text);
	return written;
}

static void assert_header(const struct written *written, const char *name, const char *value)
{
	const struct header_view *line = headers_find(&written->headers, name);

	assert_non_null(line);
	assert_int_equal(line->value_len, strlen(value));
	assert_memory_equal(line->value, value, strlen(value));
}

static void done(struct written *written)
{
	free(written->text);
	headers_done(&written->headers);
}

static void test_problem_document(void **state)
{
	struct provider_config plain = {0};
	const struct provider_config *configs[] = {NULL, &plain};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct written written = write_refusal(configs[i], "why");

		assert_int_equal(written.status, 424);
		assert_header(&written, "Content-Type", PROBLEM_CONTENT_TYPE);
		assert_non_null(strstr(written.text, "\"urn:stint:exhausted\""));
		assert_int_equal(written.len, strlen(written.text));
		done(&written);
	}
}

static void test_status_alone(void **state)
{
	struct provider_config config = {.refusal_status = 409};
	struct written written = write_refusal(&config, "why");

	(void)state;
	assert_int_equal(written.status, 409);
	assert_header(&written, "Content-Type", PROBLEM_CONTENT_TYPE);
	assert_non_null(strstr(written.text, "\"status\":409"));
	done(&written);
}

static void test_body_without_status(void **state)
{
	char body[] = "{\"error\":{\"code\":\"{problem}\",\"message\":\"{detail}\"},\"n\":{}}";
	char name[] = "content-type", value[] = "application/json";
	struct refusal_header header = {.name = name, .value = value};
	struct provider_config config = {
		.refusal_body = body, .refusal_headers = &header, .refusal_header_count = 1};
	struct written written = write_refusal(&config, "say \"no\" \\ {problem}\n\xc3\xa4");

	(void)state;
	assert_int_equal(written.status, 424);
	assert_int_equal(written.headers.count, 1);
	assert_header(&written, "Content-Type", "application/json");
	assert_int_equal(written.len, strlen(written.text));
	assert_string_equal(written.text, "{\"error\":{\"code\":\"exhausted\",\"message\":\"say "
					  "\\\"no\\\" \\\\ {problem} \xc3\xa4\"},\"n\":{}}");
	done(&written);
}

static void test_text_of_no_kind(void **state)
{
	char body[] = "";
	struct provider_config config = {.refusal_body = body, .refusal_status = 200};
	struct written written = write_refusal(&config, "why");

	(void)state;
	assert_int_equal(written.status, 200);
	assert_int_equal(written.len, 0);
	assert_header(&written, "Content-Type", "text/plain; charset=utf-8");
	done(&written);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_problem_document),
		cmocka_unit_test(test_status_alone),
		cmocka_unit_test(test_body_without_status),
		cmocka_unit_test(test_text_of_no_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
