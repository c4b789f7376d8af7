/* Blocks in the SQLite ledger: written, taken away, listed, kept across a restart and a new schema. */
#include "tests/unit/sqlite_fixture.h"

#include <inttypes.h>

#include "budget/sqlite_db.h"
#include "budget/sqlite_schema.h"

static void put(struct ledger *ledger, const char *provider, uint64_t bucket, usec_t until,
		bool probing, bool rate_limited)
{
	struct ledger_request request = {
		.verb = LEDGER_GATE_PUT,
		.name = {.provider = provider},
		.now = T0,
		.gate = {.bucket = bucket,
			 .block = {.until = until,
				   .probing = probing,
				   .rate_limited = rate_limited}},
	};

	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	ledger_request_done(&request);
}

/* "provider bucket until probing rate_limited" lines, until in seconds after T0. */
static void expect_list(struct ledger *ledger, const char *expected)
{
	struct ledger_request request = {.verb = LEDGER_GATE_LIST};
	char text[4096] = "";
	size_t used = 0;

	assert_int_equal(ask(ledger, &request), LEDGER_OK);
	for (size_t i = 0; i < request.gate_count && used < sizeof(text); i++) {
		const struct ledger_gate *gate = &request.gates[i];
		int n = snprintf(text + used, sizeof(text) - used,
				 "%s %" PRIx64 " %" PRId64 " %d %d\n", gate->provider, gate->bucket,
				 (gate->block.until - T0) / USEC_SEC, gate->block.probing,
				 gate->block.rate_limited);

		used += (size_t)n;
	}
	assert_string_equal(text, expected);
	ledger_request_done(&request);
}

static void round_trip(void **state)
{
	struct fixture *fixture = *state;

	expect_list(fixture->ledger, "");
	put(fixture->ledger, "pay", 0, T0 + 30 * USEC_SEC, false, true);
	put(fixture->ledger, "pay", UINT64_C(0xfedcba9876543210), T0 + 60 * USEC_SEC, true, false);
	put(fixture->ledger, "mail", 7, T0 - USEC_SEC, true, true);
	expect_list(fixture->ledger, "mail 7 -1 1 1\n"
				     "pay fedcba9876543210 60 1 0\n"
				     "pay 0 30 0 1\n");
	/* A change replaces; one that is over goes. */
	put(fixture->ledger, "pay", 0, T0 + 50 * USEC_SEC, true, false);
	put(fixture->ledger, "mail", 7, 0, false, false);
	put(fixture->ledger, "mail", 8, 0, false, false);
	fixture_close(fixture);
	fixture_open(fixture);
	expect_list(fixture->ledger, "pay fedcba9876543210 60 1 0\n"
				     "pay 0 50 1 0\n");
}

/* Another process of the same ledger may have written a later block: its time is not cut. */
static void not_before_its_time(void **state)
{
	struct fixture *fixture = *state;

	put(fixture->ledger, "pay", 0, T0 + 30 * USEC_SEC, false, true);
	put(fixture->ledger, "pay", 0, 0, false, false);
	expect_list(fixture->ledger, "pay 0 30 0 1\n");
}

static void many(void **state)
{
	struct fixture *fixture = *state;
	struct ledger_request *requests = calloc(1000, sizeof(*requests));
	struct ledger_request list = {.verb = LEDGER_GATE_LIST};

	assert_non_null(requests);
	for (int i = 0; i < 1000; i++) {
		requests[i].verb = LEDGER_GATE_PUT;
		requests[i].name.provider = "pay";
		requests[i].gate.bucket = (uint64_t)i % 900;
		requests[i].gate.block.until = T0 + i;
	}
	ask_all(fixture->ledger, requests, 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(requests[i].result, LEDGER_OK);
	assert_int_equal(ask(fixture->ledger, &list), LEDGER_OK);
	assert_int_equal(list.gate_count, 900);
	for (int i = 0; i < 900; i++) {
		assert_int_equal(list.gates[i].bucket, i);
		assert_int_equal(list.gates[i].block.until - T0, i < 100 ? 900 + i : i);
	}
	ledger_request_done(&list);
	free(requests);
}

/* A ledger of version 1 keeps its records and gets the table. */
static void from_version_1(void **state)
{
	struct fixture *fixture = *state;
	struct sqlite_steps old = {sqlite_schema_steps.steps, 1};
	char error[256];
	sqlite3 *db;

	fixture_close(fixture);
	fixture_remove(fixture->path);
	assert_int_equal(sqlite_db_open(fixture->path, SQLITE_DB_CREATE, false, &db), SQLITE_OK);
	assert_int_equal(sqlite_schema_migrate(db, &old, error, sizeof(error)), SQLITE_OK);
	assert_int_equal(sqlite_db_exec(db, "INSERT INTO meta VALUES ('mark', 5)"), SQLITE_OK);
	sqlite3_close(db);
	fixture_open(fixture);
	put(fixture->ledger, "pay", 0, T0 + 30 * USEC_SEC, false, true);
	expect_list(fixture->ledger, "pay 0 30 0 1\n");
	struct op op = attempting(1);
	insert(fixture->ledger, "k", &op);
	fixture_close(fixture);
	assert_int_equal(sqlite_db_open(fixture->path, SQLITE_DB_WRITE, false, &db), SQLITE_OK);
	int64_t number;
	assert_int_equal(sqlite_db_number(db, "PRAGMA user_version", &number), SQLITE_OK);
	assert_int_equal(number, 2);
	assert_int_equal(
		sqlite_db_number(db, "SELECT value FROM meta WHERE name = 'mark'", &number),
		SQLITE_OK);
	assert_int_equal(number, 5);
	sqlite3_close(db);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(round_trip),
		TEST(not_before_its_time),
		TEST(many),
		TEST(from_version_1),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
