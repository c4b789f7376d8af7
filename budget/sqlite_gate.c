#include "budget/sqlite_gate.h"

#include <stdlib.h>
#include <string.h>

#include "budget/sqlite_db.h"

/* More than all providers of a configuration can have: a file that was tampered with ends here. */
#define GATES_MAX 1000000

static const char rate_limit[] = "rate-limit";
static const char unavailable[] = "unavailable";

int sqlite_gate_put(sqlite3_stmt *put, sqlite3_stmt *drop, struct ledger_request *request)
{
	const struct gate_block *block = &request->gate.block;
	bool over = block->until == 0 && !block->probing;
	sqlite3_stmt *stmt = over ? drop : put;
	int rc = sqlite3_bind_text(stmt, 1, request->name.provider, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(stmt, 2, (int64_t)request->gate.bucket);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(stmt, 3, over ? request->now : block->until);
	if (rc == SQLITE_OK && !over)
		rc = sqlite3_bind_int(stmt, 4, block->probing);
	if (rc == SQLITE_OK && !over)
		rc = sqlite3_bind_text(stmt, 5, block->rate_limited ? rate_limit : unavailable, -1,
				       SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite_db_run(stmt);
	if (rc == SQLITE_OK)
		request->result = LEDGER_OK;
	return rc;
}

/* Appends the current row; its capacity is the next power of two. */
static int append(sqlite3_stmt *stmt, struct ledger_request *request)
{
	size_t count = request->gate_count;
	struct ledger_gate *gates = request->gates;
	if ((count & (count - 1)) == 0)
		gates = reallocarray(gates, count == 0 ? 1 : 2 * count, sizeof(*gates));
	if (!gates)
		return SQLITE_NOMEM;
	request->gates = gates;
	const char *provider = (const char *)sqlite3_column_text(stmt, 0);
	const char *cause = (const char *)sqlite3_column_text(stmt, 4);
	gates[count] = (struct ledger_gate){
		.provider = strdup(provider ? provider : ""),
		.bucket = (uint64_t)sqlite3_column_int64(stmt, 1),
		.block = {.until = sqlite3_column_int64(stmt, 2),
			  .probing = sqlite3_column_int(stmt, 3) != 0,
			  .rate_limited = cause && strcmp(cause, rate_limit) == 0},
	};
	if (!gates[count].provider)
		return SQLITE_NOMEM;
	request->gate_count++;
	return SQLITE_OK;
}

int sqlite_gate_list(sqlite3 *db, struct ledger_request *request)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db,
				    "SELECT provider, bucket, blocked_until, probing, cause"
				    " FROM gates ORDER BY provider, bucket LIMIT ?1",
				    -1, &stmt, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int(stmt, 1, GATES_MAX);
	while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
		rc = append(stmt, request);
	sqlite3_finalize(stmt);
	request->result = LEDGER_OK;
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}
