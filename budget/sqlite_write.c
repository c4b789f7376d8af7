/* A claim and a settle are one row write each: INSERT ... ON CONFLICT DO NOTHING, or UPDATE where
 * name, incarnation and counter match; only what did not match is read, to say what is there. */
#include "budget/sqlite_write.h"

#include <string.h>

#include "budget/sqlite_db.h"
#include "budget/sqlite_gate.h"
#include "budget/sqlite_rows.h"

static char *statement_sql(enum sqlite_write_statement statement)
{
#define SWAP SQLITE_WHERE_NAME " AND incarnation = ?5 AND counter = ?6"
	switch (statement) {
	case WRITE_BEGIN_READ:
		return sqlite3_mprintf("BEGIN");
	case WRITE_BEGIN:
		return sqlite3_mprintf("BEGIN IMMEDIATE");
	case WRITE_COMMIT:
		return sqlite3_mprintf("COMMIT");
	case WRITE_ROLLBACK:
		return sqlite3_mprintf("ROLLBACK");
	case WRITE_RECOVERED:
		return sqlite3_mprintf("UPDATE meta SET value = value + 1"
				       " WHERE name = 'recoveries'");
	case WRITE_FIND:
		return sqlite_rows_select(SELECT_ROW, "FROM operations WHERE " SQLITE_WHERE_NAME);
	case WRITE_GET:
		return sqlite_rows_select(SELECT_REPLY, "FROM operations WHERE " SQLITE_WHERE_NAME);
	case WRITE_INSERT:
		return sqlite_rows_insert();
	case WRITE_SWAP:
		return sqlite_rows_update(SWAP);
	case WRITE_SETTLE:
		return sqlite_rows_update(SWAP " AND token = ?7");
	case WRITE_RENEW:
		return sqlite3_mprintf("UPDATE operations SET lease_until = ?6"
				       " WHERE " SQLITE_WHERE_NAME " AND incarnation = ?5"
				       " AND token = ?7 AND state = 'attempting'");
	case WRITE_GATE_PUT:
		return sqlite3_mprintf("%s", SQLITE_GATE_PUT);
	case WRITE_GATE_DROP:
		return sqlite3_mprintf("%s", SQLITE_GATE_DROP);
	case WRITE_STATEMENT_COUNT:
		break;
	}
#undef SWAP
	return NULL;
}

int sqlite_writer_open(struct sqlite_writer *writer, sqlite3 *db)
{
	writer->db = db;
	for (int i = 0; i < WRITE_STATEMENT_COUNT; i++) {
		char *sql = statement_sql((enum sqlite_write_statement)i);
		int rc = !sql ? SQLITE_NOMEM
			      : sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT,
						   &writer->statements[i], NULL);
		sqlite3_free(sql);
		if (rc != SQLITE_OK) {
			sqlite_writer_close(writer);
			return rc;
		}
	}
	return SQLITE_OK;
}

void sqlite_writer_close(struct sqlite_writer *writer)
{
	for (int i = 0; i < WRITE_STATEMENT_COUNT; i++) {
		sqlite3_finalize(writer->statements[i]);
		writer->statements[i] = NULL;
	}
	sqlite3_close(writer->db);
	writer->db = NULL;
}

int sqlite_writer_run(struct sqlite_writer *writer, enum sqlite_write_statement statement)
{
	return sqlite_db_run(writer->statements[statement]);
}

bool sqlite_writer_only_reads(const struct ledger_request *request)
{
	return request->verb == LEDGER_GET;
}

static void voided_expire(struct sqlite_voided *voided, usec_t now)
{
	while (voided->count > 0 && voided->ring[voided->first].until <= now) {
		voided->first = (voided->first + 1) % SQLITE_VOIDED_MAX;
		voided->count--;
	}
}

static bool voided_has(const struct sqlite_voided *voided, const uint8_t *incarnation,
		       const uint8_t *token, usec_t now)
{
	for (size_t i = 0; i < voided->count; i++) {
		size_t at = (voided->first + i) % SQLITE_VOIDED_MAX;
		if (voided->ring[at].until > now &&
		    memcmp(voided->ring[at].token, token, OP_TOKEN_LEN) == 0 &&
		    memcmp(voided->ring[at].incarnation, incarnation, OP_INCARNATION_LEN) == 0)
			return true;
	}
	return false;
}

static void voided_add(struct sqlite_voided *voided, const struct ledger_request *request)
{
	voided_expire(voided, request->now);
	if (voided_has(voided, request->incarnation, request->token, request->now))
		return;
	if (voided->count == SQLITE_VOIDED_MAX) {
		voided->first = (voided->first + 1) % SQLITE_VOIDED_MAX;
		voided->count--;
	}
	size_t at = (voided->first + voided->count++) % SQLITE_VOIDED_MAX;
	memcpy(voided->ring[at].incarnation, request->incarnation, OP_INCARNATION_LEN);
	memcpy(voided->ring[at].token, request->token, OP_TOKEN_LEN);
	voided->ring[at].until = usec_add(request->now, SQLITE_VOIDED_FOR);
}

/* Reads the row with this name into found; SQLITE_DONE where there is none. */
static int find(struct sqlite_writer *writer, struct ledger_request *request, bool whole)
{
	sqlite3_stmt *stmt = writer->statements[whole ? WRITE_GET : WRITE_FIND];
	int rc = sqlite_rows_bind_name(stmt, &request->name);
	if (rc == SQLITE_OK && whole)
		rc = sqlite3_bind_int(stmt, PARAM_WANT_NOTES, request->filter.want_notes);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		rc = sqlite_rows_read(stmt, whole ? SELECT_REPLY : SELECT_ROW, &request->found);
	sqlite3_reset(stmt);
	return rc;
}

