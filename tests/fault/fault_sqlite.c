/* Every file access of the SQLite ledger fails once, one after the other: what was answered OK must
 * be there afterwards, and the store must work again without a restart. And what a sync is for. */
#include "tests/unit/sqlite_fixture.h"

#include <sys/wait.h>

#include "fault_vfs.h"

#define KEYS 6

/* What is known of one record: the last version answered OK, and the last that was tried. */
struct known {
	uint32_t sure, tried;
};

struct scenario {
	struct known keys[KEYS];
	int bad; /* requests that were not answered OK */
};

static void key_text(int i, char key[16])
{
	snprintf(key, 16, "key-%d", i);
}

static void note_answer(struct scenario *scenario, int i, const struct ledger_request *request)
{
	struct known *known = &scenario->keys[i];
	known->tried = request->op->counter;
	if (request->result == LEDGER_OK)
		known->sure = request->op->counter;
	else
		scenario->bad++;
	/* Only faults happen here: a conflict or an absent record comes from a lost write before. */
	if (request->result < 0)
		assert_non_null(request->error);
	else if (request->result != LEDGER_OK)
		assert_true(scenario->bad > 1);
}

static void write_key(struct ledger *ledger, struct scenario *scenario, int i,
		      struct ledger_request request)
{
	char key[16];
	key_text(i, key);
	request.name = named(key);
	ask(ledger, &request);
	note_answer(scenario, i, &request);
	ledger_request_done(&request);
	ledger_reply_unref(request.reply);
}

static void ask_freely(struct ledger *ledger, struct scenario *scenario,
		       struct ledger_request request)
{
	if (ask(ledger, &request) < 0)
		scenario->bad++;
	ledger_request_done(&request);
}

static void claims_at_once(struct ledger *ledger, struct scenario *scenario)
{
	struct ledger_request requests[3];
	struct op ops[3];
	char keys[3][16];
	for (int i = 0; i < 3; i++) {
		key_text(i + 2, keys[i]);
		ops[i] = attempting(i + 2);
		requests[i] = insert_of(LEDGER_CLAIM, keys[i], &ops[i]);
	}
	ask_all(ledger, requests, 3);
	for (int i = 0; i < 3; i++) {
		note_answer(scenario, i + 2, &requests[i]);
		ledger_request_done(&requests[i]);
	}
}

/* One of each verb; a reply that needs overflow pages. */
static void play(struct ledger *ledger, struct scenario *scenario)
{
	struct op op = attempting(7), done = succeeded(op);
	char *body = malloc(20001);
	assert_non_null(body);
	memset(body, 'b', 20000);
	body[20000] = '\0';
	done.reply_kept = true;
	write_key(ledger, scenario, 0, insert_of(LEDGER_CLAIM, NULL, &op));
	struct ledger_request settle = settle_of(NULL, &done, 1, 7);
	settle.reply = make_reply(200, "A: b\r\n", body);
	free(body);
	write_key(ledger, scenario, 0, settle);

	op = attempting(1);
	write_key(ledger, scenario, 1, insert_of(LEDGER_CLAIM, NULL, &op));
	claims_at_once(ledger, scenario);
	struct ledger_request request = {.verb = LEDGER_RENEW, .name = named("key-1")};
	request.lease_until = T0 + USEC_HOUR;
	memset(request.incarnation, 1, OP_INCARNATION_LEN);
	memset(request.token, 1, OP_TOKEN_LEN);
	ask_freely(ledger, scenario, request);
	request.verb = LEDGER_VOID;
	ask_freely(ledger, scenario, request);
	request = (struct ledger_request){.verb = LEDGER_DUE, .now = T0 + USEC_MIN};
	ask_freely(ledger, scenario, request);
	request =
		(struct ledger_request){.verb = LEDGER_LIST, .filter = {.state = -1, .class = -1}};
	ask_freely(ledger, scenario, request);
	request = (struct ledger_request){.verb = LEDGER_STATS, .now = T0};
	ask_freely(ledger, scenario, request);
	request = (struct ledger_request){.verb = LEDGER_GET, .name = named("key-0")};
	ask_freely(ledger, scenario, request);
	request = (struct ledger_request){
		.verb = LEDGER_RETAIN,
		.retention = {.provider = "pay", .replies_before = T0 + USEC_SEC + 1}};
	ask_freely(ledger, scenario, request);
	op.counter = 2;
	op.state = OP_READY;
	write_key(ledger, scenario, 1, swap_of(LEDGER_CHANGE, NULL, &op, 1));
	op = attempting(5);
	write_key(ledger, scenario, 5, insert_of(LEDGER_CLAIM, NULL, &op));
}

