/* The blocks of gates in the ledger's file. */
#ifndef STINT_BUDGET_SQLITE_GATE_H
#define STINT_BUDGET_SQLITE_GATE_H

#include <sqlite3.h>

#include "budget/ledger.h"

/* ?1 provider, ?2 bucket, and in a PUT ?3 blocked_until, ?4 probing, ?5 cause. A process that shares
 * the file may have written a later block: it is not taken away before its time. */
#define SQLITE_GATE_PUT                                                                            \
	"INSERT INTO gates VALUES (?1, ?2, ?3, ?4, ?5)"                                            \
	" ON CONFLICT (provider, bucket) DO UPDATE SET blocked_until = excluded.blocked_until,"    \
	" probing = excluded.probing, cause = excluded.cause"
#define SQLITE_GATE_DROP                                                                           \
	"DELETE FROM gates WHERE provider = ?1 AND bucket = ?2 AND blocked_until <= ?3"

/* GATE_PUT by one of the two statements (for a block that is all zero: DROP, at request->now), and
 * GATE_LIST. Both write the answer, and return an SQLite code. */
int sqlite_gate_put(sqlite3_stmt *put, sqlite3_stmt *drop, struct ledger_request *request);
int sqlite_gate_list(sqlite3 *db, struct ledger_request *request);

#endif
