/* Paths and queries of the admin API: decoding, and the parameters of the operations' endpoints. */
#ifndef STINT_PROXY_ADMIN_QUERY_H
#define STINT_PROXY_ADMIN_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "budget/ledger.h"

#define ADMIN_LIST_DEFAULT 100
#define ADMIN_LIST_MAX 1000
#define ADMIN_DETAIL_MAX 160

#define ADMIN_PARAMETERS(X)                                                                        \
	X(STATE, "state")                                                                          \
	X(PROVIDER, "provider")                                                                    \
	X(CLASS, "class")                                                                          \
	X(TENANT, "tenant")                                                                        \
	X(KEY_PREFIX, "key_prefix")                                                                \
	X(BEFORE, "before")                                                                        \
	X(LIMIT, "limit")                                                                          \
	X(CURSOR, "cursor")                                                                        \
	X(SCOPE, "scope")

enum admin_parameter {
#define X(id, text) ADMIN_##id,
	ADMIN_PARAMETERS(X)
#undef X
		ADMIN_PARAMETER_COUNT
};

/* What the list takes, and what a single operation takes, as bits. */
#define ADMIN_BIT(id) (1U << (id))
#define ADMIN_LIST_TAKES (ADMIN_BIT(ADMIN_SCOPE) - 1)
#define ADMIN_GET_TAKES (ADMIN_BIT(ADMIN_TENANT) | ADMIN_BIT(ADMIN_SCOPE))

enum admin_query_result { ADMIN_QUERY_OK = 0, ADMIN_QUERY_BAD = -1, ADMIN_QUERY_NO_MEMORY = -2 };

struct admin_query {
	char *text[ADMIN_PARAMETER_COUNT]; /* decoded, owned; NULL: not given */
};

/* Reads the query of a raw target ("/path?a=b&c=d", form encoding: "+" is a space). What is unknown,
 * not taken here, given twice or wrongly encoded is ADMIN_QUERY_BAD, and detail names it. The query
 * is to be done() after any result. */
enum admin_query_result admin_query_read(const char *target, unsigned takes,
					 struct admin_query *ret_query,
					 char detail[ADMIN_DETAIL_MAX]);
void admin_query_done(struct admin_query *query);

/* The list's filter; it points into the query. False, and detail says which parameter is wrong. */
bool admin_query_filter(const struct admin_query *query, struct ledger_filter *ret_filter,
			char detail[ADMIN_DETAIL_MAX]);

/* Whether the target's path matches the pattern ("*" is one segment that is not empty). Compared as
 * it came: an encoded slash does not end a segment. */
bool admin_path_matches(const char *target, const char *pattern);
/* The decoded segment number n (from 0) of a path. malloc'ed, *ret_segment NULL if out of memory;
 * false: wrongly encoded, or it holds a NUL. */
bool admin_path_segment(const char *target, int n, char **ret_segment);

#endif
