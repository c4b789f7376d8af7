#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proxy/config_tree.h"
#include "proxy/config_value.h"

#define PATH_MAX_LEN 160

struct place {
	struct loader *loader;
	enum option_section section;
	bool in_defaults, in_preset;
};

/* `retries: 3` is four calls in one library and three in the next: the word is not used here. */
static bool is_retries(const char *key)
{
	return strcmp(key, "retries") == 0 || strcmp(key, "max_retries") == 0;
}

static void refuse_retries(const struct place *at, const struct node_pair *pair)
{
	int64_t retries;

	if (pair->value->kind == NODE_SCALAR && value_int(pair->value->text, &retries) == 0 &&
	    retries >= 0 && retries < ATTEMPTS_CEILING)
		loader_problem(at->loader, pair->line, pair->column,
			       "%s is not a word here: write `attempts: %" PRId64
			       "`, the total with the first one included (budget.attempts)",
			       pair->key, retries + 1);
	else
		loader_problem(at->loader, pair->line, pair->column,
			       "%s is not a word here: write `attempts: N`, the total with the "
			       "first one included (budget.attempts)",
			       pair->key);
}

/* The names right below a group, as "a, b, c". */
static void list_names(enum option_section section, const char *group, char *ret_text, size_t len)
{
	size_t used = 0;
	char last[64] = "";

	ret_text[0] = '\0';
	for (size_t i = 0; i < option_count && used < len; i++) {
		const char *rest;
		char name[64];

		if (options[i].section != section || !option_below(options[i].path, group, &rest))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(rest, "."), rest);
		if (strcmp(name, last) == 0 || (options[i].flags & OPTION_LATER) != 0)
			continue;
		int n = snprintf(ret_text + used, len - used, "%s%s", used > 0 ? ", " : "", name);

		used += n > 0 ? (size_t)n : 0;
		snprintf(last, sizeof(last), "%s", name);
	}
	if (section == OPTION_TOP && group[0] == '\0' && used < len)
		snprintf(ret_text + used, len - used, ", defaults, providers");
}

/* Where an unknown name was most likely meant to stand: at its place elsewhere, else beside a name
 * that is nearly the same. Writes "" where nobody can tell. */
static void guess(const struct place *at, const char *group, const char *key, char *ret_text,
		  size_t len)
{
	const struct option *option;
	char near[64];

	ret_text[0] = '\0';
	if (at->section == OPTION_TOP &&
	    (option_find(OPTION_PROVIDER, key) != NULL || option_is_group(OPTION_PROVIDER, key))) {
		option = option_find(OPTION_PROVIDER, key);
		snprintf(ret_text, len, "%s.%s",
			 option != NULL && (option->flags & OPTION_OWN) != 0 ? "providers.NAME"
									     : "defaults",
			 key);
	} else if ((option = option_elsewhere(at->section, key)) != NULL) {
		snprintf(ret_text, len, "%s", option->path);
	} else if (at->section == OPTION_TOP &&
		   (option = option_elsewhere(OPTION_PROVIDER, key)) != NULL) {
		snprintf(ret_text, len, "defaults.%s", option->path);
	} else {
		option_nearest(at->section, group, key, near);
		snprintf(ret_text, len, "%s", near);
	}
}

static void refuse_unknown(const struct place *at, const char *group, const struct node_pair *pair)
{
	char better[PATH_MAX_LEN], names[320], where[PATH_MAX_LEN] = "";

	if (group[0] != '\0')
		snprintf(where, sizeof(where), " in %s", group);
	guess(at, group, pair->key, better, sizeof(better));
	if (better[0] == '\0')
		list_names(at->section, group, names, sizeof(names));
	loader_problem(at->loader, pair->line, pair->column, "unknown key %.60s%s: %s %s",
		       pair->key, where, better[0] != '\0' ? "write" : "known are",
		       better[0] != '\0' ? better : names);
}

static void check_mapping(const struct place *at, const char *group, const struct node *mapping);

