#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/config_tree.h"

static bool is_known(const struct config_problems *problems, int line, int column,
		     const char *message)
{
	for (size_t i = 0; i < problems->count; i++) {
		const struct config_problem *known = &problems->items[i];

		if (known->line == line && known->column == column &&
		    strcmp(known->message, message) == 0)
			return true;
	}
	return false;
}

static void keep(struct loader *loader, int line, int column, bool warning, const char *message)
{
	struct config_problems *problems = loader->problems;
	char *copy = strdup(message);

	if (copy == NULL) {
		loader->oom = true;
		return;
	}
	struct config_problem *items =
		realloc(problems->items, (problems->count + 1) * sizeof(*items));

	if (items == NULL) {
		free(copy);
		loader->oom = true;
		return;
	}
	problems->items = items;
	items[problems->count++] = (struct config_problem){
		.line = line, .column = column, .warning = warning, .message = copy};
}

__attribute__((format(printf, 5, 0))) static void add(struct loader *loader, int line, int column,
						      bool warning, const char *format,
						      va_list arguments)
{
	char message[512];

	vsnprintf(message, sizeof(message), format, arguments);
	if (is_known(loader->problems, line, column, message))
		return;
	/* counted even where it is not kept: a file with a problem is never taken; warnings never
	 * take the room of problems */
	if (warning) {
		if (loader->warnings++ < PROBLEMS_MAX / 2)
			keep(loader, line, column, true, message);
		return;
	}
	if (loader->errors < PROBLEMS_MAX)
		keep(loader, line, column, false, message);
	else if (loader->errors == PROBLEMS_MAX)
		keep(loader, 0, 0, false, "there are more problems than are shown here");
	loader->errors++;
}

void loader_problem(struct loader *loader, int line, int column, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add(loader, line, column, false, format, arguments);
	va_end(arguments);
}

void loader_warning(struct loader *loader, int line, int column, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add(loader, line, column, true, format, arguments);
	va_end(arguments);
}

void loader_sort(struct loader *loader)
{
	struct config_problem *items = loader->problems->items;
	size_t count = loader->problems->count;

	/* an insertion sort: few items, and those of one place stay in the order of finding */
	for (size_t i = 1; i < count; i++) {
		struct config_problem item = items[i];
		size_t j = i;

		for (; j > 0 &&
		       (items[j - 1].line > item.line ||
			(items[j - 1].line == item.line && items[j - 1].column > item.column));
		     j--)
			items[j] = items[j - 1];
		items[j] = item;
	}
}

size_t config_problems_print(const struct config_problems *problems, const char *file, FILE *out)
{
	size_t errors = 0;

	for (size_t i = 0; i < problems->count; i++) {
		const struct config_problem *problem = &problems->items[i];

		fprintf(out, "%s:%d:%d: %s%s\n", file, problem->line > 0 ? problem->line : 1,
			problem->column > 0 ? problem->column : 1,
			problem->warning ? "warning: " : "", problem->message);
		errors += !problem->warning;
	}
	return errors;
}

void config_problems_done(struct config_problems *problems)
{
	for (size_t i = 0; i < problems->count; i++)
		free(problems->items[i].message);
	free(problems->items);
	*problems = (struct config_problems){0};
}
