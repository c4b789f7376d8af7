/* rules_shadowed(): each condition of the earlier rule must follow from the later rule's own. What
 * cannot be shown to follow counts as not following, so nothing is called dead that may live. */
#include "classify/rules.h"

#include "classify/table.h"
#include "classify/text.h"

/* Whether every status of the range is among the rule's; ranges may touch and overlap. */
static bool range_covered(const struct rule *by, struct rule_status range)
{
	int64_t next = range.first;
	bool moved = true;

	while (moved && next <= range.last) {
		moved = false;
		for (size_t i = 0; i < by->status_count; i++) {
			if (by->statuses[i].first <= next && by->statuses[i].last >= next) {
				next = (int64_t)by->statuses[i].last + 1;
				moved = true;
			}
		}
	}
	return next > range.last;
}

static bool statuses_covered(const struct rule *by, const struct rule *rule)
{
	if (by->status_count == 0)
		return true;
	if (rule->status_count == 0)
		return false;
	for (size_t i = 0; i < rule->status_count; i++) {
		if (!range_covered(by, rule->statuses[i]))
			return false;
	}
	return true;
}

static bool faults_covered(const struct rule *by, const struct rule *rule)
{
	uint32_t whole = RULE_FAULT(FAULT_NONE);
	uint32_t by_mask = by->faults != 0 ? by->faults : whole;
	uint32_t mask = rule->faults != 0 ? rule->faults : whole;

	if ((mask & ~by_mask) != 0)
		return false;
	/* Only rules with effect `none` match what was not sent, and only a fault can be unsent. */
	return by->effect == EFFECT_NONE || rule->effect != EFFECT_NONE || mask == whole;
}

static bool contains(const char *const *values, size_t count, const char *value)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(values[i], value) == 0)
			return true;
	}
	return false;
}

static bool methods_covered(const struct rule *by, const struct rule *rule)
{
	if (by->method_count == 0)
		return true;
	for (size_t i = 0; i < rule->method_count; i++) {
		if (!contains(by->methods, by->method_count, rule->methods[i]))
			return false;
	}
	return rule->method_count > 0;
}

static bool path_covered(const struct rule *by, const struct rule *rule)
{
	size_t len;

	if (by->path == NULL || by->path[0] == '\0')
		return true;
	if (rule->path == NULL || !text_starts(rule->path, strlen(rule->path), by->path))
		return false;
	/* What matches the longer prefix goes on after it at the end of a segment. */
	len = strlen(by->path);
	return by->path[len - 1] == '/' || rule->path[len] == '\0' || rule->path[len] == '/' ||
	       rule->path[len] == '?';
}

static bool header_value_covered(const struct rule_header *by, const char *value, bool prefix)
{
	for (size_t i = 0; i < by->value_count; i++) {
		if (by->prefix ? text_starts(value, strlen(value), by->values[i])
			       : !prefix && strcmp(value, by->values[i]) == 0)
			return true;
	}
	return false;
}

static bool header_covered(const struct rule_header *by, const struct rule_header *header)
{
	if (!text_equal_nocase(by->name, strlen(by->name), header->name))
		return false;
	if (by->value_count == 0)
		return true;
	for (size_t i = 0; i < header->value_count; i++) {
		if (!header_value_covered(by, header->values[i], header->prefix))
			return false;
	}
	return header->value_count > 0;
}

static bool headers_covered(const struct rule *by, const struct rule *rule)
{
	for (size_t i = 0; i < by->header_count; i++) {
		bool covered = false;

		for (size_t k = 0; k < rule->header_count && !covered; k++)
			covered = header_covered(&by->headers[i], &rule->headers[k]);
		if (!covered)
			return false;
	}
	return true;
}

static bool json_covered(const struct rule_json *by, const struct rule_json *json)
{
	if (strcmp(by->pointer, json->pointer) != 0)
		return false;
	if (by->value_count == 0)
		return true;
	for (size_t i = 0; i < json->value_count; i++) {
		if (!contains(by->values, by->value_count, json->values[i]))
			return false;
	}
	return json->value_count > 0;
}

static bool jsons_covered(const struct rule *by, const struct rule *rule)
{
	for (size_t i = 0; i < by->json_count; i++) {
		bool covered = false;

		for (size_t k = 0; k < rule->json_count && !covered; k++)
			covered = json_covered(&by->jsons[i], &rule->jsons[k]);
		if (!covered)
			return false;
	}
	return true;
}

bool rules_shadowed(const struct ruleset *rules, size_t index, size_t *ret_by)
{
	const struct rule *rule = &rules->rules[index];

	for (size_t i = 0; i < index; i++) {
		const struct rule *by = &rules->rules[i];

		if (table_pair_legal(by->class, by->effect) && faults_covered(by, rule) &&
		    statuses_covered(by, rule) && methods_covered(by, rule) &&
		    path_covered(by, rule) && headers_covered(by, rule) &&
		    jsons_covered(by, rule)) {
			*ret_by = i;
			return true;
		}
	}
	return false;
}
