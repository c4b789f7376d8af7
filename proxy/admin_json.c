#include "proxy/admin_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/timefmt.h"

bool admin_set(json_t *object, const char *name, json_t *value)
{
	return json_object_set_new(object, name, value) == 0;
}

bool admin_set_text(json_t *object, const char *name, const char *text)
{
	json_t *value;
	char *ascii;

	if (text == NULL)
		return true;
	value = json_string(text);
	if (value == NULL) {
		ascii = strdup(text);
		if (ascii == NULL)
			return false;
		for (char *c = ascii; *c != '\0'; c++) {
			if (*c < 0x20 || *c > 0x7e)
				*c = '?';
		}
		value = json_string(ascii);
		free(ascii);
	}
	return admin_set(object, name, value);
}

bool admin_set_number(json_t *object, const char *name, int64_t number)
{
	return admin_set(object, name, json_integer(number));
}

bool admin_set_bool(json_t *object, const char *name, bool value)
{
	return admin_set(object, name, json_boolean(value));
}

bool admin_set_seconds(json_t *object, const char *name, usec_t value)
{
	return admin_set(object, name, json_real((double)value / (double)USEC_SEC));
}

bool admin_set_time(json_t *object, const char *name, usec_t wall)
{
	char text[TIMEFMT_MAX];

	if (wall <= 0)
		return true;
	timefmt_rfc3339(wall, text);
	return admin_set_text(object, name, text);
}

/* --- history ------------------------------------------------------------------------------------- */

static json_t *attempt_json(const struct op_attempt *attempt)
{
	json_t *entry = json_object();
	bool ended = attempt->class != CLASS_NONE;
	bool ok = entry != NULL && admin_set_text(entry, "kind", "attempt") &&
		  admin_set_number(entry, "n", attempt->n) &&
		  admin_set_time(entry, "at", attempt->start) &&
		  admin_set_text(entry, "instance", attempt->instance);

	if (ok && ended)
		ok = admin_set_number(entry, "ms", attempt->ms) &&
		     admin_set_text(entry, "class",
				    outcome_class_name((enum outcome_class)attempt->class)) &&
		     admin_set_text(entry, "effect", effect_name((enum effect)attempt->effect));
	if (ok && attempt->status > 0)
		ok = admin_set_number(entry, "status", attempt->status);
	if (ok && attempt->fault != FAULT_NONE)
		ok = admin_set_text(entry, "fault", fault_name((enum fault)attempt->fault));
	if (ok)
		return entry;
	json_decref(entry);
	return NULL;
}

/* The next JSON line of the notes that is an object, and its time (that of the note before it, where
 * it has none); *notes moves behind it. NULL: no more. */
static json_t *next_note(const char **notes, usec_t *ret_at)
{
	json_t *note = NULL;

	while (note == NULL && *notes != NULL && **notes != '\0') {
		size_t len = strcspn(*notes, "\n");

		if (len > 0)
			note = json_loadb(*notes, len, 0, NULL);
		if (note != NULL && !json_is_object(note)) {
			json_decref(note);
			note = NULL;
		}
		*notes += len;
		*notes += **notes == '\n';
	}
	if (note != NULL) {
		const char *at = json_string_value(json_object_get(note, "at"));

		if (at != NULL)
			(void)timefmt_parse_rfc3339(at, strlen(at), ret_at);
	}
	return note;
}

/* Whether a note goes before an attempt (NULL: the end). A note that says after how many attempts it was
 * made is placed by that: its time has milliseconds only, and a release and the attempt that follows
 * it share one. Others go by time, in the same millisecond behind the attempt. */
static bool is_before(const json_t *note, usec_t at, const struct op_attempt *attempt)
{
	const json_t *after = json_object_get(note, "after");

	if (attempt == NULL)
		return true;
	if (json_is_integer(after))
		return json_integer_value(after) < attempt->n;
	return at / USEC_MS < attempt->start / USEC_MS;
}

static bool append_notes(json_t *history, const char **notes, json_t **pending, usec_t *at,
			 const struct op_attempt *attempt)
{
	while (*pending != NULL && is_before(*pending, *at, attempt)) {
		if (json_array_append_new(history, *pending) != 0) {
			*pending = NULL;
			return false;
		}
		*pending = next_note(notes, at);
	}
	return true;
}

