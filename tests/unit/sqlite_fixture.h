/* What the tests of the SQLite ledger share: a directory, a request that waits, records. */
#ifndef STINT_TESTS_SQLITE_FIXTURE_H
#define STINT_TESTS_SQLITE_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "budget/sqlite_store.h"

#define T0 ((usec_t)1700000000 * USEC_SEC)

struct fixture {
	char directory[64];
	char path[96];
	struct ledger *ledger;
};

static inline int fixture_remove_one(const char *path, const struct stat *about, int type,
				     struct FTW *where)
{
	(void)about, (void)type, (void)where;
	return remove(path);
}

static inline void fixture_remove(const char *path)
{
	nftw(path, fixture_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void fixture_open(struct fixture *fixture)
{
	char error[512];
	if (sqlite_store_open(fixture->path, false, 1000, error, sizeof(error), &fixture->ledger) !=
	    0)
		fail_msg("%s", error);
}

static inline void fixture_close(struct fixture *fixture)
{
	if (fixture->ledger)
		fixture->ledger->ops->close(fixture->ledger);
	fixture->ledger = NULL;
}

/* A directory without a ledger. */
static inline int fixture_empty(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	assert_non_null(fixture);
	snprintf(fixture->directory, sizeof(fixture->directory), "/tmp/stint-sqlite-XXXXXX");
	assert_non_null(mkdtemp(fixture->directory));
	snprintf(fixture->path, sizeof(fixture->path), "%s/ledger.db", fixture->directory);
	*state = fixture;
	return 0;
}

static inline int fixture_setup(void **state)
{
	fixture_empty(state);
	fixture_open(*state);
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;
	fixture_close(fixture);
	fixture_remove(fixture->directory);
	free(fixture);
	return 0;
}

struct waiter {
	pthread_mutex_t mutex;
	pthread_cond_t posted;
	int waiting;
};

static inline void waiter_post(struct ledger_request *request)
{
	struct waiter *waiter = request->data;
	pthread_mutex_lock(&waiter->mutex);
	waiter->waiting--;
	pthread_cond_signal(&waiter->posted);
	pthread_mutex_unlock(&waiter->mutex);
}

/* Submits all of them and waits for every answer. */
static inline void ask_all(struct ledger *ledger, struct ledger_request *requests, int count)
{
	struct waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, count};
	for (int i = 0; i < count; i++) {
		requests[i].post = waiter_post;
		requests[i].data = &waiter;
		ledger_submit(ledger, &requests[i]);
	}
	pthread_mutex_lock(&waiter.mutex);
	while (waiter.waiting > 0)
		pthread_cond_wait(&waiter.posted, &waiter.mutex);
	pthread_mutex_unlock(&waiter.mutex);
}

static inline enum ledger_result ask(struct ledger *ledger, struct ledger_request *request)
{
	ask_all(ledger, request, 1);
	return request->result;
}

static inline struct op_name named(const char *key)
{
	return (struct op_name){"pay", "acme", "", key};
}

/* A record as the first claim of `n` makes it. */
static inline struct op attempting(int n)
{
	struct op op = {
		.counter = 1,
		.state = OP_ATTEMPTING,
		.attempts = 1,
		.limit = 5,
		.created = T0 + n,
		.updated = T0 + n,
		.deadline = T0 + USEC_HOUR,
		.lease_until = T0 + 30 * USEC_SEC,
		.owner = "an-instance",
	};
	memset(op.incarnation, n, sizeof(op.incarnation));
	memset(op.fingerprint, 0xf0, sizeof(op.fingerprint));
	memset(op.token, n, sizeof(op.token));
	op.ring[0] = (struct op_attempt){.n = 1, .start = T0 + n};
	memcpy(op.ring[0].token, op.token, sizeof(op.token));
	return op;
}

/* What a success makes of it. */
static inline struct op succeeded(struct op op)
{
	op.counter++;
	op.state = OP_SUCCEEDED;
	op.class = CLASS_SUCCESS;
	op.effect = EFFECT_DEFINITE;
	op.status = 200;
	op.last_n = 1;
	op.updated = op.terminal = op.last_end = T0 + USEC_SEC;
	memset(op.token, 0, sizeof(op.token));
	memset(op.owner, 0, sizeof(op.owner));
	op.lease_until = 0;
	op.ring[0].class = CLASS_SUCCESS;
	op.ring[0].effect = EFFECT_DEFINITE;
	op.ring[0].status = 200;
	op.ring[0].ms = 12;
	op.ring[0].has_verdict = true;
	return op;
}

static inline struct ledger_reply *make_reply(int status, const char *head, const char *body)
{
	struct ledger_reply *reply =
		ledger_reply_new(status, strdup(head), strlen(head), strdup(body), strlen(body));
	assert_non_null(reply);
	return reply;
}

static inline struct ledger_request insert_of(enum ledger_verb verb, const char *key,
					      const struct op *op)
{
	return (struct ledger_request){
		.verb = verb, .name = named(key), .expect_absent = true, .op = op, .now = T0};
}

static inline struct ledger_request swap_of(enum ledger_verb verb, const char *key,
					    const struct op *op, uint32_t counter)
{
	return (struct ledger_request){
		.verb = verb, .name = named(key), .expect_counter = counter, .op = op, .now = T0};
}

static inline struct ledger_request settle_of(const char *key, const struct op *op,
					      uint32_t counter, uint8_t token)
{
	struct ledger_request request = swap_of(LEDGER_SETTLE, key, op, counter);
	memset(request.token, token, sizeof(request.token));
	return request;
}

static inline void insert(struct ledger *ledger, const char *key, const struct op *op)
{
	struct ledger_request request = insert_of(LEDGER_CHANGE, key, op);
	assert_int_equal(ask(ledger, &request), LEDGER_OK);
}

/* The record's state, or -1 where there is none. */
static inline int state_of(struct ledger *ledger, const char *key)
{
	struct ledger_request request = {.verb = LEDGER_GET, .name = named(key)};
	int state = ask(ledger, &request) == LEDGER_OK ? (int)request.found.op.state : -1;
	assert_true(request.result == LEDGER_OK || request.result == LEDGER_ABSENT);
	ledger_request_done(&request);
	return state;
}

#endif
