/* What classifying costs, in CPU time of one thread and as ratios of what ran beside it, since
 * machines are noisy:
 *
 *   a reply with 20 rules, none of which reads the body    < 1 SHA-256 of 1 KiB
 *   a reply with 20 rules that each read a 4 KiB JSON body < 3 bare parses of it by jansson
 *
 * The replies match no rule, which is the most work. Fails if a limit is passed. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "classify/classify.h"
#include "classify/rules.h"
#include "proxy/digest.h"

#define RULES 20
#define ROUNDS 7
#define BATCH_US 40000 /* a batch is so long that the clock's grain does not matter */

#define LINE(n, v)                                                                                 \
	{                                                                                          \
		.name = (n), .name_len = sizeof(n) - 1, .value = (v), .value_len = sizeof(v) - 1   \
	}

struct bench {
	struct facts facts;
	struct ruleset head, body; /* 20 rules on the head, 20 on the body */
	char text[4096 + 1];
	unsigned char kilobyte[1024];
	unsigned sum; /* keeps the compiler from leaving the work out */
};

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static const struct header_view lines[] = {
	LINE("Date", "Wed, 21 Oct 2026 07:28:00 GMT"),
	LINE("Content-Type", "application/json"),
	LINE("Content-Length", "4096"),
	LINE("Connection", "keep-alive"),
	LINE("x-ratelimit-limit-requests", "10000"),
	LINE("x-ratelimit-remaining-requests", "0"),
	LINE("x-ratelimit-reset-requests", "6m30s"),
	LINE("X-Request-Id", "req_0123456789abcdef0123456789abcdef"),
	LINE("Retry-After", "12"),
	LINE("Strict-Transport-Security", "max-age=31536000; includeSubDomains; preload"),
	LINE("Server", "cloudflare"),
	LINE("CF-RAY", "8f0123456789abcd-FRA"),
};

static const struct advice_source sources[] = {
	{"x-ratelimit-reset-requests", ADVICE_UNIT_GO_DURATION, NULL},
	{"x-ratelimit-reset-tokens", ADVICE_UNIT_GO_DURATION, NULL},
};

static struct rule head_rules[RULES], body_rules[RULES];

static void set_rules(void)
{
	static const struct rule_status status = {429, 429}, other = {500, 599};
	static const char *const no[] = {"false"}, *const post[] = {"POST"};
	static const struct rule_header header = {"X-Processed", no, 1, false};
	static const char *const codes[] = {"insufficient_quota", "billing_hard_limit_reached"};
	static const struct rule_json jsons[] = {
		{"/error/code", codes, 2},
		{"/error/type", codes, 2},
		{"/error/details/0/reason", codes, 2},
		{"/error/errors/0/reason", codes, 2},
	};

	for (size_t i = 0; i < RULES; i++) {
		head_rules[i] = (struct rule){.name = "head",
					      .statuses = i % 2 == 0 ? &status : &other,
					      .status_count = 1,
					      .headers = &header,
					      .header_count = 1,
					      .methods = post,
					      .method_count = 1,
					      .path = "/v1",
					      .class = CLASS_QUOTA};
		body_rules[i] = (struct rule){.name = "body",
					      .statuses = &status,
					      .status_count = 1,
					      .jsons = &jsons[i % 4],
					      .json_count = 1,
					      .class = CLASS_QUOTA};
	}
}

/* An error as providers write them, filled up to 4 KiB with what else they say. */
static void set_body(struct bench *bench)
{
	static const char start[] =
		"{\"error\": {\"message\": \"Rate limit reached for requests\", \"type\": "
		"\"requests\", "
		"\"code\": \"rate_limit_exceeded\", \"status\": 429, \"details\": [{\"reason\": "
		"\"RATE_LIMIT\", \"metadata\": {\"n\": 1.5e3, \"ok\": false, \"none\": null}}]},\n"
		" \"violations\": [";
	static const char end[] = "{}]}";
	size_t used = (size_t)snprintf(bench->text, sizeof(bench->text), "%s", start);
	char item[160];

	for (int i = 0;; i++) {
		size_t len = (size_t)snprintf(
			item, sizeof(item),
			"{\"id\": %d, \"subject\": \"project:%06d\", \"description\": \"Quota "
			"exceeded for \\\"requests\\\" per minute\", \"value\": %d.25},\n  ",
			i, i * 7919, i);

		if (used + len + sizeof(end) > sizeof(bench->text))
			break;
		memcpy(bench->text + used, item, len);
		used += len;
	}
	memset(bench->text + used, ' ', sizeof(bench->text) - used);
	memcpy(bench->text + sizeof(bench->text) - sizeof(end), end, sizeof(end));
}

