/* What the caller gets: the table of design section 8, with the Stint field on everything that stint
 * makes or that belongs to an operation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classify/advice.h"
#include "proxy/exchange_internal.h"
#include "proxy/log.h"
#include "proxy/problem.h"
#include "proxy/refusal.h"
#include "proxy/sfield.h"

#define STINT_FIELD_MAX 512
#define DETAIL_MAX 384
#define RETRY_AFTER_MAX_S 86400 /* one day: an SDK with a 32-bit timer turns more into a hot loop */

/* Which attempts of a problem's situation come next, said to the person who reads it. */
static const struct {
	const char *problem, *detail;
} details[] = {
	{"in-progress", "Another delivery of this operation is in flight. Deliver it again after "
			"Retry-After: it will be answered from the ledger."},
	{"waiting", "The operation's next attempt is not due yet, or the provider admits none now. "
		    "Deliver it again after Retry-After."},
	{"paused",
	 "Nothing was sent: the provider refused this credential again and again, and it is "
	 "paused. Correct it, or have an operator release one of the operations that are "
	 "held for it."},
	{"key-reuse",
	 "This key already names an operation with another method, target or body. Use "
	 "a new key; to correct the old operation name it in Stint-Corrects."},
	{"exhausted", "All attempts or the time window are spent and nothing was applied. An "
		      "operator may reopen the operation."},
	{"unknown", "An attempt may have been applied and nobody knows. Do not send it again under "
		    "another key: find out, and resolve the operation."},
	{"held", "The provider refused the credentials or the account. Correct that, then deliver "
		 "it again with the new credential, or have an operator release it."},
	{"not-sent", "The request did not reach the provider; nothing was applied."},
	{"unknown-outcome",
	 "The request was sent and its answer was lost: it may have been applied. "
	 "Ask for the operation before anything is repeated."},
	{"response-not-retained", "The operation has ended as its state says; its response is not "
				  "kept any more. Nothing was sent."},
	{"response-head-too-large", "The provider answered with headers over 32 KiB; the operation "
				    "is settled by the status."},
	{"ledger-away", "The ledger does not take this operation now; nothing was sent. Deliver it "
			"again after Retry-After."},
	{"ledger-full", "Too many outcomes of this provider are unknown, or wait to be written; "
			"nothing was sent. Resolve operations first."},
	{"draining", "This instance is shutting down; nothing was sent. Deliver it again."},
};

static const char *detail_of(const char *problem)
{
	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		if (strcmp(details[i].problem, problem) == 0)
			return details[i].detail;
	}
	return NULL;
}

static enum problem_type type_of(const char *problem)
{
	for (int i = 0; i < PROBLEM_COUNT; i++) {
		if (strcmp(problem_name((enum problem_type)i), problem) == 0)
			return (enum problem_type)i;
	}
	return PROBLEM_BAD_REQUEST;
}

static void add_operation(const struct exchange *x, struct sfield *field)
{
	const struct op *op = &x->delivery.op;
	int unresolved = op_set_count(&op->unresolved);

	sfield_token(field, "state", op_state_name(op->state));
	if (op->class != CLASS_NONE)
		sfield_token(field, "class", outcome_class_name(op->class));
	sfield_integer(field, "attempts", op->attempts);
	sfield_integer(field, "limit", op->limit);
	if (unresolved > 0)
		sfield_integer(field, "unresolved", unresolved);
}

/* A plain success needs no reason; "already-gone" does. */
static bool has_reason(const struct op *op)
{
	static const char plain[] = "status-";

	return op->reason[0] != '\0' &&
	       (op->class != CLASS_SUCCESS || strncmp(op->reason, plain, sizeof(plain) - 1) != 0);
}

/* What goes with the answer beside the operation itself. */
struct marks {
	bool replayed, made;
	const char *reason;
	usec_t retry_after; /* -1: none */
};

/* The Stint field (design section 8, "Names"); false: none belongs on this answer. */
static bool stint_field(const struct exchange *x, const struct marks *marks,
			char text[STINT_FIELD_MAX])
{
	const struct delivery *d = &x->delivery;
	struct sfield field;

	if (!x->keyed && !marks->made)
		return false;
	sfield_init(&field, text, STINT_FIELD_MAX);
	if (d->have_op && !x->off)
		add_operation(x, &field);
	if (marks->reason != NULL)
		sfield_token(&field, "reason", marks->reason);
	else if (d->have_op && !x->off && has_reason(&d->op))
		sfield_token(&field, "reason", d->op.reason);
	if (x->keyed)
		sfield_boolean(&field, "replayed", marks->replayed);
	if (marks->made)
		sfield_boolean(&field, "made", true);
	if (marks->retry_after >= 0)
		sfield_seconds(&field, "next", marks->retry_after);
	if (d->started > 0 && d->verdict.advice > 0)
		sfield_seconds(&field, "advice", d->verdict.advice);
	return field.len > 0;
}

