/* The ledger's side of an exchange. Each call is a block of its own with one completion on the
 * worker's thread; the machine has at most one that it waits for, renewals beside it. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/exchange_internal.h"
#include "proxy/log.h"
#include "proxy/pending.h"
#include "proxy/target.h"
#include "proxy/timefmt.h"

struct call {
	struct ledger_request request;
	struct loop_task task;
	struct exchange *exchange;
	enum delivery_write write;
	bool renewal;
	struct op op; /* what is written */
	struct ledger_texts texts;
	char kind[TARGET_KIND_MAX];
	char note[160];
};

static void on_call(struct loop_task *task);

static void post_call(struct ledger_request *request)
{
	struct call *call = request->data;

	loop_post(&call->exchange->worker->loop, &call->task);
}

static struct call *call_new(struct exchange *x)
{
	struct call *call = calloc(1, sizeof(*call));

	if (call == NULL)
		return NULL;
	call->exchange = x;
	call->task.run = on_call;
	call->request.name = x->name;
	call->request.post = post_call;
	call->request.data = call;
	return call;
}

static void call_submit(struct call *call)
{
	call->exchange->calls++;
	ledger_submit(call->exchange->worker->app->ledger, &call->request);
}

static void call_free(struct call *call)
{
	ledger_request_done(&call->request);
	free(call);
}

/* --- what comes back ---------------------------------------------------------------------------- */

/* The record as it was found carries the texts and the reply that later steps need. */
static int take_found(struct exchange *x, struct ledger_row *found)
{
	x->delivery.op.generation = found->op.generation;
	if (found->reply != NULL) {
		ledger_reply_unref(x->stored_reply);
		x->stored_reply = found->reply;
		found->reply = NULL;
	}
	if (x->delivery.phase == DELIVERY_SETTLE || x->delivery.phase == DELIVERY_VOID)
		return 0;
	if (found->op.state == OP_HELD)
		exchange_set_credential(x);
	return exchange_set_upstream_key(x, &found->texts);
}

/* The number may be another claim's by now (a struck attempt's is given again); the token is not. */
static bool is_own_end(const struct exchange *x, const struct op *op)
{
	const struct op_attempt *last = op_find_attempt(op, op->last_n);

	return (op->state == OP_SUCCEEDED || op->state == OP_FAILED) && x->delivery.started > 0 &&
	       last != NULL && memcmp(last->token, x->delivery.token, OP_TOKEN_LEN) == 0;
}

struct ledger_reply *exchange_record_reply(const struct exchange *x, const struct op *op)
{
	if (!is_own_end(x, op))
		return x->stored_reply;
	return x->last_keeps ? x->last_reply : NULL;
}

/* A settle that the store would not take stays in memory and is tried until it does. What has no key
 * is not refused while that memory is full, so its outcomes are dropped instead. */
static void keep_settle(struct exchange *x, const struct call *call)
{
	struct delivery *d = &x->delivery;
	struct op_event event;
	struct update *update;

	if (!x->keyed && pending_is_full(x->worker->app->pending)) {
		metrics_add(&x->provider->metrics.unknown_dropped, 1);
		log_message(LOG_LEVEL_ERROR, "outcome-lost", "provider=%s unkeyed, too many wait",
			    x->name.provider);
		return;
	}
	update = update_new(x->worker->app, &x->worker->app->control, &x->name,
			    &x->provider->config->policy);
	if (update == NULL) {
		log_message(LOG_LEVEL_ERROR, "outcome-lost", "provider=%s out of memory",
			    x->name.provider);
		return;
	}
	delivery_settle_event(d, &d->proposal, exchange_now(x), &event);
	update_set_event(update, &event, d->proposal.incarnation);
	update->metrics = &x->provider->metrics;
	if (!x->keyed) { /* nothing is in the ledger yet */
		update->insert = true;
		update->has_event = false;
		update->texts.method = strdup(x->request->method);
		update->texts.target = strdup(call->kind);
	}
	update->next = d->proposal;
	if (is_own_end(x, &d->proposal) && x->last_reply != NULL && x->last_keeps)
		update->reply = ledger_reply_ref(x->last_reply);
	pending_add(x->worker->app->pending, update);
}

static void count_settle(struct exchange *x)
{
	struct delivery *d = &x->delivery;

	if ((d->notes & OP_NOTE_DUPLICATE_EFFECT) != 0)
		metrics_add(&x->provider->metrics.duplicate_effects, 1);
	if (d->proposal.state == OP_SUCCEEDED)
		metrics_observe(&x->provider->metrics.attempts_per_success,
				(uint64_t)d->proposal.attempts);
}

