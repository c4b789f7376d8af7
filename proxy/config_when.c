/* A rule's conditions: each one a value alone or a list of them, every kind at most once. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "classify/json_scan.h"
#include "proxy/config_rules.h"
#include "proxy/config_value.h"

#define KNOWN "status, header, json, fault, method, path"
#define METHOD_MAX 32

/* Values are one scalar or a list of them. 0 after a problem. */
static size_t values_count(struct rule_reader *reader, const struct node *node, const char *what,
			   const char *example)
{
	if (node->kind == NODE_SCALAR)
		return 1;
	if (node->kind == NODE_LIST && node->count > 0 && node->count <= RULE_VALUES_MAX)
		return node->count;
	rule_refuse(reader, node, what, "write %s, or a list of 1 to %d of them", example,
		    RULE_VALUES_MAX);
	return 0;
}

static const struct node *value_at(const struct node *node, size_t index)
{
	return node->kind == NODE_LIST ? node->items[index] : node;
}

static void refuse_status(struct rule_reader *reader, const struct node *node)
{
	struct rule_status status;
	char swapped[8];

	if (node->kind == NODE_SCALAR && strlen(node->text) == 7) {
		snprintf(swapped, sizeof(swapped), "%.3s-%.3s", node->text + 4, node->text);
		if (rules_status_parse(swapped, &status)) {
			rule_refuse(reader, node, "when.status", "the range is empty, write %s",
				    swapped);
			return;
		}
	}
	rule_refuse(reader, node, "when.status", "write a status such as 503, 500-504 or 5xx");
}

static bool status_within(const struct rule_status *a, const struct rule_status *b)
{
	return a->first >= b->first && a->last <= b->last;
}

static void read_statuses(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	size_t count = values_count(reader, node, "when.status", "503, 500-504 or 5xx");
	struct rule_status *statuses = rule_alloc(reader, (count + 1) * sizeof(*statuses));

	if (statuses == NULL)
		return;
	rule->statuses = statuses;
	for (size_t i = 0; i < count; i++) {
		const struct node *item = value_at(node, i);
		struct rule_status status;

		if (item->kind != NODE_SCALAR || !rules_status_parse(item->text, &status)) {
			refuse_status(reader, item);
			continue;
		}
		for (size_t k = 0; k < rule->status_count; k++)
			if (status_within(&status, &statuses[k]) ||
			    status_within(&statuses[k], &status))
				rule_refuse(reader, item, "when.status",
					    "the list says it twice, leave one out");
		statuses[rule->status_count++] = status;
	}
}

/* Copies the values; texts of at most RULE_TEXT_MAX bytes, each once. */
static void read_texts(struct rule_reader *reader, const struct node *node, const char *what,
		       bool empty_is_good, const char *const **ret_values, size_t *ret_count)
{
	size_t count = values_count(reader, node, what, "a value");
	const char **values = rule_alloc(reader, (count + 1) * sizeof(*values));

	if (values == NULL)
		return;
	*ret_values = values;
	for (size_t i = 0; i < count; i++) {
		const struct node *item = value_at(node, i);
		size_t len = item->kind == NODE_SCALAR ? strlen(item->text) : 0;

		if (item->kind != NODE_SCALAR || len > RULE_TEXT_MAX ||
		    (len == 0 && !empty_is_good)) {
			rule_refuse(reader, item, what, "write %d to %d bytes of text",
				    !empty_is_good, RULE_TEXT_MAX);
			continue;
		}
		for (size_t k = 0; k < *ret_count; k++)
			if (strcmp(values[k], item->text) == 0)
				rule_refuse(reader, item, what,
					    "the list says it twice, leave one out");
		values[*ret_count] = rule_text(reader, item->text);
		*ret_count += values[*ret_count] != NULL;
	}
}

