/* Problem bodies (RFC 9457): what stint says when it answers itself. */
#ifndef STINT_PROXY_PROBLEM_H
#define STINT_PROXY_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>

#include "budget/operation.h"

/* id, name in urn:stint:NAME, default status, title */
#define PROBLEMS(X)                                                                                \
	X(BAD_REQUEST, "bad-request", 400, "The request is malformed")                             \
	X(NO_ROUTE, "no-route", 404, "No provider is configured for this request")                 \
	X(KEY_INVALID, "key-invalid", 400, "The operation key is malformed")                       \
	X(KEY_MISSING, "key-missing", 400, "The request carries no operation key")                 \
	X(KEY_REUSE, "key-reuse", 422, "The operation key belongs to another request")             \
	X(HINT_INVALID, "hint-invalid", 400, "A Stint hint is malformed")                          \
	X(BODY_TOO_LARGE, "body-too-large", 413, "The request body is too large")                  \
	X(IN_PROGRESS, "in-progress", 409, "The operation is in progress")                         \
	X(WAITING, "waiting", 503, "The operation waits for its next attempt")                     \
	X(QUEUE_FULL, "queue-full", 503, "Too many operations wait for this provider")             \
	X(PAUSED, "paused", 503, "The provider is paused")                                         \
	X(EXHAUSTED, "exhausted", 424, "The operation's budget is spent")                          \
	X(UNKNOWN, "unknown", 424, "The operation's outcome is unknown")                           \
	X(HELD, "held", 424, "The operation is held until a person releases it")                   \
	X(NOT_SENT, "not-sent", 502, "The request was not sent to the provider")                   \
	X(UNKNOWN_OUTCOME, "unknown-outcome", 502, "The provider's answer was lost")               \
	X(RESPONSE_NOT_RETAINED, "response-not-retained", 424,                                     \
	  "The operation has ended and its response is not kept")                                  \
	X(RESPONSE_HEAD_TOO_LARGE, "response-head-too-large", 502,                                 \
	  "The provider's response headers are too large")                                         \
	X(LEDGER_AWAY, "ledger-away", 503, "The ledger cannot be reached")                         \
	X(LEDGER_LOST, "ledger-lost", 503, "The ledger has lost records")                          \
	X(LEDGER_FULL, "ledger-full", 503, "The ledger is full")                                   \
	X(DRAINING, "draining", 503, "This instance is shutting down")

enum problem_type {
#define X(id, name, status, title) PROBLEM_##id,
	PROBLEMS(X)
#undef X
		PROBLEM_COUNT
};

#define PROBLEM_CONTENT_TYPE "application/problem+json"

/* NULL texts and negative numbers are left out; nothing is owned. Start from problem_init(). */
struct problem {
	enum problem_type type;
	int status;         /* 0: the type's own */
	const char *detail; /* what to do next */

	const char *provider;
	const char *key;
	const char *state;
	const char *class;
	int attempts;
	int limit;
	int last_status; /* <= 0: left out */
	const char *last_reason;
	usec_t last_at; /* wall; <= 0: left out */
};

void problem_init(struct problem *problem, enum problem_type type, const char *detail);
/* Fills the operation's part. Points into `op`: keep it until the text is built. */
void problem_set_operation(struct problem *problem, const char *provider, const char *key,
			   const struct op *op);

const char *problem_name(enum problem_type type); /* "key-reuse" */
int problem_status(const struct problem *problem);

/* The JSON text, malloc'ed and the caller's; NULL: out of memory. Bytes of a text that are no UTF-8
 * come out as "?". */
char *problem_json(const struct problem *problem, size_t *ret_len);

#endif
