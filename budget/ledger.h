/* The ledger: the durable store of operations, behind one small asynchronous interface.
 *
 * The rules live in C, once (operation.h): the caller brings the record to write; a store compares
 * and swaps, and decides nothing. A request struct belongs to its caller from submit to done, and
 * done fires exactly once, on the thread that `post` hands it to. */
#ifndef STINT_BUDGET_LEDGER_H
#define STINT_BUDGET_LEDGER_H

#include <stdatomic.h>

#include "budget/gate.h"
#include "budget/name.h"
#include "budget/operation.h"

/* A reply as kept and replayed: shared, immutable, counted. */
struct ledger_reply {
	atomic_int refs;
	int status;
	char *head; /* header lines as received, each "Name: value\r\n", hop-by-hop ones removed */
	size_t head_len;
	char *body;
	size_t body_len;
	bool close_delimited;   /* the body's end was the connection's: cannot be told from a cut */
	int64_t content_length; /* of a reply to HEAD or a 304, to be shown; -1: none. Not stored */
};

/* Takes ownership of head and body (malloc'ed, may be NULL with length 0); NULL: out of memory, and
 * then head and body are freed. Starts with one reference. */
struct ledger_reply *ledger_reply_new(int status, char *head, size_t head_len, char *body,
				      size_t body_len);
struct ledger_reply *ledger_reply_ref(struct ledger_reply *reply);
void ledger_reply_unref(struct ledger_reply *reply); /* NULL is fine */

/* What a record holds beside the operation: texts, written when they are not NULL. */
struct ledger_texts {
	char *method;
	char *target;       /* after route removal, its query redacted */
	char *upstream_key; /* the first delivery's own key header bytes, where they are forwarded */
	char *corrects;     /* the key that this operation corrects */
	char *corrected_by;
};

void ledger_texts_done(struct ledger_texts *texts); /* frees the members */

struct ledger_row {
	char *provider, *tenant, *scope, *key; /* owned */
	struct op op;
	struct ledger_texts texts;
	char *notes; /* JSON lines of what is not an attempt: probes, late findings, operator
			actions; NULL: none. Only from GET and LIST with `want_notes` */
	struct ledger_reply *reply; /* from GET, and from CLAIM and CHANGE on CONFLICT */
	bool owner_dead;            /* only from DUE: the lease's owner does not live any more */
};

void ledger_row_done(struct ledger_row *row);

enum ledger_verb {
	LEDGER_GET,   /* read one record: OK or ABSENT */
	LEDGER_CLAIM, /* insert (expect_absent) or swap ready -> attempting. OK or CONFLICT */
	LEDGER_SETTLE, /* swap with the lease's token; stores `reply` when given. OK, CONFLICT, ABSENT */
	LEDGER_RENEW,  /* lease_until of the claim with this incarnation and token, nothing else.
			  OK or CONFLICT (no such lease) */
	LEDGER_VOID,   /* a claim whose fate is unknown. If a record carries this incarnation and
			  token as its lease or in its ring: OK and the record, for the caller to
			  apply OP_EV_VOID and CHANGE. Else ABSENT, and a CLAIM that carries the token
			  within the next 60 s is refused (CONFLICT) */
	LEDGER_CHANGE, /* insert (expect_absent) or compare-and-swap on incarnation and counter */
	LEDGER_DUE,    /* rows that time has to move: see below */
	LEDGER_LIST,   /* rows by filter, newest first */
	LEDGER_STATS,  /* counts for the metrics */
	LEDGER_RETAIN, /* retention of one provider: trims replies, makes tombstones, deletes */
	LEDGER_GATE_PUT, /* writes the block of one gate (name.provider, gate.bucket), or takes its row
			     away where the block is all zero. OK */
	LEDGER_GATE_LIST, /* all blocks there are: `gates` */
};

enum ledger_result {
	LEDGER_OK = 0,
	LEDGER_CONFLICT = 1, /* the record is another than expected: `found` has it */
	LEDGER_ABSENT = 2,
	LEDGER_AWAY = -1, /* the store cannot be reached or does not answer: `error` says why */
	LEDGER_FULL = -2, /* no room (disk full) */
	LEDGER_DAMAGED = -3,
};

struct ledger_filter {
	const char *provider; /* NULL: any, also below */
	const char *tenant;
	const char *key_prefix;
	int state;          /* enum op_state, -1: any; OP_UNKNOWN lists by unresolved > 0 */
	int class;          /* enum outcome_class, -1: any */
	usec_t before;      /* created before; 0: any */
	int limit;          /* 1 to 1000 */
	const char *cursor; /* from an earlier answer; NULL: from the newest */
	bool want_notes;
};

