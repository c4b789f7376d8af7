/* The SQLite ledger's file: versions, damage, several processes, and what survives a kill. */
#include "sqlite_fixture.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "budget/sqlite_instance.h"
#include "budget/sqlite_schema.h"

static void run_sql(const char *path, const char *sql)
{
	sqlite3 *db;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	sqlite3_close(db);
}

/* The first column of the first row, as text. */
static void query(const char *path, const char *sql, char text[128])
{
	sqlite3 *db;
	sqlite3_stmt *stmt;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
		fail_msg("%s: %s", sql, sqlite3_errmsg(db));
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	snprintf(text, 128, "%s", (const char *)sqlite3_column_text(stmt, 0));
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

static void expect_query(const char *path, const char *sql, const char *expected)
{
	char text[128];
	query(path, sql, text);
	assert_string_equal(text, expected);
}

static void expect_refused(const char *path, const char *part)
{
	char error[512] = "";
	struct ledger *ledger;
	assert_int_equal(sqlite_store_open(path, true, 10, error, sizeof(error), &ledger), -1);
	if (!strstr(error, part) || !strstr(error, path))
		fail_msg("\"%s\" does not say \"%s\"", error, part);
}

static void refused(void **state)
{
	struct fixture *fixture = *state;
	char path[128];
	snprintf(path, sizeof(path), "%s/none/ledger.db", fixture->directory);
	expect_refused(path, "No such file or directory");

	FILE *file = fopen(fixture->path, "w");
	assert_non_null(file);
	for (int i = 0; i < 1000; i++)
		fputs("this is a log file, and no database\n", file);
	fclose(file);
	expect_refused(fixture->path, "not an SQLite database");
	unlink(fixture->path);

	run_sql(fixture->path, "CREATE TABLE customers (name)");
	expect_refused(fixture->path, "another program");
	expect_query(fixture->path, "SELECT count(*) FROM sqlite_master", "1");
	unlink(fixture->path);

	fixture_open(fixture);
	fixture_close(fixture);
	run_sql(fixture->path, "PRAGMA user_version=77");
	expect_refused(fixture->path, "version 77");
}

static void made_from_version_0(void **state)
{
	struct fixture *fixture = *state;
	run_sql(fixture->path, "VACUUM"); /* a database without anything in it */
	struct stat about;
	assert_int_equal(stat(fixture->path, &about), 0);
	fixture_open(fixture);
	struct op op = attempting(1);
	insert(fixture->ledger, "k", &op);
	uint8_t secret[32];
	memcpy(secret, fixture->ledger->ops->secret(fixture->ledger), 32);
	fixture_close(fixture);
	expect_query(fixture->path, "PRAGMA user_version", "2");
	expect_query(fixture->path, "SELECT value FROM meta WHERE name = 'schema'", "2");
	expect_query(fixture->path, "PRAGMA journal_mode", "wal");
	fixture_open(fixture);
	assert_memory_equal(secret, fixture->ledger->ops->secret(fixture->ledger), 32);
	assert_int_equal(state_of(fixture->ledger, "k"), OP_ATTEMPTING);
}

static void file_is_private(void **state)
{
	struct fixture *fixture = *state;
	struct stat about;
	fixture_open(fixture);
	assert_int_equal(stat(fixture->path, &about), 0);
	assert_int_equal(about.st_mode & 0777, 0600);
}

/* Two more versions behind the real ones: rows stay, and a step that fails takes all back. */
static void migrates(void **state)
{
	struct fixture *fixture = *state;
	char error[256], path[128];
	int last = sqlite_schema_steps.count;
	const char *steps[16];
	struct sqlite_steps more = {steps, last + 2};
	memcpy(steps, sqlite_schema_steps.steps, (size_t)last * sizeof(steps[0]));
	steps[last] = "ALTER TABLE operations ADD COLUMN colour TEXT; CREATE TABLE half (way);";
	steps[last + 1] = "UPDATE operations SET colour = 'red'; INSERT INTO nowhere VALUES (1);";
	fixture_open(fixture);
	struct op op = attempting(1);
	insert(fixture->ledger, "k", &op);
	fixture_close(fixture);

	sqlite3 *db;
	assert_int_equal(sqlite3_open(fixture->path, &db), SQLITE_OK);
	assert_int_not_equal(sqlite_schema_migrate(db, &more, error, sizeof(error)), SQLITE_OK);
	assert_non_null(strstr(error, "nowhere"));
	expect_query(fixture->path, "SELECT count(*) FROM sqlite_master WHERE name = 'half'", "0");
	snprintf(path, sizeof(path), "%d", last);
	expect_query(fixture->path, "PRAGMA user_version", path);

	steps[last + 1] = "UPDATE operations SET colour = 'red';";
	assert_int_equal(sqlite_schema_migrate(db, &more, error, sizeof(error)), SQLITE_OK);
	assert_int_equal(sqlite_schema_migrate(db, &more, error, sizeof(error)), SQLITE_OK);
	sqlite3_close(db);
	expect_query(fixture->path, "SELECT key || colour FROM operations", "kred");
	expect_refused(fixture->path, "newer stint");
}

static void readable_by_people(void **state)
{
	struct fixture *fixture = *state;
	fixture_open(fixture);
	struct op op = succeeded(attempting(1));
	op.created = T0 + 123456;
	op.unresolved.bits[0] = 5;
	insert(fixture->ledger, "k", &op);
	const char *path = fixture->path;
	expect_query(path, "SELECT created FROM ops", "2023-11-14T22:13:20.123Z");
	expect_query(path, "SELECT lease_until IS NULL FROM ops", "1");
	expect_query(path, "SELECT provider || tenant || key || state || class FROM ops",
		     "payacmeksucceededsuccess");
	expect_query(path, "SELECT unresolved FROM ops", "2");
	expect_query(path, "SELECT json_extract(history, '$[0].status') FROM operations", "200");
	expect_query(path, "SELECT hex(unresolved_set) FROM operations",
		     "00000000000000000000000000000005");
}

static void damaged_row(void **state)
{
	struct fixture *fixture = *state;
	fixture_open(fixture);
	const char *bad[] = {"state = 'lost'",          "history = '[{'",
			     "history = '[{\"n\":1}]'", "fingerprint = 1",
			     "unresolved_set = x'00'",  "reason = hex(zeroblob(64))"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char key[16], sql[128];
		struct op op = attempting(1), fine = attempting(2);
		snprintf(key, sizeof(key), "bad%zu", i);
		insert(fixture->ledger, key, &op);
		snprintf(sql, sizeof(sql), "UPDATE operations SET %s WHERE key = '%s'", bad[i],
			 key);
		run_sql(fixture->path, sql);
		char good[16];
		snprintf(good, sizeof(good), "good%zu", i);
		struct ledger_request requests[] = {
			insert_of(LEDGER_CLAIM, good, &fine),
			{.verb = LEDGER_GET, .name = named(key)},
			insert_of(LEDGER_CLAIM, key, &fine),
			{.verb = LEDGER_GET, .name = named(good)},
		};
		ask_all(fixture->ledger, requests, 4);
		assert_int_equal(requests[0].result, LEDGER_OK);
		assert_int_equal(requests[1].result, LEDGER_DAMAGED);
		assert_non_null(requests[1].error);
		assert_int_equal(requests[2].result, LEDGER_DAMAGED);
		assert_int_equal(requests[3].result, LEDGER_OK);
		for (int j = 0; j < 4; j++)
			ledger_request_done(&requests[j]);
	}
	assert_null(fixture->ledger->ops->health(fixture->ledger));
	struct ledger_request list = {.verb = LEDGER_LIST, .filter = {.state = -1, .class = -1}};
	assert_int_equal(ask(fixture->ledger, &list), LEDGER_OK);
	assert_int_equal(list.row_count, 6);
	ledger_request_done(&list);
	assert_non_null(fixture->ledger->ops->health(fixture->ledger));
}

/* A file put in the ledger's place is not written to as if it were the ledger. */
static void damaged_file(void **state)
{
	struct fixture *fixture = *state;
	fixture_open(fixture);
	struct op op = attempting(1);
	insert(fixture->ledger, "k", &op);
	fixture_close(fixture);
	struct stat about;
	assert_int_equal(stat(fixture->path, &about), 0);
	FILE *file = fopen(fixture->path, "r+");
	assert_non_null(file);
	for (long at = 4096; at < about.st_size; at += 64) {
		fseek(file, at, SEEK_SET);
		fputs("ruined", file);
	}
	fclose(file);
	char error[512];
	struct ledger *ledger;
	if (sqlite_store_open(fixture->path, true, 10, error, sizeof(error), &ledger) != 0)
		return;
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &op);
	assert_int_equal(ask(ledger, &claim), LEDGER_DAMAGED);
	assert_non_null(ledger->ops->health(ledger));
	ledger->ops->close(ledger);
}

