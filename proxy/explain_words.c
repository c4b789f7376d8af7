#include "proxy/explain_words.h"

#include <stdlib.h>
#include <string.h>

#include "classify/facts.h"
#include "proxy/sfield.h"

#define DAY_S 86400 /* the largest Retry-After towards the app */

static const struct explain_why why_succeeded = {"succeeded", "it is done"};
static const struct explain_why why_input = {"same-input-fails", "the same input cannot succeed"};
static const struct explain_why why_person = {"needs-person",
					      "it waits for a person, or for another credential"};
static const struct explain_why why_never = {"retry-never", "what decided it ends the attempts"};
static const struct explain_why why_spent = {"attempts-spent", "all attempts are spent"};
static const struct explain_why why_window = {"window-over",
					      "the window is over before the next one"};
static const struct explain_why why_unsafe = {
	"not-safe", "it may have been applied, and repeating it is not safe: see safety"};

const struct explain_why *explain_why_not(const struct explanation *e)
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

const char *explain_table_row(const struct explanation *e)
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

const char *explain_rule_name(const struct explanation *e)
{
	return e->rule->name != NULL ? e->rule->name : "rule";
}

const char *explain_safety_name(enum repeat_rule rule)
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

const char *explain_safety_text(const struct explanation *e)
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
				 "that it does not undo a newer request";
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

bool explain_is_made(const struct explanation *e)
{
	return e->answer.answer != ANSWER_REPLY || e->dropped;
}

int explain_status(const struct explanation *e)
{
	if (e->answer.answer == ANSWER_REPLY && !e->dropped)
		return e->facts.status;
	if (e->provider->refusal_status != 0)
		return e->provider->refusal_status;
	return e->answer.answer == ANSWER_REPLY ? e->facts.status : e->answer.status;
}

const char *explain_problem(const struct explanation *e)
{
	if (e->answer.answer == ANSWER_REPLY)
		return e->dropped ? "response-not-retained" : NULL;
	return e->answer.problem;
}

bool explain_retry_after(const struct explanation *e, char text[EXPLAIN_VISIBLE_MAX])
{
	const struct header_view *line = headers_find(&e->input->headers, "Retry-After");
	usec_t seconds = (e->answer.retry_after + USEC_SEC - 1) / USEC_SEC;
	const char *value;
	size_t len;
	usec_t wait = 0;

	if (e->answer.retry_after < 0) {
		if (line == NULL || e->answer.answer != ANSWER_REPLY)
			return false;
		/* What the strict parser does not read may be a large number to the caller's. */
		if (advice_retry_after(line->value, line->value_len, e->input->now, &wait) != 1)
			wait = strtod(line->value, NULL) > DAY_S ? USEC_MAX : 0;
		if (wait <= DAY_S * USEC_SEC) {
			header_value_trim(line->value, line->value_len, &value, &len);
			explain_visible(value, len, text);
			return true;
		}
		seconds = DAY_S;
	}
	(void)snprintf(text, EXPLAIN_VISIBLE_MAX, "%lld",
		       (long long)usec_min(usec_max(seconds, 1), DAY_S));
	return true;
}

bool explain_stops(const struct explanation *e)
{
	return e->answer.retry_after < 0 && e->provider->stop_header != NULL &&
	       (explain_status(e) >= 400 || explain_is_made(e));
}

bool explain_field(const struct explanation *e, char text[EXPLAIN_FIELD_MAX])
{
	static const char plain[] = "status-";
	const struct op *op = &e->op;
	int unresolved = op_set_count(&op->unresolved);
	const char *reason = e->answer.reason;
	struct sfield field;

	if (!e->settles && !explain_is_made(e))
		return false;
	if (reason == NULL && op->reason[0] != '\0' &&
	    (op->class != CLASS_SUCCESS || strncmp(op->reason, plain, strlen(plain)) != 0))
		reason = op->reason;
	sfield_init(&field, text, EXPLAIN_FIELD_MAX);
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
	if (explain_is_made(e))
		sfield_boolean(&field, "made", true);
	if (e->answer.retry_after >= 0)
		sfield_seconds(&field, "next", e->answer.retry_after);
	if (e->verdict.advice > 0)
		sfield_seconds(&field, "advice", e->verdict.advice);
	return true;
}

void explain_visible(const char *text, size_t len, char ret_text[EXPLAIN_VISIBLE_MAX])
{
	size_t used = 0;

	for (size_t i = 0; i < len && used < EXPLAIN_VISIBLE_MAX - 4; i++)
		ret_text[used++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	ret_text[used] = '\0';
	if (used < len)
		memcpy(ret_text + used, "...", sizeof("..."));
}
