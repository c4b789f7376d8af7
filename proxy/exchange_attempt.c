/* One attempt at the provider: what is sent, how its end is judged, and what that tells the gate, the
 * metrics and the log. Its reply is in exchange_reply.c. */
#include <stdlib.h>
#include <string.h>

#include "classify/classify.h"
#include "proxy/exchange_internal.h"
#include "proxy/log.h"

void exchange_send_free(struct exchange *x)
{
	struct send *s = x->send;

	if (s == NULL)
		return;
	x->send = NULL;
	attempt_done(&s->attempt);
	headers_done(&s->out);
	headers_done(&s->raw);
	headers_done(&s->kept);
	free(s->copy);
	free(s);
}

/* --- verdict ------------------------------------------------------------------------------------ */

void exchange_facts(const struct exchange *x, const struct send *s, struct facts *ret_facts)
{
	const struct attempt *a = &s->attempt;

	*ret_facts = (struct facts){
		.method = a->method,
		.path = x->request->rest,
		.status = a->status,
		.fault = a->fault,
		.sent = a->sent,
		.headers = s->raw.items,
		.header_count = s->raw.count,
		.body = a->buffer,
		.body_len = a->buffer_len,
		.body_truncated = s->truncated || s->streaming || s->discarding || !s->done,
		.received_wall = exchange_now(x) - (clock_boot() - a->head_at),
	};
}

static void judge(struct exchange *x, const struct send *s, struct verdict *ret_verdict)
{
	struct facts facts;

	exchange_facts(x, s, &facts);
	classify(&facts, &x->provider->config->ruleset, ret_verdict);
}

/* Gives the slot back, with what the attempt says about the provider. */
static void settle_gate(struct exchange *x, const struct verdict *verdict)
{
	struct gate_outcome outcome = gate_outcome_of(verdict);
	uint64_t ticket = x->ticket;

	x->ticket = 0;
	if (ticket == 0)
		return;
	/* A plain proxy keeps nobody back for what another was told. */
	if (verdict->fault == FAULT_GUARD || x->off)
		provider_release(x->provider, ticket, exchange_now(x));
	else
		provider_settle(x->provider, ticket, &outcome, exchange_now(x));
}

static void count_attempt(struct exchange *x, const struct send *s, const struct verdict *verdict)
{
	struct provider_metrics *m = &x->provider->metrics;
	const struct attempt *a = &s->attempt;

	if (verdict->fault == FAULT_GUARD)
		return;
	x->attempt_time += a->ended - a->started;
	metrics_attempt(m, verdict->class, verdict->effect, a->ended - a->started);
	if (x->delivery.op.created != 0)
		metrics_observe_time(&m->backlog_age, exchange_now(x) - x->delivery.op.created);
	if (a->hidden_resend)
		metrics_add(&m->hidden_resends, 1);
	if (verdict->advice_invalid)
		metrics_add(&m->retry_after_invalid, 1);
	if (verdict->advice > x->provider->config->policy.retry_after_max)
		metrics_add(&m->retry_after_capped, 1);
}

static void log_attempt(const struct exchange *x, const struct send *s,
			const struct verdict *verdict)
{
	const struct attempt *a = &s->attempt;
	struct log_line line;

	log_begin(&line, LOG_LEVEL_INFO, "attempt");
	log_text(&line, "provider", x->provider->config->name);
	log_text(&line, "key", x->name.key);
	log_text(&line, "method", a->method);
	log_number(&line, "attempt", x->delivery.attempt_n);
	log_text(&line, "class", outcome_class_name(verdict->class));
	log_text(&line, "effect", effect_name(verdict->effect));
	log_text(&line, "reason", verdict->reason);
	if (a->status != 0)
		log_number(&line, "status", a->status);
	if (a->fault != FAULT_NONE) {
		log_text(&line, "fault", fault_name(a->fault));
		log_text(&line, "detail", a->detail);
	}
	log_bool(&line, "sent", a->sent);
	log_seconds(&line, "ms", a->ended - a->started);
	log_end(&line);
}

/* --- its end ----------------------------------------------------------------------------------- */

