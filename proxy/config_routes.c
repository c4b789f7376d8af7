/* What two providers, or two listeners, may not have in common. */
#include <string.h>

#include "proxy/config_build.h"

struct bound {
	const struct listen_address *address;
	int line, column;
};

static bool is_same_address(const struct listen_address *a, const struct listen_address *b)
{
	if (a->path != NULL || b->path != NULL)
		return a->path != NULL && b->path != NULL && strcmp(a->path, b->path) == 0;
	return a->host != NULL && b->host != NULL && a->port == b->port &&
	       strcmp(a->host, b->host) == 0;
}

static void bind_one(struct loader *loader, struct bound *bounds, size_t *count,
		     const struct listen_address *address, const struct node *node)
{
	if (address->text == NULL)
		return;
	struct bound bound = {.address = address,
			      .line = node != NULL ? node->line : 0,
			      .column = node != NULL ? node->column : 0};

	for (size_t i = 0; i < *count; i++) {
		if (!is_same_address(bounds[i].address, address))
			continue;
		/* a default has no place of its own: the other one is what can be changed */
		int line = bound.line > 0 ? bound.line : bounds[i].line;
		int column = bound.line > 0 ? bound.column : bounds[i].column;

		loader_problem(loader, line, column,
			       "%.120s is listened on twice: write another port", address->text);
		return;
	}
	bounds[(*count)++] = bound;
}

static void check_listeners(struct loader *loader, const struct config *config,
			    const struct build *top, const struct build *builds)
{
	struct bound *bounds = loader_alloc(
		loader, (config->listen_count + 1 + config->provider_count) * sizeof(*bounds));
	const struct node *listen = build_given(top, "listen");
	size_t count = 0;

	if (bounds == NULL)
		return;
	if (build_ok(top, "listen"))
		for (size_t i = 0; i < config->listen_count; i++)
			bind_one(loader, bounds, &count, &config->listen[i],
				 listen != NULL && listen->kind == NODE_LIST ? listen->items[i]
									     : listen);
	bind_one(loader, bounds, &count, &config->admin_listen, build_given(top, "admin.listen"));
	for (size_t i = 0; i < config->provider_count; i++)
		bind_one(loader, bounds, &count, &config->providers[i].route_listen,
			 build_given(&builds[i], "listen"));
}

static void refuse_twin(struct loader *loader, const struct build *build, const char *kind,
			const char *text, const char *owner)
{
	const struct node *node = build_given(build, kind);

	loader_problem(loader, node != NULL ? node->line : 0, node != NULL ? node->column : 0,
		       "%s %.120s is already that of provider %.60s: write another one", kind, text,
		       owner);
}

void check_routes(struct loader *loader, const struct config *config, const struct build *top,
		  const struct build *builds)
{
	const struct provider_config *providers = config->providers;

	for (size_t i = 1; i < config->provider_count; i++)
		for (size_t j = 0; j < i; j++) {
			const struct provider_config *a = &providers[i], *b = &providers[j];

			if (a->route_prefix != NULL && b->route_prefix != NULL &&
			    strcmp(a->route_prefix, b->route_prefix) == 0) {
				refuse_twin(loader, &builds[i], "route",
					    a->route_prefix[0] != '\0' ? a->route_prefix : "/",
					    b->name);
				break;
			}
			if (a->route_host != NULL && b->route_host != NULL &&
			    strcmp(a->route_host, b->route_host) == 0) {
				refuse_twin(loader, &builds[i], "host", a->route_host, b->name);
				break;
			}
		}
	check_listeners(loader, config, top, builds);
}