static void check(struct ledger *ledger, const struct scenario *scenario)
{
	for (int i = 0; i < KEYS; i++) {
		const struct known *known = &scenario->keys[i];
		char key[16];
		key_text(i, key);
		struct ledger_request get = {.verb = LEDGER_GET, .name = named(key)};
		enum ledger_result result = ask(ledger, &get);
		assert_true(result == LEDGER_OK || result == LEDGER_ABSENT);
		uint32_t counter = result == LEDGER_OK ? get.found.op.counter : 0;
		/* Retention makes one version of its own of key 0. */
		uint32_t most = i == 0 && known->tried == 2 ? 3 : known->tried;
		if (counter < known->sure || counter > most)
			fail_msg("%s: version %u, answered %u, tried %u", key, counter, known->sure,
				 known->tried);
		ledger_request_done(&get);
	}
}

/* The store works again: a claim within two tries (the first may meet what the fault left). */
static void check_recovery(struct ledger *ledger)
{
	struct op op = attempting(99);
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "after", &op);
	if (ask(ledger, &claim) != LEDGER_OK)
		assert_int_equal(ask(ledger, &claim), LEDGER_OK);
	assert_null(claim.found.provider);
	struct ledger_request list = {.verb = LEDGER_LIST, .filter = {.state = -1, .class = -1}};
	if (ask(ledger, &list) != LEDGER_OK)
		assert_int_equal(ask(ledger, &list), LEDGER_OK);
	ledger_request_done(&list);
	assert_null(ledger->ops->health(ledger));
}

/* One run with the Nth call failing. false: the scenario makes fewer calls. */
static bool run(enum fault_kind kind, long nth, bool lasting)
{
	void *state;
	struct scenario scenario = {0};
	char error[512];
	fixture_empty(&state);
	struct fixture *fixture = state;
	fault_vfs_arm(kind, nth, lasting);
	if (sqlite_store_open(fixture->path, true, 1000, error, sizeof(error), &fixture->ledger) !=
	    0) {
		fixture->ledger = NULL;
		assert_true(fault_vfs_hit());
		assert_non_null(strstr(error, fixture->path));
	} else {
		play(fixture->ledger, &scenario);
	}
	bool hit = fault_vfs_hit();
	fault_vfs_disarm();
	if (fixture->ledger) {
		check(fixture->ledger, &scenario);
		check_recovery(fixture->ledger);
		fixture_close(fixture);
	}
	if (!hit)
		assert_int_equal(scenario.bad, 0);
	fixture_open(fixture);
	check(fixture->ledger, &scenario);
	check_recovery(fixture->ledger);
	fixture_teardown(&state);
	return hit;
}

static void run_all(enum fault_kind kind, bool lasting)
{
	long nth = 1;
	while (run(kind, nth, lasting))
		nth++;
	print_message("%ld calls failed one by one\n", nth - 1);
	assert_true(nth > 20);
}

static void each_call_fails_once(void **state)
{
	(void)state;
	run_all(FAULT_VFS_IOERR, false);
}

static void each_call_and_all_behind_it(void **state)
{
	(void)state;
	run_all(FAULT_VFS_IOERR, true);
}

static void each_write_finds_no_room(void **state)
{
	(void)state;
	run_all(FAULT_VFS_FULL, false);
}

static void no_room_from_each_write_on(void **state)
{
	(void)state;
	run_all(FAULT_VFS_FULL, true);
}

/* A disk that is full says so, reads go on, and health recovers without any traffic. */
static void full_disk(void **state)
{
	struct fixture *fixture = *state;
	struct ledger *ledger = fixture->ledger;
	struct op op = attempting(1);
	insert(ledger, "k", &op);
	fault_vfs_arm(FAULT_VFS_FULL, 1, true);
	for (int i = 0; i < 3; i++) {
		struct ledger_request claim = insert_of(LEDGER_CLAIM, "other", &op);
		assert_int_equal(ask(ledger, &claim), LEDGER_FULL);
		assert_non_null(claim.error);
	}
	assert_int_equal(state_of(ledger, "k"), OP_ATTEMPTING);
	assert_int_equal(state_of(ledger, "other"), -1);
	assert_non_null(ledger->ops->health(ledger));
	fault_vfs_disarm();
	for (int i = 0; i < 500 && ledger->ops->health(ledger); i++)
		usleep(10000);
	assert_null(ledger->ops->health(ledger));
}

static int disk_setup(void **state)
{
	char error[512];
	fixture_empty(state);
	struct fixture *fixture = *state;
	assert_int_equal(sqlite_store_open(fixture->path, true, 1000, error, sizeof(error),
					   &fixture->ledger),
			 0);
	return 0;
}

static void answers_come_after_the_sync(void **state)
{
	struct fixture *fixture = *state;
	for (int i = 1; i <= 20; i++) {
		char key[16];
		struct op op = attempting(i), done = succeeded(op);
		key_text(i, key);
		long syncs = fault_vfs_syncs();
		insert(fixture->ledger, key, &op);
		assert_true(fault_vfs_log_is_synced());
		assert_true(fault_vfs_syncs() > syncs);
		struct ledger_request settle = settle_of(key, &done, 1, (uint8_t)i);
		assert_int_equal(ask(fixture->ledger, &settle), LEDGER_OK);
		assert_true(fault_vfs_log_is_synced());
	}
}

