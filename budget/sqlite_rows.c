#include "budget/sqlite_rows.h"

#include <stdlib.h>
#include <string.h>

#define NOTES_MAX "65536" /* beyond it the older half goes, at a line's end */
#define NOTES_KEPT "32768"

enum column_kind {
	COLUMN_INT,
	COLUMN_U32,
	COLUMN_USEC,
	COLUMN_BOOL,
	COLUMN_BYTES,
	COLUMN_BYTES_OR_NULL, /* all zero: NULL */
	COLUMN_TEXT,
	COLUMN_STATE,
	COLUMN_CLASS,
	COLUMN_EFFECT,
	COLUMN_FAULT,
	COLUMN_SET_SIZE,
	COLUMN_SET,
	COLUMN_HISTORY,
};

struct column {
	const char *name;
	enum column_kind kind;
	bool fixed; /* written at creation only; the indexes on it then cost an update nothing */
	size_t offset;
	size_t size;
};

#define COLUMN(name, member, kind, fixed)                                                          \
	{                                                                                          \
		name, kind, fixed, offsetof(struct op, member), sizeof(((struct op *)0)->member)   \
	}

static const struct column columns[] = {
	COLUMN("incarnation", incarnation, COLUMN_BYTES, true),
	COLUMN("counter", counter, COLUMN_U32, false),
	COLUMN("state", state, COLUMN_STATE, false),
	COLUMN("class", class, COLUMN_CLASS, false),
	COLUMN("effect", effect, COLUMN_EFFECT, false),
	COLUMN("attempts", attempts, COLUMN_INT, false),
	COLUMN("attempt_limit", limit, COLUMN_INT, false),
	COLUMN("unresolved", unresolved, COLUMN_SET_SIZE, false),
	COLUMN("unresolved_set", unresolved, COLUMN_SET, false),
	COLUMN("disputed", disputed, COLUMN_BOOL, false),
	COLUMN("quarantined", quarantined, COLUMN_BOOL, false),
	COLUMN("tombstone", tombstone, COLUMN_BOOL, false),
	COLUMN("unkeyed", unkeyed, COLUMN_BOOL, false),
	COLUMN("reply_kept", reply_kept, COLUMN_BOOL, false),
	COLUMN("created", created, COLUMN_USEC, true),
	COLUMN("updated", updated, COLUMN_USEC, false),
	COLUMN("next", next, COLUMN_USEC, false),
	COLUMN("deadline", deadline, COLUMN_USEC, false),
	COLUMN("repeat_until", repeat_until, COLUMN_USEC, false),
	COLUMN("terminal", terminal, COLUMN_USEC, false),
	COLUMN("held_since", held_since, COLUMN_USEC, false),
	COLUMN("last_end", last_end, COLUMN_USEC, false),
	COLUMN("delivered", delivered, COLUMN_USEC, false),
	COLUMN("token", token, COLUMN_BYTES_OR_NULL, false),
	COLUMN("owner", owner, COLUMN_TEXT, false),
	COLUMN("lease_until", lease_until, COLUMN_USEC, false),
	COLUMN("fingerprint", fingerprint, COLUMN_BYTES, false),
	COLUMN("generation", generation, COLUMN_INT, false),
	COLUMN("generation_first", generation_first, COLUMN_INT, false),
	COLUMN("last_n", last_n, COLUMN_INT, false),
	COLUMN("fault", fault, COLUMN_FAULT, false),
	COLUMN("status", status, COLUMN_INT, false),
	COLUMN("reason", reason, COLUMN_TEXT, false),
	COLUMN("retry_never", retry_never, COLUMN_BOOL, false),
	COLUMN("settled_by_hand", settled_by_hand, COLUMN_BOOL, false),
	COLUMN("success_repeatable", success_repeatable, COLUMN_BOOL, false),
	COLUMN("credential", credential, COLUMN_BYTES_OR_NULL, false),
	COLUMN("remote_id", remote_id, COLUMN_TEXT, false),
	COLUMN("history", ring, COLUMN_HISTORY, false),
};

#define COLUMN_COUNT ((int)(sizeof(columns) / sizeof(columns[0])))

