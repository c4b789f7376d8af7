#include <stdio.h>
#include <string.h>

#include "proxy/config_build.h"
#include "proxy/config_value.h"

#define SOURCES_MAX 16
#define ERROR_MAX 192

/* Whether the option takes this kind of source; the rest reads bodies that may not be there. */
static bool is_taken(const struct option *option, enum key_source_kind kind)
{
	switch (option->type) {
	case OPTION_KEYS:
		return true;
	case OPTION_REMOTE_ID:
		return kind == KEY_HEADER || kind == KEY_JSON;
	default:
		return kind == KEY_HEADER;
	}
}

static bool set_source(struct loader *loader, const struct option *option, const struct node *node,
		       struct key_source *ret_source)
{
	char error[ERROR_MAX] = "";
	struct key_source source = {0};
	const char *what = option->type == OPTION_KEYS ? "header:NAME, json:/pointer, form:field "
							 "or template:TEXT"
			   : option->type == OPTION_REMOTE_ID ? "json:/pointer or header:NAME"
							      : "header:NAME";

	if (node->kind != NODE_SCALAR || node->text[0] == '\0')
		return value_refuse(loader, option, node, "write %s", what);
	if (key_source_parse(node->text, &source, error, sizeof(error)) != 0)
		return value_refuse(loader, option, node, "%s", error[0] != '\0' ? error : what);
	if (!is_taken(option, source.kind)) {
		key_source_done(&source);
		return value_refuse(loader, option, node, "write %s", what);
	}
	*ret_source = source;
	return true;
}

/* A list of sources, or one alone. */
static bool set_list(struct loader *loader, const struct option *option, const struct node *node,
		     struct key_source **ret_sources, size_t *ret_count)
{
	size_t count = node->kind == NODE_LIST ? node->count : 1;
	bool good = true;

	if (count == 0 || count > SOURCES_MAX)
		return value_refuse(loader, option, node, "write 1 to %d sources", SOURCES_MAX);
	struct key_source *sources = loader_heap(loader, count, sizeof(*sources));

	if (sources == NULL)
		return false;
	*ret_sources = sources;
	for (size_t i = 0; i < count; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (set_source(loader, option, item, &sources[*ret_count]))
			(*ret_count)++;
		else
			good = false;
	}
	return good;
}

bool value_set_sources(struct loader *loader, const struct option *option, const struct node *node,
		       struct provider_config *provider)
{
	bool is_none = node->kind == NODE_SCALAR && strcmp(node->text, "none") == 0;

	switch (option->type) {
	case OPTION_KEYS:
		return set_list(loader, option, node, &provider->key_from,
				&provider->key_from_count);
	case OPTION_SCOPE:
		return is_none ||
		       set_list(loader, option, node, &provider->scope, &provider->scope_count);
	case OPTION_TENANT:
		if (!is_none)
			provider->has_tenant = set_source(loader, option, node, &provider->tenant);
		return is_none || provider->has_tenant;
	default:
		provider->has_remote_id = set_source(loader, option, node, &provider->remote_id);
		return provider->has_remote_id;
	}
}

bool value_set_gate(struct loader *loader, const struct option *option, const struct node *node,
		    char **ret_header)
{
	static const char kind[] = "header:";
	const char *text = node->kind == NODE_SCALAR ? node->text : "";

	if (strcmp(text, "provider") == 0)
		return true;
	if (strncmp(text, kind, strlen(kind)) != 0 || !value_is_token(text + strlen(kind)))
		return value_refuse(loader, option, node,
				    "write provider, or header:NAME such as header:Authorization");
	*ret_header = loader_strdup(loader, text + strlen(kind));
	return *ret_header != NULL;
}
