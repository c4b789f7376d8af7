/* An explanation as JSON; others may depend on the names. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "classify/facts.h"
#include "proxy/explain_words.h"

static json_t *seconds(usec_t value)
{
	return json_real((double)value / (double)USEC_SEC);
}

/* Text that came from outside: bytes that are no UTF-8 become "?". */
static json_t *outside(const char *text, size_t len)
{
	char visible[EXPLAIN_VISIBLE_MAX];
	json_t *as_it_is = json_stringn(text, len);

	if (as_it_is != NULL)
		return as_it_is;
	explain_visible(text, len, visible);
	return json_string(visible);
}

static json_t *json_decided(const struct explanation *e)
{
	if (e->rule != NULL)
		return json_pack("{s:s, s:I}", "rule", explain_rule_name(e), "number",
				 (json_int_t)e->rule_number);
	return json_pack("{s:s}", "table", explain_table_row(e));
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
		return json_pack("{s:b, s:s}", "will", false, "why_not", explain_why_not(e)->name);
	return json_pack("{s:b, s:o, s:o, s:b, s:s}", "will", true, "after", seconds(e->wait),
			 "jitter", seconds(e->jitter), "only_if_safe", e->needs_safety, "by",
			 e->held ? "this-delivery" : "next-delivery");
}

static json_t *json_safety(const struct explanation *e)
{
	bool ends = e->needs_safety && e->op.repeat_until != USEC_MAX;

	return json_pack("{s:s, s:o*}", "rule", explain_safety_name(e->safety), "for",
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
	char field[EXPLAIN_FIELD_MAX], retry_after[EXPLAIN_VISIBLE_MAX];
	bool has_field = explain_field(e, field);
	bool has_retry_after = explain_retry_after(e, retry_after);
	json_t *stop = explain_stops(e) ? json_pack("{s:s, s:s}", "name", e->provider->stop_header,
						    "value", e->provider->stop_value)
					: NULL;

	return json_pack(
		"{s:b, s:i, s:s*, s:s*, s:o*, s:o*}", "held", e->held, "status", explain_status(e),
		"problem", explain_problem(e), "stint", has_field ? field : NULL, "retry_after",
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
