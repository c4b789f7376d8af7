/* The embedded ledger: SQLite in WAL mode, one writer thread with group commit, one reader thread. */
#ifndef STINT_BUDGET_SQLITE_STORE_H
#define STINT_BUDGET_SQLITE_STORE_H

#include "budget/ledger.h"

/* Opens or creates the ledger at `path`. disk: every commit survives power loss (synchronous=FULL);
 * else it survives a crash of the process only. queue_max bounds the requests waiting (beyond it:
 * LEDGER_AWAY). Writes one sentence into error and returns -1 if the ledger cannot be used at all
 * (wrong schema version, not a database, no such directory); 0 and ret_ledger otherwise. */
int sqlite_store_open(const char *path, bool disk, size_t queue_max, char *error, size_t error_len,
		      struct ledger **ret_ledger);

#endif
