#include "proxy/update.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/app.h"

#define TRIES_MAX 100 /* each lost race means that somebody else moved on */

static char *append(char **end, const char *text)
{
	size_t len = strlen(text) + 1;
	char *at = *end;

	memcpy(at, text, len);
	*end += len;
	return at;
}

struct update *update_new(struct app *app, struct loop *loop, const struct op_name *name,
			  const struct policy *policy)
{
	struct update *update = calloc(1, sizeof(*update));
	char *end;

	if (update == NULL)
		return NULL;
	update->name_block = malloc(strlen(name->provider) + strlen(name->tenant) +
				    strlen(name->scope) + strlen(name->key) + 4);
	if (update->name_block == NULL) {
		free(update);
		return NULL;
	}
	end = update->name_block;
	update->name.provider = append(&end, name->provider);
	update->name.tenant = append(&end, name->tenant);
	update->name.scope = append(&end, name->scope);
	update->name.key = append(&end, name->key);
	update->app = app;
	update->loop = loop;
	update->policy = policy;
	update->any_incarnation = true;
	return update;
}

void update_free(struct update *update)
{
	if (update == NULL)
		return;
	ledger_texts_done(&update->texts);
	ledger_reply_unref(update->reply);
	free(update->name_block);
	free(update);
}

static void copy_text(char *to, size_t size, const char *from)
{
	size_t len = strnlen(from, size - 1);

	memcpy(to, from, len);
	to[len] = '\0';
}

void update_set_event(struct update *update, const struct op_event *event,
		      const uint8_t *incarnation)
{
	update->has_event = true;
	update->event = *event;
	if (event->token != NULL) {
		memcpy(update->token, event->token, OP_TOKEN_LEN);
		update->event.token = update->token;
	}
	if (event->verdict != NULL) {
		update->verdict = *event->verdict;
		update->event.verdict = &update->verdict;
	}
	if (event->credential != NULL) {
		memcpy(update->credential, event->credential, OP_CREDENTIAL_LEN);
		update->event.credential = update->credential;
	}
	if (event->remote_id != NULL) {
		copy_text(update->remote_id, sizeof(update->remote_id), event->remote_id);
		update->event.remote_id = update->remote_id;
	}
	if (event->instance != NULL) {
		copy_text(update->instance, sizeof(update->instance), event->instance);
		update->event.instance = update->instance;
	}
	if (incarnation != NULL) {
		memcpy(update->incarnation, incarnation, OP_INCARNATION_LEN);
		update->any_incarnation = false;
	}
}

static void on_answer(struct ledger_request *request);

static void post_answer(struct ledger_request *request)
{
	struct update *update = request->data;

	loop_post(update->loop, &update->task);
}

static void run_task(struct loop_task *task)
{
	struct update *update = CONTAINER_OF(task, struct update, task);

	on_answer(&update->request);
}

static void submit(struct update *update, enum ledger_verb verb)
{
	struct ledger_request *request = &update->request;

	request->verb = verb;
	request->name = update->name;
	request->post = post_answer;
	request->done = on_answer;
	request->data = update;
	update->task.run = run_task;
	ledger_submit(update->app->ledger, request);
}

static void finish(struct update *update, enum update_result result)
{
	ledger_request_done(&update->request);
	update->done(update, result);
}

/* Whether the record ends with the attempt that the event speaks of. */
static bool ends_it(const struct update *update)
{
	const struct op *op = &update->next;
	const struct op_attempt *last = op_find_attempt(op, op->last_n);

	return (op->state == OP_SUCCEEDED || op->state == OP_FAILED) && last != NULL &&
	       memcmp(last->token, update->token, OP_TOKEN_LEN) == 0;
}

static void write_next(struct update *update, bool absent, uint32_t counter)
{
	ledger_request_done(&update->request);
	memset(&update->request, 0, sizeof(update->request));
	update->request.expect_absent = absent;
	update->request.expect_counter = counter;
	update->request.op = &update->next;
	update->request.texts = &update->texts;
	if (update->reply != NULL && ends_it(update)) {
		update->request.reply = update->reply;
		update->next.reply_kept = true;
	}
	submit(update, LEDGER_CHANGE);
}

/* A record is there: apply and write, or say why not. */
static void apply(struct update *update)
{
	struct op found = update->request.found.op;
	enum op_result result;

	if (!update->any_incarnation &&
	    memcmp(found.incarnation, update->incarnation, OP_INCARNATION_LEN) != 0) {
		finish(update, UPDATE_STRANGER);
		return;
	}
	if (++update->tries > TRIES_MAX) {
		finish(update, UPDATE_AWAY);
		return;
	}
	if (!update->has_event) {
		update->next = found;
		update->next.counter++;
		write_next(update, false, found.counter);
		return;
	}
	unsigned notes = 0;

	result = op_apply(&found, update->policy, &update->event, &update->next, &notes);
	if (result != OP_CHANGED) {
		finish(update, result == OP_STRANGER ? UPDATE_STRANGER : UPDATE_NOTHING);
		return;
	}
	if (update->metrics != NULL && (notes & OP_NOTE_DUPLICATE_EFFECT) != 0)
		metrics_add(&update->metrics->duplicate_effects, 1);
	write_next(update, false, found.counter);
}

static void on_answer(struct ledger_request *request)
{
	struct update *update = request->data;
	bool reading = request->verb == LEDGER_GET || request->verb == LEDGER_VOID;

	switch (request->result) {
	case LEDGER_OK:
		if (reading)
			apply(update);
		else
			finish(update, UPDATE_WRITTEN);
		return;
	case LEDGER_CONFLICT:
		apply(update);
		return;
	case LEDGER_ABSENT:
		if (update->insert && reading)
			write_next(update, true, 0);
		else
			finish(update, UPDATE_ABSENT);
		return;
	default:
		finish(update, UPDATE_AWAY);
		return;
	}
}

void update_start(struct update *update)
{
	update->tries = 0;
	memset(&update->request, 0, sizeof(update->request));
	if (!update->has_event || update->event.kind != OP_EV_VOID) {
		submit(update, LEDGER_GET);
		return;
	}
	/* The claim may still be under way: the store remembers its token and refuses it then. */
	memcpy(update->request.incarnation, update->incarnation, OP_INCARNATION_LEN);
	memcpy(update->request.token, update->token, OP_TOKEN_LEN);
	update->request.now = wall_clock_now(&update->app->clock);
	submit(update, LEDGER_VOID);
}