static void set_retry_after(struct headers *headers, usec_t retry_after)
{
	char text[24];
	usec_t seconds = (retry_after + USEC_SEC - 1) / USEC_SEC;

	(void)snprintf(text, sizeof(text), "%lld",
		       (long long)usec_min(usec_max(seconds, 1), RETRY_AFTER_MAX_S));
	(void)headers_set(headers, "Retry-After", text);
}

/* Where nothing more is admitted the provider's own Retry-After passes, bounded to one day. */
static void bound_retry_after(const struct exchange *x, struct headers *headers)
{
	const struct header_view *line = headers_find(headers, "Retry-After");
	usec_t wait = 0;

	if (line == NULL)
		return;
	/* What our strict parser does not read may be a large number to the caller's all the same. */
	if (advice_retry_after(line->value, line->value_len, exchange_now(x), &wait) != 1)
		wait = strtod(line->value, NULL) > RETRY_AFTER_MAX_S ? USEC_MAX : 0;
	if (wait > RETRY_AFTER_MAX_S * USEC_SEC)
		set_retry_after(headers, RETRY_AFTER_MAX_S * USEC_SEC);
}

static void mark(const struct exchange *x, int status, const struct marks *marks,
		 struct headers *headers)
{
	char field[STINT_FIELD_MAX];

	if (stint_field(x, marks, field))
		(void)headers_set(headers, "Stint", field);
	if (x->off && !marks->made)
		return;
	if (marks->retry_after >= 0) {
		set_retry_after(headers, marks->retry_after);
		return;
	}
	bound_retry_after(x, headers);
	/* Nothing more is admitted: an SDK that tries again would only be refused. */
	if ((status >= 400 || marks->made) && x->provider->config->stop_header != NULL)
		(void)headers_set(headers, x->provider->config->stop_header,
				  x->provider->config->stop_value);
}

/* --- counting and logging ----------------------------------------------------------------------- */

void exchange_count_result(struct exchange *x, int result)
{
	usec_t boot = clock_boot();
	usec_t hold = x->request != NULL ? boot - x->request->complete : boot - x->began;
	usec_t waited = x->wait_time + (x->wait_since != 0 ? boot - x->wait_since : 0);
	usec_t attempt = x->attempt_time;

	if (x->send != NULL && !x->send->done)
		attempt += boot - x->send->claimed;
	metrics_delivery(&x->provider->metrics, (enum delivery_result)result, hold,
			 usec_max(hold - waited - attempt, 0));
}

static void log_delivery(const struct exchange *x, int status, const char *result,
			 const char *problem)
{
	const struct delivery *d = &x->delivery;
	struct log_line line;

	log_begin(&line, LOG_LEVEL_INFO, "delivery");
	log_text(&line, "provider", x->provider->config->name);
	log_text(&line, "key", x->name.key);
	log_text(&line, "method", x->request->method);
	log_number(&line, "status", status);
	log_text(&line, "result", result);
	log_text(&line, "problem", problem);
	if (d->have_op) {
		log_text(&line, "state", op_state_name(d->op.state));
		log_number(&line, "attempts", d->op.attempts);
		log_number(&line, "unresolved", op_set_count(&d->op.unresolved));
	}
	log_number(&line, "started", d->started);
	log_seconds(&line, "ms", clock_boot() - x->began);
	log_end(&line);
}

/* --- answers ------------------------------------------------------------------------------------ */

static void write_answer(struct exchange *x, int status, const struct headers *headers, char *text,
			 size_t text_len)
{
	struct front_answer answer = {.status = status, .headers = headers};

	answer.text = text;
	answer.text_len = text_len;
	answer.stream_length = answer.head_length = -1;
	answer.close = x->worker->draining;
	front_request_answer(x->request, &answer);
}

/* The refusal as a body with its headers and status, of the operation as far as it is known. */
static char *refuse(struct exchange *x, const char *name, const char *detail, int *status,
		    struct headers *headers, size_t *ret_len)
{
	struct problem problem;

	problem_init(&problem, type_of(name), detail);
	problem.status = *status;
	problem.provider = x->provider->config->name;
	if (x->delivery.have_op && !x->off)
		problem_set_operation(&problem, x->provider->config->name, x->name.key,
				      &x->delivery.op);
	else
		problem.key = x->name.key;
	return refusal_write(x->provider->config, &problem, headers, status, ret_len);
}

static void answer_text(struct exchange *x, const char *name, const char *detail, int status,
			const struct marks *marks, const struct headers *more)
{
	const char *said = detail != NULL ? detail : detail_of(name);
	struct headers headers;
	size_t len = 0;
	char *text;

	headers_init(&headers);
	text = refuse(x, name, said != NULL ? said : name, &status, &headers, &len);
	if (more != NULL && headers_find(more, "Retry-After") != NULL)
		(void)headers_set(&headers, "Retry-After",
				  headers_find(more, "Retry-After")->value);
	mark(x, status, marks, &headers);
	write_answer(x, status, &headers, text, text != NULL ? len : 0);
	headers_done(&headers);
	metrics_refusal(&x->provider->metrics, name);
	exchange_count_result(x, RESULT_REFUSED);
	log_delivery(x, status, "refused", name);
}