static void on_done(struct attempt *attempt)
{
	struct send *s = attempt->data;
	struct exchange *x = s->exchange;
	struct delivery_event event = {.kind = DELIVERY_EV_OUTCOME};
	struct verdict verdict;
	char remote_id[OP_KEY_MAX + 1];
	bool streaming = s->streaming;

	s->done = true;
	x->renew_at = x->stream_at = USEC_MAX;
	if (s->discarding && !x->keyed && attempt->fault == FAULT_CALLER &&
	    attempt->status / 100 == 2)
		attempt->fault = FAULT_NONE; /* see exchange_stream_dropped() */
	judge(x, s, &verdict);
	settle_gate(x, &verdict);
	exchange_auth_report(x, &verdict);
	count_attempt(x, s, &verdict);
	log_attempt(x, s, &verdict);
	exchange_reply_remote_id(x, s, remote_id);
	if (x->keyed && verdict.class == CLASS_AUTH)
		exchange_set_credential(x);
	/* Attempts that were not sent are skipped over: the reply before stays the last one. */
	if (attempt->sent)
		exchange_reply_keep(x, s);
	event.random = s->random;
	if (streaming && !x->worker->cut)
		front_stream_ready(x->request);
	else
		exchange_send_free(x);
	event.now = exchange_now(x);
	event.verdict = &verdict;
	event.remote_id = remote_id[0] != '\0' ? remote_id : NULL;
	exchange_event(x, &event);
	exchange_maybe_free(x);
}

/* --- the request -------------------------------------------------------------------------------- */

static bool guard(struct attempt *attempt)
{
	struct send *s = attempt->data;
	struct exchange *x = s->exchange;
	usec_t now = exchange_now(x);

	/* After the drain's cut nothing begins any more. */
	return !x->worker->cut && delivery_may_send(&x->delivery, now) &&
	       provider_may_send(x->provider, x->ticket, now);
}

static ssize_t read_body(struct attempt *attempt, char *buffer, size_t len)
{
	struct send *s = attempt->data;

	return front_request_read(s->exchange->request, buffer, len);
}

static int make_headers(struct exchange *x, struct send *s)
{
	const struct provider_config *config = x->provider->config;
	const struct headers *in = &x->request->headers;
	const char *detail;

	if (headers_filter_request(in->items, in->count, config, &s->out, &detail) != HEADERS_OK)
		return -1;
	if (x->upstream_key != NULL && config->idempotency_header != NULL &&
	    headers_set(&s->out, config->idempotency_header, x->upstream_key) != HEADERS_OK)
		return -1;
	s->attempt.headers = s->out.items;
	s->attempt.header_count = s->out.count;
	return 0;
}

static void set_attempt(struct exchange *x, struct send *s, const struct delivery_action *act)
{
	const struct provider_config *config = x->provider->config;
	const struct front_request *request = x->request;
	struct attempt *a = &s->attempt;

	a->provider = x->provider->config;
	a->method = request->method;
	a->target = request->upstream_target;
	a->has_body = request->has_body;
	if (request->streamed) {
		a->read_body = read_body;
		a->stream_length = request->content_length;
	} else {
		a->body = &request->body;
	}
	a->repeatable = x->delivery.repeat != REPEAT_NEVER;
	a->limit = exchange_boot_at(x, act->limit);
	a->limit_fault = act->limit_is_deadline ? FAULT_DEADLINE : FAULT_TOTAL;
	a->unsent_limit = exchange_boot_at(x, act->unsent_limit);
	a->guard = guard;
	a->on_head = exchange_reply_head;
	a->on_body = exchange_reply_body;
	a->on_done = on_done;
	a->data = s;
	/* One byte more than may be kept or looked into, so that "longer" is seen. */
	a->buffer_max = config->retain_body > config->ruleset.inspect_max
				? config->retain_body + 1
				: config->ruleset.inspect_max + 1;
}

/* Out of memory before anything was sent: an attempt that was not. */
static void fail_unsent(struct exchange *x)
{
	struct facts facts = {.method = x->request->method, .path = x->request->rest};
	struct delivery_event event = {.kind = DELIVERY_EV_OUTCOME};
	struct verdict verdict;

	facts.fault = FAULT_LOCAL;
	classify(&facts, NULL, &verdict); /* no rule speaks of what never left */
	settle_gate(x, &verdict);
	event.now = exchange_now(x);
	event.verdict = &verdict;
	worker_random(x->worker, &event.random, sizeof(event.random));
	exchange_event(x, &event);
}

void exchange_send(struct exchange *x, const struct delivery_action *act)
{
	struct send *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		fail_unsent(x);
		return;
	}
	s->exchange = x;
	headers_init(&s->out);
	headers_init(&s->raw);
	headers_init(&s->kept);
	x->send = s;
	worker_random(x->worker, &s->random, sizeof(s->random));
	if (make_headers(x, s) != 0) {
		exchange_send_free(x);
		fail_unsent(x);
		return;
	}
	set_attempt(x, s, act);
	s->claimed = clock_boot();
	if (x->keyed)
		x->renew_at = usec_add(s->claimed,
				       usec_max(x->provider->config->policy.lease / 3, USEC_MS));
	attempt_start(x->worker->upstream, &s->attempt);
}

void exchange_cancel(struct exchange *x, enum fault fault)
{
	if (x->send != NULL && !x->send->done)
		attempt_cancel(&x->send->attempt, fault);
}
