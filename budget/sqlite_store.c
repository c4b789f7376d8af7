/* The store's two threads.
 *
 * The writer takes everything that is queued, performs it in one transaction and posts the answers
 * after its commit: what is queued during one sync shares the next. A batch of reads alone takes no
 * write lock and syncs nothing. RETAIN runs in transactions of its own, behind the others.
 *
 * When something fails:
 * - a statement that only its own request can be to blame for: that request fails alone;
 * - any other statement: the transaction is rolled back, that request fails, and the others are
 *   performed again without it, up to BATCH_TRIES times;
 * - the commit: nothing is known to be durable; every request of the batch fails, reads as well,
 *   since they may have seen what was not committed.
 * The connection is closed and opened again before the next batch, but where waiting may help by
 * itself (busy, full). A failed commit may have left its frames in the log, where a recovery could
 * still find them; the first write after a failure (WRITE_RECOVERED) overwrites them. While writing
 * fails it is tried once a second, so that health needs no traffic to become good again. */
#include "budget/sqlite_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "budget/sqlite_db.h"
#include "budget/sqlite_gate.h"
#include "budget/sqlite_instance.h"
#include "budget/sqlite_queue.h"
#include "budget/sqlite_read.h"
#include "budget/sqlite_retain.h"
#include "budget/sqlite_schema.h"
#include "budget/sqlite_write.h"

#define BATCH_TRIES 4
#define GATHER_LEAST 4   /* callers in the last batch */
#define GATHER_NS 300000 /* about half an fsync */
#define RECOVERY_EVERY USEC_SEC

struct sqlite_store {
	struct ledger base; /* first */
	char *path;
	bool disk;
	uint8_t secret[SQLITE_SECRET_LEN];
	struct sqlite_instance instance;

	struct sqlite_queue writes;
	struct sqlite_writer writer;                  /* the writer thread's */
	struct ledger_request *retain, **retain_tail; /* the writer thread's */
	_Atomic(const char *) write_error; /* static text; NULL: the last write was good */
	pthread_t writer_thread;

	struct sqlite_queue reads;
	sqlite3 *reader; /* the reader thread's; NULL: not open */
	_Atomic(const char *) read_error;
	pthread_t reader_thread;
};

static struct sqlite_store *store_of(struct ledger *ledger)
{
	return (struct sqlite_store *)ledger;
}

static void fail(struct ledger_request *request, int rc)
{
	ledger_request_done(request);
	request->result = sqlite_db_result(rc);
	request->error = sqlite_db_error(rc);
}

/* --- the writer ----------------------------------------------------------------------------- */

/* Whether the request alone is to blame, and the transaction goes on. */
static bool is_its_own_fault(struct sqlite_store *store, int rc)
{
	switch (rc & 0xff) {
	case SQLITE_CONSTRAINT:
	case SQLITE_TOOBIG:
	case SQLITE_MISMATCH:
	case SQLITE_RANGE:
	case SQLITE_MISUSE:
		return !sqlite3_get_autocommit(store->writer.db);
	default:
		return false;
	}
}