static void do_head(struct bench *bench)
{
	struct verdict verdict;

	classify(&bench->facts, &bench->head, &verdict);
	bench->sum += (unsigned)verdict.class;
}

static void do_body(struct bench *bench)
{
	struct verdict verdict;

	classify(&bench->facts, &bench->body, &verdict);
	bench->sum += (unsigned)verdict.class;
}

static void do_sha(struct bench *bench)
{
	uint8_t hash[DIGEST_LEN];
	struct digest digest;

	digest_init(&digest);
	digest_bytes(&digest, bench->kilobyte, sizeof(bench->kilobyte));
	digest_done(&digest, hash);
	bench->sum += hash[0];
}

static void do_parse(struct bench *bench)
{
	json_t *root = json_loadb(bench->text, sizeof(bench->text) - 1, 0, NULL);

	bench->sum += root != NULL;
	json_decref(root);
}

/* CPU of one call, in microseconds: of so many calls that they take BATCH_US. */
static double one(struct bench *bench, void (*work)(struct bench *bench), long *calls)
{
	double began, took;

	for (;; *calls *= 2) {
		began = cpu_us();
		for (long i = 0; i < *calls; i++)
			work(bench);
		took = cpu_us() - began;
		if (took >= BATCH_US)
			return took / (double)*calls;
	}
}

static int by_size(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Both in turn, so that what slows the machine down slows both; the middle of the ratios. */
static bool compare(struct bench *bench, const char *what, void (*work)(struct bench *bench),
		    const char *yardstick, void (*measure)(struct bench *bench), double limit)
{
	double ratios[ROUNDS], work_us = 0, measure_us = 0;
	long calls[2] = {1, 1};

	for (int i = 0; i < ROUNDS; i++) {
		work_us = one(bench, work, &calls[0]);
		measure_us = one(bench, measure, &calls[1]);
		ratios[i] = work_us / measure_us;
	}
	qsort(ratios, ROUNDS, sizeof(ratios[0]), by_size);
	printf("%s: %.2f us, %s: %.2f us, ratio %.2f (below %.0f): %s\n", what, work_us, yardstick,
	       measure_us, ratios[ROUNDS / 2], limit, ratios[ROUNDS / 2] < limit ? "good" : "OVER");
	return ratios[ROUNDS / 2] < limit;
}

int main(void)
{
	static struct bench bench;
	json_t *root;
	bool good;

	set_rules();
	set_body(&bench);
	memset(bench.kilobyte, 'x', sizeof(bench.kilobyte));
	bench.head = (struct ruleset){.rules = head_rules,
				      .count = RULES,
				      .sources = sources,
				      .source_count = 2,
				      .inspect_max = 16384};
	bench.body = bench.head;
	bench.body.rules = body_rules;
	bench.facts = (struct facts){.method = "POST",
				     .path = "/v1/chat/completions",
				     .status = 429,
				     .sent = true,
				     .headers = lines,
				     .header_count = sizeof(lines) / sizeof(lines[0]),
				     .body = bench.text,
				     .body_len = sizeof(bench.text) - 1,
				     .received_wall = 1792567680 * USEC_SEC};
	root = json_loadb(bench.text, sizeof(bench.text) - 1, 0, NULL);
	if (root == NULL) {
		fprintf(stderr, "the body is no JSON\n");
		return 1;
	}
	json_decref(root);
	good = compare(&bench, "classify, 20 rules", do_head, "SHA-256 of 1 KiB", do_sha, 1);
	good &= compare(&bench, "classify, 20 rules on 4 KiB of JSON", do_body, "jansson's parse",
			do_parse, 3);
	return good && bench.sum != 1 ? 0 : 1;
}
