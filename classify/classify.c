#include "classify/classify.h"

#include "classify/advice.h"
#include "classify/facts.h"
#include "classify/rules.h"
#include "classify/table.h"
#include "classify/text.h"

#define REASON_NO_REPLY "no-reply"
#define REASON_NOT_SENT "not-sent"

static void set_reason(struct verdict *verdict, const char *text)
{
	size_t len = strlen(text);

	if (len >= REASON_MAX)
		len = REASON_MAX - 1;
	memcpy(verdict->reason, text, len);
	verdict->reason[len] = '\0';
}

/* "status-503"; a number that no status line can carry is not spelt out. */
static void set_status_reason(struct verdict *verdict, int status, bool replayed)
{
	char text[] = "status-000-replayed";

	if (status < 100 || status > 999) {
		set_reason(verdict, "status-other");
		return;
	}
	text[7] = (char)('0' + status / 100);
	text[8] = (char)('0' + status / 10 % 10);
	text[9] = (char)('0' + status % 10);
	if (!replayed)
		text[10] = '\0';
	set_reason(verdict, text);
}

/* A provider that stored a 5xx for the key gives it again for as long as the key lives. */
static bool stored_reply(const struct facts *facts)
{
	for (size_t i = 0; i < facts->header_count; i++) {
		const struct header_view *line = &facts->headers[i];
		const char *text = line->value;
		size_t len = line->value_len;

		text_trim(&text, &len);
		if (text_equal_nocase(line->name, line->name_len, "Idempotent-Replayed") &&
		    text_equal_nocase(text, len, "true"))
			return true;
	}
	return false;
}

static void by_status(const struct facts *facts, bool retry_after, struct verdict *verdict)
{
	verdict->class = table_status(facts->status, retry_after);
	verdict->retry_never = facts->status >= 500 && stored_reply(facts);
	set_status_reason(verdict, facts->status, verdict->retry_never);
}

static void by_fault(const struct facts *facts, struct verdict *verdict)
{
	bool sent = facts_sent(facts);

	verdict->class = table_fault(facts->fault, sent, facts->status);
	if (facts->fault == FAULT_NONE)
		set_reason(verdict, sent ? REASON_NO_REPLY : REASON_NOT_SENT);
	else
		set_reason(verdict, table_fault_reason(facts->fault, sent ? facts->status : 0));
}

static void by_rule(const struct rule *rule, struct verdict *verdict)
{
	verdict->class = rule->class;
	verdict->retry_never = rule->retry_never;
	verdict->resolves = rule->resolves;
	verdict->rule_wait = rule->wait > 0 ? rule->wait : -1;
	set_reason(verdict, rule->name != NULL ? rule->name : "rule");
}

/* What the provider says in places of its own. When a limit resets is no reason to wait where no
 * limit was met: many providers say it in the headers of every reply. A body that names a wait does
 * so because of the failure that it tells of. */
static void add_own_advice(const struct facts *facts, const struct ruleset *rules,
			   const struct rule *rule, enum outcome_class class, struct advice *advice)
{
	bool asked = rule != NULL && rule->wait_advice;

	if (rules == NULL || !facts_sent(facts))
		return;
	if (class == CLASS_RATE_LIMITED || asked)
		advice_add_sources(facts, rules->sources, rules->source_count, advice);
	if (table_may_repeat(class) && rules_body_whole(rules, facts))
		advice_add_body(facts, rules->sources, rules->source_count, advice);
}

void classify_advice(const struct facts *facts, const struct ruleset *rules,
		     const struct rule *rule, enum outcome_class class, struct advice *ret_advice)
{
	*ret_advice = (struct advice){.wait = -1};
	if (facts_sent(facts))
		advice_read(facts, ret_advice);
	add_own_advice(facts, rules, rule, class, ret_advice);
}

void classify(const struct facts *facts, const struct ruleset *rules, struct verdict *ret_verdict)
{
	struct verdict verdict = {.advice = -1, .rule_wait = -1};
	struct advice advice = {.wait = -1};
	const struct rule *rule = rules_match(rules, facts);

	verdict.status = facts->status;
	verdict.fault = facts->fault;
	/* The headers of an attempt that was not sent are not the provider's. */
	if (facts_sent(facts))
		advice_read(facts, &advice);
	if (rule != NULL)
		by_rule(rule, &verdict);
	else if (facts_whole(facts))
		by_status(facts, advice.retry_after, &verdict);
	else
		by_fault(facts, &verdict);
	verdict.effect = table_effect(verdict.class);
	add_own_advice(facts, rules, rule, verdict.class, &advice);
	verdict.advice = advice.wait;
	verdict.advice_invalid = advice.invalid;
	*ret_verdict = verdict;
}
