/* What the tests of the configuration share: small files, and their problems as text. */
#ifndef STINT_TESTS_UNIT_CONFIG_FIXTURE_H
#define STINT_TESTS_UNIT_CONFIG_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/config.h"

/* Beginnings of files; what follows starts on the line that the comment names. */
#define GOOD "providers: {a: {route: /a, upstream: \"http://h\"}}\n"         /* 2, top */
#define DEFAULTS GOOD "defaults:\n"                                          /* 3 */
#define PROVIDER "providers:\n  a:\n    route: /a\n    upstream: http://h\n" /* 5 */
#define NO_ROUTE "providers:\n  a:\n    upstream: http://h\n"                /* 4 */
#define NO_UPSTREAM "providers:\n  a:\n    route: /a\n"                      /* 4 */

struct config_case {
	const char *text;
	const char *problems; /* as printed, "f" for the file */
};

/* All problems of a text; *ret_config (or NULL) belongs to the caller, as does the result. */
static inline char *config_problems_of(const char *text, struct config **ret_config)
{
	struct config_problems problems;
	char *printed = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&printed, &len);
	struct config *config = config_load("f", text, &problems);

	assert_non_null(out);
	size_t errors = config_problems_print(&problems, "f", out);

	assert_int_equal(fclose(out), 0);
	config_problems_done(&problems);
	/* refused exactly where there is a problem that is no warning */
	assert_int_equal(config == NULL, errors > 0);
	*ret_config = config;
	return printed;
}

static inline void config_check(const struct config_case *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct config *config;
		char *problems = config_problems_of(cases[i].text, &config);

		if (strcmp(problems, cases[i].problems) != 0)
			print_error("%s", cases[i].text);
		assert_string_equal(problems, cases[i].problems);
		free(problems);
		config_free(config);
	}
}

/* A text without any problem. */
static inline struct config *config_good(const char *text)
{
	struct config *config;
	char *problems = config_problems_of(text, &config);

	assert_string_equal(problems, "");
	free(problems);
	assert_non_null(config);
	return config;
}

#endif
