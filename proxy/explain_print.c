/* An explanation as text. */
#include <stdarg.h>

#include "proxy/config_value.h"
#include "proxy/explain_words.h"

__attribute__((format(printf, 3, 4))) static void row(FILE *out, const char *name,
						      const char *format, ...)
{
	va_list arguments;

	(void)fprintf(out, "%-12s", name);
	va_start(arguments, format);
	(void)vfprintf(out, format, arguments);
	va_end(arguments);
	(void)fputc('\n', out);
}

static const char *duration(usec_t value, char text[VALUE_TEXT])
{
	value_print_duration(usec_max(value, 0), text);
	return text;
}

static void print_decided(const struct explanation *e, FILE *out)
{
	if (e->rule != NULL)
		row(out, "decided by", "rule %s, number %zu of %s", explain_rule_name(e),
		    e->rule_number, e->provider->name);
	else
		row(out, "decided by", "the default table: %s", explain_table_row(e));
	if (e->body_unread)
		row(out, "body", "longer than inspect.body: not looked into");
}

static void print_advice(const struct explanation *e, FILE *out)
{
	char where[EXPLAIN_VISIBLE_MAX], value[EXPLAIN_VISIBLE_MAX], wait[VALUE_TEXT],
		cap[VALUE_TEXT];

	if (e->verdict.rule_wait >= 0)
		row(out, "rule's wait", "%s", duration(e->verdict.rule_wait, wait));
	if (e->advice.where == NULL) {
		row(out, "advice", "none");
		return;
	}
	explain_visible(e->advice.where, e->advice.where_len, where);
	explain_visible(e->advice.text, e->advice.text_len, value);
	if (e->advice.wait < 0)
		row(out, "advice", "%s: %s, %s", where, value,
		    e->advice.invalid ? "unreadable or past, so none" : "no wait");
	else if (e->advice_capped)
		row(out, "advice", "%s: %s, which is %s, over retry_after.max of %s", where, value,
		    duration(e->advice.wait, wait),
		    duration(e->provider->policy.retry_after_max, cap));
	else
		row(out, "advice", "%s: %s, which is %s", where, value,
		    duration(e->advice.wait, wait));
}

static void print_repeat(const struct explanation *e, FILE *out)
{
	char wait[VALUE_TEXT], jitter[VALUE_TEXT], hold[VALUE_TEXT];

	if (!e->repeats) {
		row(out, "repeated", "no: %s", explain_why_not(e)->text);
	} else {
		row(out, "repeated", "%safter %s, jitter up to %s",
		    e->needs_safety ? "only while repeating is safe, " : "",
		    duration(e->wait, wait), duration(e->jitter, jitter));
		duration(e->provider->policy.hold, hold);
		if (e->held)
			row(out, "", "by this delivery, which waits for it (hold %s)", hold);
		else
			row(out, "", "by the next delivery: the wait is longer than the hold of %s",
			    hold);
	}
	row(out, "safety", "%s: %s", explain_safety_name(e->safety), explain_safety_text(e));
	if (e->needs_safety && e->op.repeat_until != USEC_MAX)
		row(out, "", "for %s from now", duration(e->op.repeat_until - e->input->now, wait));
}

static void print_provider(const struct explanation *e, FILE *out)
{
	char wait[VALUE_TEXT];

	if (e->block > 0)
		row(out, "provider", "blocked for %s, for all its operations%s",
		    duration(e->block, wait),
		    e->block_probe ? "; then one probe decides whether it opens" : "");
	else
		row(out, "provider", "not blocked");
	if (e->breaker_failure)
		row(out, "", "counts as a failure towards its breaker");
}

static void print_answer(const struct explanation *e, FILE *out)
{
	char text[EXPLAIN_FIELD_MAX], retry_after[EXPLAIN_VISIBLE_MAX];
	const char *problem = explain_problem(e);

	row(out, "app gets", "%sstatus %d%s%s", e->held ? "if no time is left: " : "",
	    explain_status(e), problem != NULL ? ", urn:stint:" : ", the provider's reply",
	    problem != NULL ? problem : "");
	if (explain_field(e, text))
		row(out, "", "Stint: %s", text);
	if (explain_retry_after(e, retry_after))
		row(out, "", "Retry-After: %s", retry_after);
	if (explain_stops(e))
		row(out, "", "%s: %s", e->provider->stop_header, e->provider->stop_value);
}

void explain_print(const struct explanation *e, FILE *out)
{
	int unresolved = op_set_count(&e->op.unresolved);

	row(out, "class", "%s", outcome_class_name(e->verdict.class));
	row(out, "effect", "%s", effect_name(e->verdict.effect));
	row(out, "reason", "%s", e->verdict.reason);
	print_decided(e, out);
	print_advice(e, out);
	print_repeat(e, out);
	print_provider(e, out);
	if (e->settles)
		row(out, "operation", "%s, attempt %d of %d%s", op_state_name(e->op.state),
		    e->op.attempts, e->op.limit,
		    unresolved > 0 ? ", its outcome is unresolved" : "");
	else
		row(out, "operation", "%s is safe: nothing is recorded", e->input->method);
	print_answer(e, out);
}