/* Ends a transaction that went wrong, and the connection with it unless waiting may help. */
static void abandon(struct sqlite_store *store, int rc)
{
	if (!store->writer.db)
		return;
	if (!sqlite3_get_autocommit(store->writer.db))
		sqlite_writer_run(&store->writer, WRITE_ROLLBACK);
	bool keep = (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_FULL;
	if (!keep || !sqlite3_get_autocommit(store->writer.db))
		sqlite_writer_close(&store->writer);
}

/* The file must still be the ledger that was opened. */
static int reopen(struct sqlite_store *store)
{
	uint8_t secret[SQLITE_SECRET_LEN];
	sqlite3 *db;
	int rc = sqlite_db_open(store->path, SQLITE_DB_WRITE, store->disk, &db);
	if (rc != SQLITE_OK)
		return rc;
	rc = sqlite_schema_secret(db, secret);
	if (rc == SQLITE_OK && memcmp(secret, store->secret, sizeof(secret)) != 0)
		rc = SQLITE_NOTADB;
	if (rc != SQLITE_OK) {
		sqlite3_close(db);
		return rc;
	}
	return sqlite_writer_open(&store->writer, db);
}

/* A connection, and after a failure a first write that lasts; reads alone go without it. */
static int ensure_writer(struct sqlite_store *store, bool reads_only)
{
	int rc = SQLITE_OK;
	if (!store->writer.db)
		rc = reopen(store);
	if (rc == SQLITE_OK && !reads_only && atomic_load(&store->write_error)) {
		rc = sqlite_writer_run(&store->writer, WRITE_RECOVERED);
		if (rc == SQLITE_OK)
			atomic_store(&store->write_error, NULL);
		else
			abandon(store, rc);
	}
	return rc;
}

/* One pass over the requests that have not failed. ret_culprit: whose statement failed, or NULL
 * where it was the transaction itself. */
static int batch_once(struct sqlite_store *store, struct ledger_request *first, bool reads_only,
		      struct ledger_request **ret_culprit)
{
	struct sqlite_writer *writer = &store->writer;
	*ret_culprit = NULL;
	int rc = ensure_writer(store, reads_only);
	if (rc == SQLITE_OK)
		rc = sqlite_writer_run(writer, reads_only ? WRITE_BEGIN_READ : WRITE_BEGIN);
	if (rc != SQLITE_OK)
		return rc;
	for (struct ledger_request *request = first; request; request = request->link) {
		if (request->result < 0)
			continue;
		rc = sqlite_writer_perform(writer, request);
		if (rc != SQLITE_OK && is_its_own_fault(store, rc)) {
			fail(request, rc);
		} else if (rc != SQLITE_OK) {
			*ret_culprit = request;
			return rc;
		}
	}
	return sqlite_writer_run(writer, WRITE_COMMIT);
}

static void batch_fail(struct ledger_request *first, int rc)
{
	for (struct ledger_request *request = first; request; request = request->link)
		if (request->result >= 0)
			fail(request, rc);
}

static void batch_perform(struct sqlite_store *store, struct ledger_request *first)
{
	struct ledger_request *culprit;
	bool reads_only = true;
	for (struct ledger_request *request = first; request; request = request->link) {
		request->result = LEDGER_OK;
		reads_only = reads_only && sqlite_writer_only_reads(request);
	}
	for (int i = 0; i < BATCH_TRIES; i++) {
		int rc = batch_once(store, first, reads_only, &culprit);
		if (rc == SQLITE_OK)
			return;
		abandon(store, rc);
		atomic_store(&store->write_error, sqlite_db_error(rc));
		if (!culprit || i == BATCH_TRIES - 1) {
			batch_fail(first, rc);
			return;
		}
		fail(culprit, rc);
		for (struct ledger_request *request = first; request; request = request->link)
			if (request->result >= 0)
				ledger_request_done(request);
	}
}

/* Posting gives a request away: its link is read before. */
static void post_all(struct ledger_request *request)
{
	while (request) {
		struct ledger_request *next = request->link;
		request->link = NULL;
		request->post(request);
		request = next;
	}
}

static int retain_once(struct sqlite_store *store, struct ledger_request *request)
{
	struct sqlite_writer *writer = &store->writer;
	int rc = ensure_writer(store, false);
	if (rc == SQLITE_OK)
		rc = sqlite_writer_run(writer, WRITE_BEGIN);
	if (rc == SQLITE_OK)
		rc = sqlite_retain(writer->db, &request->retention, &request->taken,
				   &request->dropped);
	return rc == SQLITE_OK ? sqlite_writer_run(writer, WRITE_COMMIT) : rc;
}

static void retain_next(struct sqlite_store *store)
{
	struct ledger_request *request = store->retain;
	if (!request)
		return;
	store->retain = request->link;
	if (!store->retain)
		store->retain_tail = &store->retain;
	request->link = NULL;
	request->result = LEDGER_OK;
	int rc = retain_once(store, request);
	if (rc != SQLITE_OK) {
		abandon(store, rc);
		atomic_store(&store->write_error, sqlite_db_error(rc));
		request->taken = request->dropped = 0;
		fail(request, rc);
	}
	request->post(request);
}

/* Takes the RETAIN requests out of a batch; returns what is left of it. */
static struct ledger_request *set_retain_aside(struct sqlite_store *store,
					       struct ledger_request *request)
{
	struct ledger_request *first = NULL, **tail = &first;
	while (request) {
		struct ledger_request *next = request->link;
		struct ledger_request ***end =
			request->verb == LEDGER_RETAIN ? &store->retain_tail : &tail;
		request->link = NULL;
		**end = request;
		*end = &request->link;
		request = next;
	}
	return first;
}

/* Where several callers are at it, the next of them are a moment away: waiting for them saves each
 * a part of a commit (PostgreSQL's commit_delay and commit_siblings do the same; `make bench`). */
static void gather(size_t last_batch)
{
	const struct timespec delay = {.tv_nsec = GATHER_NS};

	if (last_batch >= GATHER_LEAST)
		nanosleep(&delay, NULL);
}

static size_t batch_size(const struct ledger_request *batch)
{
	size_t size = 0;
	for (; batch; batch = batch->link)
		size++;
	return size;
}

static void *writer_main(void *data)
{
	struct sqlite_store *store = data;
	bool stopped = false;
	size_t size = 0;
	while (!stopped || store->retain) {
		usec_t wait = store->retain                      ? 0
			      : atomic_load(&store->write_error) ? RECOVERY_EVERY
								 : USEC_MAX;
		gather(size);
		struct ledger_request *batch = sqlite_queue_take(&store->writes, wait, &stopped);
		size = batch_size(batch);
		batch = set_retain_aside(store, batch);
		if (batch) {
			batch_perform(store, batch);
			post_all(batch);
		} else if (!store->retain && !stopped) {
			int rc = ensure_writer(store, false);
			if (rc != SQLITE_OK)
				atomic_store(&store->write_error, sqlite_db_error(rc));
		}
		retain_next(store);
	}
	return NULL;
}

/* --- the reader ----------------------------------------------------------------------------- */

static int read_once(struct sqlite_store *store, struct ledger_request *request, int *ret_damaged)
{
	*ret_damaged = 0;
	int rc = SQLITE_OK;
	if (!store->reader)
		rc = sqlite_db_open(store->path, SQLITE_DB_READ, store->disk, &store->reader);
	if (rc != SQLITE_OK)
		return rc;
	switch (request->verb) {
	case LEDGER_DUE:
		return sqlite_read_due(store->reader, &store->instance, request, ret_damaged);
	case LEDGER_LIST:
		return sqlite_read_list(store->reader, request, ret_damaged);
	case LEDGER_GATE_LIST:
		return sqlite_gate_list(store->reader, request);
	default:
		return sqlite_read_stats(store->reader, request);
	}
}

static void read_perform(struct sqlite_store *store, struct ledger_request *request)
{
	int damaged;
	int rc = read_once(store, request, &damaged);
	if (rc != SQLITE_OK) {
		fail(request, rc);
		if ((rc & 0xff) != SQLITE_BUSY) {
			sqlite3_close(store->reader);
			store->reader = NULL;
		}
	}
	if (rc == SQLITE_OK && damaged > 0)
		rc = SQLITE_CORRUPT;
	atomic_store(&store->read_error, rc == SQLITE_OK ? NULL : sqlite_db_error(rc));
}

static void *reader_main(void *data)
{
	struct sqlite_store *store = data;
	bool stopped = false;
	while (!stopped) {
		struct ledger_request *request =
			sqlite_queue_take(&store->reads, USEC_MAX, &stopped);
		while (request) {
			struct ledger_request *next = request->link;
			request->link = NULL;
			read_perform(store, request);
			request->post(request);
			request = next;
		}
	}
	return NULL;
}

/* --- the interface -------------------------------------------------------------------------- */

static bool goes_to_reader(enum ledger_verb verb)
{
	return verb == LEDGER_DUE || verb == LEDGER_LIST || verb == LEDGER_STATS ||
	       verb == LEDGER_GATE_LIST;
}

static void submit(struct ledger *ledger, struct ledger_request *request)
{
	struct sqlite_store *store = store_of(ledger);
	request->error = NULL;
	if (sqlite_queue_put(goes_to_reader(request->verb) ? &store->reads : &store->writes,
			     request))
		return;
	request->result = LEDGER_AWAY;
	request->error = "too many requests are waiting for the ledger";
	request->post(request);
}

static const char *health(struct ledger *ledger)
{
	struct sqlite_store *store = store_of(ledger);
	const char *error = atomic_load(&store->write_error);
	return error ? error : atomic_load(&store->read_error);
}

static const char *instance_id(struct ledger *ledger)
{
	return store_of(ledger)->instance.id;
}

static const uint8_t *secret(struct ledger *ledger)
{
	return store_of(ledger)->secret;
}

/* Half-built stores too; the threads do not run any more. */
static void store_free(struct sqlite_store *store)
{
	sqlite3_close(store->reader);
	sqlite_writer_close(&store->writer);
	sqlite_instance_close(&store->instance);
	sqlite_queue_done(&store->reads);
	sqlite_queue_done(&store->writes);
	free(store->path);
	free(store);
}

static void close_store(struct ledger *ledger)
{
	struct sqlite_store *store = store_of(ledger);
	sqlite_queue_stop(&store->writes);
	sqlite_queue_stop(&store->reads);
	pthread_join(store->writer_thread, NULL);
	pthread_join(store->reader_thread, NULL);
	store_free(store);
}

static const struct ledger_ops store_ops = {
	.submit = submit,
	.health = health,
	.instance = instance_id,
	.secret = secret,
	.close = close_store,
};

/* A sentence for an SQLite code at opening. */
static void explain_open(int rc, int system_errno, char *error, size_t error_len)
{
	switch (rc & 0xff) {
	case SQLITE_CANTOPEN:
		snprintf(error, error_len, "it cannot be opened: %s", strerror(system_errno));
		break;
	case SQLITE_NOTADB:
		snprintf(error, error_len, "it is not an SQLite database");
		break;
	case SQLITE_MISUSE:
		snprintf(error, error_len, "its file system does not allow write-ahead logging");
		break;
	default:
		snprintf(error, error_len, "it cannot be used: %s", sqlite_db_error(rc));
	}
}

static int open_writer(struct sqlite_store *store, char *error, size_t error_len)
{
	sqlite3 *db;
	errno = 0;
	int rc = sqlite_db_open(store->path, SQLITE_DB_CREATE, store->disk, &db);
	if (rc != SQLITE_OK) {
		explain_open(rc, errno, error, error_len);
		return -1;
	}
	rc = sqlite_schema_migrate(db, &sqlite_schema_steps, error, error_len);
	if (rc != SQLITE_OK) {
		sqlite3_close(db);
		return -1;
	}
	rc = sqlite_schema_secret(db, store->secret);
	if (rc != SQLITE_OK)
		sqlite3_close(db);
	else
		rc = sqlite_writer_open(&store->writer, db);
	if (rc != SQLITE_OK) {
		snprintf(error, error_len, "it cannot be used: %s", sqlite_db_error(rc));
		return -1;
	}
	return 0;
}

static int start_threads(struct sqlite_store *store)
{
	if (pthread_create(&store->writer_thread, NULL, writer_main, store) != 0)
		return -1;
	if (pthread_create(&store->reader_thread, NULL, reader_main, store) == 0)
		return 0;
	sqlite_queue_stop(&store->writes);
	pthread_join(store->writer_thread, NULL);
	return -1;
}

int sqlite_store_open(const char *path, bool disk, size_t queue_max, char *error, size_t error_len,
		      struct ledger **ret_ledger)
{
	char why[256] = "out of memory";
	struct sqlite_store *store = calloc(1, sizeof(*store));
	if (!store)
		goto no_memory;
	store->base.ops = &store_ops;
	store->disk = disk;
	store->instance.fd = -1;
	store->retain_tail = &store->retain;
	sqlite_queue_init(&store->writes, queue_max);
	sqlite_queue_init(&store->reads, queue_max);
	store->path = strdup(path);
	if (!store->path || open_writer(store, why, sizeof(why)) != 0 ||
	    sqlite_instance_open(path, why, sizeof(why), &store->instance) != 0)
		goto failed;
	if (start_threads(store) != 0) {
		snprintf(why, sizeof(why), "no thread can be started");
		goto failed;
	}
	*ret_ledger = &store->base;
	return 0;
failed:
	store_free(store);
no_memory:
	snprintf(error, error_len, "the ledger %s cannot be used: %s", path, why);
	return -1;
}
