#include "budget/sqlite_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/sqlite_rows.h"

/* The array with room for one more element, or NULL (out of memory; the array stays). */
static void *grow(void *array, size_t count, size_t size)
{
	if (count & (count - 1)) /* capacities are the powers of two */
		return array;
	return reallocarray(array, count == 0 ? 1 : 2 * count, size);
}

static size_t row_limit(const struct ledger_request *request)
{
	int limit = request->filter.limit;
	if (limit < 1)
		limit = SQLITE_ROWS_DEFAULT;
	return (size_t)(limit > SQLITE_ROWS_MAX ? SQLITE_ROWS_MAX : limit);
}

/* Appends the current row, unless it cannot be read. */
static int append(sqlite3_stmt *stmt, enum sqlite_select what, struct ledger_request *request,
		  int *damaged)
{
	struct ledger_row *rows = grow(request->rows, request->row_count, sizeof(*rows));
	if (!rows)
		return SQLITE_NOMEM;
	request->rows = rows;
	int rc = sqlite_rows_read(stmt, what, &request->rows[request->row_count]);
	if (rc == SQLITE_OK)
		request->row_count++;
	else if (rc == SQLITE_CORRUPT)
		(*damaged)++;
	return rc == SQLITE_CORRUPT ? SQLITE_OK : rc;
}

static int prepare_select(sqlite3 *db, enum sqlite_select what, const char *rest,
			  sqlite3_stmt **ret_stmt)
{
	char *sql = sqlite_rows_select(what, rest);
	int rc = sql ? sqlite3_prepare_v2(db, sql, -1, ret_stmt, NULL) : SQLITE_NOMEM;
	sqlite3_free(sql);
	return rc;
}

/* --- DUE ------------------------------------------------------------------------------------ */