static bool is_present(const struct node *node)
{
	const struct node *present = node_at(node, "present");

	return node->kind == NODE_MAPPING && node->count == 1 && present != NULL &&
	       present->kind == NODE_SCALAR && strcmp(present->text, "true") == 0;
}

/* A value of a header is compared without the white space around it. */
static void check_ends(struct rule_reader *reader, const char *what, const struct node *node,
		       const struct rule_header *header)
{
	for (size_t i = 0; i < header->value_count; i++) {
		const char *text = header->values[i];
		size_t len = strlen(text);

		if (len > 0 && (strchr(" \t", text[0]) != NULL ||
				(!header->prefix && strchr(" \t", text[len - 1]) != NULL)))
			rule_refuse(reader, node, what,
				    "it is compared without white space around it, leave that out");
	}
}

static void read_header(struct rule_reader *reader, const struct node_pair *pair,
			struct rule_header *header)
{
	const struct node *node = pair->value;
	const struct node *prefix = node_at(node, "prefix");
	char what[96];

	snprintf(what, sizeof(what), "when.header.%.70s", pair->key);
	header->name = rule_text(reader, pair->key);
	if (is_present(node))
		return;
	if (node->kind == NODE_MAPPING && node->count == 1 && prefix != NULL) {
		header->prefix = true;
		node = prefix;
	} else if (node->kind == NODE_MAPPING || node->kind == NODE_NULL) {
		rule_refuse(reader, node, what,
			    "write a value, a list of values, {prefix: TEXT} or {present: true}");
		return;
	}
	read_texts(reader, node, what, false, &header->values, &header->value_count);
	check_ends(reader, what, node, header);
}

/* A mapping with 1 to RULE_CONDITIONS_MAX names. 0 after a problem. */
static size_t pairs_count(struct rule_reader *reader, const struct node *node, const char *what,
			  const char *example)
{
	if (node->kind == NODE_MAPPING && node->count > 0 && node->count <= RULE_CONDITIONS_MAX)
		return node->count;
	rule_refuse(reader, node, what, "write a mapping of 1 to %d such as %s",
		    RULE_CONDITIONS_MAX, example);
	return 0;
}

static void read_headers(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	size_t count = pairs_count(reader, node, "when.header", "{X-Processed: \"false\"}");
	struct rule_header *headers = rule_alloc(reader, (count + 1) * sizeof(*headers));

	if (headers == NULL)
		return;
	rule->headers = headers;
	for (size_t i = 0; i < count; i++) {
		const struct node_pair *pair = &node->pairs[i];

		if (!value_is_token(pair->key) || strlen(pair->key) > RULE_TEXT_MAX) {
			reader->good = false;
			loader_problem(reader->loader, pair->line, pair->column,
				       "%s: %.60s is no header name: write one such as X-Processed",
				       reader->who, pair->key);
			continue;
		}
		for (size_t k = 0; k < i; k++)
			if (strcasecmp(node->pairs[k].key, pair->key) == 0) {
				reader->good = false;
				loader_problem(reader->loader, pair->line, pair->column,
					       "%s: header %.60s is there twice: write one list of "
					       "its values",
					       reader->who, pair->key);
			}
		read_header(reader, pair, &headers[rule->header_count++]);
	}
}

static void read_json(struct rule_reader *reader, const struct node_pair *pair,
		      struct rule_json *json)
{
	const struct node *node = pair->value;
	char what[96];

	snprintf(what, sizeof(what), "when.json.%.70s", pair->key);
	json->pointer = rule_text(reader, pair->key);
	if (is_present(node))
		return;
	if (node->kind == NODE_MAPPING || node->kind == NODE_NULL)
		rule_refuse(reader, node, what,
			    "write a value, a list of values, \"null\" in quotes, or {present: "
			    "true}");
	else
		read_texts(reader, node, what, true, &json->values, &json->value_count);
}

