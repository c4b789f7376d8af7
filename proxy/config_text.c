/* The option table as text. */
#include <stdio.h>
#include <string.h>

#include "proxy/config.h"
#include "proxy/options.h"

#define PATH_LEN 96
#define NEVER 100

/* The parts of the sample that are made from the table. */
enum part { PART_TOP, PART_DEFAULTS, PART_PROVIDER };

static bool belongs(enum part part, const struct option *option)
{
	bool own = (option->flags & OPTION_OWN) != 0;

	if (part == PART_TOP)
		return option->section == OPTION_TOP;
	return option->section == OPTION_PROVIDER && own == (part == PART_PROVIDER);
}

/* Whether the sample has the option in force; all others stand there as comments. */
static bool is_live(enum part part, const struct option *option)
{
	if ((option->flags & OPTION_LATER) != 0)
		return false;
	if (part == PART_PROVIDER)
		return strcmp(option->path, "route") == 0 || strcmp(option->path, "upstream") == 0;
	return option->value != NULL;
}

static bool is_group_live(enum part part, const char *group)
{
	const char *rest;

	for (size_t i = 0; i < option_count; i++)
		if (belongs(part, &options[i]) && option_below(options[i].path, group, &rest) &&
		    is_live(part, &options[i]))
			return true;
	return false;
}

/* Indentation up to `depth`; from `comment` on it is a comment. */
static void indent(FILE *out, int depth, int comment)
{
	int shown = comment < depth ? comment : depth;

	fprintf(out, "%*s", 2 * shown, "");
	if (comment <= depth)
		fprintf(out, "# %*s", 2 * (depth - shown), "");
}

/* Opens the mappings on the way to the option that the one before it was not in. Returns the depth
 * of its own name, and where a comment begins (NEVER: nowhere). */
static int open_groups(FILE *out, enum part part, int depth, const char *path, const char *last,
		       int *ret_comment)
{
	*ret_comment = NEVER;
	for (const char *dot = strchr(path, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
		char group[PATH_LEN];
		const char *rest, *name;

		snprintf(group, sizeof(group), "%.*s", (int)(dot - path), path);
		name = strrchr(group, '.');
		if (*ret_comment == NEVER && !is_group_live(part, group))
			*ret_comment = depth;
		if (!option_below(last, group, &rest)) {
			indent(out, depth, *ret_comment);
			fprintf(out, "%s:\n", name != NULL ? name + 1 : group);
		}
		depth++;
	}
	return depth;
}

static void print_part(FILE *out, enum part part, int depth)
{
	const char *last = "";

	for (size_t i = 0; i < option_count; i++) {
		const struct option *option = &options[i];
		const char *dot = strrchr(option->path, '.');
		int comment;

		if (!belongs(part, option))
			continue;
		int own = open_groups(out, part, depth, option->path, last, &comment);

		if (comment == NEVER && !is_live(part, option))
			comment = own;
		indent(out, own, comment);
		fprintf(out, "%s: %s  # %s%s\n", dot != NULL ? dot + 1 : option->path,
			option->value != NULL ? option->value : option->example,
			(option->flags & OPTION_LATER) != 0 ? "not built yet: " : "", option->help);
		last = option->path;
	}
}

void config_sample(FILE *out)
{
	fputs("# Every name of the configuration with its default. Made from the option table: "
	      "stint's\n"
	      "# own copy, to be cut down to what differs. What is a comment has no default, or is "
	      "not\n"
	      "# built yet; a name that is not built yet is refused, never ignored.\n"
	      "# Durations: 250ms, 8s, 5m, 24h, 30d. Sizes: 64KiB, 8MiB. ${env:NAME} and\n"
	      "# ${env:NAME:-default} in values.\n\n",
	      out);
	print_part(out, PART_TOP, 0);
	fputs("\ndefaults:  # every provider starts from these; mappings merge, lists replace\n",
	      out);
	print_part(out, PART_DEFAULTS, 1);
	fputs("\nproviders:\n  payments:\n", out);
	print_part(out, PART_PROVIDER, 2);
	fputs("    # and anything of defaults:\n"
	      "    budget:\n"
	      "      attempts: 5\n"
	      "      window: 24h\n"
	      "    backoff:\n"
	      "      schedule: [60s, 10m, 1h, 6h]\n"
	      "    remote_id: json:/id\n",
	      out);
}

static void print_help(FILE *out, enum option_section section)
{
	for (size_t i = 0; i < option_count; i++) {
		const struct option *option = &options[i];
		char range[128];

		if (option->section != section)
			continue;
		option_range(option, range, sizeof(range));
		fprintf(out, "  %s: %s%s%s%s%s%s\n      %s\n", option->path,
			option_type_name(option->type), range[0] != '\0' ? ", " : "", range,
			option->value != NULL ? ", default " : "",
			option->value != NULL ? option->value : "",
			(option->flags & OPTION_LATER) != 0 ? ", not built yet" : "", option->help);
	}
}

void config_help(FILE *out)
{
	fputs("At the top of the file:\n", out);
	print_help(out, OPTION_TOP);
	fputs("\nUnder defaults, and under each of providers (preset, route, host, listen, "
	      "upstream, "
	      "keep,\nrules, advice and reconcile only there; a preset lies between the two):\n",
	      out);
	print_help(out, OPTION_PROVIDER);
}
