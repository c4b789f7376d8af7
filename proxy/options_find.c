#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proxy/config_value.h"
#include "proxy/options.h"

const struct option *option_find(enum option_section section, const char *path)
{
	for (size_t i = 0; i < option_count; i++)
		if (options[i].section == section && strcmp(options[i].path, path) == 0)
			return &options[i];
	return NULL;
}

bool option_below(const char *path, const char *group, const char **ret_rest)
{
	size_t len = strlen(group);

	if (len == 0) {
		*ret_rest = path;
		return true;
	}
	if (strncmp(path, group, len) != 0 || path[len] != '.')
		return false;
	*ret_rest = path + len + 1;
	return true;
}

bool option_is_group(enum option_section section, const char *path)
{
	const char *rest;

	for (size_t i = 0; i < option_count; i++)
		if (options[i].section == section && option_below(options[i].path, path, &rest))
			return true;
	return false;
}

/* Whether of the flags in `mask` an option at or below the path has exactly `flags`. */
static bool is_flagged(enum option_section section, const char *path, unsigned mask, unsigned flags)
{
	const char *rest;

	for (size_t i = 0; i < option_count; i++) {
		const struct option *option = &options[i];

		if (option->section != section || (option->flags & mask) != flags)
			continue;
		if (strcmp(option->path, path) == 0 || option_below(option->path, path, &rest))
			return true;
	}
	return false;
}

bool option_is_built(enum option_section section, const char *path)
{
	return is_flagged(section, path, OPTION_LATER, 0);
}

bool option_is_fact(enum option_section section, const char *path)
{
	return is_flagged(section, path, OPTION_FACT, OPTION_FACT);
}

#define NAME_MAX_LEN 63

/* Edit distance with transpositions of neighbours; names longer than NAME_MAX_LEN are far. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][NAME_MAX_LEN + 1];
	size_t *before = rows[0], *last = rows[1], *row = rows[2];

	if (a_len > NAME_MAX_LEN || b_len > NAME_MAX_LEN)
		return NAME_MAX_LEN;
	for (size_t j = 0; j <= b_len; j++)
		before[j] = last[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			row[j] = best;
		}
		size_t *free_row = before;

		before = last;
		last = row;
		row = free_row;
	}
	return last[b_len];
}

void option_nearest(enum option_section section, const char *group, const char *name,
		    char ret_name[64])
{
	size_t name_len = strlen(name);
	size_t best = name_len > 8 ? 4 : name_len > 3 ? 3 : 2;

	ret_name[0] = '\0';
	if (section == OPTION_TOP && group[0] == '\0') {
		/* the two names that hold the other section */
		static const char *const names[] = {"defaults", "providers"};

		for (size_t i = 0; i < 2; i++) {
			size_t d = distance(name, name_len, names[i], strlen(names[i]));

			if (d < best) {
				best = d;
				snprintf(ret_name, 64, "%s", names[i]);
			}
		}
	}
	for (size_t i = 0; i < option_count; i++) {
		const char *rest;

		if (options[i].section != section || !option_below(options[i].path, group, &rest))
			continue;
		size_t len = strcspn(rest, ".");
		size_t d = distance(name, name_len, rest, len);

		if (d < best) {
			best = d;
			snprintf(ret_name, 64, "%.*s", (int)len, rest);
		}
	}
}

const struct option *option_elsewhere(enum option_section section, const char *name)
{
	const struct option *found = NULL;

	for (size_t i = 0; i < option_count; i++) {
		const char *dot = strrchr(options[i].path, '.');

		/* nobody means a header's name by `timeout` or `retries` */
		if (options[i].section != section || options[i].type == OPTION_HEADER ||
		    (options[i].flags & OPTION_LATER) != 0 ||
		    strcmp(dot != NULL ? dot + 1 : options[i].path, name) != 0)
			continue;
		if (found != NULL)
			return NULL;
		found = &options[i];
	}
	return found;
}

static void range_words(const char *words, char *ret_text, size_t len)
{
	size_t used = 0;

	ret_text[0] = '\0';
	while (*words != '\0' && used < len) {
		size_t word = strcspn(words, " ");

		/* a choice that is not built is no choice */
		if (words[0] != '!') {
			int n = snprintf(ret_text + used, len - used, "%s%.*s",
					 used > 0 ? " | " : "", (int)word, words);
			used += n > 0 ? (size_t)n : 0;
		}
		words += word;
		words += *words == ' ';
	}
}

void option_range(const struct option *option, char *ret_text, size_t len)
{
	char low[32], high[32];

	if (option->words != NULL) {
		range_words(option->words, ret_text, len);
		return;
	}
	if (option->min == 0 && option->max == 0) {
		snprintf(ret_text, len, "%s", "");
		return;
	}
	switch (option->type) {
	case OPTION_DURATION:
	case OPTION_LEASE:
	case OPTION_WAITS:
		value_print_duration(option->min, low);
		value_print_duration(option->max, high);
		break;
	case OPTION_SIZE:
		value_print_size(option->min, low);
		value_print_size(option->max, high);
		break;
	default:
		snprintf(low, sizeof(low), "%" PRId64, option->min);
		snprintf(high, sizeof(high), "%" PRId64, option->max);
		break;
	}
	snprintf(ret_text, len, "%s to %s", low, high);
}

const char *option_type_name(enum option_type type)
{
	static const char *const names[] = {
		[OPTION_DURATION] = "duration",
		[OPTION_SIZE] = "size",
		[OPTION_INT] = "whole number",
		[OPTION_COUNT] = "whole number",
		[OPTION_FACTOR] = "number",
		[OPTION_BOOL] = "true or false",
		[OPTION_WORD] = "word",
		[OPTION_SWITCH] = "word",
		[OPTION_TEXT] = "text",
		[OPTION_HEADER] = "header name",
		[OPTION_FILE] = "file",
		[OPTION_TOKEN] = "file",
		[OPTION_TEXTS] = "list of texts",
		[OPTION_HEADERS] = "list of header names",
		[OPTION_POINTERS] = "list of JSON pointers",
		[OPTION_WAITS] = "list of durations",
		[OPTION_ADDRESS] = "address",
		[OPTION_ADDRESSES] = "address or list",
		[OPTION_STORE] = "store",
		[OPTION_WORKERS] = "auto or whole number",
		[OPTION_LEASE] = "auto or duration",
		[OPTION_URL] = "URL",
		[OPTION_ROUTE] = "path prefix",
		[OPTION_HOST] = "host name",
		[OPTION_KEYS] = "list of sources",
		[OPTION_SCOPE] = "none, source or list",
		[OPTION_TENANT] = "none or source",
		[OPTION_REMOTE_ID] = "source",
		[OPTION_VALUE] = "header value",
		[OPTION_PRESET] = "name",
		[OPTION_RULES] = "list",
		[OPTION_ADVICE] = "list",
		[OPTION_REFUSAL] = "mapping",
		[OPTION_TEMPLATE] = "text",
		[OPTION_GATE] = "provider or header:NAME",
		[OPTION_NONE] = "none or mapping",
		[OPTION_RATE] = "rate",
		[OPTION_MAPPING] = "mapping",
		[OPTION_LIST] = "list",
	};

	return names[type];
}
