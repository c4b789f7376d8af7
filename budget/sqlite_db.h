/* One connection to the ledger's file: how it is opened, and what SQLite's errors mean here. */
#ifndef STINT_BUDGET_SQLITE_DB_H
#define STINT_BUDGET_SQLITE_DB_H

#include <sqlite3.h>

#include "budget/ledger.h"

enum sqlite_db_access {
	SQLITE_DB_CREATE, /* the first opening: makes the file (mode 0600) where there is none */
	SQLITE_DB_WRITE,  /* opened again: a file that is gone is an error, not a new ledger */
	SQLITE_DB_READ,
};

/* Opens `path` in WAL mode with this program's settings. disk: see sqlite_store_open(). Returns an
 * SQLite code; ret_db is written on SQLITE_OK only. SQLITE_MISUSE: the file cannot be in WAL mode. */
int sqlite_db_open(const char *path, enum sqlite_db_access access, bool disk, sqlite3 **ret_db);

/* Runs SQL that answers no rows. Returns an SQLite code. */
int sqlite_db_exec(sqlite3 *db, const char *sql);

/* Reads the one integer that `sql` answers. Returns an SQLite code. */
int sqlite_db_number(sqlite3 *db, const char *sql, int64_t *ret_number);

/* Steps a statement that answers no rows, and resets it. Returns an SQLite code. */
int sqlite_db_run(sqlite3_stmt *stmt);

/* FULL, DAMAGED or AWAY for an SQLite code that is not SQLITE_OK; the text is static. */
enum ledger_result sqlite_db_result(int rc);
const char *sqlite_db_error(int rc);

#endif