/* Where the columns of a select begin. */
enum {
	AT_PROVIDER = 1,
	AT_COLUMNS = AT_PROVIDER + 4,
	AT_TEXTS = AT_COLUMNS + COLUMN_COUNT,
	AT_NOTES = AT_TEXTS + 5,
	AT_REPLY = AT_NOTES + 1,
};

static const char *const text_names[] = {"method", "target", "upstream_key", "corrects",
					 "corrected_by"};
static const char *const reply_names[] = {"reply_status", "reply_close_delimited", "reply_head",
					  "reply_body"};

enum reply_mode { REPLY_NONE, REPLY_AS_IT_IS, REPLY_GIVEN };

char *sqlite_rows_select(enum sqlite_select what, const char *rest)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	sqlite3_str_appendall(sql, "SELECT id, provider, tenant, scope, key");
	for (int i = 0; i < COLUMN_COUNT; i++)
		sqlite3_str_appendf(sql, ", %s", columns[i].name);
	for (int i = 0; i < 5; i++)
		sqlite3_str_appendf(sql, ", %s", text_names[i]);
	/* A plain column is read even if nobody asks for its value. */
	if (what >= SELECT_NOTES)
		sqlite3_str_appendf(sql, ", CASE WHEN ?%d THEN notes END", PARAM_WANT_NOTES);
	if (what >= SELECT_REPLY)
		for (int i = 0; i < 4; i++)
			sqlite3_str_appendf(sql, ", %s", reply_names[i]);
	sqlite3_str_appendf(sql, " %s", rest);
	return sqlite3_str_finish(sql);
}

char *sqlite_rows_insert(void)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	sqlite3_str_appendall(sql, "INSERT INTO operations (provider, tenant, scope, key");
	for (int i = 0; i < COLUMN_COUNT; i++)
		sqlite3_str_appendf(sql, ", %s", columns[i].name);
	for (int i = 0; i < 5; i++)
		sqlite3_str_appendf(sql, ", %s", text_names[i]);
	sqlite3_str_appendall(sql, ", notes");
	for (int i = 0; i < 4; i++)
		sqlite3_str_appendf(sql, ", %s", reply_names[i]);
	sqlite3_str_appendall(sql, ") VALUES (?1, ?2, ?3, ?4");
	for (int i = 0; i < COLUMN_COUNT; i++)
		sqlite3_str_appendf(sql, ", ?%d", PARAM_COLUMNS + i);
	for (int i = 0; i < 5; i++)
		sqlite3_str_appendf(sql, ", ?%d", PARAM_TEXTS + i);
	sqlite3_str_appendf(sql, ", ?%d", PARAM_NOTE);
	for (int i = 0; i < 4; i++)
		sqlite3_str_appendf(sql, ", ?%d", PARAM_REPLY + i);
	sqlite3_str_appendall(sql, ") ON CONFLICT (provider, tenant, scope, key) DO NOTHING");
	return sqlite3_str_finish(sql);
}

char *sqlite_rows_update(const char *where)
{
	sqlite3_str *sql = sqlite3_str_new(NULL);
	sqlite3_str_appendall(sql, "UPDATE operations SET ");
	for (int i = 0; i < COLUMN_COUNT; i++)
		if (!columns[i].fixed)
			sqlite3_str_appendf(sql, "%s = ?%d, ", columns[i].name, PARAM_COLUMNS + i);
	for (int i = 0; i < 5; i++)
		sqlite3_str_appendf(sql, "%s = coalesce(?%d, %s), ", text_names[i], PARAM_TEXTS + i,
				    text_names[i]);
	sqlite3_str_appendf(
		sql,
		"notes = CASE WHEN ?%d IS NULL THEN notes WHEN notes IS NULL THEN ?%d"
		" WHEN length(notes) > " NOTES_MAX " THEN substr(substr(notes, -" NOTES_KEPT "),"
		" instr(substr(notes, -" NOTES_KEPT "), char(10)) + 1) || char(10) || ?%d"
		" ELSE notes || char(10) || ?%d END",
		PARAM_NOTE, PARAM_NOTE, PARAM_NOTE, PARAM_NOTE);
	for (int i = 0; i < 4; i++)
		sqlite3_str_appendf(sql, ", %s = CASE ?%d WHEN %d THEN ?%d WHEN %d THEN %s END",
				    reply_names[i], PARAM_REPLY_MODE, REPLY_GIVEN, PARAM_REPLY + i,
				    REPLY_AS_IT_IS, reply_names[i]);
	sqlite3_str_appendf(sql, " WHERE %s", where);
	return sqlite3_str_finish(sql);
}

