#include "classify/rules.h"

#include "classify/facts.h"
#include "classify/json_scan.h"
#include "classify/table.h"
#include "classify/text.h"

static uint32_t fault_mask(const struct rule *rule)
{
	return rule->faults != 0 ? rule->faults : RULE_FAULT(FAULT_NONE);
}

/* What the facts offer to a rule's mask: a head that was too large still has a status that settles,
 * so it counts as a whole reply too. */
static uint32_t fault_bits(const struct facts *facts)
{
	uint32_t bits = 0;

	if (facts_whole(facts))
		bits |= RULE_FAULT(FAULT_NONE);
	if (facts->fault > FAULT_NONE && facts->fault < FAULT_COUNT)
		bits |= RULE_FAULT(facts->fault);
	return bits;
}

static bool status_holds(const struct rule *rule, int status)
{
	if (rule->status_count == 0)
		return true;
	for (size_t i = 0; i < rule->status_count; i++) {
		if (status >= rule->statuses[i].first && status <= rule->statuses[i].last)
			return true;
	}
	return false;
}

static bool method_holds(const struct rule *rule, const char *method)
{
	if (rule->method_count == 0)
		return true;
	if (method == NULL)
		return false;
	for (size_t i = 0; i < rule->method_count; i++) {
		if (strcmp(rule->methods[i], method) == 0)
			return true;
	}
	return false;
}

/* A prefix ends where a segment of the path ends, as routes do. */
static bool path_holds(const char *prefix, const char *path)
{
	size_t len;

	if (prefix == NULL)
		return true;
	len = strlen(prefix);
	if (path == NULL || !text_starts(path, strlen(path), prefix))
		return false;
	return len == 0 || prefix[len - 1] == '/' || path[len] == '\0' || path[len] == '/' ||
	       path[len] == '?';
}

static bool value_holds(const struct rule_header *header, const char *text, size_t len)
{
	if (header->value_count == 0)
		return true;
	for (size_t i = 0; i < header->value_count; i++) {
		if (header->prefix ? text_starts(text, len, header->values[i])
				   : text_equal(text, len, header->values[i]))
			return true;
	}
	return false;
}

/* A set of header names by length and first letter, as bits: what is not in it is not there, so that
 * most rules need not look through the headers. */
static uint64_t name_bit(const char *name, size_t len)
{
	unsigned char first = len > 0 ? (unsigned char)text_lower(name[0]) : 0;

	return UINT64_C(1) << ((len * 5 + first) % 64);
}

static uint64_t names_of(const struct facts *facts)
{
	uint64_t names = 0;

	for (size_t i = 0; i < facts->header_count; i++)
		names |= name_bit(facts->headers[i].name, facts->headers[i].name_len);
	return names;
}

static bool header_holds(const struct rule_header *header, const struct facts *facts)
{
	bool there = false;

	for (size_t i = 0; i < facts->header_count; i++) {
		const struct header_view *line = &facts->headers[i];
		const char *text = line->value;
		size_t len = line->value_len;

		if (!text_equal_nocase(line->name, line->name_len, header->name))
			continue;
		text_trim(&text, &len);
		if (!value_holds(header, text, len))
			return false;
		there = true;
	}
	return there;
}

static bool json_holds(const struct rule_json *json, const struct facts *facts)
{
	struct json_value value;

	if (!json_scan_find(facts->body, facts->body_len, json->pointer, &value))
		return false;
	for (size_t i = 0; i < json->value_count; i++) {
		if (json_scan_equal(&value, json->values[i]))
			return true;
	}
	return json->value_count == 0;
}

/* Whether bodies of this status are looked into at all. */
static bool inspects(const struct ruleset *rules, int status)
{
	return rules->inspect_max > 0 && (rules->inspect_2xx || status < 200 || status > 299);
}

bool rules_body_whole(const struct ruleset *rules, const struct facts *facts)
{
	return inspects(rules, facts->status) && !facts->body_truncated &&
	       facts->body_len <= rules->inspect_max;
}

