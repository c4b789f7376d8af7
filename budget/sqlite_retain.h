/* Retention in SQLite: trims replies, makes tombstones, deletes, a few rows at a time. */
#ifndef STINT_BUDGET_SQLITE_RETAIN_H
#define STINT_BUDGET_SQLITE_RETAIN_H

#include <sqlite3.h>

#include "budget/ledger.h"

#define SQLITE_RETAIN_ROWS 500 /* in one call, so that no claim waits for long behind it */

/* Inside the caller's transaction. Returns an SQLite code; on SQLITE_OK how many rows were taken
 * (call again while it is not 0), and how many of them were unknown outcomes. */
int sqlite_retain(sqlite3 *db, const struct ledger_retention *retention, int64_t *ret_taken,
		  int64_t *ret_dropped);

#endif
