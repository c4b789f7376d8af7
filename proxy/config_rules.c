#include "proxy/config_rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "classify/table.h"
#include "proxy/config_value.h"

#define WAIT_MAX (30 * USEC_DAY)
#define EXAMPLE "{name: quota, when: {status: 429}, class: quota}"

void *rule_alloc(struct rule_reader *reader, size_t size)
{
	void *memory = arena_alloc(reader->memory, size);

	if (memory == NULL) {
		reader->loader->oom = true;
		reader->good = false;
	}
	return memory;
}

const char *rule_text(struct rule_reader *reader, const char *text)
{
	size_t len = strlen(text);
	char *copy = rule_alloc(reader, len + 1);

	if (copy != NULL)
		memcpy(copy, text, len);
	return copy;
}

void rule_refuse(struct rule_reader *reader, const struct node *node, const char *what,
		 const char *format, ...)
{
	char quoted[QUOTE_MAX], better[320];
	va_list arguments;

	reader->good = false;
	if (node->kind == NODE_BAD)
		return;
	va_start(arguments, format);
	vsnprintf(better, sizeof(better), format, arguments);
	va_end(arguments);
	loader_problem(reader->loader, node->line, node->column, "%s: %.80s is %s: %s", reader->who,
		       what, node_quote(node, quoted), better);
}

void rule_refuse_key(struct rule_reader *reader, const struct node_pair *pair, const char *where,
		     const char *known)
{
	reader->good = false;
	loader_problem(reader->loader, pair->line, pair->column,
		       "%s: unknown key %.60s%s: known are %s", reader->who, pair->key, where,
		       known);
}

/* "a, b or c" of the classes that a rule can say. */
static void list_classes(char *ret_text, size_t len)
{
	size_t used = 0;

	ret_text[0] = '\0';
	for (int i = CLASS_NONE + 1; i < CLASS_COUNT && used < len; i++) {
		int n = snprintf(ret_text + used, len - used, "%s%s",
				 used == 0              ? ""
				 : i == CLASS_COUNT - 1 ? " or "
							: ", ",
				 outcome_class_name((enum outcome_class)i));

		used += n > 0 ? (size_t)n : 0;
	}
}

static void read_class(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	char classes[160];

	if (node->kind == NODE_SCALAR && outcome_class_parse(node->text, &rule->class) &&
	    rule->class != CLASS_NONE) {
		rule->effect = table_effect(rule->class);
		return;
	}
	rule->class = CLASS_NONE;
	list_classes(classes, sizeof(classes));
	rule_refuse(reader, node, "class", "write %s", classes);
}

static void read_effect(struct rule_reader *reader, const struct node *node,
			const struct rule *rule)
{
	enum effect effect;

	if (node->kind != NODE_SCALAR || !effect_parse(node->text, &effect))
		rule_refuse(reader, node, "effect",
			    "leave it out, the class implies it (none, possible or definite)");
	else if (rule->class != CLASS_NONE && !table_pair_legal(rule->class, effect))
		rule_refuse(reader, node, "effect", "with class %s leave it out, or write %s",
			    outcome_class_name(rule->class), effect_name(rule->effect));
}

static void read_wait(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	char hint[VALUE_TEXT] = "";
	usec_t wait;

	if (rule->class != CLASS_NONE && !table_may_repeat(rule->class)) {
		rule_refuse(reader, node, "wait", "class %s is not tried again, leave it out",
			    outcome_class_name(rule->class));
	} else if (node->kind == NODE_SCALAR && strcmp(node->text, "advice") == 0) {
		rule->wait_advice = true;
	} else if (node->kind != NODE_SCALAR || value_duration(node->text, &wait, hint) != 0) {
		rule_refuse(reader, node, "wait", "write %s",
			    hint[0] != '\0' ? hint : "a duration such as 15m, or advice");
	} else if (wait < USEC_MS || wait > WAIT_MAX) {
		rule_refuse(reader, node, "wait", "write 1ms to 30d");
	} else {
		rule->wait = wait;
	}
}

static void read_retry(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	rule->retry_never = node->kind == NODE_SCALAR && strcmp(node->text, "never") == 0;
	if (!rule->retry_never)
		rule_refuse(reader, node, "retry", "write never, or leave it out");
	else if (rule->wait > 0 || rule->wait_advice)
		rule_refuse(reader, node, "retry", "a wait stands beside it, leave one out");
}

static void read_resolves(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	rule->resolves = node->kind == NODE_SCALAR && strcmp(node->text, "true") == 0;
	if (!rule->resolves && (node->kind != NODE_SCALAR || strcmp(node->text, "false") != 0))
		rule_refuse(reader, node, "resolves", "write true or false");
}

static void read_name(struct rule_reader *reader, const struct node *node,
		      const struct ruleset *earlier, struct rule *rule)
{
	if (node->kind != NODE_SCALAR || !rules_name_valid(node->text)) {
		rule_refuse(reader, node, "name",
			    "write at most %d lower-case letters, digits and single hyphens, such "
			    "as no-credit",
			    REASON_MAX - 1);
		return;
	}
	snprintf(reader->who, sizeof(reader->who), "rule %s", node->text);
	for (size_t i = 0; i < earlier->count; i++)
		if (earlier->rules[i].name != NULL &&
		    strcmp(earlier->rules[i].name, node->text) == 0)
			rule_refuse(reader, node, "name",
				    "an earlier rule has it, write another one");
	rule->name = rule_text(reader, node->text);
}

