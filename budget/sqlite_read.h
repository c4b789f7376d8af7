/* The reader's connection: lists, what is due, and counts, which never delay a claim. */
#ifndef STINT_BUDGET_SQLITE_READ_H
#define STINT_BUDGET_SQLITE_READ_H

#include <sqlite3.h>

#include "budget/ledger.h"
#include "budget/sqlite_instance.h"

#define SQLITE_ROWS_MAX 1000 /* in one answer */
#define SQLITE_ROWS_DEFAULT 100

/* DUE, LIST, STATS, by their names. Each writes result and answers, and returns an SQLite code;
 * anything but SQLITE_OK leaves a part of the answer, for ledger_request_done() to free. A row that
 * cannot be read is left out and counted in ret_damaged. */
int sqlite_read_due(sqlite3 *db, const struct sqlite_instance *instance,
		    struct ledger_request *request, int *ret_damaged);
int sqlite_read_list(sqlite3 *db, struct ledger_request *request, int *ret_damaged);
int sqlite_read_stats(sqlite3 *db, struct ledger_request *request);

#endif
