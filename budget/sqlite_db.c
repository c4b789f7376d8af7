/* Connections: WAL, synchronous=FULL for `disk` (SQLite then syncs the WAL at each commit), NORMAL
 * for `process` (the WAL is synced before a checkpoint only; a crash of the process loses nothing,
 * since the kernel has the pages). */
#include "budget/sqlite_db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUSY_MS 2000  /* another process' transaction on the same file */
#define WAL_TRIES 100 /* switching a new file to WAL ignores the busy timeout */
#define WAL_TRY_MS 20

int sqlite_db_exec(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int sqlite_db_run(sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);
	int reset = sqlite3_reset(stmt);
	if (rc == SQLITE_DONE || rc == SQLITE_ROW)
		return reset;
	return rc;
}

int sqlite_db_number(sqlite3 *db, const char *sql, int64_t *ret_number)
{
	sqlite3_stmt *stmt;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	if (rc != SQLITE_OK)
		return rc;
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		*ret_number = sqlite3_column_int64(stmt, 0);
		rc = SQLITE_OK;
	} else if (rc == SQLITE_DONE) {
		rc = SQLITE_CORRUPT;
	}
	sqlite3_finalize(stmt);
	return rc;
}

static int journal_mode_once(sqlite3 *db)
{
	sqlite3_stmt *stmt;
	int rc = sqlite3_prepare_v2(db, "PRAGMA journal_mode=WAL", -1, &stmt, NULL);
	if (rc != SQLITE_OK)
		return rc;
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		const char *mode = (const char *)sqlite3_column_text(stmt, 0);
		rc = mode && strcmp(mode, "wal") == 0 ? SQLITE_OK : SQLITE_MISUSE;
	}
	sqlite3_finalize(stmt);
	return rc;
}

static int journal_mode(sqlite3 *db)
{
	int rc = SQLITE_BUSY;
	for (int i = 0; i < WAL_TRIES && rc == SQLITE_BUSY; i++) {
		if (i > 0)
			nanosleep(&(struct timespec){.tv_nsec = WAL_TRY_MS * 1000000L}, NULL);
		rc = journal_mode_once(db);
	}
	return rc;
}

/* A file made here is readable by its owner only (it keeps replies); -wal and -shm inherit that.
 * An existing file is never opened and closed: that would drop this process' locks on it. */
static int create_private(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	else if (errno != EEXIST)
		return SQLITE_CANTOPEN;
	return SQLITE_OK;
}

int sqlite_db_open(const char *path, enum sqlite_db_access access, bool disk, sqlite3 **ret_db)
{
	sqlite3 *db = NULL;
	int rc = SQLITE_OK;
	if (access == SQLITE_DB_CREATE)
		rc = create_private(path);
	if (rc != SQLITE_OK)
		return rc;
	int flags = access == SQLITE_DB_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
	rc = sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(db, BUSY_MS);
	if (rc == SQLITE_OK && access != SQLITE_DB_READ)
		rc = journal_mode(db);
	if (rc == SQLITE_OK && access != SQLITE_DB_READ)
		rc = sqlite_db_exec(db,
				    disk ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
	if (rc == SQLITE_OK)
		rc = sqlite_db_exec(db, "PRAGMA temp_store=MEMORY;"
					"PRAGMA cache_size=-16384;" /* KiB */
					"PRAGMA secure_delete=FAST;"
					"PRAGMA wal_autocheckpoint=2000;"
					"PRAGMA journal_size_limit=16777216;");
	if (rc != SQLITE_OK) {
		sqlite3_close(db);
		return rc;
	}
	*ret_db = db;
	return SQLITE_OK;
}

enum ledger_result sqlite_db_result(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return LEDGER_FULL;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return LEDGER_DAMAGED;
	default:
		return LEDGER_AWAY;
	}
}

const char *sqlite_db_error(int rc)
{
	return sqlite3_errstr(rc & 0xff);
}