static void refuse_missing(struct rule_reader *reader, const struct node *node, const char *what)
{
	reader->good = false;
	loader_problem(reader->loader, node->line, node->column, "%s has no %s", reader->who, what);
}

static void check_keys(struct rule_reader *reader, const struct node *node)
{
	static const char *const known[] = {"name", "when",  "class",   "effect",
					    "wait", "retry", "resolves"};

	for (size_t i = 0; i < node->count; i++) {
		bool found = false;

		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			found = found || strcmp(node->pairs[i].key, known[k]) == 0;
		if (!found)
			rule_refuse_key(reader, &node->pairs[i], "",
					"name, when, class, effect, wait, retry, resolves");
	}
}

/* The class is read before what has to agree with it, wherever it stands. */
static void read_rule(struct rule_reader *reader, const struct node *node,
		      const struct ruleset *earlier, struct rule *rule)
{
	const struct node *child;

	if (node->kind != NODE_MAPPING) {
		rule_refuse(reader, node, "it", "write a mapping such as " EXAMPLE);
		return;
	}
	if ((child = node_at(node, "name")) != NULL)
		read_name(reader, child, earlier, rule);
	else
		refuse_missing(reader, node, "name: write name: WORD, it becomes the reason");
	check_keys(reader, node);
	if ((child = node_at(node, "when")) != NULL)
		rule_read_when(reader, child, rule);
	else
		refuse_missing(reader, node, "condition: write when: {status: 429}");
	if ((child = node_at(node, "class")) != NULL)
		read_class(reader, child, rule);
	else
		refuse_missing(reader, node, "class: write class: transient, or another one");
	if ((child = node_at(node, "effect")) != NULL)
		read_effect(reader, child, rule);
	if ((child = node_at(node, "wait")) != NULL)
		read_wait(reader, child, rule);
	if ((child = node_at(node, "retry")) != NULL)
		read_retry(reader, child, rule);
	if ((child = node_at(node, "resolves")) != NULL)
		read_resolves(reader, child, rule);
}

bool value_set_rules(struct loader *loader, const struct option *option, const struct node *node,
		     struct provider_config *provider)
{
	struct rule_reader reader = {
		.loader = loader, .memory = &provider->rule_memory, .good = true};
	struct ruleset *set = &provider->ruleset;

	if (node->kind != NODE_LIST)
		return value_refuse(loader, option, node, "write a list such as [" EXAMPLE "]");
	if (node->count > RULES_MAX)
		return value_refuse(loader, option, node, "write at most %d rules", RULES_MAX);
	struct rule *rules = rule_alloc(&reader, (node->count + 1) * sizeof(*rules));

	if (rules == NULL)
		return false;
	set->rules = rules;
	for (size_t i = 0; i < node->count; i++) {
		snprintf(reader.who, sizeof(reader.who), "rule %zu", i + 1);
		read_rule(&reader, node->items[i], set, &rules[i]);
		set->count++;
	}
	return reader.good;
}

/* Where rule `index` stands in the file; where a preset brought it, the place of what the file says
 * about inspection, else of the provider. */
static void place_of(const struct build *build, size_t index, int *ret_line, int *ret_column)
{
	const struct node *list = node_at(build->tree, "rules");
	const struct node *node = list->items[index];

	if (node->line == 0)
		node = build_given(build, "inspect.on");
	if (node == NULL)
		node = build_given(build, "inspect.body");
	*ret_line = node != NULL ? node->line : build->line;
	*ret_column = node != NULL ? node->column : build->column;
}

/* Whether the rule names a success status, whose bodies nothing reads by default. */
static bool is_on_success(const struct rule *rule)
{
	for (size_t i = 0; i < rule->status_count; i++)
		if (rule->statuses[i].first >= 200 && rule->statuses[i].last <= 299)
			return true;
	return false;
}

static void check_json_rule(struct build *build, const struct ruleset *set, size_t index)
{
	const struct rule *rule = &set->rules[index];
	int line, column;

	if (rule->json_count == 0)
		return;
	place_of(build, index, &line, &column);
	if (set->inspect_max == 0)
		loader_problem(build->loader, line, column,
			       "rule %s reads bodies, and inspect.body is 0: write inspect: {body: "
			       "16KiB}",
			       rule->name);
	else if (is_on_success(rule) && !set->inspect_2xx)
		loader_problem(build->loader, line, column,
			       "rule %s reads the body of a success, which is not inspected: write "
			       "inspect: {on: 2xx}",
			       rule->name);
}

void check_rules(struct build *build, const struct provider_config *provider)
{
	const struct ruleset *set = &provider->ruleset;
	int line, column;
	size_t by;

	if (!build_ok(build, "rules"))
		return;
	for (size_t i = 0; i < set->count; i++) {
		if (build_ok(build, "inspect.on") && build_ok(build, "inspect.body"))
			check_json_rule(build, set, i);
		if (!rules_shadowed(set, i, &by))
			continue;
		place_of(build, i, &line, &column);
		loader_problem(build->loader, line, column,
			       "rule %s can never match, rule %s before it covers it: write it "
			       "before %s, or leave it out",
			       set->rules[i].name, set->rules[by].name, set->rules[by].name);
	}
}
