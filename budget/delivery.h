/* One delivery's life (design section 3) as a pure machine: events in, one action out.
 *
 * The proxy performs the actions on sockets and a store; the scenario runner performs them on a
 * scripted provider, a model store and a virtual clock. Both run the same decisions. All times are
 * ledger time (wall microseconds), given with each event. */
#ifndef STINT_BUDGET_DELIVERY_H
#define STINT_BUDGET_DELIVERY_H

#include "budget/operation.h"

#define POLL_FIRST                                                                                 \
	(25 * USEC_MS) /* a joiner of another instance's attempt polls: design section 7 */
#define POLL_MAX (500 * USEC_MS)
/* What the second over hold and attempt that an answer may take (design section 13, 9) is spent on:
 * an answer in hand that waits for a slow store, and any other call that the hold leaves no time. */
#define SETTLE_PATIENCE (500 * USEC_MS)
#define STORE_PATIENCE (250 * USEC_MS)
/* Over the delivery's deadline, so that the word of an attempt that it cut before it was sent comes
 * first. */
#define DEADLINE_GRACE (20 * USEC_MS)
#define SEEN_EVERY USEC_HOUR /* how often deliveries of a record never charged are noted */
#define BUSY_RETRY_AFTER (1 * USEC_SEC) /* Retry-After where no time is known */

enum delivery_phase {
	DELIVERY_NEW,
	DELIVERY_JOIN,   /* waits for this process's running delivery of the same key */
	DELIVERY_GATE,   /* asked the gate */
	DELIVERY_QUEUE,  /* waits for the gate */
	DELIVERY_TURN,   /* waits for the operation's own `next` */
	DELIVERY_POLL,   /* waits for another instance's attempt */
	DELIVERY_LOOK,   /* reading the record */
	DELIVERY_INTENT, /* writing the uncharged record */
	DELIVERY_TICK,   /* writing what time alone changed */
	DELIVERY_CLAIM,  /* leasing and charging */
	DELIVERY_SEND,   /* the attempt is out */
	DELIVERY_SETTLE, /* writing its outcome */
	DELIVERY_VOID,   /* taking a claim back */
	DELIVERY_ENDED,
};

/* Whether the caller is still there. */
enum caller {
	CALLER_HERE,
	CALLER_HALF /* bare FIN: start nothing new, still answer */,
	CALLER_GONE
};

struct delivery {
	/* Facts, set by delivery_init() and then by the shell before DELIVERY_EV_START. */
	const struct policy *policy;
	bool ledgered; /* keyed and unsafe: the record is in the ledger */
	bool safe;     /* GET, HEAD, OPTIONS */
	bool is_delete;
	bool replayable; /* the body can be sent again */
	enum repeat_rule repeat;
	usec_t answer_by;  /* complete request + hold, or the deadline if that is earlier */
	usec_t deadline;   /* Stint-Deadline as a point in time; 0: none */
	int hint_attempts; /* Stint-Attempts; 0: none */
	uint8_t fingerprint[OP_FINGERPRINT_LEN];
	uint8_t incarnation
		[OP_INCARNATION_LEN]; /* for the record, should this delivery create it */
	uint8_t credential[OP_CREDENTIAL_LEN];
	bool has_credential;
	const char *instance;

	/* State. */
	enum delivery_phase phase;
	enum caller caller;
	bool draining;
	bool answered;  /* the caller has its answer, or its first bytes */
	bool abandoned; /* answered while the store's word was out: take the claim back */
	bool slot;      /* holds a gate ticket */
	bool have_op;
	bool unsaved;                /* a settle could not be written: nothing more is started */
	bool released_by_credential; /* the write under way notes it in the history */
	struct op op;                /* as last known; `proposal` while it is being written */
	struct op proposal;
	uint32_t stored_counter; /* the store's counter that `proposal` replaces */
	usec_t poll;
	usec_t gate_until; /* of the last "closed"; USEC_MAX: until woken */
	bool gate_rate_limited;
	usec_t joined_next;  /* JOIN: the running delivery waits until then; 0: it does not wait */
	int started;         /* attempts that this delivery started */
	bool any_sent;       /* one of them was sent */
	bool last_answered;  /* the last one sent has a reply to pass on */
	bool last_timed_out; /* the last one (sent, if any was) ended on a time limit */
	unsigned notes;      /* enum op_note flags of the last write, for the metrics */
	struct verdict verdict; /* of the attempt being settled */
	usec_t settle_wait;     /* its wait, if another attempt follows */
	char remote_id[OP_REMOTE_ID_MAX];
	uint8_t token[OP_TOKEN_LEN];
	int attempt_n;
};