json_t *admin_history_json(const struct op *op, const char *notes)
{
	json_t *history = json_array();
	usec_t at = 0;
	json_t *pending = next_note(&notes, &at);
	bool ok = history != NULL;

	for (int n = 1; ok && n <= ATTEMPTS_CEILING; n++) {
		const struct op_attempt *attempt = op_find_attempt(op, n);

		if (attempt == NULL)
			continue;
		ok = append_notes(history, &notes, &pending, &at, attempt) &&
		     json_array_append_new(history, attempt_json(attempt)) == 0;
	}
	ok = ok && append_notes(history, &notes, &pending, &at, NULL);
	json_decref(pending);
	if (ok)
		return history;
	json_decref(history);
	return NULL;
}

/* --- the operation ------------------------------------------------------------------------------- */

static void hex(const uint8_t *bytes, size_t count, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < count; i++) {
		ret_text[2 * i] = digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret_text[2 * count] = '\0';
}

static bool set_identity(json_t *object, const struct ledger_row *row)
{
	char fingerprint[2 * OP_FINGERPRINT_LEN + 1];

	hex(row->op.fingerprint, OP_FINGERPRINT_LEN, fingerprint);
	return admin_set_text(object, "provider", row->provider) &&
	       admin_set_text(object, "tenant", row->tenant) &&
	       admin_set_text(object, "scope", row->scope) &&
	       admin_set_text(object, "key", row->key) &&
	       admin_set_text(object, "fingerprint", fingerprint) &&
	       admin_set_text(object, "method", row->texts.method) &&
	       admin_set_text(object, "target", row->texts.target);
}

static bool set_verdict(json_t *object, const struct op *op)
{
	if (op->class == CLASS_NONE)
		return true;
	return admin_set_text(object, "class", outcome_class_name(op->class)) &&
	       admin_set_text(object, "effect", effect_name(op->effect)) &&
	       (op->status <= 0 || admin_set_number(object, "status", op->status)) &&
	       admin_set_text(object, "reason", op->reason[0] != '\0' ? op->reason : NULL);
}

static bool set_counts(json_t *object, const struct op *op)
{
	return admin_set_number(object, "attempts", op->attempts) &&
	       admin_set_number(object, "limit", op->limit) &&
	       admin_set_number(object, "unresolved", op_set_count(&op->unresolved)) &&
	       admin_set_bool(object, "disputed", op->disputed) &&
	       admin_set_number(object, "generation", op->generation) &&
	       admin_set_text(object, "remote_id", op->remote_id[0] != '\0' ? op->remote_id : NULL);
}

static bool set_times(json_t *object, const struct op *op)
{
	return admin_set_time(object, "created", op->created) &&
	       admin_set_time(object, "updated", op->updated) &&
	       (op->state != OP_READY || admin_set_time(object, "next", op->next)) &&
	       admin_set_time(object, "deadline", op->deadline) &&
	       admin_set_time(object, "repeat_until", op->repeat_until) &&
	       admin_set_time(object, "terminal", op->terminal);
}

static bool set_lease(json_t *object, const struct op *op)
{
	if (op->state != OP_ATTEMPTING)
		return true;
	return admin_set_text(object, "owner", op->owner) &&
	       admin_set_time(object, "lease_until", op->lease_until);
}

void admin_version(const struct op *op, char ret_version[ADMIN_VERSION_MAX])
{
	hex(op->incarnation, OP_INCARNATION_LEN, ret_version);
	(void)snprintf(ret_version + 2 * OP_INCARNATION_LEN, 12, "-%u", op->counter);
}

static bool set_version(json_t *object, const struct op *op)
{
	char version[ADMIN_VERSION_MAX];

	admin_version(op, version);
	return admin_set_text(object, "version", version);
}

json_t *admin_operation_json(const struct ledger_row *row, bool with_history)
{
	const struct op *op = &row->op;
	json_t *object = json_object();
	bool ok = object != NULL && set_identity(object, row) &&
		  admin_set_text(object, "state", op_state_name(op->state)) &&
		  set_verdict(object, op) && set_counts(object, op) && set_times(object, op) &&
		  set_version(object, op) && set_lease(object, op);

	if (ok && with_history)
		ok = admin_set_text(object, "corrects", row->texts.corrects) &&
		     admin_set_text(object, "corrected_by", row->texts.corrected_by) &&
		     admin_set(object, "history", admin_history_json(op, row->notes));
	if (ok)
		return object;
	json_decref(object);
	return NULL;
}
