/* One attempt: the limits of proxy/upstream_limit.c, the scripted provider, the facts and the verdict
 * of proxy/exchange_attempt.c. Where a limit and the provider's answer meet in one microsecond the
 * answer counts. */
#include "tests/scenario/sim.h"

#include <string.h>

#include "classify/classify.h"

/* --- the script ---------------------------------------------------------------------------------- */

static const struct sim_script *find_script(const struct sim_provider *provider, const char *key)
{
	const struct sim_script *best = NULL;

	for (size_t i = 0; i < provider->script_count; i++) {
		const struct sim_script *script = &provider->scripts[i];

		/* The longest pattern wins, and of equal ones the newest. */
		if (sim_matches(script->pattern, key) &&
		    (best == NULL || strlen(script->pattern) > strlen(best->pattern) ||
		     (strlen(script->pattern) == strlen(best->pattern) &&
		      script->version > best->version)))
			best = script;
	}
	return best;
}

static void pick_step(struct sim *sim, struct sim_delivery *x, struct sim_step *ret_step)
{
	const char *key = x->keyed ? x->record->key : x->request.name;
	const struct sim_script *script = find_script(x->provider, key);
	unsigned *version = x->keyed ? &x->record->script_version : &x->script_version;
	unsigned *at = x->keyed ? &x->record->script_at : &x->script_at;

	memset(ret_step, 0, sizeof(*ret_step));
	ret_step->status = 200;
	if (script == NULL) {
		if (sim->pick != NULL)
			sim->pick(sim, x->provider, ret_step);
		return;
	}
	if (*version != script->version) {
		*version = script->version;
		*at = 0;
	}
	*ret_step = script->steps[*at];
	if (*at + 1 < script->count)
		++*at;
}

/* --- what comes next ----------------------------------------------------------------------------- */

struct happening {
	usec_t at;
	enum fault fault; /* FAULT_NONE: the script's own next thing */
	bool stream;
};

static void limit(struct happening *next, usec_t at, enum fault fault)
{
	if (at < next->at)
		*next = (struct happening){.at = at, .fault = fault};
}

/* The script's own next thing. */
static usec_t natural_at(const struct sim_attempt *a)
{
	switch (a->phase) {
	case ATTEMPT_CONNECTING:
		return a->step.kind == STEP_CONNECT ? USEC_MAX : a->started + a->step.connect;
	case ATTEMPT_SENT:
		return a->step.kind == STEP_SILENT ? USEC_MAX : a->sent_at + a->step.after;
	case ATTEMPT_BODY:
		return a->step.kind == STEP_STALL ? USEC_MAX : a->head_at + a->step.body;
	case ATTEMPT_DONE:
		break;
	}
	return USEC_MAX;
}

static bool can_stream(const struct sim_delivery *x)
{
	const struct sim_attempt *a = x->attempt;

	return a->would_end && !a->streaming && !a->discarding && x->answers == 0 && !x->ended &&
	       !x->caller_gone;
}

static struct happening next_happening(const struct sim_delivery *x)
{
	const struct sim_attempt *a = x->attempt;
	const struct policy *policy = &x->provider->policy;
	struct happening next = {.at = natural_at(a)};

	limit(&next, a->limit, a->limit_fault);
	limit(&next, a->started + policy->attempt_total, FAULT_TOTAL);
	if (a->phase == ATTEMPT_CONNECTING) {
		limit(&next, a->started + policy->attempt_connect, FAULT_CONNECT_TIMEOUT);
		limit(&next, a->unsent_limit, FAULT_DEADLINE);
	} else if (a->phase == ATTEMPT_SENT) {
		limit(&next, a->sent_at + policy->attempt_timeout, FAULT_TIMEOUT);
	} else if (a->step.kind == STEP_STALL) {
		limit(&next, a->head_at + policy->attempt_idle, FAULT_IDLE);
	}
	if (a->phase == ATTEMPT_BODY && can_stream(x) && a->head_at + SIM_STREAM_PAUSE < next.at)
		next = (struct happening){.at = a->head_at + SIM_STREAM_PAUSE, .stream = true};
	if (a->cancel != FAULT_NONE)
		next = (struct happening){.at = 0, .fault = a->cancel};
	return next;
}

static void plan_attempt(struct sim *sim, struct sim_delivery *x)
{
	struct sim_attempt *a = x->attempt;
	usec_t at = usec_min(next_happening(x).at, a->renew_at);

	a->stamp++;
	if (at != USEC_MAX)
		sim_post(sim, at, EVENT_ATTEMPT, x, a->stamp);
}

/* --- verdict ------------------------------------------------------------------------------------- */

