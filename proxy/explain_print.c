/* An explanation as text, and as JSON with names that others may depend on. */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "classify/facts.h"
#include "proxy/config_value.h"
#include "proxy/explain.h"
#include "proxy/sfield.h"

#define DAY_S 86400 /* the largest Retry-After towards the app */
#define STINT_TEXT 512

/* Why no further attempt follows. */
struct why {
	const char *name, *text;
};

static const struct why why_succeeded = {"succeeded", "it is done"};
static const struct why why_input = {"same-input-fails", "the same input cannot succeed"};
static const struct why why_person = {"needs-person",
				      "it waits for a person, or for another credential"};
static const struct why why_never = {"retry-never", "what decided it ends the attempts"};
static const struct why why_spent = {"attempts-spent", "all attempts are spent"};
static const struct why why_window = {"window-over", "the window is over before the next one"};
static const struct why why_unsafe = {
	"not-safe", "it may have been applied, and repeating it is not safe: see safety"};

static const struct why *why_not(const struct explanation *e)
{
	const struct op *op = &e->op;

	switch (op->state) {
	case OP_SUCCEEDED:
		return &why_succeeded;
	case OP_FAILED:
		return &why_input;
	case OP_HELD:
		return &why_person;
	default:
		break;
	}
	if (e->verdict.class == CLASS_INVALID)
		return &why_input;
	if (e->verdict.retry_never)
		return &why_never;
	if (op->attempts >= op->limit)
		return &why_spent;
	if (!op_has_budget(op, &e->provider->policy, usec_add(e->input->now, e->wait)))
		return &why_window;
	return &why_unsafe;
}

/* The row of the default table (design section 5) that the verdict's class came from. */
static const char *table_row(const struct explanation *e)
{
	int status = e->facts.status;
	bool whole = facts_whole(&e->facts);

	switch (e->verdict.class) {
	case CLASS_SUCCESS:
		return "2xx, 3xx";
	case CLASS_AUTH:
		return "401, 403, 407";
	case CLASS_RATE_LIMITED:
		return status == 429 ? "429" : "403 and 413 with Retry-After";
	case CLASS_TRANSIENT:
		if (whole)
			return "408, 421, 423, 425, 511";
		return facts_sent(&e->facts) ? "refused before processing" : "not sent";
	case CLASS_INVALID:
		if (status == 413)
			return "413 without Retry-After";
		return status >= 500 ? "501, 505" : "every 4xx not named elsewhere";
	default:
		if (!whole)
			return "sent and no definite answer";
		return status >= 500 && status <= 599 ? "every other 5xx" : "every other status";
	}
}

/* Not the reason, which advice beyond the cap takes over. */
static const char *rule_name(const struct explanation *e)
{
	return e->rule->name != NULL ? e->rule->name : "rule";
}

static const char *safety_name(enum repeat_rule rule)
{
	switch (rule) {
	case REPEAT_RETENTION:
		return "retention";
	case REPEAT_WITHIN_HOLD:
		return "within-hold";
	case REPEAT_ALWAYS:
		return "always";
	case REPEAT_NEVER:
		break;
	}
	return "never";
}

static const char *safety_text(const struct explanation *e)
{
	switch (e->safety) {
	case REPEAT_RETENTION:
		return "the key is forwarded, and the provider keeps it for a known time";
	case REPEAT_WITHIN_HOLD:
		return e->provider->policy.forwards_key &&
				       !op_method_is_idempotent(e->input->method)
			       ? "the key is forwarded, and nobody knows for how long the provider "
				 "keeps it: within the hold of one delivery"
			       : "the method is idempotent: within the hold of one delivery, so "
				 "that "
				 "it does not undo a newer request";
	case REPEAT_ALWAYS:
		return op_method_is_safe(e->input->method) ? "the method is safe"
							   : "repeat: any-time says so";
	case REPEAT_NEVER:
		break;
	}
	return "no key is forwarded, and the method is not idempotent: never after a possible "
	       "effect";
}

/* --- the answer --------------------------------------------------------------------------------- */

static bool is_made(const struct explanation *e)
{
	return e->answer.answer != ANSWER_REPLY || e->facts.body_truncated;
}

static int answer_status(const struct explanation *e)
{
	if (e->answer.answer == ANSWER_REPLY && !e->facts.body_truncated)
		return e->facts.status;
	if (e->provider->refusal_status != 0)
		return e->provider->refusal_status;
	return e->answer.answer == ANSWER_REPLY ? e->facts.status : e->answer.status;
}

static const char *answer_problem_name(const struct explanation *e)
{
	if (e->answer.answer == ANSWER_REPLY)
		return e->facts.body_truncated ? "response-not-retained" : NULL;
	return e->answer.problem;
}

