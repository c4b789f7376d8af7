#include "proxy/config_build.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

void build_values(struct build *build, void *base)
{
	assert(option_count <= OPTIONS_MAX);
	for (size_t i = 0; i < option_count; i++) {
		const struct option *option = &options[i];

		if (option->section != build->section || (option->flags & OPTION_LATER) != 0)
			continue;
		const struct node *node = node_at(build->tree, option->path);

		if (node == NULL)
			/* the default is gone: something of a wrong shape hides it */
			build->bad[i] = option->value != NULL;
		else if (node->kind != NODE_MAPPING ||
			 !option_is_group(option->section, option->path))
			build->bad[i] = !value_set(build->loader, option, node, base);
	}
}

bool build_ok(const struct build *build, const char *path)
{
	const struct option *option = option_find(build->section, path);

	assert(option != NULL);
	return !build->bad[option - options];
}

const struct node *build_given(const struct build *build, const char *path)
{
	const struct node *node = node_at(build->tree, path);

	return node != NULL && node->line > 0 ? node : NULL;
}

void build_problem(struct build *build, const char *const *paths, bool warning, const char *format,
		   ...)
{
	char message[400];
	int line = build->line, column = build->column;
	va_list arguments;

	for (; *paths != NULL; paths++) {
		const struct node *node = build_given(build, *paths);

		if (node != NULL) {
			line = node->line;
			column = node->column;
			break;
		}
	}
	va_start(arguments, format);
	vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (warning)
		loader_warning(build->loader, line, column, "%s", message);
	else
		loader_problem(build->loader, line, column, "%s", message);
}