void exchange_answer_problem(struct exchange *x, const char *problem, usec_t retry_after,
			     const char *detail)
{
	struct marks marks = {.made = true, .retry_after = retry_after};
	struct problem own;

	problem_init(&own, type_of(problem), NULL);
	x->answered = true;
	if (x->request == NULL || x->caller_gone)
		return;
	answer_text(x, problem, detail != NULL && detail[0] != '\0' ? detail : NULL,
		    problem_status(&own), &marks, NULL);
}

/* A kept reply: this delivery's last one, or the record's. */
static void answer_reply(struct exchange *x, struct ledger_reply *reply, const struct marks *marks)
{
	struct front_answer answer = {.status = reply->status, .reply = reply};
	struct headers headers;

	headers_init(&headers);
	if (headers_parse(reply->head, reply->head_len, &headers) != HEADERS_OK)
		headers_clear(&headers);
	mark(x, reply->status, marks, &headers);
	answer.headers = &headers;
	answer.stream_length = -1;
	answer.head_length = reply->content_length;
	answer.close = x->worker->draining;
	front_request_answer(x->request, &answer);
	headers_done(&headers);
	if (marks->replayed)
		metrics_add(&x->provider->metrics.replays, 1);
	exchange_count_result(x, marks->replayed ? RESULT_REPLAY : RESULT_REPLY);
	log_delivery(x, reply->status, marks->replayed ? "replay" : "reply", NULL);
}

/* The last reply was too long to keep while it might have been followed by another attempt: its
 * status goes out with a problem body. */
static void answer_truncated(struct exchange *x, const struct marks *marks)
{
	struct marks made = *marks;
	struct headers headers;

	made.made = true;
	headers_init(&headers);
	(void)headers_parse(x->last_reply->head, x->last_reply->head_len, &headers);
	answer_text(x, "response-not-retained",
		    "The provider answered with this status; its body was longer than retain.body "
		    "and the attempt might have been repeated, so it was not kept.",
		    x->last_reply->status, &made, &headers);
	headers_done(&headers);
}

/* Nothing was sent because the provider has no address: the reader wants to know which name it was.
 * NULL: that is not why. */
static const char *unresolved_host(const struct exchange *x, const struct delivery_action *act,
				   char ret_detail[DETAIL_MAX])
{
	if (strcmp(act->problem, "not-sent") != 0 || x->delivery.verdict.fault != FAULT_RESOLVE)
		return NULL;
	(void)snprintf(ret_detail, DETAIL_MAX,
		       "The request did not reach the provider, whose host %.255s did not resolve; "
		       "nothing was applied.",
		       x->provider->config->upstream.host);
	return ret_detail;
}

void exchange_answer(struct exchange *x, const struct delivery_action *act)
{
	char detail[DETAIL_MAX];
	struct marks marks = {.reason = act->reason, .retry_after = act->retry_after};

	if (x->request == NULL || x->caller_gone) {
		exchange_count_result(x, RESULT_GONE);
		return;
	}
	if (act->answer == ANSWER_REPLY && x->last_reply != NULL) {
		if (x->last_truncated)
			answer_truncated(x, &marks);
		else
			answer_reply(x, x->last_reply, &marks);
		return;
	}
	if (act->answer == ANSWER_STORED && x->stored_reply != NULL) {
		marks.replayed = true;
		answer_reply(x, x->stored_reply, &marks);
		return;
	}
	marks.made = true;
	if (act->answer == ANSWER_REPLY) {
		/* It was answered, and the reply could not be kept for want of memory. */
		answer_text(x, "response-not-retained", NULL, 502, &marks, NULL);
		return;
	}
	answer_text(x, act->problem, unresolved_host(x, act, detail), act->status, &marks, NULL);
}

void exchange_answer_stream(struct exchange *x)
{
	struct send *s = x->send;
	struct front_answer answer = {.status = s->attempt.status};
	struct marks marks = {.retry_after = -1};
	struct headers headers;

	headers_init(&headers);
	for (size_t i = 0; i < s->kept.count; i++)
		(void)headers_add(&headers, s->kept.items[i].name, s->kept.items[i].name_len,
				  s->kept.items[i].value, s->kept.items[i].value_len);
	mark(x, s->attempt.status, &marks, &headers);
	answer.headers = &headers;
	answer.pull = exchange_pull;
	answer.stream_length = s->attempt.content_length;
	answer.head_length = -1;
	answer.close = x->worker->draining;
	front_request_answer(x->request, &answer);
	headers_done(&headers);
	exchange_count_result(x, RESULT_REPLY);
	log_delivery(x, s->attempt.status, "stream", NULL);
}
