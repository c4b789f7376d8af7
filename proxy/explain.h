/* `stint explain`: what a reply or a fault of one attempt would mean for its operation, its provider
 * and its caller. It runs the code that the proxy runs: classify(), the delivery's machine over a
 * real operation, and the gate's arithmetic; nothing is judged here. */
#ifndef STINT_PROXY_EXPLAIN_H
#define STINT_PROXY_EXPLAIN_H

#include "budget/delivery.h"
#include "classify/advice.h"
#include "proxy/config.h"
#include "proxy/headers.h"

/* What came back of an attempt, as the command line says it. */
struct explain_input {
	const char *method; /* upper case */
	const char *path;   /* behind the route */
	int status;         /* 0: none */
	enum fault fault;
	bool sent;
	struct headers headers;
	char *body; /* malloc'ed, or NULL */
	size_t body_len;
	int attempts; /* made, this one included: at least 1 */
	usec_t now;   /* wall */
};

struct explanation {
	const struct provider_config *provider;
	const struct explain_input *input;
	struct facts facts;
	struct verdict verdict;  /* as settled */
	const struct rule *rule; /* of the provider; NULL: the default table decided */
	size_t rule_number;      /* from 1 */
	bool body_unread; /* a rule or the advice asks for a body that is over inspect.body */
	bool dropped; /* the body is over retain.body, and was read while it might be repeated */
	struct advice advice;
	usec_t advice_used; /* within the cap; -1: none */
	bool advice_capped;

	enum repeat_rule safety;
	bool repeats;        /* another attempt would follow */
	bool needs_safety;   /* only because, and as long as, repeating is safe */
	usec_t wait, jitter; /* jitter: its largest, on top of the wait */

	bool settles; /* false: nothing is recorded of it, the method is safe */
	struct op op; /* as the settle leaves it */

	usec_t block;         /* the provider is blocked for so long; 0: not */
	bool block_probe;     /* then one probe decides */
	bool breaker_failure; /* counts towards the breaker */

	bool held;                /* its delivery waits for the next attempt, within its hold */
	struct delivery delivery; /* as its answer finds it */
	struct delivery_action answer; /* what the caller gets, if need be when the hold is over */
};

/* Explains. False: the provider's budget has no such attempt. The explanation refers to both. */
bool explain(const struct provider_config *provider, const struct explain_input *input,
	     struct explanation *ret_explanation);

/* The arguments after `explain`; `config` is the configuration where none is given. The exit status:
 * 0, 1 out of memory, 2 for bad input, said on standard error. */
int explain_run(int argc, char **argv, const char *config);

void explain_print(const struct explanation *explanation, FILE *out);
int explain_print_json(const struct explanation *explanation, FILE *out); /* -1: no memory */

#endif
