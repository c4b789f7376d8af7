/* Throughput of the SQLite ledger: N concurrent operations, each a claim and a settle.
 * Usage: bench_sqlite [DIRECTORY [CONCURRENT [OPERATIONS]]] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "budget/sqlite_store.h"

struct slot {
	struct ledger_request request;
	struct op op;
	char key[32];
	struct ledger_texts texts;
};

struct bench {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	struct ledger_request *head, **tail;
	struct ledger *ledger;
	long next, done, total;
};

static double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static usec_t wall(void)
{
	return (usec_t)(seconds(CLOCK_REALTIME) * 1e6);
}

static void post(struct ledger_request *request)
{
	struct bench *bench = request->data;
	pthread_mutex_lock(&bench->mutex);
	request->link = NULL;
	*bench->tail = request;
	bench->tail = &request->link;
	pthread_mutex_unlock(&bench->mutex);
	pthread_cond_signal(&bench->filled);
}

static void claim(struct bench *bench, struct slot *slot)
{
	struct op *op = &slot->op;
	long n = bench->next++;
	memset(op, 0, sizeof(*op));
	snprintf(slot->key, sizeof(slot->key), "invoice:%08lx:%ld", n * 2654435761L & 0xffffffffL,
		 n);
	memcpy(op->incarnation, &n, sizeof(n));
	memcpy(op->token, &n, sizeof(n));
	op->token[OP_TOKEN_LEN - 1] = 1;
	op->counter = 1;
	op->state = OP_ATTEMPTING;
	op->attempts = 1;
	op->limit = 5;
	op->created = op->updated = wall();
	op->deadline = op->created + USEC_HOUR;
	op->lease_until = op->created + 30 * USEC_SEC;
	snprintf(op->owner, sizeof(op->owner), "%s", bench->ledger->ops->instance(bench->ledger));
	op->ring[0] = (struct op_attempt){.n = 1, .start = op->created};
	memcpy(op->ring[0].token, op->token, OP_TOKEN_LEN);
	memcpy(op->ring[0].instance, op->owner, sizeof(op->owner));
	slot->request = (struct ledger_request){
		.verb = LEDGER_CLAIM,
		.name = {"payments", "", "", slot->key},
		.expect_absent = true,
		.op = op,
		.texts = &slot->texts,
		.now = op->created,
		.post = post,
		.data = bench,
	};
	ledger_submit(bench->ledger, &slot->request);
}

static void settle(struct bench *bench, struct slot *slot)
{
	struct op *op = &slot->op;
	struct ledger_request *request = &slot->request;
	memcpy(request->token, op->token, OP_TOKEN_LEN);
	memset(op->token, 0, OP_TOKEN_LEN);
	op->owner[0] = '\0';
	op->lease_until = 0;
	op->counter = 2;
	op->state = OP_SUCCEEDED;
	op->class = CLASS_SUCCESS;
	op->effect = EFFECT_DEFINITE;
	op->status = 200;
	op->last_n = 1;
	op->updated = op->terminal = op->last_end = wall();
	op->ring[0].class = CLASS_SUCCESS;
	op->ring[0].effect = EFFECT_DEFINITE;
	op->ring[0].status = 200;
	op->ring[0].has_verdict = true;
	op->reply_kept = true;
	request->verb = LEDGER_SETTLE;
	request->expect_absent = false;
	request->expect_counter = 1;
	char *head = strdup("Content-Type: application/json\r\nX-Request-Id: 0123456789\r\n");
	char *body = strdup("{\"id\":\"pay_0123456789\",\"status\":\"paid\",\"amount\":1999}");
	request->reply = ledger_reply_new(200, head, strlen(head), body, strlen(body));
	ledger_submit(bench->ledger, request);
}

static void step(struct bench *bench, struct ledger_request *request)
{
	struct slot *slot = (struct slot *)request;
	if (request->result != LEDGER_OK) {
		fprintf(stderr, "result %d: %s\n", request->result,
			request->error ? request->error : "");
		exit(1);
	}
	if (request->verb == LEDGER_CLAIM) {
		settle(bench, slot);
		return;
	}
	ledger_reply_unref(request->reply);
	ledger_request_done(request);
	bench->done++;
	if (bench->next < bench->total)
		claim(bench, slot);
}

static void run(const char *directory, bool disk, long concurrent, long total)
{
	char path[512], error[512];
	struct bench bench = {.total = total};
	pthread_mutex_init(&bench.mutex, NULL);
	pthread_cond_init(&bench.filled, NULL);
	bench.tail = &bench.head;
	snprintf(path, sizeof(path), "%s/bench-%d-%d.db", directory, (int)getpid(), disk);
	if (sqlite_store_open(path, disk, 100000, error, sizeof(error), &bench.ledger) != 0) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
	struct slot *slots = calloc((size_t)concurrent, sizeof(*slots));
	if (!slots)
		exit(1);
	struct ledger_texts texts = {.method = (char *)"POST", .target = (char *)"/v1/payments"};
	double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < concurrent; i++) {
		slots[i].texts = texts;
		claim(&bench, &slots[i]);
	}
	while (bench.done < total) {
		pthread_mutex_lock(&bench.mutex);
		while (!bench.head)
			pthread_cond_wait(&bench.filled, &bench.mutex);
		struct ledger_request *request = bench.head;
		bench.head = NULL;
		bench.tail = &bench.head;
		pthread_mutex_unlock(&bench.mutex);
		while (request) {
			struct ledger_request *next = request->link;
			step(&bench, request);
			request = next;
		}
	}
	double took = seconds(CLOCK_MONOTONIC) - start;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("%-7s %ld concurrent, %ld operations: %.0f operations/s, %.1f us of CPU a step\n",
	       disk ? "disk" : "process", concurrent, total, (double)total / took,
	       cpu / (double)total / 2 * 1e6);
	bench.ledger->ops->close(bench.ledger);
	free(slots);
	unlink(path);
	snprintf(path, sizeof(path), "%s/bench-%d-%d.db.instances", directory, (int)getpid(), disk);
	rmdir(path);
}

int main(int argc, char **argv)
{
	const char *directory = argc > 1 ? argv[1] : "/var/tmp";
	long concurrent = argc > 2 ? strtol(argv[2], NULL, 10) : 64;
	long total = argc > 3 ? strtol(argv[3], NULL, 10) : 50000;
	if (concurrent < 1 || total < concurrent)
		return 2;
	run(directory, true, concurrent, total);
	run(directory, false, concurrent, total);
	return 0;
}
