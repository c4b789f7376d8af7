/* The schema, version 2. To look at a ledger: `sqlite3 -readonly ledger.db 'SELECT * FROM ops'`.
 *
 * meta        name, value: 'schema' (the version, also in PRAGMA user_version), 'secret' (32 random
 *             bytes, shared by all instances), 'recoveries' (raised when writing works again after
 *             a failure).
 * operations  one row for each operation; provider, tenant, scope and key are its name.
 * ops         a view for people: times as ISO text, sets and sizes in words.
 * gates       (since version 2) one row for each gate that a provider's waiting advice closes:
 *             provider, bucket (0, or a hash of what gate.by names), blocked_until, probing (one
 *             attempt decides when that has passed), cause (rate-limit, unavailable). A row goes
 *             when its block is over.
 *
 * Times are microseconds since the epoch (UTC), 0: none. Flags are 0 or 1. Texts of state, class,
 * effect and fault are those of the API.
 *
 *   incarnation, counter   the version: 16 random bytes made at creation, and a count of changes
 *   state                  ready, attempting, succeeded, failed, exhausted, unknown, held
 *   attempts, attempt_limit  charged so far, and the most that may be
 *   unresolved, unresolved_set  how many attempts may have been applied with nothing definite since,
 *                          and which: a 128-bit big-endian number, bit n - 1 for attempt n (or NULL)
 *   next, deadline, repeat_until, terminal, held_since, last_end, delivered  times
 *   token, owner, lease_until  the lease, while attempting: claim token, instance id, until when
 *   last_n, class, effect, fault, status, reason, retry_never  the last verdict
 *   history                the last 16 attempts as a JSON array: n, at (us), ms, class, effect, status,
 *                          fault, instance, token, verdict
 *   method, target, upstream_key, corrects, corrected_by  texts, NULL where there is none
 *   notes                  JSON, one object a line: probes, late findings, operator actions
 *   reply_*                the reply that is replayed: status, header lines, body, and whether its
 *                          end was the connection's. Last in the row: in the common case nothing
 *                          reads or copies their pages.
 *
 * created, incarnation and the name never change. Changing rows by hand while stint runs is not
 * supported: it decides by incarnation and counter.
 *
 * The indexes are partial wherever they can be, because a claim and a settle pay for each one that
 * they touch: the common operation (claimed at once, succeeded) enters and leaves operations_leases
 * and ends in operations_final. */
#include "budget/sqlite_schema.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "budget/sqlite_db.h"

#define APPLICATION_ID 0x73746e74 /* "stnt" */