struct ledger_stat {
	char *provider;
	enum op_state state;
	enum outcome_class class;
	int64_t count;
};

struct ledger_provider_stat {
	char *provider;
	int64_t unresolved;       /* operations with unresolved > 0 */
	int64_t unresolved_keyed; /* of these, those with a caller's key */
	usec_t oldest_unresolved; /* created; 0: none */
	int64_t disputed;
	usec_t oldest_eligible; /* ready and due: its `next` or, if 0, created; 0: none */
};

/* What RETAIN may delete, as cut-off times (wall): whatever is older goes. */
struct ledger_retention {
	const char *provider;
	usec_t replies_before;    /* terminal before: reply and history go, a tombstone stays */
	usec_t tombstones_before; /* terminal (or held with nothing unresolved since, or never charged
				     and delivered) before: the record goes */
	usec_t unknown_before; /* unresolved and unkeyed (or any, if cost) and updated before: goes */
	bool cost;             /* duplicates: cost */
	int64_t unknown_max;   /* ring of such records: the oldest beyond it go */
};

/* A block as kept across a restart (gate.h), of a provider's gate or of one bucket of it. */
struct ledger_gate {
	char *provider; /* owned; in a PUT NULL: name.provider says it */
	uint64_t bucket;
	struct gate_block block;
};

struct ledger_request {
	enum ledger_verb verb;
	struct op_name name; /* texts live until done */

	/* CLAIM, SETTLE, CHANGE */
	bool expect_absent;
	uint32_t expect_counter;
	const struct op *op;              /* the record to write; expect incarnation = op's */
	const struct ledger_texts *texts; /* or NULL; members that are NULL stay as they are */
	struct ledger_reply *reply;       /* SETTLE, CHANGE: or NULL; the store takes its own ref */
	const char *note;                 /* one JSON object to append to the notes, or NULL */
	/* SETTLE, RENEW, VOID (incarnation and token) */
	uint8_t incarnation[OP_INCARNATION_LEN];
	uint8_t token[OP_TOKEN_LEN];
	usec_t lease_until; /* RENEW */
	/* DUE: `now`, at most filter.limit rows: attempting with lease_until <= now or an owner that is
	 * dead (lease_until is then reported as now or less), ready with a deadline <= now or with
	 * something unresolved and repeat_until <= now. LIST: filter. RETAIN: retention. */
	usec_t now;
	struct ledger_filter filter;
	struct ledger_retention retention;
	struct ledger_gate gate; /* GATE_PUT */

	/* Answers, owned by the request until ledger_request_done(). */
	enum ledger_result result;
	const char *error;       /* static text, for AWAY, FULL, DAMAGED */
	struct ledger_row found; /* GET, VOID; CLAIM, SETTLE, CHANGE on CONFLICT */
	struct ledger_row *rows; /* DUE, LIST */
	size_t row_count;
	char *cursor; /* LIST: where to go on, or NULL at the end */
	struct ledger_stat *stats;
	size_t stat_count;
	struct ledger_provider_stat *provider_stats;
	size_t provider_stat_count;
	struct ledger_gate *gates; /* GATE_LIST */
	size_t gate_count;
	int64_t dropped; /* RETAIN: unknown records that the ring or the expiry took */
	int64_t taken;   /* RETAIN: all rows trimmed or deleted; while not 0 there may be more */

	/* Called on a store's thread when the answer is there; must only queue the request for the
	 * caller's thread, which then calls done. */
	void (*post)(struct ledger_request *request);
	void (*done)(struct ledger_request *request);
	void *data;                  /* the caller's */
	struct ledger_request *link; /* for whichever queue holds the request */
};

/* Frees the answers, not the struct. */
void ledger_request_done(struct ledger_request *request);

struct ledger; /* an open store */

struct ledger_ops {
	/* Never blocks, never fails: what goes wrong is in the answer. */
	void (*submit)(struct ledger *ledger, struct ledger_request *request);
	/* Whether the store works right now, by the last real reads and writes; the text says what is
	 * wrong (static), or NULL. Any thread. */
	const char *(*health)(struct ledger *ledger);
	/* This instance's id, as written into leases. */
	const char *(*instance)(struct ledger *ledger);
	/* 32 secret random bytes that all instances of this ledger share (for the HMAC of
	 * credentials). */
	const uint8_t *(*secret)(struct ledger *ledger);
	/* Waits for what was submitted, posts every answer, closes. Call when nobody submits any more. */
	void (*close)(struct ledger *ledger);
};

struct ledger {
	const struct ledger_ops *ops;
};

static inline void ledger_submit(struct ledger *ledger, struct ledger_request *request)
{
	ledger->ops->submit(ledger, request);
}

#endif
