/* What an explanation says, in the words that its text and its JSON share; for the explain_*.c files
 * alone. */
#ifndef STINT_PROXY_EXPLAIN_WORDS_H
#define STINT_PROXY_EXPLAIN_WORDS_H

#include "proxy/explain.h"

#define EXPLAIN_FIELD_MAX 512
#define EXPLAIN_VISIBLE_MAX 256

/* Why no further attempt follows. */
struct explain_why {
	const char *name, *text;
};
const struct explain_why *explain_why_not(const struct explanation *explanation);

/* The row of the default table (design section 5) that the verdict's class came from. */
const char *explain_table_row(const struct explanation *explanation);
/* Not the reason, which advice beyond the cap takes over. */
const char *explain_rule_name(const struct explanation *explanation);
const char *explain_safety_name(enum repeat_rule rule);
const char *explain_safety_text(const struct explanation *explanation);

/* The answer to the caller: whether stint makes it, its status, its problem (NULL: the provider's
 * reply) and its headers, each false where there is none. */
bool explain_is_made(const struct explanation *explanation);
int explain_status(const struct explanation *explanation);
const char *explain_problem(const struct explanation *explanation);
bool explain_retry_after(const struct explanation *explanation, char ret_text[EXPLAIN_VISIBLE_MAX]);
bool explain_stops(const struct explanation *explanation);
bool explain_field(const struct explanation *explanation, char ret_text[EXPLAIN_FIELD_MAX]);

/* What came from outside, without what a terminal would take for commands. */
void explain_visible(const char *text, size_t len, char ret_text[EXPLAIN_VISIBLE_MAX]);

/* Reads a file of at most 16 MiB: malloc'ed, the caller's, with a NUL behind it. These return 0, or
 * the exit status after what was wrong has been said. */
int explain_read_file(const char *name, char **ret_text, size_t *ret_len);
/* A raw response: a status line, header lines, an empty line and the body. */
int explain_read_reply(const char *name, struct explain_input *input);
/* "Name: value" */
int explain_add_header(struct headers *headers, const char *text, size_t len);

__attribute__((format(printf, 1, 2))) int explain_bad(const char *format, ...);
int explain_no_memory(void);

#endif