static void judge(struct sim *sim, const struct sim_delivery *x, enum fault fault,
		  struct verdict *ret_verdict)
{
	const struct sim_attempt *a = x->attempt;
	struct header_view headers[SIM_HEADERS];
	bool head = a->head_at != 0;
	struct facts facts = {
		.method = x->request.method,
		.path = "/v1/things",
		.status = head ? a->step.status : 0,
		.fault = fault,
		.sent = a->sent,
		.headers = headers,
		.header_count = head ? a->step.header_count : 0,
		.received_wall = head ? a->head_at : sim->now,
	};

	for (size_t i = 0; i < a->step.header_count; i++) {
		headers[i] = (struct header_view){
			.name = a->step.header_name[i],
			.name_len = strlen(a->step.header_name[i]),
			.value = a->step.header_value[i],
			.value_len = strlen(a->step.header_value[i]),
		};
	}
	classify(&facts, x->provider->ruleset.count > 0 ? &x->provider->ruleset : NULL,
		 ret_verdict);
}

/* --- the reply ----------------------------------------------------------------------------------- */

static void keep_reply(struct sim_delivery *x, enum fault fault, const struct verdict *verdict)
{
	struct sim_attempt *a = x->attempt;
	struct sim_reply *reply = &x->last_reply;

	memset(reply, 0, sizeof(*reply));
	reply->retry_after = -1;
	if (a->head_at == 0 || fault != FAULT_NONE || a->streaming || a->discarding)
		return;
	reply->there = true;
	reply->truncated = a->step.large;
	reply->status = a->step.status;
	reply->id = a->reply_id;
	reply->record = x->record;
	reply->retry_after = verdict->advice;
	memcpy(reply->fingerprint, x->d.fingerprint, OP_FINGERPRINT_LEN);
}

static void begin_stream(struct sim *sim, struct sim_delivery *x)
{
	struct sim_attempt *a = x->attempt;

	a->streaming = true;
	sim_exchange_simple(sim, x, DELIVERY_EV_STREAM);
	x->answers++;
	x->answer = (struct sim_answer){
		.there = true,
		.streamed = true,
		.kind = ANSWER_REPLY,
		.at = sim->now,
		.status = a->step.status,
		.retry_after = -1,
		.advice = -1,
		.have_op = x->d.have_op,
		.op = x->d.op,
	};
	x->answer.reply.there = true;
	x->answer.reply.record = x->record;
	memcpy(x->answer.reply.fingerprint, x->d.fingerprint, OP_FINGERPRINT_LEN);
	sim_book_answer(sim, x);
}

static void end_attempt(struct sim *sim, struct sim_delivery *x, enum fault fault)
{
	struct sim_attempt *a = x->attempt;
	struct delivery_event event = {.kind = DELIVERY_EV_OUTCOME, .now = sim->now};
	uint64_t ticket = x->ticket;
	struct verdict verdict;

	if (a->discarding && !x->keyed && fault == FAULT_CALLER && a->head_at != 0 &&
	    a->step.status / 100 == 2)
		fault = FAULT_NONE;
	judge(sim, x, fault, &verdict);
	x->ticket = 0;
	if (ticket != 0)
		sim_gate_settle(sim, x, ticket, &verdict);
	if (a->sent)
		keep_reply(x, fault, &verdict);
	event.random = a->random;
	event.verdict = &verdict;
	event.remote_id =
		fault == FAULT_NONE && a->step.remote_id[0] != '\0' ? a->step.remote_id : NULL;
	sim_trace(sim, "%s attempt %d of %s: %s %s", x->instance->name, x->d.attempt_n,
		  x->request.name, outcome_class_name(verdict.class), verdict.reason);
	sim_book_ended(sim, x);
	a->phase = ATTEMPT_DONE;
	x->attempt = NULL;
	sim_exchange_event(sim, x, &event);
}

/* --- its life ------------------------------------------------------------------------------------ */

static void renew_lease(struct sim *sim, struct sim_delivery *x)
{
	const struct policy *policy = &x->provider->policy;
	struct sim_call *call;

	x->attempt->renew_at = usec_add(sim->now, usec_max(policy->lease / 3, USEC_MS));
	call = sim_call_new(sim, x->instance, x->record, VERB_RENEW);
	call->delivery = x;
	call->renewal = true;
	call->lease_until = usec_add(sim->now, policy->lease);
	memcpy(call->incarnation, x->d.op.incarnation, OP_INCARNATION_LEN);
	memcpy(call->token, x->d.token, OP_TOKEN_LEN);
	x->calls++;
	sim_call_submit(sim, call);
}