/* Every condition but those on the body; `names` is names_of() the facts. */
static bool head_holds(const struct rule *rule, const struct facts *facts, uint64_t names)
{
	if (!table_pair_legal(rule->class, rule->effect))
		return false;
	if (!facts_sent(facts) && rule->effect != EFFECT_NONE)
		return false;
	if ((fault_mask(rule) & fault_bits(facts)) == 0 || !status_holds(rule, facts->status) ||
	    !method_holds(rule, facts->method) || !path_holds(rule->path, facts->path))
		return false;
	for (size_t i = 0; i < rule->header_count; i++) {
		const char *name = rule->headers[i].name;

		if ((names & name_bit(name, strlen(name))) == 0 ||
		    !header_holds(&rule->headers[i], facts))
			return false;
	}
	return true;
}

static bool body_holds(const struct ruleset *rules, const struct rule *rule,
		       const struct facts *facts)
{
	if (rule->json_count == 0)
		return true;
	if (!rules_body_whole(rules, facts))
		return false;
	for (size_t i = 0; i < rule->json_count; i++) {
		if (!json_holds(&rule->jsons[i], facts))
			return false;
	}
	return true;
}

const struct rule *rules_match(const struct ruleset *rules, const struct facts *facts)
{
	uint64_t names;

	if (rules == NULL)
		return NULL;
	names = names_of(facts);
	for (size_t i = 0; i < rules->count; i++) {
		if (head_holds(&rules->rules[i], facts, names) &&
		    body_holds(rules, &rules->rules[i], facts))
			return &rules->rules[i];
	}
	return NULL;
}

/* Whether a source of advice lies in the body, and no header has said more than it could. */
static bool body_advises(const struct ruleset *rules, enum outcome_class class,
			 const struct advice *advice)
{
	if (!table_may_repeat(class) || advice->stated)
		return false;
	for (size_t i = 0; i < rules->source_count; i++) {
		if (rules->sources[i].pointer != NULL)
			return true;
	}
	return false;
}

bool rules_need_body(const struct ruleset *rules, const struct facts *facts)
{
	struct advice advice;
	uint64_t names;

	if (rules == NULL || !inspects(rules, facts->status))
		return false;
	names = names_of(facts);
	for (size_t i = 0; i < rules->count; i++) {
		if (!head_holds(&rules->rules[i], facts, names))
			continue;
		if (rules->rules[i].json_count > 0)
			return true;
		advice_read(facts, &advice);
		return body_advises(rules, rules->rules[i].class, &advice);
	}
	advice_read(facts, &advice);
	return body_advises(rules, table_status(facts->status, advice.retry_after), &advice);
}

bool rules_status_parse(const char *text, struct rule_status *ret_status)
{
	size_t len = strlen(text);
	int number[2] = {0, 0};

	if (len == 3 && text[0] >= '1' && text[0] <= '9' && strcmp(text + 1, "xx") == 0) {
		ret_status->first = (text[0] - '0') * 100;
		ret_status->last = ret_status->first + 99;
		return true;
	}
	if (len != 3 && !(len == 7 && text[3] == '-'))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (i == 3)
			continue;
		if (!text_is_digit(text[i]))
			return false;
		number[i / 4] = number[i / 4] * 10 + (text[i] - '0');
	}
	if (len == 3)
		number[1] = number[0];
	if (number[0] < 100 || number[1] < number[0])
		return false;
	*ret_status = (struct rule_status){number[0], number[1]};
	return true;
}

bool rules_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len >= REASON_MAX || name[0] < 'a' || name[0] > 'z' || name[len - 1] == '-')
		return false;
	for (size_t i = 1; i < len; i++) {
		bool hyphen = name[i] == '-' && name[i - 1] != '-';

		if (!hyphen && !text_is_digit(name[i]) && (name[i] < 'a' || name[i] > 'z'))
			return false;
	}
	return true;
}
