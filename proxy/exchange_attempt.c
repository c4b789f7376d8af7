/* The provider's side of an exchange: one attempt, its verdict, and its reply, kept or streamed.
 *
 * A reply is kept until it is complete, up to retain.body. If its head already says that it ends
 * the delivery, it streams instead as soon as it turns out longer, pauses for STREAM_PAUSE, or is an
 * event stream. If it does not end the delivery, what is over retain.body is dropped. */
#include <stdlib.h>
#include <string.h>

#include "classify/classify.h"
#include "proxy/exchange_internal.h"
#include "proxy/log.h"

#define STREAM_PAUSE (100 * USEC_MS) /* design section 3, step 7 */
#define STREAM_BUFFER 65536

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

static void set_facts(const struct exchange *x, const struct send *s, struct facts *ret_facts)
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

	set_facts(x, s, &facts);
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

/* --- the reply ---------------------------------------------------------------------------------- */

static void keep_remote_id(const struct exchange *x, const struct send *s,
			   char ret_id[OP_KEY_MAX + 1])
{
	struct key_input input = {
		.headers = s->raw.items,
		.header_count = s->raw.count,
		.body = s->truncated || s->streaming ? NULL : s->attempt.buffer,
		.body_len = s->attempt.buffer_len,
	};
	char detail[256];

	ret_id[0] = '\0';
	if (x->provider->config->has_remote_id && s->head_seen &&
	    key_extract(&x->provider->config->remote_id, 1, &input, ret_id, detail) != KEY_FOUND)
		ret_id[0] = '\0';
}

/* Takes n bytes off the front of the buffer: passed on, or dropped. Of a keyed operation's stream a
 * copy is kept as long as it is within retain.body, to answer later deliveries from. */
static void take(struct exchange *x, struct send *s, size_t n)
{
	struct attempt *a = &s->attempt;
	char *copy;

	if (x->keyed && !s->copy_over && !s->truncated) {
		copy = s->copy_len + n <= x->provider->config->retain_body
			       ? realloc(s->copy, s->copy_len + n + 1)
			       : NULL;
		if (copy != NULL) {
			memcpy(copy + s->copy_len, a->buffer, n);
			s->copy = copy;
			s->copy_len += n;
		} else {
			free(s->copy);
			s->copy = NULL;
			s->copy_over = true;
		}
	}
	attempt_consume(a, n);
}

/* The kept body of a complete stream: the copy, and what nobody has taken yet. False: not kept. */
static bool copy_body(struct exchange *x, struct send *s, char **ret_body, size_t *ret_len)
{
	struct attempt *a = &s->attempt;
	size_t len = s->copy_len + a->buffer_len;
	char *body;

	if (s->copy_over || !x->keyed || len > x->provider->config->retain_body)
		return false;
	body = malloc(len + 1);
	if (body == NULL)
		return false;
	if (s->copy_len > 0)
		memcpy(body, s->copy, s->copy_len);
	if (a->buffer_len > 0)
		memcpy(body + s->copy_len, a->buffer, a->buffer_len);
	*ret_body = body;
	*ret_len = len;
	return true;
}

/* Moves the complete reply out of the attempt; of a stream, which is still being read, a copy. */
static void keep_reply(struct exchange *x, struct send *s)
{
	struct attempt *a = &s->attempt;
	char *head = NULL, *body = NULL;
	size_t head_len = 0, body_len = 0;

	ledger_reply_unref(x->last_reply);
	x->last_reply = NULL;
	x->last_truncated = s->truncated;
	x->last_keeps = false;
	if (a->status == 0 || a->fault != FAULT_NONE)
		return;
	if (s->streaming || s->discarding) {
		if (!copy_body(x, s, &body, &body_len))
			return;
	} else if (!s->truncated) {
		body = a->buffer;
		body_len = a->buffer_len;
		a->buffer = NULL;
		a->buffer_len = a->buffer_cap = 0;
	}
	if (headers_serialise(&s->kept, &head, &head_len) != HEADERS_OK) {
		free(body);
		return;
	}
	x->last_reply = ledger_reply_new(a->status, head, head_len, body, body_len);
	if (x->last_reply == NULL)
		return;
	x->last_keeps = !s->truncated && body_len <= x->provider->config->retain_body;
	x->last_reply->close_delimited = a->close_delimited;
	if (strcmp(a->method, "HEAD") == 0 || a->status == 304)
		x->last_reply->content_length = a->content_length;
}

static bool can_stream(const struct exchange *x, const struct send *s)
{
	return s->would_end && !s->streaming && !s->discarding && !x->answered && !x->ended &&
	       !x->caller_gone;
}

static void begin_stream(struct exchange *x)
{
	struct send *s = x->send;

	x->stream_at = USEC_MAX;
	s->streaming = true;
	s->attempt.buffer_max = STREAM_BUFFER;
	x->answered = true;
	exchange_simple_event(x, DELIVERY_EV_STREAM);
	exchange_answer_stream(x);
	attempt_consume(&s->attempt, 0); /* the bound changed: a paused transfer may go on */
}

