/* What an answer says to whom: the provider's waiting headers, and what stint's own refusals look
 * like to an SDK. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "classify/json_scan.h"
#include "proxy/config_build.h"
#include "proxy/config_rules.h"
#include "proxy/config_value.h"

#define SOURCES_MAX 16
#define HEADERS_MAX 16
#define AT(...) ((const char *const[]){__VA_ARGS__, NULL})

/* What stint, or the HTTP library, writes itself: a second line would contradict it. */
static bool is_own_header(const char *name)
{
	static const char *const names[] = {
		"Connection",
		"Keep-Alive",
		"Proxy-Connection",
		"TE",
		"Trailer",
		"Upgrade",
		"Content-Length",
		"Date",
		"Transfer-Encoding",
		"Host",
		"Retry-After",
		"Stint",
		"Via",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return strncasecmp(name, "Stint-", strlen("Stint-")) == 0;
}

/* One line of visible ASCII (RFC 9110 section 5.5), so that no value adds a header of its own. */
static bool is_field_value(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > RULE_TEXT_MAX || text[0] == ' ' || text[len - 1] == ' ')
		return false;
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

bool value_set_field(struct loader *loader, const struct option *option, const struct node *node,
		     char **ret_value)
{
	if (node->kind != NODE_SCALAR || !is_field_value(node->text))
		return value_refuse(loader, option, node, "write 1 to %d visible ASCII characters",
				    RULE_TEXT_MAX);
	*ret_value = loader_strdup(loader, node->text);
	return *ret_value != NULL;
}

static bool set_header(struct loader *loader, const struct option *option,
		       const struct node_pair *pair, struct provider_config *provider)
{
	struct refusal_header *header = &provider->refusal_headers[provider->refusal_header_count];

	if (!value_is_token(pair->key) || strlen(pair->key) > RULE_TEXT_MAX ||
	    is_own_header(pair->key)) {
		loader_problem(loader, pair->line, pair->column,
			       "%s: %.60s is %s: write another header, such as Content-Type",
			       option->path, pair->key,
			       is_own_header(pair->key) ? "written by stint itself"
							: "no header name");
		return false;
	}
	for (size_t i = 0; i < provider->refusal_header_count; i++)
		if (strcasecmp(provider->refusal_headers[i].name, pair->key) == 0) {
			loader_problem(loader, pair->line, pair->column,
				       "%s: %.60s is there twice: leave one out", option->path,
				       pair->key);
			return false;
		}
	if (!value_set_field(loader, option, pair->value, &header->value))
		return false;
	header->name = loader_strdup(loader, pair->key);
	if (header->name == NULL) {
		free(header->value);
		header->value = NULL;
		return false;
	}
	provider->refusal_header_count++;
	return true;
}

bool value_set_refusal(struct loader *loader, const struct option *option, const struct node *node,
		       struct provider_config *provider)
{
	bool good = true;

	if (node->kind != NODE_MAPPING || node->count > HEADERS_MAX)
		return value_refuse(loader, option, node,
				    "write a mapping of at most %d such as %s", HEADERS_MAX,
				    option->example);
	provider->refusal_headers =
		loader_heap(loader, node->count, sizeof(*provider->refusal_headers));
	if (provider->refusal_headers == NULL)
		return false;
	for (size_t i = 0; i < node->count; i++)
		good = set_header(loader, option, &node->pairs[i], provider) && good;
	return good;
}

/* {word} is a placeholder wherever it stands: JSON has no such thing outside of strings. */
bool value_set_template(struct loader *loader, const struct option *option, const struct node *node,
			char **ret_text)
{
	if (!value_is_scalar(loader, option, node, option->example))
		return false;
	for (const char *at = strchr(node->text, '{'); at != NULL; at = strchr(at + 1, '{')) {
		size_t len = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_");

		if (len == 0 || at[1 + len] != '}')
			continue;
		if ((len != strlen("problem") || strncmp(at + 1, "problem", len) != 0) &&
		    (len != strlen("detail") || strncmp(at + 1, "detail", len) != 0))
			return value_refuse(loader, option, node,
					    "{%.*s} is not known, write {problem} or {detail}",
					    len < 40 ? (int)len : 40, at + 1);
	}
	*ret_text = loader_strdup(loader, node->text);
	return *ret_text != NULL;
}

static bool refuse_unit(struct loader *loader, const struct option *option, const struct node *node)
{
	char units[128] = "";
	size_t used = 0;

	for (int i = 0; i < ADVICE_UNIT_COUNT && used < sizeof(units); i++) {
		int n = snprintf(units + used, sizeof(units) - used, "%s%s", i > 0 ? ", " : "",
				 advice_unit_name((enum advice_unit)i));

		used += n > 0 ? (size_t)n : 0;
	}
	return value_refuse(loader, option, node, "write one of %s", units);
}

static bool set_source(struct loader *loader, const struct option *option, const struct node *node,
		       struct rule_reader *memory, struct advice_source *ret_source)
{
	const struct node *header = node_at(node, "header"), *json = node_at(node, "json");
	const struct node *unit = node_at(node, "unit");

	if (node->kind != NODE_MAPPING || node->count != 2 || unit == NULL ||
	    (header == NULL && json == NULL))
		return value_refuse(loader, option, node,
				    "write {header: NAME, unit: UNIT} or {json: POINTER, unit: "
				    "UNIT}");
	if (header != NULL && (header->kind != NODE_SCALAR || !value_is_token(header->text) ||
			       strlen(header->text) > RULE_TEXT_MAX))
		return value_refuse(loader, option, header, "write a header name");
	if (json != NULL &&
	    (json->kind != NODE_SCALAR || json->text[0] != '/' ||
	     !json_scan_pointer_valid(json->text) || strlen(json->text) > RULE_TEXT_MAX))
		return value_refuse(loader, option, json,
				    "write a JSON pointer such as /error/retry_after, with ~0 for "
				    "~ and ~1 for / in a name");
	if (unit->kind != NODE_SCALAR || !advice_unit_parse(unit->text, &ret_source->unit))
		return refuse_unit(loader, option, unit);
	ret_source->header = header != NULL ? rule_text(memory, header->text) : NULL;
	ret_source->pointer = json != NULL ? rule_text(memory, json->text) : NULL;
	return ret_source->header != NULL || ret_source->pointer != NULL;
}

static bool same_source(const struct advice_source *a, const struct advice_source *b)
{
	if (a->header != NULL)
		return b->header != NULL && strcasecmp(a->header, b->header) == 0;
	return b->pointer != NULL && strcmp(a->pointer, b->pointer) == 0;
}

bool value_set_advice(struct loader *loader, const struct option *option, const struct node *node,
		      struct provider_config *provider)
{
	struct rule_reader memory = {.loader = loader, .memory = &provider->rule_memory};
	bool good = true;

	if (node->kind != NODE_LIST || node->count > SOURCES_MAX)
		return value_refuse(loader, option, node, "write a list of at most %d such as %s",
				    SOURCES_MAX, option->example);
	struct advice_source *sources = rule_alloc(&memory, (node->count + 1) * sizeof(*sources));

	if (sources == NULL)
		return false;
	provider->ruleset.sources = sources;
	for (size_t i = 0; i < node->count; i++) {
		size_t *count = &provider->ruleset.source_count;
		const struct node *item = node->items[i];

		if (!set_source(loader, option, item, &memory, &sources[*count])) {
			good = false;
			continue;
		}
		for (size_t k = 0; k < *count; k++)
			if (same_source(&sources[k], &sources[*count]))
				good = value_refuse(loader, option,
						    node_at(item, sources[k].header != NULL
									  ? "header"
									  : "json"),
						    "it is there twice, leave one out");
		(*count)++;
	}
	return good;
}

static bool is_json(const struct provider_config *provider)
{
	static const char json[] = "application/json";

	for (size_t i = 0; i < provider->refusal_header_count; i++) {
		const struct refusal_header *header = &provider->refusal_headers[i];

		if (strcasecmp(header->name, "Content-Type") == 0)
			return strncasecmp(header->value, json, strlen(json)) == 0 &&
			       strchr(" ;", header->value[strlen(json)]) != NULL;
	}
	return false;
}

static void check_refusal(struct build *build, const struct provider_config *provider)
{
	const char *body = provider->refusal_body;
	struct json_value value;

	if (body != NULL && body[0] != '\0' &&
	    (provider->refusal_status == 204 || provider->refusal_status == 205 ||
	     provider->refusal_status == 304))
		build_problem(build, AT("refusal.status", "refusal.body"), false,
			      "a reply with status %d has no body: write another status, or leave "
			      "refusal.body out",
			      provider->refusal_status);
	if (body != NULL && is_json(provider) && !json_scan_find(body, strlen(body), "", &value))
		build_problem(build, AT("refusal.body", "refusal.headers"), false,
			      "refusal.body is no JSON, and its Content-Type says so: write JSON, "
			      "with the placeholders inside of quotes");
}

/* A source in the body that nobody looks into would never say anything. */
static void check_advice(struct build *build, const struct provider_config *provider)
{
	const struct ruleset *set = &provider->ruleset;

	for (size_t i = 0; i < set->source_count && set->inspect_max == 0; i++) {
		if (set->sources[i].pointer == NULL)
			continue;
		build_problem(build, AT("inspect.body", "advice"), false,
			      "advice reads bodies, and inspect.body is 0: write inspect: {body: "
			      "16KiB}, or leave %.80s out",
			      set->sources[i].pointer);
		return;
	}
}

void check_answer(struct build *build, const struct provider_config *provider)
{
	if (build_ok(build, "advice") && build_ok(build, "inspect.body"))
		check_advice(build, provider);
	if (build_ok(build, "stop.header") && build_ok(build, "stop.value")) {
		if (provider->stop_header == NULL && provider->stop_value != NULL)
			build_problem(build, AT("stop.value"), false,
				      "stop.value without its header: write stop.header too");
		if (provider->stop_header != NULL && provider->stop_value == NULL)
			build_problem(build, AT("stop.header"), false,
				      "stop.header without its value: write stop.value too");
		if (provider->stop_header != NULL && is_own_header(provider->stop_header))
			build_problem(build, AT("stop.header"), false,
				      "stop.header is written by stint itself: write another one");
	}
	if (build_ok(build, "refusal.headers") && build_ok(build, "refusal.body"))
		check_refusal(build, provider);
}