enum delivery_event_kind {
	DELIVERY_EV_START, /* also after JOIN, when the running delivery ended without a final state */
	DELIVERY_EV_BUSY, /* another delivery of this process has the key: `op` is its record or NULL,
			      `same` whether its fingerprint is this one's */
	DELIVERY_EV_RECORD,      /* the record as read, or as found instead of the expected one */
	DELIVERY_EV_ABSENT,      /* there is no record */
	DELIVERY_EV_WRITTEN,     /* the proposal is in the store */
	DELIVERY_EV_AWAY,        /* the store did not do it */
	DELIVERY_EV_GATE_OPEN,   /* a slot was taken for it; `token` has fresh random bytes */
	DELIVERY_EV_GATE_CLOSED, /* `until`, `rate_limited` */
	DELIVERY_EV_OUTCOME,     /* the attempt ended: `verdict`, `remote_id` */
	DELIVERY_EV_STREAM, /* its reply begins to stream to the caller (after delivery_would_end()) */
	DELIVERY_EV_TIMER,
	DELIVERY_EV_HALF,  /* the caller sent a bare FIN */
	DELIVERY_EV_GONE,  /* the caller is gone */
	DELIVERY_EV_DRAIN, /* the process is stopping */
};

struct delivery_event {
	enum delivery_event_kind kind;
	usec_t now;
	const struct op *op;
	bool same;
	const uint8_t *token;
	usec_t until;
	bool rate_limited;
	const struct verdict *verdict;
	const char *remote_id; /* or NULL */
	uint64_t random;       /* OUTCOME: 64 uniform bits for the jitter */
};

enum delivery_act {
	DELIVERY_ACT_NONE,   /* nothing to do now; an earlier action's event will come */
	DELIVERY_ACT_GATE,   /* ask the gate: GATE_OPEN or GATE_CLOSED */
	DELIVERY_ACT_READ,   /* read the record: RECORD, ABSENT or AWAY */
	DELIVERY_ACT_WRITE,  /* write `proposal` as `write` says: WRITTEN, RECORD, ABSENT or AWAY */
	DELIVERY_ACT_WAIT,   /* until `until`, or until woken (QUEUE: by a grant of the gate) */
	DELIVERY_ACT_JOIN,   /* until the running delivery ends, at most until `until` */
	DELIVERY_ACT_SEND,   /* start the attempt: OUTCOME will come */
	DELIVERY_ACT_CANCEL, /* cancel the running attempt: OUTCOME will come */
	DELIVERY_ACT_END,    /* over: nothing is owed to the caller (any more) */
};

enum delivery_write { WRITE_INTENT, WRITE_TICK, WRITE_CLAIM, WRITE_SETTLE, WRITE_VOID };

enum answer_kind {
	ANSWER_NONE,
	ANSWER_REPLY,   /* the reply of the last sent attempt of this delivery */
	ANSWER_STORED,  /* the record's kept reply, marked as replayed; 424 response-not-retained
			   where it is not kept */
	ANSWER_PROBLEM, /* `problem` and `status` */
};

struct delivery_action {
	enum delivery_act act;
	bool release; /* first: give the gate's slot back, no outcome */
	usec_t until; /* WAIT, JOIN; SEND: when to come back with TIMER (deadline), or USEC_MAX;
			 WRITE, READ: the same (the store's time limit), or USEC_MAX */
	enum delivery_write write;
	bool expect_absent; /* WRITE: insert; else compare with `stored_counter` */
	/* SEND: ledger times. */
	usec_t limit; /* the attempt is over at this point whatever happens */
	bool limit_is_deadline;
	usec_t unsent_limit; /* must have been let go by then; USEC_MAX: none */

	/* An answer may come with any act: it goes out first. */
	enum answer_kind answer;
	const char *problem; /* a name of design section 10, "urn:stint:" left out */
	int status;
	const char *reason; /* a hyphenated word for the Stint field, or NULL */
	usec_t retry_after; /* from now; -1: none */
};

/* Zeroes everything and sets the policy; the shell fills the facts. */
void delivery_init(struct delivery *delivery, const struct policy *policy);

/* One event, one action. After DELIVERY_ACT_END no event is accepted. */
void delivery_step(struct delivery *delivery, const struct delivery_event *event,
		   struct delivery_action *ret_action);

/* The outcome of the last attempt as an event for `op`, its record as known: what the machine applies,
 * and what the shell keeps where the store would not take it. Points into `delivery`. */
void delivery_settle_event(const struct delivery *delivery, const struct op *op, usec_t now,
			   struct op_event *ret_event);

/* Whether the running attempt, should it end with this verdict, would end the delivery: then its
 * reply may begin to stream before it is complete. */
bool delivery_would_end(const struct delivery *delivery, const struct verdict *verdict, usec_t now,
			uint64_t random);

/* How long the operation waits after an attempt with this verdict, should another follow: its own
 * backoff, a rule's wait, and the advice up to the cap. Advice beyond the cap under `beyond: stop`
 * ends the attempts: the verdict becomes `retry_never`. random: 64 uniform bits for the jitter. */
usec_t delivery_wait(const struct policy *policy, const struct op *op, struct verdict *verdict,
		     uint64_t random);

/* The pre-request check, a moment before the first byte (design section 3, step 6): the lease with a
 * guard, and repeat_until while something is unresolved. */
bool delivery_may_send(const struct delivery *delivery, usec_t now);

#endif
