/* The ledger's tables in SQLite, their versions, and the way from one version to the next. */
#ifndef STINT_BUDGET_SQLITE_SCHEMA_H
#define STINT_BUDGET_SQLITE_SCHEMA_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#define SQLITE_SECRET_LEN 32

/* steps[n] is the SQL that leads from version n to n + 1. */
struct sqlite_steps {
	const char *const *steps;
	int count; /* the version that this program writes */
};

extern const struct sqlite_steps sqlite_schema_steps;

/* Brings an empty file or an older ledger to version steps->count, in one transaction, and makes
 * the secret where there is none. Refuses a newer ledger and the database of another program.
 * Returns an SQLite code; on failure one sentence stands in error. */
int sqlite_schema_migrate(sqlite3 *db, const struct sqlite_steps *steps, char *error,
			  size_t error_len);

/* Reads the secret of an open ledger, whose version must be the current one. Returns an SQLite
 * code, SQLITE_CORRUPT where version or secret are not there. */
int sqlite_schema_secret(sqlite3 *db, uint8_t *ret_secret);

#endif