static void check_pair(const struct place *at, const char *group, const struct node_pair *pair)
{
	char path[PATH_MAX_LEN];
	int n = snprintf(path, sizeof(path), "%s%s%s", group, group[0] != '\0' ? "." : "",
			 pair->key);
	/* a dot in a key must not reach into a group */
	bool fits = n > 0 && (size_t)n < sizeof(path) && strchr(pair->key, '.') == NULL;
	const struct option *option = fits ? option_find(at->section, path) : NULL;
	bool is_group = fits && option_is_group(at->section, path);
	char quoted[QUOTE_MAX], names[320];

	if (option == NULL && is_retries(pair->key)) {
		refuse_retries(at, pair);
	} else if (option == NULL && !is_group) {
		refuse_unknown(at, group, pair);
	} else if (!option_is_built(at->section, path)) {
		loader_problem(at->loader, pair->line, pair->column,
			       "%s is not built yet: leave it out", path);
	} else if (at->in_defaults && option != NULL && (option->flags & OPTION_OWN) != 0) {
		loader_problem(at->loader, pair->line, pair->column,
			       "%s differs for each provider: write it under providers.NAME", path);
	} else if (at->in_preset && !option_is_fact(at->section, path)) {
		loader_problem(at->loader, pair->line, pair->column,
			       "%s is policy, and a preset holds facts: write it under "
			       "providers.NAME",
			       path);
	} else if (is_group && pair->value->kind == NODE_MAPPING) {
		check_mapping(at, path, pair->value);
	} else if (option == NULL && pair->value->kind != NODE_NULL &&
		   pair->value->kind != NODE_BAD) {
		list_names(at->section, path, names, sizeof(names));
		loader_problem(at->loader, pair->value->line, pair->value->column,
			       "%s is %s: write a mapping with any of %s", path,
			       node_quote(pair->value, quoted), names);
	}
}

static void check_mapping(const struct place *at, const char *group, const struct node *mapping)
{
	for (size_t i = 0; i < mapping->count; i++)
		check_pair(at, group, &mapping->pairs[i]);
}

static void check_provider_name(struct loader *loader, const struct node_pair *pair)
{
	size_t len = strlen(pair->key);

	if (len > 64 ||
	    strspn(pair->key,
		   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != len ||
	    pair->key[0] == '.' || pair->key[0] == '-')
		loader_problem(loader, pair->line, pair->column,
			       "provider name %.60s: write 1 to 64 letters, digits, _ . - and "
			       "begin with a letter or digit",
			       pair->key);
}

static void check_providers(struct loader *loader, const struct node_pair *pair)
{
	char quoted[QUOTE_MAX];
	const struct node *value = pair->value;

	if (value->kind == NODE_BAD)
		return;
	if (value->kind != NODE_MAPPING || value->count == 0) {
		loader_problem(loader, value->line, value->column,
			       "providers is %s: write providers: {NAME: {route: /NAME, upstream: "
			       "https://HOST}}",
			       value->kind == NODE_MAPPING ? "empty" : node_quote(value, quoted));
		return;
	}
	for (size_t i = 0; i < value->count; i++) {
		const struct node_pair *entry = &value->pairs[i];
		struct place at = {.loader = loader, .section = OPTION_PROVIDER};

		if (is_retries(entry->key)) {
			refuse_retries(&at, entry);
			continue;
		}
		check_provider_name(loader, entry);
		if (entry->value->kind == NODE_MAPPING)
			check_mapping(&at, "", entry->value);
		else if (entry->value->kind != NODE_NULL && entry->value->kind != NODE_BAD)
			loader_problem(loader, entry->value->line, entry->value->column,
				       "provider %.60s is %s: write a mapping with route and "
				       "upstream",
				       entry->key, node_quote(entry->value, quoted));
	}
}

void tree_check_preset(struct loader *loader, const struct node *root)
{
	struct place at = {.loader = loader, .section = OPTION_PROVIDER, .in_preset = true};

	check_mapping(&at, "", root);
}

void tree_check_keys(struct loader *loader, const struct node *root)
{
	char quoted[QUOTE_MAX];

	for (size_t i = 0; i < root->count; i++) {
		const struct node_pair *pair = &root->pairs[i];
		struct place at = {.loader = loader, .section = OPTION_TOP};

		if (strcmp(pair->key, "providers") == 0) {
			check_providers(loader, pair);
		} else if (strcmp(pair->key, "defaults") == 0) {
			at.section = OPTION_PROVIDER;
			at.in_defaults = true;
			if (pair->value->kind == NODE_MAPPING)
				check_mapping(&at, "", pair->value);
			else if (pair->value->kind != NODE_NULL && pair->value->kind != NODE_BAD)
				loader_problem(loader, pair->value->line, pair->value->column,
					       "defaults is %s: write a mapping",
					       node_quote(pair->value, quoted));
		} else {
			check_pair(&at, "", pair);
		}
	}
	if (node_pair(root, "providers") == NULL)
		loader_problem(loader, 0, 0,
			       "there are no providers: write providers: {NAME: {route: /NAME, "
			       "upstream: https://HOST}}");
}