static void read_jsons(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	size_t count = pairs_count(reader, node, "when.json", "{/error/code: no_credit}");
	struct rule_json *jsons = rule_alloc(reader, (count + 1) * sizeof(*jsons));

	if (jsons == NULL)
		return;
	rule->jsons = jsons;
	for (size_t i = 0; i < count; i++) {
		const struct node_pair *pair = &node->pairs[i];

		if (pair->key[0] != '/' || !json_scan_pointer_valid(pair->key) ||
		    strlen(pair->key) > RULE_TEXT_MAX) {
			reader->good = false;
			loader_problem(reader->loader, pair->line, pair->column,
				       "%s: %.60s is no JSON pointer: write one such as "
				       "/error/code, with ~0 for ~ and ~1 for / in a name",
				       reader->who, pair->key);
			continue;
		}
		read_json(reader, pair, &jsons[rule->json_count++]);
	}
}

static void refuse_fault(struct rule_reader *reader, const struct node *node)
{
	char names[300] = "";
	size_t used = 0;

	for (int i = 0; i < FAULT_COUNT && used < sizeof(names); i++) {
		int n = snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
				 fault_name((enum fault)i));

		used += n > 0 ? (size_t)n : 0;
	}
	rule_refuse(reader, node, "when.fault", "known are %s", names);
}

static void read_faults(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	size_t count = values_count(reader, node, "when.fault", "a fault such as timeout");

	for (size_t i = 0; i < count; i++) {
		const struct node *item = value_at(node, i);
		enum fault fault;

		if (item->kind != NODE_SCALAR || !fault_parse(item->text, &fault))
			refuse_fault(reader, item);
		else if ((rule->faults & RULE_FAULT(fault)) != 0)
			rule_refuse(reader, item, "when.fault",
				    "the list says it twice, leave one out");
		else
			rule->faults |= RULE_FAULT(fault);
	}
}

/* Methods are case-sensitive (RFC 9110 section 9.1), and all that are in use are upper case. */
static void read_methods(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	const char *const *methods = NULL;

	read_texts(reader, node, "when.method", false, &methods, &rule->method_count);
	rule->methods = methods;
	for (size_t i = 0; i < rule->method_count; i++) {
		const char *method = methods[i];
		size_t len = strlen(method);

		if (len == 0 || len > METHOD_MAX ||
		    strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != len)
			rule_refuse(reader, node, "when.method",
				    "write methods in upper case, such as POST");
	}
}

static void read_path(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	const char *text = node->kind == NODE_SCALAR ? node->text : "";
	size_t len = strlen(text);
	bool good = text[0] == '/' && len <= 4 * RULE_TEXT_MAX && strpbrk(text, "?#") == NULL;

	for (size_t i = 0; i < len; i++)
		good = good && isgraph((unsigned char)text[i]);
	if (good)
		rule->path = rule_text(reader, text);
	else
		rule_refuse(reader, node, "when.path",
			    "write a prefix of the path behind the route, such as /v1/charges");
}

void rule_read_when(struct rule_reader *reader, const struct node *node, struct rule *rule)
{
	static const struct {
		const char *name;
		void (*read)(struct rule_reader *reader, const struct node *node,
			     struct rule *rule);
	} conditions[] = {
		{"status", read_statuses}, {"header", read_headers}, {"json", read_jsons},
		{"fault", read_faults},    {"method", read_methods}, {"path", read_path},
	};

	if (node->kind != NODE_MAPPING || node->count == 0) {
		rule_refuse(reader, node, "when", "write at least one of " KNOWN);
		return;
	}
	for (size_t i = 0; i < node->count; i++) {
		const struct node_pair *pair = &node->pairs[i];
		size_t k = 0, count = sizeof(conditions) / sizeof(conditions[0]);

		while (k < count && strcmp(conditions[k].name, pair->key) != 0)
			k++;
		if (k < count)
			conditions[k].read(reader, pair->value, rule);
		else
			rule_refuse_key(reader, pair, " in when", KNOWN);
	}
}