/* --- several processes ---------------------------------------------------------------------- */

struct child {
	pid_t pid;
	int said, told; /* pipes from and to it */
};

/* Starts a process that claims `count` records of its own name, says so, and waits. */
static struct child start_child(struct fixture *fixture, bool disk, int n, int count)
{
	int said[2], told[2];
	assert_true(pipe(said) == 0 && pipe(told) == 0);
	struct child child = {.pid = fork(), .said = said[0], .told = told[1]};
	assert_true(child.pid >= 0);
	if (child.pid > 0) {
		close(said[1]);
		close(told[0]);
		return child;
	}
	close(said[0]);
	close(told[1]);
	char error[512], byte;
	struct ledger *ledger;
	if (sqlite_store_open(fixture->path, disk, 100, error, sizeof(error), &ledger) != 0)
		_exit(1);
	for (int i = 0; i < count; i++) {
		char key[32];
		struct op op = attempting(n);
		snprintf(key, sizeof(key), "child%d-%d", n, i);
		snprintf(op.owner, sizeof(op.owner), "%s", ledger->ops->instance(ledger));
		struct ledger_request claim = insert_of(LEDGER_CLAIM, key, &op);
		if (ask(ledger, &claim) != LEDGER_OK)
			_exit(2);
	}
	if (write(said[1], "y", 1) != 1 || read(told[0], &byte, 1) != 1)
		_exit(3);
	ledger->ops->close(ledger);
	_exit(0);
}