static void reads_neither_write_nor_sync(void **state)
{
	struct fixture *fixture = *state;
	struct op op = attempting(1);
	insert(fixture->ledger, "k", &op);
	long syncs = fault_vfs_syncs(), writes = fault_vfs_writes();
	for (int i = 0; i < 10; i++)
		assert_int_equal(state_of(fixture->ledger, "k"), OP_ATTEMPTING);
	struct ledger_request claim = insert_of(LEDGER_CLAIM, "k", &(struct op){0});
	assert_int_equal(ask(fixture->ledger, &claim), LEDGER_CONFLICT);
	ledger_request_done(&claim);
	assert_int_equal(fault_vfs_syncs(), syncs);
	assert_int_equal(fault_vfs_writes(), writes);
}

static void process_durability_does_not_sync(void **state)
{
	struct fixture *fixture = *state;
	fixture_close(fixture);
	fixture_open(fixture);
	struct op op = attempting(1);
	insert(fixture->ledger, "first", &op);
	long syncs = fault_vfs_syncs();
	for (int i = 0; i < 10; i++) {
		char key[16];
		key_text(i, key);
		insert(fixture->ledger, key, &op);
	}
	assert_int_equal(fault_vfs_syncs(), syncs);
}

/* What is queued during one sync shares the next. */
static void group_commit(void **state)
{
	enum { COUNT = 200 };
	static struct ledger_request requests[COUNT];
	static struct op ops[COUNT];
	static char keys[COUNT][16];
	struct fixture *fixture = *state;
	struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, COUNT};
	struct op op = attempting(1);
	insert(fixture->ledger, "first", &op);
	long syncs = fault_vfs_syncs();
	bool blocked = false;
	fault_vfs_block_sync();
	for (int i = 0; i < COUNT; i++) {
		key_text(i, keys[i]);
		ops[i] = attempting(i % 100);
		requests[i] = insert_of(LEDGER_CLAIM, keys[i], &ops[i]);
		requests[i].post = waiter_post;
		requests[i].data = &waiter;
		ledger_submit(fixture->ledger, &requests[i]);
		if (i == 0)
			blocked = fault_vfs_wait_blocked();
	}
	pthread_mutex_lock(&waiter.mutex);
	int waiting = waiter.waiting;
	pthread_mutex_unlock(&waiter.mutex);
	fault_vfs_let_sync();
	assert_true(blocked);
	assert_int_equal(waiting, COUNT); /* nobody is answered before the sync is over */
	pthread_mutex_lock(&waiter.mutex);
	while (waiter.waiting > 0)
		pthread_cond_wait(&waiter.posted, &waiter.mutex);
	pthread_mutex_unlock(&waiter.mutex);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(requests[i].result, LEDGER_OK);
	assert_int_equal(fault_vfs_syncs() - syncs, 2);
}

/* By another process: closing a copy of the file here would drop SQLite's locks on it. */
static void copy_file(const char *from, const char *to)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("cp", "cp", from, to, (char *)NULL);
		_exit(127);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* After each answer the power goes: only what was synced is left, and the answer is in it. */
static void power_cut(void **state)
{
	struct fixture *fixture = *state;
	char from[256], to[256], crash[160], error[512];
	fault_vfs_keep_synced(true);
	for (int i = 0; i < 8; i++) {
		char key[16];
		struct op op = attempting(i);
		struct ledger *ledger;
		key_text(i, key);
		insert(fixture->ledger, key, &op);
		snprintf(crash, sizeof(crash), "%s/crash%d.db", fixture->directory, i);
		copy_file(fixture->path, crash);
		snprintf(from, sizeof(from), "%s-wal.synced", fixture->path);
		snprintf(to, sizeof(to), "%s-wal", crash);
		copy_file(from, to);
		fault_vfs_keep_synced(false);
		assert_int_equal(sqlite_store_open(crash, true, 10, error, sizeof(error), &ledger),
				 0);
		for (int j = 0; j <= i; j++) {
			key_text(j, key);
			assert_int_equal(state_of(ledger, key), OP_ATTEMPTING);
		}
		ledger->ops->close(ledger);
		fault_vfs_keep_synced(true);
	}
	fault_vfs_keep_synced(false);
}

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(answers_come_after_the_sync, disk_setup),
		TEST(reads_neither_write_nor_sync, disk_setup),
		TEST(process_durability_does_not_sync, disk_setup),
		TEST(group_commit, disk_setup),
		TEST(power_cut, disk_setup),
		TEST(full_disk, fixture_setup),
		cmocka_unit_test(each_call_fails_once),
		cmocka_unit_test(each_call_and_all_behind_it),
		cmocka_unit_test(each_write_finds_no_room),
		cmocka_unit_test(no_room_from_each_write_on),
	};
	fault_vfs_install();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
