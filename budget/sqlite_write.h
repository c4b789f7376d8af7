/* The writer's connection: runs one request at a time inside a transaction that its caller opens,
 * commits and answers for. */
#ifndef STINT_BUDGET_SQLITE_WRITE_H
#define STINT_BUDGET_SQLITE_WRITE_H

#include <sqlite3.h>

#include "budget/ledger.h"
#include "budget/sqlite_history.h"

#define SQLITE_VOIDED_MAX 1024
#define SQLITE_VOIDED_FOR (60 * USEC_SEC)

/* Tokens of claims that were voided before they were seen; the oldest gives way. */
struct sqlite_voided {
	struct {
		uint8_t incarnation[OP_INCARNATION_LEN];
		uint8_t token[OP_TOKEN_LEN];
		usec_t until;
	} ring[SQLITE_VOIDED_MAX];
	size_t first, count;
};

enum sqlite_write_statement {
	WRITE_BEGIN_READ,
	WRITE_BEGIN,
	WRITE_COMMIT,
	WRITE_ROLLBACK,
	WRITE_RECOVERED,
	WRITE_FIND,
	WRITE_GET,
	WRITE_INSERT,
	WRITE_SWAP,
	WRITE_SETTLE,
	WRITE_RENEW,
	WRITE_GATE_PUT,
	WRITE_GATE_DROP,
	WRITE_STATEMENT_COUNT,
};

struct sqlite_writer {
	sqlite3 *db; /* NULL: not open */
	sqlite3_stmt *statements[WRITE_STATEMENT_COUNT];
	struct sqlite_voided voided;
	char history[SQLITE_HISTORY_MAX];
};

/* Prepares the statements on `db` and takes it over; on failure db is closed. */
int sqlite_writer_open(struct sqlite_writer *writer, sqlite3 *db);
void sqlite_writer_close(struct sqlite_writer *writer); /* also when it is not open */

/* Runs one statement without parameters. Returns an SQLite code. */
int sqlite_writer_run(struct sqlite_writer *writer, enum sqlite_write_statement statement);

/* Whether a request only reads: a batch of such needs no write lock and no sync. */
bool sqlite_writer_only_reads(const struct ledger_request *request);

/* Performs GET, CLAIM, SETTLE, RENEW, VOID, CHANGE or GATE_PUT and writes result and found. Returns an SQLite
 * code; anything but SQLITE_OK leaves the answer unwritten. The answer counts after the commit. */
int sqlite_writer_perform(struct sqlite_writer *writer, struct ledger_request *request);

#endif
