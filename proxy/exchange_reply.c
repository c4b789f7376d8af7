/* A reply on its way to the caller.
 *
 * It is kept until it is complete, up to retain.body. If its head already says that it ends the
 * delivery, it streams instead as soon as it turns out longer, pauses for STREAM_PAUSE, or is an event
 * stream. If it does not end the delivery, what is over retain.body is dropped. */
#include <stdlib.h>
#include <string.h>

#include "classify/classify.h"
#include "proxy/exchange_internal.h"

#define STREAM_PAUSE (100 * USEC_MS) /* design section 3, step 7 */
#define STREAM_BUFFER 65536

void exchange_reply_remote_id(const struct exchange *x, const struct send *s,
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
void exchange_reply_keep(struct exchange *x, struct send *s)
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

	exchange_facts(x, s, &facts);
	s->inspecting = rules_need_body(rules, &facts) && !is_event_stream(s) &&
			s->attempt.buffer_len <= rules->inspect_max;
	classify(&facts, rules, &verdict);
	s->would_end = !s->inspecting &&
		       delivery_would_end(&x->delivery, &verdict, exchange_now(x), s->random);
}

void exchange_reply_head(struct attempt *attempt)
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
	/* All of it is there and is kept: its end is a moment away and judges it. */
	if (attempt->complete && attempt->buffer_len <= x->provider->config->retain_body)
		return;
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

void exchange_reply_body(struct attempt *attempt)
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
