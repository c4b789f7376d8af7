#include "proxy/admin_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classify/text.h"
#include "proxy/timefmt.h"

static const char *const names[] = {
#define X(id, text) text,
	ADMIN_PARAMETERS(X)
#undef X
};

static int hex_value(char c)
{
	if (text_is_digit(c))
		return c - '0';
	c = text_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes (RFC 3986 section 2.1) into malloc'ed text; NULL in *ret_text: out of memory.
 * False: a "%" without two digits, or a NUL, which no text of ours holds. */
static bool decode(const char *raw, size_t len, bool form, char **ret_text)
{
	char *text = malloc(len + 1);
	size_t at = 0;

	*ret_text = text;
	for (size_t i = 0; text != NULL && i < len; i++) {
		int high, low;

		if (raw[i] != '%') {
			text[at++] = form && raw[i] == '+' ? ' ' : raw[i];
			continue;
		}
		high = len - i > 2 ? hex_value(raw[i + 1]) : -1;
		low = high >= 0 ? hex_value(raw[i + 2]) : -1;
		if (low < 0 || (high == 0 && low == 0)) {
			free(text);
			*ret_text = NULL;
			return false;
		}
		text[at++] = (char)(high * 16 + low);
		i += 2;
	}
	if (text != NULL)
		text[at] = '\0';
	return true;
}

/* --- queries ------------------------------------------------------------------------------------- */

static int find_parameter(const char *name, size_t len, unsigned takes)
{
	for (int i = 0; i < ADMIN_PARAMETER_COUNT; i++) {
		if ((takes & ADMIN_BIT(i)) != 0 && text_equal(name, len, names[i]))
			return i;
	}
	return -1;
}

/* The name as the detail may show it: a little of it, and visible ASCII only. */
static void unknown_parameter(const char *name, size_t len, char detail[ADMIN_DETAIL_MAX])
{
	char shown[33];
	size_t i = 0;

	for (; i < len && i < sizeof(shown) - 1; i++)
		shown[i] = (char)(name[i] > ' ' && name[i] < 0x7f ? name[i] : '?');
	shown[i] = '\0';
	(void)snprintf(detail, ADMIN_DETAIL_MAX, "There is no parameter \"%s\" here", shown);
}

static enum admin_query_result read_pair(const char *pair, size_t len, unsigned takes,
					 struct admin_query *query, char detail[ADMIN_DETAIL_MAX])
{
	const char *equals = memchr(pair, '=', len);
	size_t name_len = equals != NULL ? (size_t)(equals - pair) : len;
	const char *value = equals != NULL ? equals + 1 : pair + len;
	int i = find_parameter(pair, name_len, takes);

	if (i < 0) {
		unknown_parameter(pair, name_len, detail);
		return ADMIN_QUERY_BAD;
	}
	if (query->text[i] != NULL) {
		(void)snprintf(detail, ADMIN_DETAIL_MAX, "%s is given twice", names[i]);
		return ADMIN_QUERY_BAD;
	}
	if (!decode(value, (size_t)(pair + len - value), true, &query->text[i])) {
		(void)snprintf(detail, ADMIN_DETAIL_MAX,
			       "%s is not encoded as it must be: use %%XX", names[i]);
		return ADMIN_QUERY_BAD;
	}
	return query->text[i] != NULL ? ADMIN_QUERY_OK : ADMIN_QUERY_NO_MEMORY;
}

enum admin_query_result admin_query_read(const char *target, unsigned takes,
					 struct admin_query *ret_query,
					 char detail[ADMIN_DETAIL_MAX])
{
	const char *at = strchr(target, '?');
	enum admin_query_result result = ADMIN_QUERY_OK;

	*ret_query = (struct admin_query){0};
	while (at != NULL && *at != '\0' && result == ADMIN_QUERY_OK) {
		const char *pair = at + 1;
		size_t len = strcspn(pair, "&");

		if (len > 0)
			result = read_pair(pair, len, takes, ret_query, detail);
		at = pair + len;
	}
	return result;
}

void admin_query_done(struct admin_query *query)
{
	for (int i = 0; i < ADMIN_PARAMETER_COUNT; i++)
		free(query->text[i]);
	*query = (struct admin_query){0};
}

static bool read_limit(const char *text, int *ret_limit)
{
	char *end;
	long limit;

	if (!text_is_digit(text[0]) || strlen(text) > 6)
		return false;
	limit = strtol(text, &end, 10);
	if (*end != '\0' || limit < 1 || limit > ADMIN_LIST_MAX)
		return false;
	*ret_limit = (int)limit;
	return true;
}

/* A raw "+" of an offset has become a space: no time holds one. */
static bool read_before(const char *text, usec_t *ret_before)
{
	char copy[64];
	size_t len = strlen(text);
	usec_t before;

	if (len >= sizeof(copy))
		return false;
	for (size_t i = 0; i <= len; i++)
		copy[i] = (char)(text[i] == ' ' ? '+' : text[i]);
	if (!timefmt_parse_rfc3339(copy, len, &before) || before <= 0)
		return false;
	*ret_before = before;
	return true;
}

bool admin_query_filter(const struct admin_query *query, struct ledger_filter *ret_filter,
			char detail[ADMIN_DETAIL_MAX])
{
	struct ledger_filter filter = {
		.provider = query->text[ADMIN_PROVIDER],
		.tenant = query->text[ADMIN_TENANT],
		.key_prefix = query->text[ADMIN_KEY_PREFIX],
		.state = -1,
		.class = -1,
		.limit = ADMIN_LIST_DEFAULT,
		.cursor = query->text[ADMIN_CURSOR],
	};
	const char *state_text = query->text[ADMIN_STATE], *class_text = query->text[ADMIN_CLASS];
	const char *before = query->text[ADMIN_BEFORE], *limit = query->text[ADMIN_LIMIT];
	const char *fault = NULL;
	enum op_state state = OP_READY;
	enum outcome_class class = CLASS_NONE;

	if (state_text != NULL && !op_state_parse(state_text, &state))
		fault = "state must be ready, attempting, succeeded, failed, exhausted, unknown or "
			"held";
	else if (class_text != NULL && !outcome_class_parse(class_text, &class))
		fault = "class must be none, success, invalid, auth, quota, rate_limited, "
			"transient, deferred or unknown";
	else if (filter.provider != NULL && filter.provider[0] == '\0')
		fault = "provider must be a provider's name";
	else if (before != NULL && !read_before(before, &filter.before))
		fault = "before must be a time such as 2026-11-30T12:00:00Z";
	else if (limit != NULL && !read_limit(limit, &filter.limit))
		fault = "limit must be a number from 1 to 1000";
	else if (filter.cursor != NULL && filter.cursor[0] == '\0')
		fault = "cursor must be the \"next\" of an earlier answer";
	if (fault != NULL) {
		(void)snprintf(detail, ADMIN_DETAIL_MAX, "%s", fault);
		return false;
	}
	if (state_text != NULL)
		filter.state = (int)state;
	if (class_text != NULL)
		filter.class = (int)class;
	*ret_filter = filter;
	return true;
}

/* --- paths --------------------------------------------------------------------------------------- */

bool admin_path_matches(const char *target, const char *pattern)
{
	while (*pattern == '/' && *target == '/') {
		size_t want = strcspn(++pattern, "/"), have = strcspn(++target, "/?");

		if (text_equal(pattern, want, "*") ? have == 0
						   : want != have || memcmp(pattern, target, have))
			return false;
		pattern += want;
		target += have;
	}
	return *pattern == '\0' && (*target == '\0' || *target == '?');
}

bool admin_path_segment(const char *target, int n, char **ret_segment)
{
	size_t len = strcspn(target, "?");
	const char *end = target + len;

	for (int i = 0; i <= n; i++) {
		const char *slash = memchr(target, '/', (size_t)(end - target));

		if (slash == NULL) {
			*ret_segment = NULL;
			return false;
		}
		target = slash + 1;
	}
	return decode(target, strcspn(target, "/?"), false, ret_segment);
}