/* In words or, where the provider's own passes, as it stands there. False: there is none. */
static bool answer_retry_after(const struct explanation *e, char text[VALUE_TEXT])
{
	const struct header_view *line = headers_find(&e->input->headers, "Retry-After");
	usec_t seconds = (e->answer.retry_after + USEC_SEC - 1) / USEC_SEC;
	const char *value;
	size_t len;
	char *rest;

	if (e->answer.retry_after < 0) {
		if (line == NULL || e->answer.answer != ANSWER_REPLY)
			return false;
		header_value_trim(line->value, line->value_len, &value, &len);
		(void)snprintf(text, VALUE_TEXT, "%.*s", len < VALUE_TEXT ? (int)len : 0, value);
		if (!(strtod(text, &rest) > DAY_S && rest != text))
			return true;
		seconds = DAY_S;
	}
	(void)snprintf(text, VALUE_TEXT, "%lld", (long long)usec_min(usec_max(seconds, 1), DAY_S));
	return true;
}

static bool answer_stops(const struct explanation *e)
{
	return e->answer.retry_after < 0 && e->provider->stop_header != NULL &&
	       (answer_status(e) >= 400 || is_made(e));
}

/* The Stint field, as the proxy writes it on this answer of a keyed delivery. False: none. */
static bool answer_field(const struct explanation *e, char text[STINT_TEXT])
{
	static const char plain[] = "status-";
	const struct op *op = &e->op;
	int unresolved = op_set_count(&op->unresolved);
	const char *reason = e->answer.reason;
	struct sfield field;

	if (!e->settles && !is_made(e))
		return false;
	if (reason == NULL && op->reason[0] != '\0' &&
	    (op->class != CLASS_SUCCESS || strncmp(op->reason, plain, strlen(plain)) != 0))
		reason = op->reason;
	sfield_init(&field, text, STINT_TEXT);
	sfield_token(&field, "state", op_state_name(op->state));
	sfield_token(&field, "class", outcome_class_name(op->class));
	sfield_integer(&field, "attempts", op->attempts);
	sfield_integer(&field, "limit", op->limit);
	if (unresolved > 0)
		sfield_integer(&field, "unresolved", unresolved);
	if (reason != NULL)
		sfield_token(&field, "reason", reason);
	if (e->settles)
		sfield_boolean(&field, "replayed", false);
	if (is_made(e))
		sfield_boolean(&field, "made", true);
	if (e->answer.retry_after >= 0)
		sfield_seconds(&field, "next", e->answer.retry_after);
	if (e->verdict.advice > 0)
		sfield_seconds(&field, "advice", e->verdict.advice);
	return true;
}

/* --- as text ------------------------------------------------------------------------------------ */

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