void exchange_reply_paused(struct exchange *x)
{
	if (x->send != NULL && !x->send->done && can_stream(x, x->send))
		begin_stream(x);
}

static bool is_event_stream(const struct send *s)
{
	const struct header_view *type = headers_find(&s->raw, "Content-Type");
	static const char name[] = "text/event-stream";

	return type != NULL && type->value_len >= sizeof(name) - 1 &&
	       strncasecmp(type->value, name, sizeof(name) - 1) == 0;
}

static void watch_pause(struct exchange *x, const struct send *s)
{
	if (!can_stream(x, s))
		return;
	x->stream_at = usec_add(clock_boot(), STREAM_PAUSE);
	exchange_arm_timer(x);
}

/* What the reply would mean if it ended as it stands; a rule that reads the body waits for it. */
static void judge_head(struct exchange *x, struct send *s)
{
	const struct ruleset *rules = &x->provider->config->ruleset;
	struct verdict verdict;
	struct facts facts;

	set_facts(x, s, &facts);
	s->inspecting = rules_need_body(rules, &facts) && !is_event_stream(s) &&
			s->attempt.buffer_len <= rules->inspect_max;
	classify(&facts, rules, &verdict);
	s->would_end = !s->inspecting &&
		       delivery_would_end(&x->delivery, &verdict, exchange_now(x), s->random);
}

static void on_head(struct attempt *attempt)
{
	struct send *s = attempt->data;
	struct exchange *x = s->exchange;

	if (headers_parse(attempt->head, attempt->head_len, &s->raw) != HEADERS_OK ||
	    headers_filter_reply(s->raw.items, s->raw.count, &s->kept) != HEADERS_OK) {
		/* A head that cannot be passed on safely: nothing it says is believed. */
		attempt_cancel(attempt, FAULT_PROTOCOL);
		return;
	}
	s->head_seen = true;
	judge_head(x, s);
	if (can_stream(x, s) &&
	    (is_event_stream(s) ||
	     attempt->content_length > (int64_t)x->provider->config->retain_body) &&
	    strcmp(attempt->method, "HEAD") != 0) {
		begin_stream(x);
		return;
	}
	watch_pause(x, s);
}

static void on_body(struct attempt *attempt)
{
	struct send *s = attempt->data;
	struct exchange *x = s->exchange;

	if (s->streaming) {
		front_stream_ready(x->request);
		return;
	}
	if (s->discarding) {
		take(x, s, attempt->buffer_len);
		return;
	}
	if (s->inspecting && attempt->buffer_len > x->provider->config->ruleset.inspect_max)
		judge_head(x, s); /* too long to be looked into: the status alone decides */
	if ((s->inspecting || attempt->buffer_len <= x->provider->config->retain_body) &&
	    !s->truncated) {
		watch_pause(x, s);
		return;
	}
	if (can_stream(x, s)) {
		begin_stream(x);
		return;
	}
	s->truncated = true;
	attempt_consume(attempt, attempt->buffer_len);
}

/* What the caller's stream reads; see front_answer.pull. */
ssize_t exchange_pull(struct front_request *request, char *buffer, size_t max)
{
	struct exchange *x = request->data;
	struct send *s = x->send;
	ssize_t n;

	if (s == NULL)
		return -2;
	n = (ssize_t)(s->attempt.buffer_len < max ? s->attempt.buffer_len : max);
	if (n > 0) {
		memcpy(buffer, s->attempt.buffer, (size_t)n);
		take(x, s, (size_t)n);
		return n;
	}
	if (!s->done)
		return 0;
	n = s->attempt.complete && s->attempt.fault == FAULT_NONE ? -1 : -2;
	exchange_send_free(x);
	exchange_maybe_free(x);
	return n;
}

void exchange_stream_dropped(struct exchange *x)
{
	struct send *s = x->send;

	if (s == NULL || !s->streaming)
		return;
	s->streaming = false;
	s->discarding = true;
	if (s->done) {
		exchange_send_free(x);
		exchange_maybe_free(x);
		return;
	}
	/* An unkeyed unsafe request runs to its end, but not for a 2xx stream that nobody reads: it
	 * is cancelled and not recorded. A keyed one runs to its end, and a safe one is cancelled by
	 * the machine. */
	if (!x->keyed && !x->delivery.safe && s->attempt.status / 100 == 2)
		attempt_cancel(&s->attempt, FAULT_CALLER);
	else
		take(x, s, s->attempt.buffer_len);
}

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
	keep_remote_id(x, s, remote_id);
	if (x->keyed && verdict.class == CLASS_AUTH)
		exchange_set_credential(x);
	/* Attempts that were not sent are skipped over: the reply before stays the last one. */
	if (attempt->sent)
		keep_reply(x, s);
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
	a->on_head = on_head;
	a->on_body = on_body;
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
