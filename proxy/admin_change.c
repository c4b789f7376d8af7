/* POST /v1/operations/{provider}/{key}/release: the record is read, compared with the version that
 * the person saw, moved by the one function that moves operations, and written where nobody was
 * faster. Nothing is sent by it: the operation goes on with its next delivery. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/admin_json.h"
#include "proxy/admin_private.h"
#include "proxy/log.h"
#include "proxy/timefmt.h"

/* What is done, by its name in the path, the history and the log. */
struct action {
	const char *name;
	enum op_event_kind event;
	const char *refused; /* said where the state does not allow it */
};

/* --- the order ----------------------------------------------------------------------------------- */

/* A text for people: not empty, of one line, bounded. */
static bool is_line(const char *text, size_t max)
{
	size_t len = strlen(text);

	if (len > max || strspn(text, " ") == len)
		return false;
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	}
	return true;
}

static const char *strange_member(const json_t *body)
{
	static const char *const known[] = {"version", "actor", "reason"};
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)body, name, value)
	{
		size_t i = 0;

		while (i < 3 && strcmp(name, known[i]) != 0)
			i++;
		if (i == 3 || !json_is_string(value))
			return name;
	}
	return NULL;
}

/* Reads the body into the order. False: *ret_result is what became of the request. */
static bool read_order(struct admin_request *request, struct admin_order *order,
		       enum MHD_Result *ret_result)
{
	char detail[ADMIN_DETAIL_MAX];
	const char *strange;

	order->body = json_loadb(request->body != NULL ? request->body : "", request->body_len,
				 JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(order->body)) {
		*ret_result = admin_reply_bad(
			request, "The body must be one JSON object: version, actor and reason");
		return false;
	}
	strange = strange_member(order->body);
	if (strange != NULL) {
		(void)snprintf(
			detail, sizeof(detail),
			"%.64s in the body: there are version, actor and reason, all of them "
			"texts",
			strange);
		*ret_result = admin_reply_bad(request, detail);
		return false;
	}
	order->version = json_string_value(json_object_get(order->body, "version"));
	order->actor = json_string_value(json_object_get(order->body, "actor"));
	order->reason = json_string_value(json_object_get(order->body, "reason"));
	if (order->version == NULL) {
		*ret_result =
			admin_reply_blank(request, MHD_HTTP_PRECONDITION_REQUIRED,
					  "Send the version of the operation as it was read, so "
					  "that nothing is changed that was not seen");
		return false;
	}
	if (order->actor == NULL || !is_line(order->actor, ADMIN_ACTOR_MAX) ||
	    order->reason == NULL || !is_line(order->reason, ADMIN_REASON_MAX)) {
		*ret_result = admin_reply_bad(request, "actor (at most 128 bytes) and reason (at "
						       "most 1000) are needed, each one line");
		return false;
	}
	return true;
}

static enum MHD_Result start(struct admin_request *request)
{
	enum MHD_Result result;
	struct admin_call *call = admin_operation_call(request, &result);

	if (call == NULL)
		return result;
	if (!read_order(request, &call->order, &result)) {
		admin_call_free(call);
		return result;
	}
	return admin_ask(request, call);
}

/* --- the change ---------------------------------------------------------------------------------- */

/* One JSON line for the notes; NULL: out of memory. */
static char *make_note(const struct action *action, const struct admin_order *order,
		       const struct op *op, usec_t now)
{
	json_t *note = json_object();
	char *text = NULL;

	if (note != NULL && admin_set_text(note, "kind", "operator") &&
	    admin_set_time(note, "at", now) && admin_set_number(note, "after", op->attempts) &&
	    admin_set_text(note, "action", action->name) &&
	    admin_set_text(note, "actor", order->actor) &&
	    admin_set_text(note, "reason", order->reason))
		text = json_dumps(note, ADMIN_JSON_FLAGS);
	json_decref(note);
	return text;
}

/* The row as the change leaves it, of the one that was found; false: out of memory. */
static bool set_row(struct admin_call *call, const struct op *next)
{
	struct ledger_row *found = &call->request->answered->ledger.found;
	char *notes = NULL;

	call->row = *found;
	*found = (struct ledger_row){.provider = NULL};
	call->row.op = *next;
	if (call->row.notes == NULL)
		notes = strdup(call->note);
	else if (asprintf(&notes, "%s\n%s", call->row.notes, call->note) < 0)
		notes = NULL;
	free(call->row.notes);
	call->row.notes = notes;
	return notes != NULL;
}

