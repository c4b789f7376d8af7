/* The operation: one intent, its budget and its truth, as one pure function
 * (operation, event) -> operation'. No I/O, no clock, no random numbers; the same function serves
 * every store, the simulation and the model tests.
 *
 * All times are ledger time: wall microseconds since the epoch, given with each event. */
#ifndef STINT_BUDGET_OPERATION_H
#define STINT_BUDGET_OPERATION_H

#include "budget/policy.h"
#include "classify/outcome.h"

#define OP_TOKEN_LEN 16
#define OP_INCARNATION_LEN 16
#define OP_FINGERPRINT_LEN 32
#define OP_CREDENTIAL_LEN 16
#define OP_INSTANCE_MAX 24 /* with the NUL */
#define OP_REMOTE_ID_MAX 128
#define OP_RING 16

/* Order and texts as in the Stint field and the ledger. */
#define OP_STATES(X)                                                                               \
	X(READY, "ready")                                                                          \
	X(ATTEMPTING, "attempting")                                                                \
	X(SUCCEEDED, "succeeded")                                                                  \
	X(FAILED, "failed")                                                                        \
	X(EXHAUSTED, "exhausted")                                                                  \
	X(UNKNOWN, "unknown")                                                                      \
	X(HELD, "held")

enum op_state {
#define X(id, text) OP_##id,
	OP_STATES(X)
#undef X
		OP_STATE_COUNT
};

/* One attempt as the history keeps it. n = 0: empty slot. */
struct op_attempt {
	usec_t start;
	uint32_t ms;
	uint16_t status;
	uint8_t n;
	uint8_t class;    /* enum outcome_class; CLASS_NONE while it runs */
	uint8_t effect;   /* enum effect */
	uint8_t fault;    /* enum fault */
	bool has_verdict; /* the owner's own finding is in; false while it runs, and after its lease
			     ran out (then class unknown, effect possible) until it comes */
	uint8_t token[OP_TOKEN_LEN];
	char instance[OP_INSTANCE_MAX];
};

/* The set of attempts whose effect is possible and unsettled: bit n - 1 for attempt n. */
struct op_set {
	uint64_t bits[2];
};

struct op {
	uint8_t incarnation[OP_INCARNATION_LEN]; /* random, made at creation */
	uint32_t counter;                        /* raised by every op_apply() that changes it */
	enum op_state state;
	bool disputed;
	bool quarantined;
	bool tombstone; /* reply and history are gone */
	bool unkeyed;   /* recorded without a caller's key, under a generated id */
	bool reply_kept;

	uint8_t fingerprint[OP_FINGERPRINT_LEN];
	int attempts; /* charged so far */
	int limit;
	int generation;
	int generation_first; /* the highest attempt number before this generation */
	struct op_set unresolved;

	usec_t created;
	usec_t updated;
	usec_t next;         /* ready: the earliest next claim; 0: at once */
	usec_t deadline;     /* window's end; 0: never charged */
	usec_t repeat_until; /* repeating is safe until then while unresolved; 0: never */
	usec_t terminal;     /* since when it is succeeded, failed or exhausted; else 0 */
	usec_t held_since;   /* else 0 */
	usec_t last_end;     /* when the last attempt ended (expired: see op_apply) */
	usec_t delivered;    /* the last delivery of a record never charged */

	/* The lease, while attempting. */
	uint8_t token[OP_TOKEN_LEN];
	char owner[OP_INSTANCE_MAX];
	usec_t lease_until;

	/* The last verdict: of the highest-numbered attempt that has one. */
	int last_n;
	enum outcome_class class;
	enum effect effect;
	enum fault fault;
	int status;
	bool retry_never;
	char reason[REASON_MAX];
	bool settled_by_hand;    /* a person, a probe or `resolves` emptied the set or ended it */
	bool success_repeatable; /* the success was covered by a forwarded key or idempotent method */

	uint8_t credential[OP_CREDENTIAL_LEN]; /* held for auth: HMAC of what was refused */
	char remote_id[OP_REMOTE_ID_MAX];
	struct op_attempt ring[OP_RING]; /* attempt n is in slot (n - 1) % OP_RING */
};

/* How a repeat after a possible effect is judged; op_repeat_rule() picks it. */
enum repeat_rule {
	REPEAT_NEVER,       /* POST without a forwarded key */
	REPEAT_RETENTION,   /* forwarded key, retention known: from the generation's first send */
	REPEAT_WITHIN_HOLD, /* forwarded key, retention unknown; PUT, DELETE, TRACE */
	REPEAT_ALWAYS,      /* safe methods; `repeat: any-time` */
};