/* What came from outside, without what a terminal would take for commands. */
static void copy_visible(const char *text, size_t len, char ret_text[256])
{
	size_t used = 0;

	for (size_t i = 0; i < len && used < 252; i++)
		ret_text[used++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	ret_text[used] = '\0';
	if (used < len)
		memcpy(ret_text + used, "...", sizeof("..."));
}

static const char *duration(usec_t value, char text[VALUE_TEXT])
{
	value_print_duration(usec_max(value, 0), text);
	return text;
}

static void print_decided(const struct explanation *e, FILE *out)
{
	if (e->rule != NULL)
		row(out, "decided by", "rule %s, number %zu of %s", rule_name(e), e->rule_number,
		    e->provider->name);
	else
		row(out, "decided by", "the default table: %s", table_row(e));
	if (e->body_unread)
		row(out, "body", "longer than inspect.body or retain.body: not looked into");
}

static void print_advice(const struct explanation *e, FILE *out)
{
	char where[256], value[256], wait[VALUE_TEXT], cap[VALUE_TEXT];

	if (e->verdict.rule_wait >= 0)
		row(out, "rule's wait", "%s", duration(e->verdict.rule_wait, wait));
	if (e->advice.where == NULL) {
		row(out, "advice", "none");
		return;
	}
	copy_visible(e->advice.where, e->advice.where_len, where);
	copy_visible(e->advice.text, e->advice.text_len, value);
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
		row(out, "repeated", "no: %s", why_not(e)->text);
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
	row(out, "safety", "%s: %s", safety_name(e->safety), safety_text(e));
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
	char text[STINT_TEXT], retry_after[VALUE_TEXT];
	const char *problem = answer_problem_name(e);

	row(out, "app gets", "%sstatus %d%s%s", e->held ? "if no time is left: " : "",
	    answer_status(e), problem != NULL ? ", urn:stint:" : ", the provider's reply",
	    problem != NULL ? problem : "");
	if (answer_field(e, text))
		row(out, "", "Stint: %s", text);
	if (answer_retry_after(e, retry_after))
		row(out, "", "Retry-After: %s", retry_after);
	if (answer_stops(e))
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

/* --- as JSON ------------------------------------------------------------------------------------ */

static json_t *seconds(usec_t value)
{
	return json_real((double)value / (double)USEC_SEC);
}

/* Text that came from outside: bytes that are no UTF-8 become "?". */
static json_t *outside(const char *text, size_t len)
{
	char visible[256];
	json_t *as_it_is = json_stringn(text, len);

	if (as_it_is != NULL)
		return as_it_is;
	copy_visible(text, len, visible);
	return json_string(visible);
}

static json_t *json_decided(const struct explanation *e)
{
	if (e->rule != NULL)
		return json_pack("{s:s, s:I}", "rule", rule_name(e), "number",
				 (json_int_t)e->rule_number);
	return json_pack("{s:s}", "table", table_row(e));
}

static json_t *json_advice(const struct explanation *e)
{
	const struct advice *a = &e->advice;

	if (a->where == NULL)
		return NULL;
	return json_pack("{s:o, s:o, s:b, s:o*, s:o*, s:b}", "from",
			 outside(a->where, a->where_len), "value", outside(a->text, a->text_len),
			 "invalid", a->invalid, "wait", a->wait > 0 ? seconds(a->wait) : NULL,
			 "used", a->wait > 0 ? seconds(e->advice_used) : NULL, "capped",
			 e->advice_capped);
}

static json_t *json_repeat(const struct explanation *e)
{
	if (!e->repeats)
		return json_pack("{s:b, s:s}", "will", false, "why_not", why_not(e)->name);
	return json_pack("{s:b, s:o, s:o, s:b, s:s}", "will", true, "after", seconds(e->wait),
			 "jitter", seconds(e->jitter), "only_if_safe", e->needs_safety, "by",
			 e->held ? "this-delivery" : "next-delivery");
}

static json_t *json_safety(const struct explanation *e)
{
	bool ends = e->needs_safety && e->op.repeat_until != USEC_MAX;

	return json_pack("{s:s, s:o*}", "rule", safety_name(e->safety), "for",
			 ends ? seconds(e->op.repeat_until - e->input->now) : NULL);
}

static json_t *json_operation(const struct explanation *e)
{
	if (!e->settles)
		return NULL;
	return json_pack("{s:s, s:i, s:i, s:i}", "state", op_state_name(e->op.state), "attempts",
			 e->op.attempts, "limit", e->op.limit, "unresolved",
			 op_set_count(&e->op.unresolved));
}

static json_t *json_answer(const struct explanation *e)
{
	char field[STINT_TEXT], retry_after[VALUE_TEXT];
	bool has_field = answer_field(e, field);
	bool has_retry_after = answer_retry_after(e, retry_after);
	json_t *stop = answer_stops(e) ? json_pack("{s:s, s:s}", "name", e->provider->stop_header,
						   "value", e->provider->stop_value)
				       : NULL;

	return json_pack(
		"{s:b, s:i, s:s*, s:s*, s:o*, s:o*}", "held", e->held, "status", answer_status(e),
		"problem", answer_problem_name(e), "stint", has_field ? field : NULL, "retry_after",
		has_retry_after ? outside(retry_after, strlen(retry_after)) : NULL, "stop", stop);
}

int explain_print_json(const struct explanation *e, FILE *out)
{
	const struct verdict *v = &e->verdict;
	json_t *root = json_pack(
		"{s:s, s:s*, s:s, s:o*, s:s*, s:s, s:s, s:s, s:b, s:o, s:o*, s:o*, s:o, s:o, s:o*, "
		"s:b, s:o*, "
		"s:o}",
		"provider", e->provider->name, "preset", e->provider->preset, "method",
		e->input->method, "status", v->status != 0 ? json_integer(v->status) : NULL,
		"fault", v->fault != FAULT_NONE ? fault_name(v->fault) : NULL, "class",
		outcome_class_name(v->class), "effect", effect_name(v->effect), "reason", v->reason,
		"sent", facts_sent(&e->facts), "decided_by", json_decided(e), "advice",
		json_advice(e), "rule_wait", v->rule_wait >= 0 ? seconds(v->rule_wait) : NULL,
		"repeat", json_repeat(e), "safety", json_safety(e), "block",
		e->block > 0 ? json_pack("{s:o, s:b}", "for", seconds(e->block), "then_probe",
					 e->block_probe)
			     : NULL,
		"breaker_failure", e->breaker_failure, "operation", json_operation(e), "answer",
		json_answer(e));
	char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;

	json_decref(root);
	if (text == NULL)
		return -1;
	(void)fprintf(out, "%s\n", text);
	free(text);
	return 0;
}