/* Runs a select with ?1 an owner (or nothing) and ?2 a time, up to the request's limit. */
static int due_rows(sqlite3 *db, const char *rest, const char *owner, usec_t until,
		    struct ledger_request *request, int *damaged)
{
	sqlite3_stmt *stmt = NULL;
	int rc = prepare_select(db, SELECT_ROW, rest, &stmt);
	if (rc == SQLITE_OK && owner)
		rc = sqlite3_bind_text(stmt, 1, owner, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(stmt, 2, until);
	while (rc == SQLITE_OK && request->row_count < row_limit(request)) {
		rc = sqlite3_step(stmt);
		if (rc == SQLITE_ROW)
			rc = append(stmt, SELECT_ROW, request, damaged);
	}
	sqlite3_finalize(stmt);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int due_leases(sqlite3 *db, const struct sqlite_instance *instance, const char *owner,
		      struct ledger_request *request, int *damaged)
{
	bool dead = sqlite_instance_is_dead(instance, owner);
	size_t first = request->row_count;
	int rc = due_rows(db,
			  "FROM operations INDEXED BY operations_leases WHERE state = 'attempting'"
			  " AND owner = ?1 AND lease_until <= ?2 ORDER BY lease_until",
			  owner, dead ? USEC_MAX : request->now, request, damaged);
	for (size_t i = first; i < request->row_count; i++) {
		struct op *op = &request->rows[i].op;
		op->lease_until = usec_min(op->lease_until, request->now);
		request->rows[i].owner_dead = dead;
	}
	return rc;
}

int sqlite_read_due(sqlite3 *db, const struct sqlite_instance *instance,
		    struct ledger_request *request, int *ret_damaged)
{
	sqlite3_stmt *owners = NULL;
	*ret_damaged = 0;
	int rc = sqlite3_prepare_v2(db,
				    "SELECT DISTINCT owner FROM operations"
				    " INDEXED BY operations_leases WHERE state = 'attempting'",
				    -1, &owners, NULL);
	while (rc == SQLITE_OK && (rc = sqlite3_step(owners)) == SQLITE_ROW) {
		const char *owner = (const char *)sqlite3_column_text(owners, 0);
		rc = owner ? due_leases(db, instance, owner, request, ret_damaged) : SQLITE_NOMEM;
	}
	sqlite3_finalize(owners);
	if (rc == SQLITE_DONE)
		rc = due_rows(db,
			      "FROM operations INDEXED BY operations_deadline WHERE state = 'ready'"
			      " AND deadline > 0 AND deadline <= ?2 ORDER BY deadline",
			      NULL, request->now, request, ret_damaged);
	if (rc == SQLITE_OK)
		rc = due_rows(db,
			      "FROM operations INDEXED BY operations_repeat WHERE state = 'ready'"
			      " AND unresolved > 0 AND repeat_until <= ?2"
			      " AND NOT (deadline > 0 AND deadline <= ?2) ORDER BY repeat_until",
			      NULL, request->now, request, ret_damaged);
	request->result = LEDGER_OK;
	return rc;
}

/* --- LIST ----------------------------------------------------------------------------------- */

/* The index that finds a state's rows, with the words that let SQLite use it. */
static const char *list_source(int state)
{
	switch (state) {
	case OP_UNKNOWN:
		return "operations_unresolved WHERE unresolved > 0";
	case OP_ATTEMPTING:
		return "operations_leases WHERE state = 'attempting'";
	case OP_READY:
		return "operations_waiting WHERE terminal = 0 AND state <> 'attempting'"
		       " AND state = 'ready'";
	case OP_HELD:
		return "operations_waiting WHERE terminal = 0 AND state <> 'attempting'"
		       " AND state = 'held'";
	case OP_FAILED:
		return "operations_ended WHERE state IN ('failed', 'exhausted')"
		       " AND state = 'failed'";
	case OP_EXHAUSTED:
		return "operations_ended WHERE state IN ('failed', 'exhausted')"
		       " AND state = 'exhausted'";
	case OP_SUCCEEDED:
		return "operations_created WHERE state = 'succeeded'";
	default:
		return "operations_created WHERE true";
	}
}

/* A cursor is the creation time and the id of the last row of the page before. */
static bool cursor_read(const char *text, int64_t *ret_created, int64_t *ret_id)
{
	unsigned long long created, id;
	int end = 0;
	if (sscanf(text, "%16llx-%16llx%n", &created, &id, &end) != 2 || text[end] != '\0')
		return false;
	*ret_created = (int64_t)created;
	*ret_id = (int64_t)id;
	return true;
}

static int list_bind(sqlite3_stmt *stmt, const struct ledger_filter *filter, int64_t created,
		     int64_t id)
{
	int rc = sqlite3_bind_int(stmt, PARAM_WANT_NOTES, filter->want_notes);
	if (rc == SQLITE_OK && filter->provider)
		rc = sqlite3_bind_text(stmt, 1, filter->provider, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK && filter->tenant)
		rc = sqlite3_bind_text(stmt, 2, filter->tenant, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK && filter->key_prefix)
		rc = sqlite3_bind_text(stmt, 3, filter->key_prefix, -1, SQLITE_STATIC);
	if (rc == SQLITE_OK && filter->class >= 0)
		rc = sqlite3_bind_text(stmt, 4,
				       outcome_class_name((enum outcome_class)filter->class), -1,
				       SQLITE_STATIC);
	if (rc == SQLITE_OK && filter->before > 0)
		rc = sqlite3_bind_int64(stmt, 5, filter->before);
	if (rc == SQLITE_OK && filter->cursor)
		rc = sqlite3_bind_int64(stmt, 6, created);
	if (rc == SQLITE_OK && filter->cursor)
		rc = sqlite3_bind_int64(stmt, 7, id);
	return rc;
}

static int list_prepare(sqlite3 *db, const struct ledger_filter *filter, int64_t created,
			int64_t id, sqlite3_stmt **ret_stmt)
{
	char *rest = sqlite3_mprintf(
		"FROM operations INDEXED BY %s%s%s%s%s%s%s"
		" ORDER BY created DESC, id DESC",
		list_source(filter->state), filter->provider ? " AND provider = ?1" : "",
		filter->tenant ? " AND tenant = ?2" : "",
		filter->key_prefix ? " AND substr(key, 1, length(?3)) = ?3" : "",
		filter->class >= 0 ? " AND class = ?4" : "",
		filter->before > 0 ? " AND created < ?5" : "",
		filter->cursor ? " AND (created, id) < (?6, ?7)" : "");
	int rc = rest ? prepare_select(db, SELECT_NOTES, rest, ret_stmt) : SQLITE_NOMEM;
	sqlite3_free(rest);
	return rc == SQLITE_OK ? list_bind(*ret_stmt, filter, created, id) : rc;
}

int sqlite_read_list(sqlite3 *db, struct ledger_request *request, int *ret_damaged)
{
	int64_t created = 0, id = 0;
	sqlite3_stmt *stmt = NULL;
	size_t limit = row_limit(request), seen = 0;
	*ret_damaged = 0;
	if (request->filter.cursor && !cursor_read(request->filter.cursor, &created, &id)) {
		request->result = LEDGER_ABSENT;
		return SQLITE_OK;
	}
	int rc = list_prepare(db, &request->filter, created, id, &stmt);
	while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		if (seen == limit) {
			if (asprintf(&request->cursor, "%llx-%llx", (long long)created,
				     (long long)id) < 0) {
				request->cursor = NULL;
				rc = SQLITE_NOMEM;
			} else {
				rc = SQLITE_DONE;
			}
			break;
		}
		seen++;
		id = sqlite3_column_int64(stmt, 0);
		created = sqlite_rows_created(stmt);
		rc = append(stmt, SELECT_NOTES, request, ret_damaged);
	}
	sqlite3_finalize(stmt);
	request->result = LEDGER_OK;
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* --- STATS ---------------------------------------------------------------------------------- */

static const char stats_sql[] =
	"SELECT provider, state, class, sum(n) FROM ("
	"SELECT provider, state, class, count(*) AS n FROM operations INDEXED BY operations_final"
	" WHERE terminal > 0 AND tombstone = 0 GROUP BY provider, state, class"
	" UNION ALL "
	"SELECT provider, state, class, count(*) FROM operations INDEXED BY operations_tombs"
	" WHERE terminal > 0 AND tombstone = 1 GROUP BY provider, state, class"
	" UNION ALL "
	"SELECT provider, state, class, count(*) FROM operations INDEXED BY operations_waiting"
	" WHERE terminal = 0 AND state <> 'attempting' GROUP BY provider, state, class"
	" UNION ALL "
	"SELECT provider, state, class, count(*) FROM operations INDEXED BY operations_leases"
	" WHERE state = 'attempting' GROUP BY provider, state, class"
	") GROUP BY provider, state, class";

static const char provider_stats_sql[] =
	"SELECT provider, sum(unresolved), sum(keyed), min(oldest), sum(disputed), min(eligible) "
	"FROM ("
	"SELECT provider, count(*) AS unresolved, sum(unkeyed = 0) AS keyed, min(created) AS "
	"oldest,"
	" 0 AS disputed, NULL AS eligible FROM operations INDEXED BY operations_unresolved"
	" WHERE unresolved > 0 GROUP BY provider"
	" UNION ALL "
	"SELECT provider, 0, 0, NULL, count(*), NULL FROM operations INDEXED BY operations_disputed"
	" WHERE disputed = 1 GROUP BY provider"
	" UNION ALL "
	"SELECT provider, 0, 0, NULL, 0, min(CASE next WHEN 0 THEN created ELSE next END)"
	" FROM operations INDEXED BY operations_waiting WHERE terminal = 0 AND state <> "
	"'attempting'"
	" AND state = 'ready' AND next <= ?1 GROUP BY provider"
	") GROUP BY provider";

static int stat_row(sqlite3_stmt *stmt, struct ledger_request *request)
{
	struct ledger_stat *stats = grow(request->stats, request->stat_count, sizeof(*stats));
	if (!stats)
		return SQLITE_NOMEM;
	request->stats = stats;
	struct ledger_stat *stat = &stats[request->stat_count];
	const char *provider = (const char *)sqlite3_column_text(stmt, 0);
	const char *state = (const char *)sqlite3_column_text(stmt, 1);
	const char *class = (const char *)sqlite3_column_text(stmt, 2);
	*stat = (struct ledger_stat){.count = sqlite3_column_int64(stmt, 3)};
	if (!provider || !state || !class)
		return SQLITE_NOMEM;
	if (!op_state_parse(state, &stat->state) || !outcome_class_parse(class, &stat->class))
		return SQLITE_OK;
	stat->provider = strdup(provider);
	if (!stat->provider)
		return SQLITE_NOMEM;
	request->stat_count++;
	return SQLITE_OK;
}

static int provider_stat_row(sqlite3_stmt *stmt, struct ledger_request *request)
{
	struct ledger_provider_stat *stats =
		grow(request->provider_stats, request->provider_stat_count, sizeof(*stats));
	if (!stats)
		return SQLITE_NOMEM;
	request->provider_stats = stats;
	const char *provider = (const char *)sqlite3_column_text(stmt, 0);
	char *copy = provider ? strdup(provider) : NULL;
	if (!copy)
		return SQLITE_NOMEM;
	stats[request->provider_stat_count++] = (struct ledger_provider_stat){
		.provider = copy,
		.unresolved = sqlite3_column_int64(stmt, 1),
		.unresolved_keyed = sqlite3_column_int64(stmt, 2),
		.oldest_unresolved = sqlite3_column_int64(stmt, 3), /* NULL reads as 0 */
		.disputed = sqlite3_column_int64(stmt, 4),
		.oldest_eligible = sqlite3_column_int64(stmt, 5),
	};
	return SQLITE_OK;
}

static int each_row(sqlite3 *db, const char *sql, struct ledger_request *request,
		    int (*row)(sqlite3_stmt *stmt, struct ledger_request *request))
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
	if (rc == SQLITE_OK && sqlite3_bind_parameter_count(stmt) > 0)
		rc = sqlite3_bind_int64(stmt, 1, request->now);
	while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
		rc = row(stmt, request);
	sqlite3_finalize(stmt);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int sqlite_read_stats(sqlite3 *db, struct ledger_request *request)
{
	int rc = each_row(db, stats_sql, request, stat_row);
	if (rc == SQLITE_OK)
		rc = each_row(db, provider_stats_sql, request, provider_stat_row);
	request->result = LEDGER_OK;
	return rc;
}
