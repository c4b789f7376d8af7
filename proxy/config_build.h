/* From the merged tree to the struct: one value at a time by the option table, then the checks that
 * need more than one value. */
#ifndef STINT_PROXY_CONFIG_BUILD_H
#define STINT_PROXY_CONFIG_BUILD_H

#include "proxy/config_tree.h"

#define OPTIONS_MAX 160

/* One section while it is built: the top of the file, `defaults` alone, or a provider. */
struct build {
	struct loader *loader;
	enum option_section section;
	const struct node *tree; /* all layers merged */
	int line, column;        /* where the section begins, for what is missing in it */
	bool bad[OPTIONS_MAX];   /* by index in options[]: no usable value, and it was reported */
};

/* Writes every option of the section into `base` (struct config or struct provider_config, zeroed
 * before). */
void build_values(struct build *build, void *base);
/* Whether the option has a usable value, or none and needs none. */
bool build_ok(const struct build *build, const char *path);
/* The node that gave an option its value, where the file did; NULL for defaults. */
const struct node *build_given(const struct build *build, const char *path);
/* Reports at the first of the paths (a NULL-terminated list) that the file gives, else at the
 * section. */
void build_problem(struct build *build, const char *const *paths, bool warning, const char *format,
		   ...) __attribute__((format(printf, 4, 5)));

/* One value; false after a problem. `base` as above. */
bool value_set(struct loader *loader, const struct option *option, const struct node *node,
	       void *base);
/* The kinds of values with a file of their own. */
bool value_set_address(struct loader *loader, const struct option *option, const struct node *node,
		       struct listen_address *ret_address);
bool value_set_addresses(struct loader *loader, const struct option *option,
			 const struct node *node, struct config *config);
bool value_set_url(struct loader *loader, const struct option *option, const struct node *node,
		   struct upstream_url *ret_url);
bool value_set_route(struct loader *loader, const struct option *option, const struct node *node,
		     char **ret_route);
bool value_set_host(struct loader *loader, const struct option *option, const struct node *node,
		    char **ret_host);
bool value_set_sources(struct loader *loader, const struct option *option, const struct node *node,
		       struct provider_config *provider);
bool value_set_rules(struct loader *loader, const struct option *option, const struct node *node,
		     struct provider_config *provider);
bool value_set_advice(struct loader *loader, const struct option *option, const struct node *node,
		      struct provider_config *provider);
bool value_set_refusal(struct loader *loader, const struct option *option, const struct node *node,
		       struct provider_config *provider);
bool value_set_template(struct loader *loader, const struct option *option, const struct node *node,
			char **ret_text);
bool value_set_gate(struct loader *loader, const struct option *option, const struct node *node,
		    char **ret_header);
bool value_set_field(struct loader *loader, const struct option *option, const struct node *node,
		     char **ret_value);
bool value_set_texts(struct loader *loader, const struct option *option, const struct node *node,
		     char ***ret_items, size_t *ret_count);

/* "PATH is VALUE: write WHAT". Always false. */
bool value_refuse(struct loader *loader, const struct option *option, const struct node *node,
		  const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Whether the node is one scalar; if not, a problem that says to write `what`. */
bool value_is_scalar(struct loader *loader, const struct option *option, const struct node *node,
		     const char *what);

/* What follows from the values of one provider, and of the whole configuration. */
void check_provider(struct build *build, struct provider_config *provider);
/* Rules that contradict each other or the inspection; stop and refusal. */
void check_rules(struct build *build, const struct provider_config *provider);
void check_answer(struct build *build, const struct provider_config *provider);
void check_top(struct build *build, struct config *config);
/* builds[i] is that of config->providers[i]. */
void check_routes(struct loader *loader, const struct config *config, const struct build *top,
		  const struct build *builds);

void listen_address_done(struct listen_address *address);
void upstream_url_done(struct upstream_url *url);

#endif