static void log_away(const struct exchange *x, const struct call *call)
{
	log_message(LOG_LEVEL_WARN, "ledger-away", "provider=%s verb=%d %s", x->name.provider,
		    (int)call->request.verb,
		    call->request.error != NULL ? call->request.error : "");
}

static void on_written(struct exchange *x, const struct call *call)
{
	if (call->write == WRITE_SETTLE)
		count_settle(x);
	if (call->write == WRITE_CLAIM && x->request != NULL &&
	    x->request->hints.corrects[0] != '\0' && !x->corrects_noted)
		exchange_note_corrects(x);
}

static void on_call(struct loop_task *task)
{
	struct call *call = CONTAINER_OF(task, struct call, task);
	struct exchange *x = call->exchange;
	struct delivery_event event = {.now = exchange_now(x)};

	x->calls--;
	if (call->renewal) {
		/* Refused: the lease was taken away meanwhile, and the outcome will be late truth. */
		if (call->request.result == LEDGER_OK && x->delivery.phase == DELIVERY_SEND)
			x->delivery.op.lease_until = call->request.lease_until;
		call_free(call);
		exchange_maybe_free(x);
		return;
	}
	switch (call->request.result) {
	case LEDGER_OK:
		if (call->request.verb == LEDGER_GET) {
			event.kind = DELIVERY_EV_RECORD;
			event.op = &call->request.found.op;
			if (take_found(x, &call->request.found) != 0)
				event.kind = DELIVERY_EV_AWAY;
		} else {
			event.kind = DELIVERY_EV_WRITTEN;
			on_written(x, call);
		}
		break;
	case LEDGER_CONFLICT:
		event.kind = DELIVERY_EV_RECORD;
		event.op = &call->request.found.op;
		if (take_found(x, &call->request.found) != 0)
			event.kind = DELIVERY_EV_AWAY;
		break;
	case LEDGER_ABSENT:
		event.kind = DELIVERY_EV_ABSENT;
		break;
	default:
		event.kind = DELIVERY_EV_AWAY;
		log_away(x, call);
		if (call->write == WRITE_SETTLE && call->request.verb != LEDGER_GET)
			keep_settle(x, call);
		else if (call->request.verb == LEDGER_CLAIM || call->write == WRITE_VOID)
			exchange_void_later(x);
		break;
	}
	exchange_event(x, &event);
	call_free(call);
	exchange_maybe_free(x);
}

/* --- what goes out ------------------------------------------------------------------------------ */

static void fail_call(struct exchange *x)
{
	exchange_simple_event(x, DELIVERY_EV_AWAY);
}

void exchange_read(struct exchange *x)
{
	struct call *call = call_new(x);

	if (call == NULL) {
		fail_call(x);
		return;
	}
	call->request.verb = LEDGER_GET;
	call_submit(call);
}

/* The texts of a new record. */
static void set_texts(struct exchange *x, struct call *call)
{
	struct front_request *request = x->request;

	target_redact(request->rest, &x->worker->app->config->redact_query, call->kind,
		      sizeof(call->kind));
	call->texts.method = request->method;
	call->texts.target = call->kind;
	call->texts.upstream_key = x->upstream_key;
	call->texts.corrects = request->hints.corrects[0] != '\0' ? request->hints.corrects : NULL;
	call->request.texts = &call->texts;
}

/* An unkeyed request that may have been applied is recorded under a generated id. */
static int name_unkeyed(struct exchange *x)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t random[12];
	char key[sizeof("unkeyed-") + 2 * sizeof(random)];
	size_t len = strlen("unkeyed-");

	if (x->name_block != NULL)
		return 0;
	worker_random(x->worker, random, sizeof(random));
	memcpy(key, "unkeyed-", len);
	for (size_t i = 0; i < sizeof(random); i++) {
		key[len++] = digits[random[i] >> 4];
		key[len++] = digits[random[i] & 15];
	}
	key[len] = '\0';
	x->name_block = strdup(key);
	if (x->name_block == NULL)
		return -1;
	x->name.provider = x->provider->config->name;
	x->name.tenant = x->name.scope = "";
	x->name.key = x->name_block;
	return 0;
}

static enum ledger_verb verb_of(enum delivery_write write)
{
	switch (write) {
	case WRITE_CLAIM:
		return LEDGER_CLAIM;
	case WRITE_SETTLE:
		return LEDGER_SETTLE;
	default:
		return LEDGER_CHANGE;
	}
}

