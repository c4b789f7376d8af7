/* A row of the operations table and the struct it stands for: one table of columns feeds the SQL,
 * the binding and the reading. */
#ifndef STINT_BUDGET_SQLITE_ROWS_H
#define STINT_BUDGET_SQLITE_ROWS_H

#include <sqlite3.h>

#include "budget/ledger.h"
#include "budget/sqlite_history.h"

/* Numbers of the parameters that these statements share. */
enum {
	PARAM_PROVIDER = 1,
	PARAM_TENANT,
	PARAM_SCOPE,
	PARAM_KEY,
	PARAM_INCARNATION, /* expected */
	PARAM_COUNTER,     /* expected */
	PARAM_TOKEN,       /* expected */
	PARAM_WANT_NOTES,
	PARAM_TEXTS, /* five of them */
	PARAM_NOTE = PARAM_TEXTS + 5,
	PARAM_REPLY_MODE,
	PARAM_REPLY, /* four of them */
	PARAM_COLUMNS = PARAM_REPLY + 4,
};

#define SQLITE_WHERE_NAME "provider = ?1 AND tenant = ?2 AND scope = ?3 AND key = ?4"

enum sqlite_select {
	SELECT_ROW,   /* the operation and its texts */
	SELECT_NOTES, /* and the notes, where parameter PARAM_WANT_NOTES is true */
	SELECT_REPLY, /* and the reply */
};

/* SQL texts, to be freed with sqlite3_free(); NULL: out of memory. The select's first column is the
 * row id; `rest` begins with FROM. */
char *sqlite_rows_select(enum sqlite_select what, const char *rest);
char *sqlite_rows_insert(void);              /* does nothing where the name exists */
char *sqlite_rows_update(const char *where); /* `where` without the word */

/* Bind the name, and all that insert and update write. What is bound must live until the statement
 * is reset; history is its scratch. Return an SQLite code. */
int sqlite_rows_bind_name(sqlite3_stmt *stmt, const struct op_name *name);
int sqlite_rows_bind(sqlite3_stmt *stmt, const struct ledger_request *request,
		     char history[SQLITE_HISTORY_MAX]);

/* Reads the current row. Returns SQLITE_OK, SQLITE_NOMEM, or SQLITE_CORRUPT where the row is none
 * that this program writes; ret_row is written on SQLITE_OK only. */
int sqlite_rows_read(sqlite3_stmt *stmt, enum sqlite_select what, struct ledger_row *ret_row);

/* The creation time of the current row, also of one that cannot be read. */
usec_t sqlite_rows_created(sqlite3_stmt *stmt);

#endif
