/* Every statement finds its rows through one index and takes at most what is left of the call's
 * share. Unresolved operations go by the last two only. */
#include "budget/sqlite_retain.h"

#define ALL_CLASSES                                                                                \
	"('none', 'success', 'invalid', 'auth', 'quota', 'rate_limited', 'transient', 'deferred'," \
	" 'unknown')"
#define ENDED                                                                                      \
	"provider = ?1 AND state IN ('succeeded', 'failed', 'exhausted') AND class "               \
	"IN " ALL_CLASSES

/* ?1 provider, ?2 the cut-off, ?3 the most rows, ?4 whether unkeyed = 0 goes too. */
static const char trim[] =
	"UPDATE operations SET tombstone = 1, counter = counter + 1, reply_kept = 0, history = "
	"'[]',"
	" token = NULL, credential = NULL, method = NULL, target = NULL,"
	" notes = NULL, reply_status = NULL, reply_close_delimited = NULL, reply_head = NULL,"
	" reply_body = NULL"
	" WHERE id IN (SELECT id FROM operations INDEXED BY operations_final"
	" WHERE terminal > 0 AND tombstone = 0 AND " ENDED " AND terminal < ?2 LIMIT ?3)";

#define DELETE(index, where)                                                                       \
	"DELETE FROM operations WHERE id IN (SELECT id FROM operations INDEXED BY " index          \
	" WHERE " where " LIMIT ?3)"

static const char *const deletes[] = {
	DELETE("operations_tombs",
	       "terminal > 0 AND tombstone = 1 AND " ENDED " AND terminal < ?2 AND unresolved = 0"),
	DELETE("operations_final",
	       "terminal > 0 AND tombstone = 0 AND " ENDED " AND terminal < ?2 AND unresolved = 0"),
	DELETE("operations_held", "state = 'held' AND unresolved = 0 AND provider = ?1"
				  " AND held_since > 0 AND held_since < ?2"),
	/* `delivered` moves with each delivery; a record that has none yet counts from `created`. */
	DELETE("operations_uncharged", "state = 'ready' AND attempts = 0 AND provider = ?1"
				       " AND delivered < ?2 AND created < ?2"),
};

/* What may still move by itself (attempting, ready) is left to become unknown first. */
#define UNKNOWN                                                                                    \
	"unresolved > 0 AND provider = ?1 AND unkeyed IN (1, 1 - ?4) AND state IN ('unknown', "    \
	"'held')"

static const char expire_unknown[] = DELETE("operations_unresolved", UNKNOWN " AND updated < ?2");
static const char count_unknown[] =
	"SELECT count(*) FROM operations INDEXED BY operations_unresolved WHERE " UNKNOWN;
static const char shrink_unknown[] =
	DELETE("operations_unresolved", UNKNOWN " ORDER BY updated, id");

struct share {
	sqlite3 *db;
	const struct ledger_retention *retention;
	int64_t left;
};

static int prepare(struct share *share, const char *sql, usec_t before, int64_t most,
		   sqlite3_stmt **ret_stmt)
{
	int rc = sqlite3_prepare_v2(share->db, sql, -1, ret_stmt, NULL);
	if (rc != SQLITE_OK)
		return rc;
	sqlite3_bind_text(*ret_stmt, 1, share->retention->provider, -1, SQLITE_STATIC);
	int known = sqlite3_bind_parameter_count(*ret_stmt);
	if (known >= 2)
		sqlite3_bind_int64(*ret_stmt, 2, before);
	if (known >= 3)
		sqlite3_bind_int64(*ret_stmt, 3, most);
	if (known >= 4)
		sqlite3_bind_int(*ret_stmt, 4, share->retention->cost);
	return SQLITE_OK;
}

static int take(struct share *share, const char *sql, usec_t before, int64_t most,
		int64_t *ret_taken)
{
	sqlite3_stmt *stmt = NULL;
	*ret_taken = 0;
	if (most > share->left)
		most = share->left;
	if (most <= 0)
		return SQLITE_OK;
	int rc = prepare(share, sql, before, most, &stmt);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	sqlite3_finalize(stmt);
	if (rc != SQLITE_DONE)
		return rc;
	*ret_taken = sqlite3_changes(share->db);
	share->left -= *ret_taken;
	return SQLITE_OK;
}

static int count(struct share *share, const char *sql, int64_t *ret_count)
{
	sqlite3_stmt *stmt = NULL;
	int rc = prepare(share, sql, 0, 0, &stmt);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW) {
		*ret_count = sqlite3_column_int64(stmt, 0);
		rc = SQLITE_OK;
	}
	sqlite3_finalize(stmt);
	return rc;
}

static int retain_unknown(struct share *share, int64_t *ret_dropped)
{
	const struct ledger_retention *retention = share->retention;
	int64_t there = 0, taken = 0;
	int rc = take(share, expire_unknown, retention->unknown_before, share->left, ret_dropped);
	if (rc != SQLITE_OK || retention->unknown_max <= 0)
		return rc;
	rc = count(share, count_unknown, &there);
	if (rc == SQLITE_OK)
		rc = take(share, shrink_unknown, 0, there - retention->unknown_max, &taken);
	if (rc == SQLITE_OK)
		*ret_dropped += taken;
	return rc;
}

int sqlite_retain(sqlite3 *db, const struct ledger_retention *retention, int64_t *ret_taken,
		  int64_t *ret_dropped)
{
	struct share share = {.db = db, .retention = retention, .left = SQLITE_RETAIN_ROWS};
	int64_t taken, dropped = 0;
	int rc = SQLITE_OK;
	for (size_t i = 0; i < sizeof(deletes) / sizeof(deletes[0]) && rc == SQLITE_OK; i++)
		rc = take(&share, deletes[i], retention->tombstones_before, share.left, &taken);
	if (rc == SQLITE_OK)
		rc = take(&share, trim, retention->replies_before, share.left, &taken);
	if (rc == SQLITE_OK)
		rc = retain_unknown(&share, &dropped);
	if (rc != SQLITE_OK)
		return rc;
	*ret_taken = SQLITE_RETAIN_ROWS - share.left;
	*ret_dropped = dropped;
	return SQLITE_OK;
}