enum op_event_kind {
	OP_EV_CLAIM,   /* ready -> attempting: leases and charges */
	OP_EV_SETTLE,  /* the owner's outcome of its attempt, in time or late: see op_apply() */
	OP_EV_EXPIRE,  /* the lease ran out (or its instance is dead): effect possible */
	OP_EV_VOID,    /* the claim with this token never led to a send */
	OP_EV_RENEW,   /* lengthens the lease */
	OP_EV_TICK,    /* window over, repeat_until passed: what time alone changes */
	OP_EV_SEEN,    /* a delivery met a record never charged: moves its retention */
	OP_EV_HOLD,    /* by a person */
	OP_EV_RELEASE, /* by a person */
	OP_EV_RELEASE_CREDENTIAL, /* held for auth, and a delivery came with another credential */
	OP_EV_REOPEN,
	OP_EV_RESOLVE, /* by a person */
	OP_EV_PROBE,   /* by the configured probe */
};

struct op_event {
	enum op_event_kind kind;
	usec_t now;
	/* CLAIM, SETTLE, VOID, RENEW: which claim. SETTLE also n, the attempt's number, which
	 * counts where the ring no longer has the token. */
	const uint8_t *token;
	int n;
	/* CLAIM */
	const char *instance;
	enum repeat_rule repeat;
	usec_t hold_until; /* the claiming delivery's arrival + hold */
	/* SETTLE */
	const struct verdict *verdict;
	usec_t wait;     /* until the next attempt, from backoff_wait(); used if one follows */
	bool is_delete;  /* method DELETE: 404 and 410 after a possible effect are a success */
	bool repeatable; /* the attempt was covered: forwarded key in retention, or idempotent */
	const char *remote_id;     /* or NULL */
	const uint8_t *credential; /* OP_CREDENTIAL_LEN bytes or NULL; kept when held for auth */
	/* RESOLVE, PROBE */
	bool applied;
	bool then_exhausted; /* PROBE not applied, `then: exhausted` */
	/* RESOLVE, REOPEN */
	bool reopen;  /* RESOLVE not applied: also reopen */
	int more;     /* attempts added to the limit; 0: policy->attempts */
	bool new_key; /* raise the generation */
};

enum op_result {
	OP_UNCHANGED = 0, /* the event changes nothing (a repeated finding, an early tick) */
	OP_CHANGED = 1,
	OP_REFUSED = -1,  /* the event is not allowed in this state (the API's 409) */
	OP_STRANGER = -2, /* token or attempt of no claim that this record knows of */
};

/* What op_apply() asks the shell to count, as flags. */
enum op_note {
	OP_NOTE_DUPLICATE_EFFECT = 1, /* two successes not covered by a key or method */
	OP_NOTE_DISPUTED = 2,         /* the disputed flag was newly set */
	OP_NOTE_LATE = 4,             /* a late finding was merged */
};

/* A new uncharged record: state ready, attempts 0, limit from the policy, due at once.
 * incarnation and fingerprint are copied. */
void op_init(struct op *op, const struct policy *policy, const uint8_t *incarnation,
	     const uint8_t *fingerprint, usec_t now);

/* Applies one event. ret_op (may not alias op) is written whenever the result is OP_CHANGED or
 * OP_UNCHANGED; ret_notes is always written. Rules: design sections 3, 4; the state diagram and
 * the tables stand in operation.c.
 *
 * SETTLE from the token that holds the lease ends the attempt. From a token whose lease has run out
 * it is late truth, and merged by its rules. A finding already known gives OP_UNCHANGED; a pair of
 * class and effect that design section 5 does not know, OP_REFUSED.
 *
 * Attempt numbers are never reused while another holds them: once the charge of an attempt below the
 * newest has gone back, `attempts` is smaller than the newest number. */
enum op_result op_apply(const struct op *op, const struct policy *policy,
			const struct op_event *event, struct op *ret_op, unsigned *ret_notes);

/* Which rule judges a repeat: method is upper case; a body that cannot be replayed never repeats
 * here (the delivery sees to that). */
enum repeat_rule op_repeat_rule(const struct policy *policy, const char *method);

bool op_method_is_safe(const char *method);       /* GET, HEAD, OPTIONS (RFC 9110 section 9.2.1) */
bool op_method_is_idempotent(const char *method); /* safe, or PUT, DELETE, TRACE (9.2.2) */

bool op_set_has(const struct op_set *set, int n);
void op_set_add(struct op_set *set, int n);
void op_set_remove(struct op_set *set, int n);
int op_set_count(const struct op_set *set);

bool op_is_terminal(const struct op *op); /* succeeded, failed, exhausted */
/* Whether an attempt claimed at `at` may start: attempts and at least attempt.least are left. */
bool op_has_budget(const struct op *op, const struct policy *policy, usec_t at);
/* Whether repeating is safe at `at`: nothing unresolved, or at < repeat_until. */
bool op_repeat_is_safe(const struct op *op, usec_t at);
/* The ring's entry of attempt n, or NULL when it was overwritten or never made. */
const struct op_attempt *op_find_attempt(const struct op *op, int n);

/* The number of the attempt in flight, or 0. It may be more than `attempts`: see op_apply(). */
int op_running(const struct op *op);

const char *op_state_name(enum op_state state);
bool op_state_parse(const char *text, enum op_state *ret_state);

/* Checks the record's own invariants (design section 4, 13); NULL if all hold, else which fails. */
const char *op_check(const struct op *op);

#endif