static enum MHD_Result write_next(struct admin_request *request, const struct action *action,
				  const struct op *next, uint32_t counter, usec_t now)
{
	struct admin_call *call = admin_call_next(request, LEDGER_CHANGE);

	if (call == NULL)
		return MHD_NO;
	call->request = request;
	call->note = make_note(action, &call->order, next, now);
	if (call->note == NULL || !set_row(call, next)) {
		admin_call_free(call);
		return MHD_NO;
	}
	call->ledger.op = &call->row.op;
	call->ledger.expect_counter = counter;
	memcpy(call->ledger.incarnation, next->incarnation, OP_INCARNATION_LEN);
	call->ledger.note = call->note;
	return admin_ask(request, call);
}

/* Probes and operator calls compare the counter strictly (design section 4, "Version"). */
static enum MHD_Result apply(struct admin_request *request, const struct action *action)
{
	struct admin_call *call = request->answered;
	const struct ledger_row *found = &call->ledger.found;
	struct app *app = request->admin->app;
	const struct provider *provider = app_find_provider(app, found->provider);
	struct op_event event = {.kind = action->event, .now = wall_clock_now(&app->clock)};
	char version[ADMIN_VERSION_MAX];
	struct op next;
	unsigned notes;

	admin_version(&found->op, version);
	if (strcmp(version, call->order.version) != 0)
		return admin_reply_conflict(request, found,
					    "The operation has changed since that version: read it "
					    "again, and decide again");
	if (provider == NULL)
		return admin_reply_conflict(
			request, found,
			"This provider is not configured any more: nothing could "
			"go on");
	if (op_apply(&found->op, &provider->config->policy, &event, &next, &notes) != OP_CHANGED)
		return admin_reply_conflict(request, found, action->refused);
	return write_next(request, action, &next, found->op.counter, event.now);
}

static void log_change(const struct admin_call *call, const struct action *action)
{
	struct log_line line;

	log_begin(&line, LOG_LEVEL_INFO, "operator");
	log_text(&line, "provider", call->row.provider);
	log_text(&line, "key", call->row.key);
	log_text(&line, "action", action->name);
	log_text(&line, "actor", call->order.actor);
	log_text(&line, "reason", call->order.reason);
	log_text(&line, "state", op_state_name(call->row.op.state));
	log_end(&line);
}

/* Whoever releases what was refused says that the credential is worth another attempt. */
static void lift_pause(struct app *app, const struct ledger_row *row)
{
	const struct provider *provider = app_find_provider(app, row->provider);

	if (provider != NULL && provider->auth_pause != NULL && row->op.class == CLASS_AUTH)
		auth_pause_lift(provider->auth_pause, row->op.credential);
}

static enum MHD_Result on_found(struct admin_request *request, const struct action *action,
				const struct ledger_request *ledger)
{
	switch (ledger->result) {
	case LEDGER_OK:
		return apply(request, action);
	case LEDGER_ABSENT:
	case LEDGER_CONFLICT:
		return admin_operation_absent(request);
	default:
		return admin_reply_away(request, ledger->error);
	}
}

static enum MHD_Result on_written(struct admin_request *request, const struct action *action,
				  const struct ledger_request *ledger)
{
	const struct admin_call *call = request->answered;

	switch (ledger->result) {
	case LEDGER_OK:
		log_change(call, action);
		if (action->event == OP_EV_RELEASE)
			lift_pause(request->admin->app, &call->row);
		return admin_reply_json(request, MHD_HTTP_OK,
					admin_operation_json(&call->row, true));
	case LEDGER_CONFLICT:
		return admin_reply_conflict(
			request, &ledger->found,
			"The operation changed in the same moment: read it again, "
			"and decide again");
	case LEDGER_ABSENT:
		return admin_operation_absent(request);
	default:
		return admin_reply_away(request, ledger->error);
	}
}

static enum MHD_Result finish(struct admin_request *request, const struct action *action,
			      const struct ledger_request *ledger)
{
	if (ledger == NULL)
		return admin_reply_away(request,
					"it does not answer in time; whether the change was "
					"made, the operation's history says");
	return ledger->verb == LEDGER_GET ? on_found(request, action, ledger)
					  : on_written(request, action, ledger);
}

/* --- release ------------------------------------------------------------------------------------- */

static const struct action release = {
	.name = "release",
	.event = OP_EV_RELEASE,
	.refused = "Only what is held can be released, and this operation is not held",
};

enum MHD_Result admin_release_start(struct admin_request *request)
{
	return start(request);
}

enum MHD_Result admin_release_finish(struct admin_request *request,
				     const struct ledger_request *ledger)
{
	return finish(request, &release, ledger);
}