static int get(struct sqlite_writer *writer, struct ledger_request *request)
{
	int rc = find(writer, request, true);
	if (rc != SQLITE_OK && rc != SQLITE_DONE)
		return rc;
	request->result = rc == SQLITE_OK ? LEDGER_OK : LEDGER_ABSENT;
	return SQLITE_OK;
}

/* A write changed nothing: says what is there instead, with the reply where a delivery may be answered
 * from it. A claim that finds itself was repeated after a lost answer. */
static int explain(struct sqlite_writer *writer, struct ledger_request *request)
{
	int rc = find(writer, request, request->verb != LEDGER_SETTLE);
	if (rc == SQLITE_DONE) {
		/* An insert met a row that this program's own lookup does not see. */
		if (request->expect_absent)
			return SQLITE_CORRUPT;
		request->result = LEDGER_ABSENT;
		return SQLITE_OK;
	}
	if (rc != SQLITE_OK)
		return rc;
	const struct op *there = &request->found.op;
	request->result = LEDGER_CONFLICT;
	if (request->verb == LEDGER_CLAIM && there->state == OP_ATTEMPTING &&
	    memcmp(there->token, request->op->token, OP_TOKEN_LEN) == 0 &&
	    memcmp(there->incarnation, request->op->incarnation, OP_INCARNATION_LEN) == 0) {
		ledger_row_done(&request->found);
		request->result = LEDGER_OK;
	}
	return SQLITE_OK;
}

static int refuse_voided(struct sqlite_writer *writer, struct ledger_request *request)
{
	int rc = find(writer, request, false);
	if (rc != SQLITE_OK && rc != SQLITE_DONE)
		return rc;
	request->result = LEDGER_CONFLICT;
	return SQLITE_OK;
}

static int write_row(struct sqlite_writer *writer, struct ledger_request *request)
{
	enum sqlite_write_statement which = request->expect_absent           ? WRITE_INSERT
					    : request->verb == LEDGER_SETTLE ? WRITE_SETTLE
									     : WRITE_SWAP;
	sqlite3_stmt *stmt = writer->statements[which];
	if (request->verb == LEDGER_CLAIM && writer->voided.count > 0 &&
	    voided_has(&writer->voided, request->op->incarnation, request->op->token, request->now))
		return refuse_voided(writer, request);

	int rc = sqlite_rows_bind(stmt, request, writer->history);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob(stmt, PARAM_INCARNATION, request->op->incarnation,
				       OP_INCARNATION_LEN, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(stmt, PARAM_COUNTER, request->expect_counter);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob(stmt, PARAM_TOKEN, request->token, OP_TOKEN_LEN,
				       SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite_db_run(stmt);
	if (rc != SQLITE_OK)
		return rc;
	if (sqlite3_changes(writer->db) == 0)
		return explain(writer, request);
	request->result = LEDGER_OK;
	return SQLITE_OK;
}

static int renew(struct sqlite_writer *writer, struct ledger_request *request)
{
	sqlite3_stmt *stmt = writer->statements[WRITE_RENEW];
	int rc = sqlite_rows_bind_name(stmt, &request->name);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob(stmt, PARAM_INCARNATION, request->incarnation,
				       OP_INCARNATION_LEN, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(stmt, PARAM_COUNTER, request->lease_until);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_blob(stmt, PARAM_TOKEN, request->token, OP_TOKEN_LEN,
				       SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite_db_run(stmt);
	if (rc != SQLITE_OK)
		return rc;
	request->result = sqlite3_changes(writer->db) > 0 ? LEDGER_OK : LEDGER_CONFLICT;
	return SQLITE_OK;
}

/* Whether the record knows a claim with this token: its lease, or an attempt in its ring. */
static bool has_token(const struct op *op, const uint8_t *token)
{
	if (op->state == OP_ATTEMPTING && memcmp(op->token, token, OP_TOKEN_LEN) == 0)
		return true;
	for (int i = 0; i < OP_RING; i++)
		if (op->ring[i].n != 0 && memcmp(op->ring[i].token, token, OP_TOKEN_LEN) == 0)
			return true;
	return false;
}

static int void_claim(struct sqlite_writer *writer, struct ledger_request *request)
{
	int rc = find(writer, request, false);
	if (rc != SQLITE_OK && rc != SQLITE_DONE)
		return rc;
	const struct op *there = &request->found.op;
	if (rc == SQLITE_OK &&
	    memcmp(there->incarnation, request->incarnation, OP_INCARNATION_LEN) == 0 &&
	    has_token(there, request->token)) {
		request->result = LEDGER_OK;
		return SQLITE_OK;
	}
	ledger_row_done(&request->found);
	voided_add(&writer->voided, request);
	request->result = LEDGER_ABSENT;
	return SQLITE_OK;
}

int sqlite_writer_perform(struct sqlite_writer *writer, struct ledger_request *request)
{
	switch (request->verb) {
	case LEDGER_GET:
		return get(writer, request);
	case LEDGER_CLAIM:
	case LEDGER_SETTLE:
	case LEDGER_CHANGE:
		return write_row(writer, request);
	case LEDGER_RENEW:
		return renew(writer, request);
	case LEDGER_VOID:
		return void_claim(writer, request);
	case LEDGER_GATE_PUT:
		return sqlite_gate_put(writer->statements[WRITE_GATE_PUT],
				       writer->statements[WRITE_GATE_DROP], request);
	default:
		return SQLITE_MISUSE;
	}
}