static const char version_1[] =
	"CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"CREATE TABLE operations ("
	" id INTEGER PRIMARY KEY,"
	" provider TEXT NOT NULL, tenant TEXT NOT NULL, scope TEXT NOT NULL, key TEXT NOT NULL,"
	" incarnation BLOB NOT NULL, counter INTEGER NOT NULL,"
	" state TEXT NOT NULL, class TEXT NOT NULL, effect TEXT NOT NULL,"
	" attempts INTEGER NOT NULL, attempt_limit INTEGER NOT NULL,"
	" unresolved INTEGER NOT NULL, unresolved_set BLOB,"
	" disputed INTEGER NOT NULL, quarantined INTEGER NOT NULL, tombstone INTEGER NOT NULL,"
	" unkeyed INTEGER NOT NULL, reply_kept INTEGER NOT NULL,"
	" created INTEGER NOT NULL, updated INTEGER NOT NULL, next INTEGER NOT NULL,"
	" deadline INTEGER NOT NULL, repeat_until INTEGER NOT NULL, terminal INTEGER NOT NULL,"
	" held_since INTEGER NOT NULL, last_end INTEGER NOT NULL, delivered INTEGER NOT NULL,"
	" token BLOB, owner TEXT NOT NULL, lease_until INTEGER NOT NULL,"
	" fingerprint BLOB NOT NULL, generation INTEGER NOT NULL, generation_first INTEGER NOT "
	"NULL,"
	" last_n INTEGER NOT NULL, fault TEXT NOT NULL, status INTEGER NOT NULL,"
	" reason TEXT NOT NULL, retry_never INTEGER NOT NULL, settled_by_hand INTEGER NOT NULL,"
	" success_repeatable INTEGER NOT NULL, credential BLOB, remote_id TEXT NOT NULL,"
	" history TEXT NOT NULL,"
	" method TEXT, target TEXT, upstream_key TEXT, corrects TEXT, corrected_by TEXT,"
	" notes TEXT,"
	" reply_status INTEGER, reply_close_delimited INTEGER, reply_head TEXT, reply_body BLOB,"
	" UNIQUE (provider, tenant, scope, key));"

	/* Lists, newest first. */
	"CREATE INDEX operations_created ON operations (created);"
	"CREATE INDEX operations_ended ON operations (state, created)"
	" WHERE state IN ('failed', 'exhausted');"
	/* What time moves. */
	"CREATE INDEX operations_leases ON operations (owner, lease_until)"
	" WHERE state = 'attempting';"
	"CREATE INDEX operations_deadline ON operations (deadline)"
	" WHERE state = 'ready' AND deadline > 0;"
	"CREATE INDEX operations_repeat ON operations (repeat_until)"
	" WHERE state = 'ready' AND unresolved > 0;"
	/* Counts: every row that is not attempting is in one of the first three. */
	"CREATE INDEX operations_waiting ON operations (provider, state, class, next, created)"
	" WHERE terminal = 0 AND state <> 'attempting';"
	"CREATE INDEX operations_final ON operations (provider, state, class, terminal)"
	" WHERE terminal > 0 AND tombstone = 0;"
	"CREATE INDEX operations_tombs ON operations (provider, state, class, terminal)"
	" WHERE terminal > 0 AND tombstone = 1;"
	"CREATE INDEX operations_unresolved ON operations (provider, unkeyed, updated, created)"
	" WHERE unresolved > 0;"
	"CREATE INDEX operations_disputed ON operations (provider) WHERE disputed = 1;"
	/* Retention. */
	"CREATE INDEX operations_held ON operations (provider, held_since)"
	" WHERE state = 'held' AND unresolved = 0;"
	"CREATE INDEX operations_uncharged ON operations (provider, delivered)"
	" WHERE state = 'ready' AND attempts = 0;"

#define ISO(column)                                                                                \
	"strftime('%Y-%m-%dT%H:%M:%fZ', nullif(" column ", 0) / 1e6, 'unixepoch') AS " column
	/* It would set each macro on a line of its own, ever further to the right. */
	/* clang-format off */
	"CREATE VIEW ops AS SELECT provider, tenant, scope, key, state, class, effect, status, reason,"
	" fault, attempts, attempt_limit, unresolved, disputed, quarantined, unkeyed, tombstone,"
	" method, target, remote_id, "
	ISO("created") ", " ISO("updated") ", " ISO("next") ", " ISO("deadline") ", "
	ISO("repeat_until") ", " ISO("terminal") ", " ISO("held_since") ", owner, "
	ISO("lease_until") ", lower(hex(incarnation)) AS incarnation, counter, generation,"
	" lower(hex(fingerprint)) AS fingerprint, history, notes, corrects, corrected_by,"
	" reply_status, length(reply_body) AS reply_bytes FROM operations;";
#undef ISO
/* clang-format on */

static const char version_2[] =
	"CREATE TABLE gates ("
	" provider TEXT NOT NULL, bucket INTEGER NOT NULL, blocked_until INTEGER NOT NULL,"
	" probing INTEGER NOT NULL, cause TEXT NOT NULL,"
	" PRIMARY KEY (provider, bucket)) WITHOUT ROWID;";

static const char *const all_steps[] = {version_1, version_2};

const struct sqlite_steps sqlite_schema_steps = {
	.steps = all_steps,
	.count = sizeof(all_steps) / sizeof(all_steps[0]),
};

/* Which version the file has; refuses what is not ours. */
static int look(sqlite3 *db, const struct sqlite_steps *steps, int *ret_version, char *error,
		size_t error_len)
{
	int64_t version, application, tables;
	int rc = sqlite_db_number(db, "PRAGMA user_version", &version);
	if (rc == SQLITE_OK)
		rc = sqlite_db_number(db, "PRAGMA application_id", &application);
	if (rc == SQLITE_OK)
		rc = sqlite_db_number(db, "SELECT count(*) FROM sqlite_master", &tables);
	if (rc != SQLITE_OK) {
		snprintf(error, error_len, "it cannot be read: %s", sqlite_db_error(rc));
		return rc;
	}
	if (application != APPLICATION_ID && (version != 0 || application != 0 || tables != 0)) {
		snprintf(error, error_len, "it is the SQLite database of another program");
		return SQLITE_NOTADB;
	}
	if (version < 0 || version > steps->count) {
		snprintf(error, error_len,
			 "its schema has version %lld, and this stint knows versions up to %d: run "
			 "the newer stint again, or give this one a ledger of its own",
			 (long long)version, steps->count);
		return SQLITE_MISMATCH;
	}
	*ret_version = (int)version;
	return SQLITE_OK;
}

static int write_secret(sqlite3 *db)
{
	uint8_t secret[SQLITE_SECRET_LEN];
	if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
		return SQLITE_IOERR;
	sqlite3_stmt *stmt;
	int rc = sqlite3_prepare_v2(db, "INSERT OR IGNORE INTO meta VALUES ('secret', ?1)", -1,
				    &stmt, NULL);
	if (rc != SQLITE_OK)
		return rc;
	rc = sqlite3_bind_blob(stmt, 1, secret, sizeof(secret), SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite_db_run(stmt);
	sqlite3_finalize(stmt);
	return rc;
}

/* From `version` to the newest; inside a transaction. */
static int climb(sqlite3 *db, const struct sqlite_steps *steps, int version)
{
	char sql[256];
	int rc = SQLITE_OK;
	for (int i = version; i < steps->count && rc == SQLITE_OK; i++)
		rc = sqlite_db_exec(db, steps->steps[i]);
	if (rc == SQLITE_OK)
		rc = write_secret(db);
	if (rc != SQLITE_OK)
		return rc;
	snprintf(sql, sizeof(sql),
		 "INSERT OR IGNORE INTO meta VALUES ('recoveries', 0);"
		 "INSERT OR REPLACE INTO meta VALUES ('schema', %d);"
		 "PRAGMA application_id=%d;"
		 "PRAGMA user_version=%d;",
		 steps->count, APPLICATION_ID, steps->count);
	return sqlite_db_exec(db, sql);
}

int sqlite_schema_migrate(sqlite3 *db, const struct sqlite_steps *steps, char *error,
			  size_t error_len)
{
	int version;
	int rc = look(db, steps, &version, error, error_len);
	if (rc != SQLITE_OK || version == steps->count)
		return rc;
	rc = sqlite_db_exec(db, "BEGIN IMMEDIATE");
	if (rc != SQLITE_OK) {
		snprintf(error, error_len, "it cannot be written: %s", sqlite_db_error(rc));
		return rc;
	}
	/* Another process may have come first. */
	rc = look(db, steps, &version, error, error_len);
	if (rc == SQLITE_OK && version < steps->count) {
		rc = climb(db, steps, version);
		if (rc != SQLITE_OK)
			snprintf(error, error_len, "moving its schema from version %d to %d: %s",
				 version, steps->count, sqlite3_errmsg(db));
	}
	if (rc == SQLITE_OK) {
		rc = sqlite_db_exec(db, "COMMIT");
		if (rc != SQLITE_OK)
			snprintf(error, error_len, "it cannot be written: %s", sqlite_db_error(rc));
	}
	if (rc != SQLITE_OK)
		sqlite_db_exec(db, "ROLLBACK");
	return rc;
}

int sqlite_schema_secret(sqlite3 *db, uint8_t *ret_secret)
{
	int64_t version;
	int rc = sqlite_db_number(db, "PRAGMA user_version", &version);
	if (rc != SQLITE_OK)
		return rc;
	if (version != sqlite_schema_steps.count)
		return SQLITE_CORRUPT;
	sqlite3_stmt *stmt;
	rc = sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE name = 'secret'", -1, &stmt,
				NULL);
	if (rc != SQLITE_OK)
		return rc;
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 0) == SQLITE_SECRET_LEN) {
		memcpy(ret_secret, sqlite3_column_blob(stmt, 0), SQLITE_SECRET_LEN);
		rc = SQLITE_OK;
	} else if (rc == SQLITE_ROW || rc == SQLITE_DONE) {
		rc = SQLITE_CORRUPT;
	}
	sqlite3_finalize(stmt);
	return rc;
}