static int bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	return text ? sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC)
		    : sqlite3_bind_null(stmt, at);
}

static bool all_zero(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static int set_size(const struct op_set *set)
{
	return __builtin_popcountll(set->bits[0]) + __builtin_popcountll(set->bits[1]);
}

static int bind_set(sqlite3_stmt *stmt, int at, const struct op_set *set)
{
	uint8_t bytes[16];
	if (set_size(set) == 0)
		return sqlite3_bind_null(stmt, at);
	for (int i = 0; i < 16; i++)
		bytes[15 - i] = (uint8_t)(set->bits[i / 8] >> (8 * (i % 8)));
	return sqlite3_bind_blob(stmt, at, bytes, sizeof(bytes), SQLITE_TRANSIENT);
}

static int bind_column(sqlite3_stmt *stmt, int at, const struct column *column, const struct op *op,
		       char history[SQLITE_HISTORY_MAX])
{
	const void *value = (const char *)op + column->offset;
	switch (column->kind) {
	case COLUMN_INT:
		return sqlite3_bind_int(stmt, at, *(const int *)value);
	case COLUMN_U32:
		return sqlite3_bind_int64(stmt, at, *(const uint32_t *)value);
	case COLUMN_USEC:
		return sqlite3_bind_int64(stmt, at, *(const usec_t *)value);
	case COLUMN_BOOL:
		return sqlite3_bind_int(stmt, at, *(const bool *)value);
	case COLUMN_BYTES_OR_NULL:
		if (all_zero(value, column->size))
			return sqlite3_bind_null(stmt, at);
		/* fall through */
	case COLUMN_BYTES:
		return sqlite3_bind_blob(stmt, at, value, (int)column->size, SQLITE_STATIC);
	case COLUMN_TEXT:
		return sqlite3_bind_text(stmt, at, value, (int)strnlen(value, column->size - 1),
					 SQLITE_STATIC);
	case COLUMN_STATE:
		return bind_text(stmt, at, op_state_name(op->state));
	case COLUMN_CLASS:
		return bind_text(stmt, at, outcome_class_name(op->class));
	case COLUMN_EFFECT:
		return bind_text(stmt, at, effect_name(op->effect));
	case COLUMN_FAULT:
		return bind_text(stmt, at, fault_name(op->fault));
	case COLUMN_SET_SIZE:
		return sqlite3_bind_int(stmt, at, set_size(value));
	case COLUMN_SET:
		return bind_set(stmt, at, value);
	case COLUMN_HISTORY:
		return sqlite3_bind_text(stmt, at, history,
					 (int)sqlite_history_write(op->ring, history),
					 SQLITE_STATIC);
	}
	return SQLITE_MISUSE;
}

int sqlite_rows_bind_name(sqlite3_stmt *stmt, const struct op_name *name)
{
	int rc = bind_text(stmt, PARAM_PROVIDER, name->provider);
	if (rc == SQLITE_OK)
		rc = bind_text(stmt, PARAM_TENANT, name->tenant);
	if (rc == SQLITE_OK)
		rc = bind_text(stmt, PARAM_SCOPE, name->scope);
	if (rc == SQLITE_OK)
		rc = bind_text(stmt, PARAM_KEY, name->key);
	return rc;
}

static int bind_reply(sqlite3_stmt *stmt, const struct ledger_reply *reply)
{
	int rc = sqlite3_bind_int(stmt, PARAM_REPLY, reply->status);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int(stmt, PARAM_REPLY + 1, reply->close_delimited);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text64(stmt, PARAM_REPLY + 2, reply->head ? reply->head : "",
					 reply->head_len, SQLITE_STATIC, SQLITE_UTF8);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob64(stmt, PARAM_REPLY + 3, reply->body ? reply->body : "",
					 reply->body_len, SQLITE_STATIC);
	return rc;
}

static int bind_no_reply(sqlite3_stmt *stmt)
{
	for (int i = 0; i < 4; i++)
		sqlite3_bind_null(stmt, PARAM_REPLY + i);
	return SQLITE_OK;
}

static enum reply_mode reply_mode(const struct ledger_request *request)
{
	if (request->reply)
		return REPLY_GIVEN;
	return request->op->reply_kept ? REPLY_AS_IT_IS : REPLY_NONE;
}

int sqlite_rows_bind(sqlite3_stmt *stmt, const struct ledger_request *request,
		     char history[SQLITE_HISTORY_MAX])
{
	static const struct ledger_texts no_texts;
	const struct ledger_texts *texts = request->texts ? request->texts : &no_texts;
	const char *const values[] = {texts->method, texts->target, texts->upstream_key,
				      texts->corrects, texts->corrected_by};
	int rc = sqlite_rows_bind_name(stmt, &request->name);
	for (int i = 0; i < COLUMN_COUNT && rc == SQLITE_OK; i++)
		rc = bind_column(stmt, PARAM_COLUMNS + i, &columns[i], request->op, history);
	for (int i = 0; i < 5 && rc == SQLITE_OK; i++)
		rc = bind_text(stmt, PARAM_TEXTS + i, values[i]);
	if (rc == SQLITE_OK)
		rc = bind_text(stmt, PARAM_NOTE, request->note);
	if (rc == SQLITE_OK)
		rc = request->reply ? bind_reply(stmt, request->reply) : bind_no_reply(stmt);
	return rc == SQLITE_OK ? sqlite3_bind_int(stmt, PARAM_REPLY_MODE, reply_mode(request)) : rc;
}

static bool read_bytes(sqlite3_stmt *stmt, int at, const struct column *column, void *ret_bytes)
{
	if (sqlite3_column_type(stmt, at) == SQLITE_NULL)
		return column->kind == COLUMN_BYTES_OR_NULL;
	const void *blob = sqlite3_column_blob(stmt, at);
	if (!blob || (size_t)sqlite3_column_bytes(stmt, at) != column->size)
		return false;
	memcpy(ret_bytes, blob, column->size);
	return true;
}

static bool read_text(sqlite3_stmt *stmt, int at, const struct column *column, void *ret_text)
{
	const void *text = sqlite3_column_text(stmt, at);
	size_t len = (size_t)sqlite3_column_bytes(stmt, at);
	if (!text || len >= column->size)
		return false;
	memcpy(ret_text, text, len);
	return true;
}

static bool read_set(sqlite3_stmt *stmt, int at, struct op_set *ret_set)
{
	if (sqlite3_column_type(stmt, at) == SQLITE_NULL)
		return true;
	const uint8_t *bytes = sqlite3_column_blob(stmt, at);
	if (!bytes || sqlite3_column_bytes(stmt, at) != 16)
		return false;
	for (int i = 0; i < 16; i++)
		ret_set->bits[i / 8] |= (uint64_t)bytes[15 - i] << (8 * (i % 8));
	return true;
}

/* Into a zeroed op. */
static bool read_column(sqlite3_stmt *stmt, int at, const struct column *column, struct op *op)
{
	void *value = (char *)op + column->offset;
	const char *text;
	switch (column->kind) {
	case COLUMN_INT:
		*(int *)value = sqlite3_column_int(stmt, at);
		return true;
	case COLUMN_U32:
		*(uint32_t *)value = (uint32_t)sqlite3_column_int64(stmt, at);
		return true;
	case COLUMN_USEC:
		*(usec_t *)value = sqlite3_column_int64(stmt, at);
		return true;
	case COLUMN_BOOL:
		*(bool *)value = sqlite3_column_int(stmt, at) != 0;
		return true;
	case COLUMN_BYTES:
	case COLUMN_BYTES_OR_NULL:
		return read_bytes(stmt, at, column, value);
	case COLUMN_TEXT:
		return read_text(stmt, at, column, value);
	case COLUMN_SET_SIZE:
		return true; /* the set says it */
	case COLUMN_SET:
		return read_set(stmt, at, value);
	default:
		break;
	}
	text = (const char *)sqlite3_column_text(stmt, at);
	if (!text)
		return false;
	switch (column->kind) {
	case COLUMN_STATE:
		return op_state_parse(text, &op->state);
	case COLUMN_CLASS:
		return outcome_class_parse(text, &op->class);
	case COLUMN_EFFECT:
		return effect_parse(text, &op->effect);
	case COLUMN_FAULT:
		return fault_parse(text, &op->fault);
	default: /* COLUMN_HISTORY */
		return sqlite_history_read(text, (size_t)sqlite3_column_bytes(stmt, at), op->ring);
	}
}

/* A copy of a column's bytes with a NUL behind them. NULL stays NULL. */
static bool copy_column(sqlite3_stmt *stmt, int at, char **ret_copy, size_t *ret_len)
{
	if (sqlite3_column_type(stmt, at) == SQLITE_NULL)
		return true;
	const void *bytes = sqlite3_column_blob(stmt, at);
	size_t len = (size_t)sqlite3_column_bytes(stmt, at);
	char *copy = malloc(len + 1);
	if (!copy)
		return false;
	if (len > 0 && bytes)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	*ret_copy = copy;
	if (ret_len)
		*ret_len = len;
	return true;
}

static int read_reply(sqlite3_stmt *stmt, struct ledger_reply **ret_reply)
{
	char *head = NULL, *body = NULL;
	size_t head_len = 0, body_len = 0;
	if (sqlite3_column_type(stmt, AT_REPLY) == SQLITE_NULL)
		return SQLITE_OK;
	if (!copy_column(stmt, AT_REPLY + 2, &head, &head_len) ||
	    !copy_column(stmt, AT_REPLY + 3, &body, &body_len)) {
		free(head);
		return SQLITE_NOMEM;
	}
	struct ledger_reply *reply = ledger_reply_new(sqlite3_column_int(stmt, AT_REPLY), head,
						      head_len, body, body_len);
	if (!reply)
		return SQLITE_NOMEM;
	reply->close_delimited = sqlite3_column_int(stmt, AT_REPLY + 1) != 0;
	*ret_reply = reply;
	return SQLITE_OK;
}

int sqlite_rows_read(sqlite3_stmt *stmt, enum sqlite_select what, struct ledger_row *ret_row)
{
	struct ledger_row row = {0};
	char **const texts[] = {&row.provider,
				&row.tenant,
				&row.scope,
				&row.key,
				&row.texts.method,
				&row.texts.target,
				&row.texts.upstream_key,
				&row.texts.corrects,
				&row.texts.corrected_by,
				&row.notes};
	int rc = SQLITE_OK;
	for (int i = 0; i < COLUMN_COUNT && rc == SQLITE_OK; i++)
		if (!read_column(stmt, AT_COLUMNS + i, &columns[i], &row.op))
			rc = SQLITE_CORRUPT;
	for (int i = 0; i < (what >= SELECT_NOTES ? 10 : 9) && rc == SQLITE_OK; i++)
		if (!copy_column(stmt, i < 4 ? AT_PROVIDER + i : AT_TEXTS + i - 4, texts[i], NULL))
			rc = SQLITE_NOMEM;
	if (what >= SELECT_REPLY && rc == SQLITE_OK)
		rc = read_reply(stmt, &row.reply);
	if (rc != SQLITE_OK) {
		ledger_row_done(&row);
		return rc;
	}
	*ret_row = row;
	return SQLITE_OK;
}

usec_t sqlite_rows_created(sqlite3_stmt *stmt)
{
	for (int i = 0; i < COLUMN_COUNT; i++)
		if (columns[i].offset == offsetof(struct op, created))
			return sqlite3_column_int64(stmt, AT_COLUMNS + i);
	return 0;
}