static void child_ready(const struct child *child)
{
	char byte;
	assert_int_equal(read(child->said, &byte, 1), 1);
}

static int child_end(const struct child *child)
{
	int status;
	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	close(child->said);
	close(child->told);
	return status;
}

static size_t count_due(struct ledger *ledger, usec_t now)
{
	struct ledger_request request = {.verb = LEDGER_DUE, .now = now, .filter.limit = 1000};
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	for (size_t i = 0; i < request.row_count; i++)
		assert_true(request.rows[i].op.lease_until <= now);
	size_t count = request.row_count;
	ledger_request_done(&request);
	return count;
}

static void killed_after_the_answer(void **state)
{
	struct fixture *fixture = *state;
	struct child child = start_child(fixture, true, 1, 3);
	child_ready(&child);
	kill(child.pid, SIGKILL);
	assert_true(WIFSIGNALED(child_end(&child)));
	fixture_open(fixture);
	assert_int_equal(state_of(fixture->ledger, "child1-0"), OP_ATTEMPTING);
	assert_int_equal(state_of(fixture->ledger, "child1-2"), OP_ATTEMPTING);
	/* Its leases run for 30 s, and are due at once. */
	assert_int_equal(count_due(fixture->ledger, T0), 3);
}

static void two_processes(void **state)
{
	struct fixture *fixture = *state;
	struct child child = start_child(fixture, false, 1, 200);
	struct child other = start_child(fixture, false, 2, 200);
	fixture_open(fixture);
	for (int i = 0; i < 200; i++) {
		char key[16];
		struct op op = attempting(3);
		snprintf(op.owner, sizeof(op.owner), "%s",
			 fixture->ledger->ops->instance(fixture->ledger));
		snprintf(key, sizeof(key), "own-%d", i);
		insert(fixture->ledger, key, &op);
	}
	child_ready(&child);
	child_ready(&other);
	/* The others live: nothing of theirs is due before its time. */
	assert_int_equal(count_due(fixture->ledger, T0), 0);
	assert_int_equal(count_due(fixture->ledger, T0 + USEC_MIN), 600);
	/* A claim of a taken name sees the other process' record. */
	struct op op = attempting(9);
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "child2-199", &op);
	assert_int_equal(ask(fixture->ledger, &claim), LEDGER_CONFLICT);
	assert_int_equal(claim.found.op.incarnation[0], 2);
	ledger_request_done(&claim);

	kill(child.pid, SIGKILL);
	child_end(&child);
	assert_int_equal(count_due(fixture->ledger, T0), 200);
	assert_int_equal(count_due(fixture->ledger, T0), 200); /* its file is gone now */
	assert_int_equal(write(other.told, "x", 1), 1);
	assert_int_equal(child_end(&other), 0);
	assert_int_equal(count_due(fixture->ledger, T0), 400);
}

static void instances(void **state)
{
	struct fixture *fixture = *state;
	char error[256], path[160];
	struct sqlite_instance one, two;
	assert_int_equal(sqlite_instance_open(fixture->path, error, sizeof(error), &one), 0);
	assert_int_equal(sqlite_instance_open(fixture->path, error, sizeof(error), &two), 0);
	assert_string_not_equal(one.id, two.id);
	assert_false(sqlite_instance_is_dead(&one, one.id));
	assert_false(sqlite_instance_is_dead(&one, two.id));
	assert_true(sqlite_instance_is_dead(&one, "0123456789abcdef"));
	/* What is no id of this store is left to its lease. */
	assert_false(sqlite_instance_is_dead(&one, ""));
	assert_false(sqlite_instance_is_dead(&one, "../../../../etc/x"));
	char id[OP_INSTANCE_MAX];
	memcpy(id, two.id, sizeof(id));
	snprintf(path, sizeof(path), "%s.instances/%s", fixture->path, id);
	assert_int_equal(access(path, F_OK), 0);
	sqlite_instance_close(&two);
	assert_int_equal(access(path, F_OK), -1);
	assert_true(sqlite_instance_is_dead(&one, id));
	/* Where the directory cannot be read nobody is declared dead. */
	snprintf(path, sizeof(path), "%s.instances", fixture->path);
	fixture_remove(path);
	assert_false(sqlite_instance_is_dead(&one, id));
	sqlite_instance_close(&one);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_empty, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(refused),      TEST(made_from_version_0),     TEST(file_is_private),
		TEST(migrates),     TEST(readable_by_people),      TEST(damaged_row),
		TEST(damaged_file), TEST(killed_after_the_answer), TEST(two_processes),
		TEST(instances),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
