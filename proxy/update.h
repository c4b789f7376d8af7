/* A change to one record that no delivery waits for: read, apply the pure function, compare and
 * swap, and again where another was faster. Sweeping, voids, late settles and cross references go
 * through here. */
#ifndef STINT_PROXY_UPDATE_H
#define STINT_PROXY_UPDATE_H

#include <stdbool.h>

#include "budget/ledger.h"
#include "proxy/loop.h"

struct app;

enum update_result {
	UPDATE_WRITTEN,
	UPDATE_NOTHING,  /* the event changes nothing, or is not allowed in that state */
	UPDATE_STRANGER, /* the record does not know the claim, or is another incarnation */
	UPDATE_ABSENT,
	UPDATE_AWAY, /* the store did not answer; the update may be started again */
};

struct update {
	struct app *app;
	struct loop *loop; /* on whose thread it runs */
	struct op_name name;
	char *name_block; /* owns the name's texts */
	const struct policy *policy;
	struct provider_metrics *metrics; /* or NULL */

	bool has_event;        /* false: only texts are written */
	struct op_event event; /* its pointers are replaced by the copies below */
	struct verdict verdict;
	uint8_t token[OP_TOKEN_LEN];
	uint8_t credential[OP_CREDENTIAL_LEN];
	char remote_id[OP_REMOTE_ID_MAX];
	char instance[OP_INSTANCE_MAX];
	uint8_t incarnation[OP_INCARNATION_LEN];
	bool any_incarnation;
	bool insert; /* where there is no record: write `next` as it is */
	struct ledger_texts texts;
	struct ledger_reply *reply; /* written if the event ends the operation */

	struct op next;
	struct ledger_request request;
	struct loop_task task;
	int tries;
	void (*done)(struct update *update, enum update_result result); /* owns it from here */
	void *data;
	struct update *link, **plink; /* for whoever lists it */
};

/* A zeroed update under a copy of `name`; NULL: out of memory. */
struct update *update_new(struct app *app, struct loop *loop, const struct op_name *name,
			  const struct policy *policy);
/* Takes the event with copies of all that its pointers name. `incarnation`: of the record it is
 * meant for, or NULL for any. */
void update_set_event(struct update *update, const struct op_event *event,
		      const uint8_t *incarnation);
/* Starts it; on the thread of update->loop. done fires later, never from inside. */
void update_start(struct update *update);
void update_free(struct update *update);

#endif
