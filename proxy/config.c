/* Loading, in steps: bytes -> nodes (config_yaml.c) -> names (config_keys.c) -> layers merged
 * (config_tree.c): built-in, `defaults`, preset, provider -> values (config_set.c) -> checks
 * (config_check.c, config_routes.c). A step that
 * finds problems does not stop the next, so that one run shows them all; only a text that is no
 * YAML ends at once. */
#include "proxy/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/config_build.h"
#include "proxy/preset.h"

/* The file's bytes, malloc'ed; NULL after a problem. */
static char *read_file(struct loader *loader, const char *file, size_t *ret_len)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	char *text = malloc(FILE_MAX + 1);
	size_t len = 0;
	ssize_t n = 1;

	while (fd >= 0 && text != NULL && n > 0 && len <= FILE_MAX) {
		n = read(fd, text + len, FILE_MAX + 1 - len);
		if (n > 0)
			len += (size_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	if (text == NULL)
		loader->oom = true;
	else if (fd < 0 || n < 0)
		loader_problem(loader, 0, 0, "the file cannot be read: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	if (fd < 0 || text == NULL || n < 0) {
		free(text);
		return NULL;
	}
	*ret_len = len;
	return text;
}

/* What lies under a provider's own names: the preset that it names, over the defaults. */
static struct node *with_preset(struct loader *loader, struct node *defaults,
				const struct node *provider)
{
	const struct node *name = node_at(provider, "preset");
	const struct preset *preset =
		name != NULL && name->kind == NODE_SCALAR ? preset_find(name->text) : NULL;

	/* an unknown name is reported where its value is read */
	return preset != NULL ? tree_merge(loader, defaults, tree_preset(loader, preset->text))
			      : defaults;
}

static bool build_provider(struct loader *loader, const struct node_pair *pair,
			   struct node *defaults, struct build *build,
			   struct provider_config *provider)
{
	struct node *base = with_preset(loader, defaults, pair->value);

	*build = (struct build){.loader = loader,
				.section = OPTION_PROVIDER,
				.tree = tree_merge(loader, base, pair->value),
				.line = pair->line,
				.column = pair->column};
	provider->name = loader_strdup(loader, pair->key);
	if (build->tree->kind != NODE_MAPPING || provider->name == NULL)
		return false;
	build_values(build, provider);
	check_provider(build, provider);
	return true;
}

static void provider_done(struct provider_config *provider);

/* The values of `defaults` are judged even where every provider has its own. */
static void check_defaults(struct loader *loader, struct node *defaults)
{
	struct build build = {.loader = loader, .section = OPTION_PROVIDER, .tree = defaults};
	struct provider_config scratch = {0};

	if (defaults->kind == NODE_MAPPING)
		build_values(&build, &scratch);
	provider_done(&scratch);
}

static void build_providers(struct loader *loader, const struct node *root, struct config *config,
			    const struct build *top)
{
	const struct node_pair *defaults = node_pair(root, "defaults");
	const struct node_pair *providers = node_pair(root, "providers");
	struct node *base = tree_builtin(loader, OPTION_PROVIDER);

	if (base != NULL && defaults != NULL && defaults->value->kind == NODE_MAPPING)
		base = tree_merge(loader, base, defaults->value);
	if (base == NULL)
		return;
	check_defaults(loader, base);
	if (providers == NULL || providers->value->kind != NODE_MAPPING)
		return;
	size_t count = providers->value->count;
	struct build *builds = loader_alloc(loader, (count + 1) * sizeof(*builds));

	config->providers = loader_heap(loader, count, sizeof(*config->providers));
	if (builds == NULL || config->providers == NULL)
		return;
	for (size_t i = 0; i < count; i++) {
		struct provider_config *provider = &config->providers[i];

		config->provider_count++;
		if (build_provider(loader, &providers->value->pairs[i], base, &builds[i], provider))
			provider->policy.unknown_unkeyed = config->unknown_unkeyed;
	}
	check_routes(loader, config, top, builds);
}

static void load(struct loader *loader, const char *text, size_t len, struct config *config)
{
	if (len > FILE_MAX) {
		loader_problem(loader, 0, 0, "the file is larger than 1MiB: write a smaller one");
		return;
	}
	struct node *root = tree_read(loader, text, len);

	if (root == NULL || root->kind == NODE_NULL) {
		if (loader->errors == 0 && !loader->oom)
			loader_problem(loader, 0, 0,
				       "the file is empty: write providers: {NAME: {route: /NAME, "
				       "upstream: https://HOST}}");
		return;
	}
	if (root->kind != NODE_MAPPING) {
		if (root->kind != NODE_BAD)
			loader_problem(loader, root->line, root->column,
				       "this is no mapping: write providers: {NAME: {route: /NAME, "
				       "upstream: https://HOST}}");
		return;
	}
	tree_check_keys(loader, root);
	struct node *base = tree_builtin(loader, OPTION_TOP);

	if (base == NULL)
		return;
	struct build top = {.loader = loader,
			    .section = OPTION_TOP,
			    .tree = tree_merge(loader, base, root),
			    .line = 1,
			    .column = 1};

	build_values(&top, config);
	check_top(&top, config);
	build_providers(loader, root, config, &top);
}

struct config *config_load(const char *file, const char *text, struct config_problems *ret_problems)
{
	struct loader loader = {.problems = ret_problems};
	char *bytes = NULL;
	size_t len = 0;

	*ret_problems = (struct config_problems){0};
	struct config *config = loader_heap(&loader, 1, sizeof(*config));

	if (config != NULL)
		config->file = loader_strdup(&loader, file);
	if (text == NULL)
		text = bytes = read_file(&loader, file, &len);
	else
		len = strlen(text);
	if (text != NULL && config != NULL && config->file != NULL)
		load(&loader, text, len, config);
	free(bytes);
	if (loader.oom)
		loader_problem(&loader, 0, 0, "out of memory");
	loader_sort(&loader);
	loader_done(&loader);
	if (loader.errors > 0 || loader.oom) {
		config_free(config);
		return NULL;
	}
	return config;
}

static void strings_done(char **items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(items[i]);
	free(items);
}

static void sources_done(struct key_source *sources, size_t count)
{
	for (size_t i = 0; i < count; i++)
		key_source_done(&sources[i]);
	free(sources);
}

static void provider_done(struct provider_config *provider)
{
	free(provider->name);
	free(provider->preset);
	upstream_url_done(&provider->upstream);
	free(provider->route_prefix);
	free(provider->route_host);
	listen_address_done(&provider->route_listen);
	free(provider->schedule);
	sources_done(provider->key_from, provider->key_from_count);
	strings_done(provider->fingerprint.except, provider->fingerprint.except_count);
	if (provider->has_tenant)
		key_source_done(&provider->tenant);
	sources_done(provider->scope, provider->scope_count);
	free(provider->idempotency_header);
	free(provider->gate_header);
	if (provider->has_remote_id)
		key_source_done(&provider->remote_id);
	arena_done(&provider->rule_memory);
	free(provider->stop_header);
	free(provider->stop_value);
	for (size_t i = 0; i < provider->refusal_header_count; i++) {
		free(provider->refusal_headers[i].name);
		free(provider->refusal_headers[i].value);
	}
	free(provider->refusal_headers);
	free(provider->refusal_body);
	free(provider->sdk_timeout_header);
	free(provider->sdk_retries_header);
	free(provider->tls_ca);
	free(provider->tls_cert);
	free(provider->tls_key);
}

void config_free(struct config *config)
{
	if (config == NULL)
		return;
	for (size_t i = 0; i < config->listen_count; i++)
		listen_address_done(&config->listen[i]);
	free(config->listen);
	for (size_t i = 0; i < config->provider_count; i++)
		provider_done(&config->providers[i]);
	free(config->providers);
	listen_address_done(&config->admin_listen);
	strings_done(config->redact_headers.items, config->redact_headers.count);
	strings_done(config->redact_query.items, config->redact_query.count);
	free(config->file);
	free(config->tls_cert);
	free(config->tls_key);
	free(config->temp);
	free(config->admin_token_file);
	free(config->ledger_path);
	free(config);
}