static void set_note(struct exchange *x, struct call *call)
{
	char at[TIMEFMT_MAX];

	if (!x->delivery.released_by_credential)
		return;
	timefmt_rfc3339(exchange_now(x), at);
	(void)snprintf(call->note, sizeof(call->note),
		       "{\"kind\":\"operator\",\"at\":\"%s\",\"after\":%d,\"action\":\"release\","
		       "\"reason\":\"another credential\"}",
		       at, x->delivery.proposal.attempts);
	call->request.note = call->note;
}

/* The reply goes with the settle that ends the operation; one that another attempt left in the record
 * stays there as long as that attempt's end stands. */
static void set_reply(const struct exchange *x, const struct delivery_action *act,
		      struct call *call)
{
	bool own = is_own_end(x, &call->op);

	if (act->write == WRITE_SETTLE && own && x->last_keeps)
		call->request.reply = x->last_reply;
	if (call->request.reply != NULL)
		call->op.reply_kept = true;
	else if (own || !op_is_terminal(&call->op))
		call->op.reply_kept = false;
}

void exchange_write(struct exchange *x, const struct delivery_action *act)
{
	struct delivery *d = &x->delivery;
	bool unkeyed = !x->keyed;
	struct call *call;

	if (unkeyed) {
		d->proposal.unkeyed = true;
		if (name_unkeyed(x) != 0) {
			fail_call(x);
			return;
		}
	}
	call = call_new(x);
	if (call == NULL) {
		fail_call(x); /* the lease's expiry settles what was sent, as possible */
		return;
	}
	/* A settle that the sweep overtook does not hold the lease any more: compare and swap. */
	call->request.verb = verb_of(act->write);
	if (act->write == WRITE_SETTLE && (act->expect_absent || d->op.state != OP_ATTEMPTING ||
					   memcmp(d->op.token, d->token, OP_TOKEN_LEN) != 0))
		call->request.verb = LEDGER_CHANGE;
	call->write = act->write;
	call->op = d->proposal;
	call->request.op = &call->op;
	call->request.expect_absent = act->expect_absent;
	call->request.expect_counter = d->stored_counter;
	call->request.now = exchange_now(x);
	memcpy(call->request.incarnation, d->proposal.incarnation, OP_INCARNATION_LEN);
	memcpy(call->request.token, d->token, OP_TOKEN_LEN);
	if (act->expect_absent && x->request != NULL)
		set_texts(x, call);
	set_reply(x, act, call);
	d->proposal.reply_kept = call->op.reply_kept;
	set_note(x, call);
	if (x->worker->app->ledger == NULL) {
		/* Without a key it went out all the same; its outcome waits for the ledger. */
		keep_settle(x, call);
		call_free(call);
		fail_call(x);
		return;
	}
	call_submit(call);
}

void exchange_renew(struct exchange *x)
{
	const struct policy *policy = &x->provider->config->policy;
	struct call *call;

	if (!x->keyed || x->send == NULL || x->send->done || x->delivery.phase != DELIVERY_SEND)
		return;
	x->renew_at = usec_add(clock_boot(), usec_max(policy->lease / 3, USEC_MS));
	call = call_new(x);
	if (call == NULL)
		return; /* the next one may fit */
	call->renewal = true;
	call->request.verb = LEDGER_RENEW;
	call->request.lease_until = usec_add(exchange_now(x), policy->lease);
	memcpy(call->request.incarnation, x->delivery.op.incarnation, OP_INCARNATION_LEN);
	memcpy(call->request.token, x->delivery.token, OP_TOKEN_LEN);
	call_submit(call);
}

void exchange_void_later(struct exchange *x)
{
	struct op_event event = {.kind = OP_EV_VOID, .now = exchange_now(x)};
	struct update *update = update_new(x->worker->app, &x->worker->app->control, &x->name,
					   &x->provider->config->policy);

	if (update == NULL)
		return; /* the lease's expiry settles it, as possible */
	event.token = x->delivery.token;
	update_set_event(update, &event, x->delivery.proposal.incarnation);
	pending_add(x->worker->app->pending, update);
}

void exchange_note_corrects(struct exchange *x)
{
	struct op_name old = x->name;
	struct update *update;

	x->corrects_noted = true;
	old.key = x->request->hints.corrects;
	if (strcmp(old.key, x->name.key) == 0)
		return;
	update = update_new(x->worker->app, &x->worker->app->control, &old,
			    &x->provider->config->policy);
	if (update == NULL)
		return;
	update->texts.corrected_by = strdup(x->name.key);
	pending_add(x->worker->app->pending, update);
}