/* The connection stands: the pre-request check, and the request. */
static void connected(struct sim *sim, struct sim_delivery *x)
{
	struct sim_attempt *a = x->attempt;

	switch (a->step.kind) {
	case STEP_REFUSED:
		end_attempt(sim, x, FAULT_CONNECT);
		return;
	case STEP_RESOLVE:
		end_attempt(sim, x, FAULT_RESOLVE);
		return;
	case STEP_TLS:
		end_attempt(sim, x, FAULT_TLS);
		return;
	default:
		break;
	}
	if (!delivery_may_send(&x->d, sim->now) || !sim_gate_may_send(sim, x)) {
		end_attempt(sim, x, FAULT_GUARD);
		return;
	}
	a->sent = true;
	a->sent_at = sim->now;
	a->phase = ATTEMPT_SENT;
	sim_book_sent(sim, x);
	plan_attempt(sim, x);
}

static void answered(struct sim *sim, struct sim_delivery *x)
{
	struct sim_attempt *a = x->attempt;
	struct verdict verdict;

	switch (a->step.kind) {
	case STEP_RESET:
		end_attempt(sim, x, FAULT_RESET);
		return;
	case STEP_CLOSED:
		end_attempt(sim, x, FAULT_CLOSED);
		return;
	default:
		break;
	}
	a->head_at = sim->now;
	if (a->step.kind == STEP_HEAD) {
		end_attempt(sim, x, FAULT_HEAD_TOO_LARGE);
		return;
	}
	a->phase = ATTEMPT_BODY;
	judge(sim, x, FAULT_NONE, &verdict);
	a->would_end = delivery_would_end(&x->d, &verdict, sim->now, a->random);
	if (can_stream(x) && (a->step.stream || a->step.large))
		begin_stream(sim, x);
	plan_attempt(sim, x);
}

static void happen(struct sim *sim, struct sim_delivery *x, const struct happening *next)
{
	struct sim_attempt *a = x->attempt;

	if (next->stream) {
		begin_stream(sim, x);
		plan_attempt(sim, x);
		return;
	}
	/* A limit ends the transfer; its owner hears of it one turn of the loop later. */
	if (next->fault != FAULT_NONE && a->cancel == FAULT_NONE) {
		sim_attempt_cancel(sim, x, next->fault);
		return;
	}
	if (next->fault != FAULT_NONE) {
		end_attempt(sim, x, next->fault);
		return;
	}
	switch (a->phase) {
	case ATTEMPT_CONNECTING:
		connected(sim, x);
		return;
	case ATTEMPT_SENT:
		answered(sim, x);
		return;
	default:
		end_attempt(sim, x, a->step.kind == STEP_CUT ? FAULT_CUT : FAULT_NONE);
		return;
	}
}

void sim_attempt_event(struct sim *sim, struct sim_delivery *x)
{
	struct happening next = next_happening(x);

	if (next.at <= sim->now) {
		happen(sim, x, &next);
		return;
	}
	if (x->attempt->renew_at <= sim->now)
		renew_lease(sim, x);
	plan_attempt(sim, x);
}

void sim_attempt_start(struct sim *sim, struct sim_delivery *x, const struct delivery_action *act)
{
	struct sim_attempt *a = sim_alloc(sizeof(*a));

	if (x->d.caller != CALLER_HERE || x->answers > 0)
		sim_fail(sim, "%s: an attempt starts and nobody waits for it", x->request.name);
	a->next = sim->attempts;
	sim->attempts = a;
	x->attempt = a;
	pick_step(sim, x, &a->step);
	a->started = sim->now;
	a->limit = act->limit;
	a->limit_fault = act->limit_is_deadline ? FAULT_DEADLINE : FAULT_TOTAL;
	a->unsent_limit = act->unsent_limit;
	a->random = sim_random(sim);
	a->reply_id = ++sim->replies;
	a->renew_at = USEC_MAX;
	if (x->keyed)
		a->renew_at = usec_add(sim->now, usec_max(x->provider->policy.lease / 3, USEC_MS));
	/* A remainder at or below zero is over before it starts. */
	if (a->limit <= sim->now)
		a->cancel = a->limit_fault;
	plan_attempt(sim, x);
}

void sim_attempt_cancel(struct sim *sim, struct sim_delivery *x, enum fault fault)
{
	if (x->attempt == NULL)
		return;
	x->attempt->cancel = fault;
	plan_attempt(sim, x);
}

void sim_attempt_dropped(struct sim *sim, struct sim_delivery *x)
{
	struct sim_attempt *a = x->attempt;

	if (a == NULL || !a->streaming)
		return;
	a->streaming = false;
	a->discarding = true;
	if (!x->keyed && !x->d.safe && a->step.status / 100 == 2)
		sim_attempt_cancel(sim, x, FAULT_CALLER);
}
