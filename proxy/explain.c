#include "proxy/explain.h"

#include <string.h>

#include "budget/schedule.h"
#include "classify/classify.h"
#include "classify/table.h"

static void set_facts(const struct explain_input *input, struct facts *ret_facts)
{
	*ret_facts = (struct facts){
		.method = input->method,
		.path = input->path,
		.status = input->status,
		.fault = input->fault,
		.sent = input->sent,
		.headers = input->headers.items,
		.header_count = input->headers.count,
		.body = input->body,
		.body_len = input->body_len,
		.received_wall = input->now,
	};
}

/* --- the operation ------------------------------------------------------------------------------ */

/* A record with `attempts` charged under the same rule as d's own, none of which was sent: the next
 * one is due. */
static bool make_earlier(const struct delivery *d, int attempts, usec_t now, struct op *op)
{
	const struct policy *policy = d->policy;
	static const uint8_t none[OP_FINGERPRINT_LEN] = {0};
	struct verdict unsent = {
		.class = CLASS_TRANSIENT, .advice = -1, .rule_wait = -1, .fault = FAULT_CONNECT};
	uint8_t token[OP_TOKEN_LEN] = {0};
	struct op_event claim = {.kind = OP_EV_CLAIM,
				 .now = now,
				 .token = token,
				 .instance = d->instance,
				 .repeat = d->repeat,
				 .hold_until = d->answer_by};
	struct op_event settle = {
		.kind = OP_EV_SETTLE, .now = now, .token = token, .verdict = &unsent};
	struct op next;
	unsigned notes;

	memcpy(unsent.reason, "connect", sizeof("connect"));
	op_init(op, policy, none, none, now);
	for (int i = 1; i <= attempts; i++) {
		token[0] = (uint8_t)i; /* at most ATTEMPTS_CEILING */
		if (op_apply(op, policy, &claim, &next, &notes) != OP_CHANGED)
			return false;
		settle.n = op_running(&next);
		if (op_apply(&next, policy, &settle, op, &notes) != OP_CHANGED)
			return false;
	}
	return op->state == OP_READY;
}

static enum delivery_act step(struct delivery *d, struct delivery_event *event,
			      enum delivery_event_kind kind, struct delivery_action *ret_action)
{
	event->kind = kind;
	delivery_step(d, event, ret_action);
	return ret_action->act;
}

static void begin(const struct provider_config *provider, const struct explain_input *input,
		  struct delivery *d)
{
	delivery_init(d, &provider->policy);
	d->safe = op_method_is_safe(input->method);
	d->ledgered = !d->safe;
	d->is_delete = strcmp(input->method, "DELETE") == 0;
	d->repeat = d->safe ? REPEAT_ALWAYS : op_repeat_rule(&provider->policy, input->method);
	d->answer_by = usec_add(input->now, provider->policy.hold);
	d->instance = "explain";
}

/* Takes a delivery through its attempt, up to the settled outcome and what follows from it. */
static bool deliver(const struct provider_config *provider, const struct explain_input *input,
		    const struct verdict *verdict, struct explanation *e)
{
	static const uint8_t token[OP_TOKEN_LEN] = {UINT8_MAX};
	struct delivery *d = &e->delivery;
	struct delivery_event event = {.now = input->now, .token = token, .verdict = verdict};
	struct delivery_action *act = &e->answer;
	struct op earlier;

	begin(provider, input, d);
	if (!make_earlier(d, input->attempts - 1, input->now, &earlier))
		return false;
	if (step(d, &event, DELIVERY_EV_START, act) != DELIVERY_ACT_GATE ||
	    step(d, &event, DELIVERY_EV_GATE_OPEN, act) != DELIVERY_ACT_WRITE)
		return false;
	event.op = &earlier;
	if (input->attempts > 1 && step(d, &event, DELIVERY_EV_RECORD, act) != DELIVERY_ACT_WRITE)
		return false;
	if (step(d, &event, DELIVERY_EV_WRITTEN, act) != DELIVERY_ACT_SEND ||
	    step(d, &event, DELIVERY_EV_OUTCOME, act) != DELIVERY_ACT_WRITE)
		return false;
	e->verdict = d->verdict;
	e->wait = d->settle_wait;
	if (step(d, &event, DELIVERY_EV_WRITTEN, act) == DELIVERY_ACT_WAIT) {
		e->held = true;
		/* What the caller would get if the hold were over: a caller that has ended its side
		 * starts nothing new, and still has its answer. */
		(void)step(d, &event, DELIVERY_EV_HALF, act);
	}
	e->op = d->op;
	return true;
}

/* Whether the operation could not go on if it were not for the safety of repeating it. */
static bool rests_on_safety(const struct explanation *e)
{
	return e->repeats && op_set_count(&e->op.unresolved) > 0;
}

/* --- the provider ------------------------------------------------------------------------------- */

static void tell_gate(const struct provider_config *provider, const struct verdict *verdict,
		      usec_t now, struct explanation *e)
{
	struct gate_outcome outcome = gate_outcome_of(verdict);
	struct gate gate;
	struct gate_answer slot;

	gate_init(&gate, provider->concurrency_limit);
	gate.policy = provider->gate;
	slot = gate_take(&gate, now, USEC_MAX);
	gate_settle(&gate, slot.ticket, &outcome, provider->policy.retry_after_max, now);
	e->block = gate.blocked_until > now ? gate.blocked_until - now : 0;
	e->block_probe = gate.probing;
	e->breaker_failure = outcome.breaker_failure && provider->gate.failures > 0;
}

/* --- all of it ---------------------------------------------------------------------------------- */

static void read_advice(const struct provider_config *provider, const struct facts *facts,
			struct explanation *e)
{
	usec_t cap = provider->policy.retry_after_max;

	classify_advice(facts, &provider->ruleset, e->rule, e->verdict.class, &e->advice);
	e->advice_used = usec_min(e->advice.wait, cap);
	e->advice_capped = e->advice.wait > cap;
}

bool explain(const struct provider_config *provider, const struct explain_input *input,
	     struct explanation *ret_explanation)
{
	struct explanation *e = ret_explanation;
	const struct policy *policy = &provider->policy;
	struct verdict verdict;
	bool needed;

	*e = (struct explanation){.provider = provider, .input = input};
	set_facts(input, &e->facts);
	classify(&e->facts, &provider->ruleset, &verdict);
	e->rule = rules_match(&provider->ruleset, &e->facts);
	if (e->rule != NULL)
		e->rule_number = (size_t)(e->rule - provider->ruleset.rules) + 1;
	needed = rules_need_body(&provider->ruleset, &e->facts);
	e->body_unread = needed && !rules_body_whole(&provider->ruleset, &e->facts);
	if (!deliver(provider, input, &verdict, e))
		return false;
	read_advice(provider, &e->facts, e);
	tell_gate(provider, &verdict, input->now, e);
	/* Of a reply that is not passed on as it comes no more is kept, unless it is looked into. */
	e->dropped =
		e->held && input->body_len > provider->retain_body && (!needed || e->body_unread);
	e->settles = e->delivery.ledgered;
	e->safety = e->delivery.repeat;
	e->repeats = e->op.state == OP_READY;
	e->needs_safety = rests_on_safety(e);
	e->jitter = backoff_jitter(&policy->backoff, input->attempts);
	return true;
}
