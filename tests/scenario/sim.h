/* The proxy's shell on a virtual clock: it performs the delivery machine's actions on a scripted
 * provider, a model store and real gates, as proxy/exchange*.c does on sockets and a ledger, and
 * checks the invariants of design section 13 after every step. Single-threaded, deterministic.
 *
 * Happy path: sim_deliver() -> live table -> delivery_step() -> sim_store_*() and sim_attempt_*()
 * as events of the clock -> sim_answer(). Everything is owned by the struct sim until sim_free(). */
#ifndef STINT_TESTS_SCENARIO_SIM_H
#define STINT_TESTS_SCENARIO_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/delivery.h"
#include "budget/gate.h"
#include "classify/rules.h"

#define SIM_T0 (USEC_DAY * 20000) /* the scenario's time zero, in ledger time */
#define SIM_NAME 64
#define SIM_KEY 96
#define SIM_PROVIDERS 4
#define SIM_INSTANCES 4
#define SIM_HEADERS 4
#define SIM_STEPS 24
#define SIM_SCRIPTS 32
#define SIM_RULES 8
#define SIM_VOIDED 64
#define SIM_VOIDED_FOR (60 * USEC_SEC)
#define SIM_SWEEP (500 * USEC_MS)
#define SIM_PENDING_RETRY (250 * USEC_MS)
#define SIM_STEPS_HERE 200000 /* at one instant: more is a loop */
#define SIM_STREAM_PAUSE (100 * USEC_MS)

/* --- the provider's script ---------------------------------------------------------------------- */

enum sim_step_kind {
	STEP_REPLY,
	STEP_SILENT,  /* takes the request and never answers */
	STEP_REFUSED, /* connection refused */
	STEP_RESOLVE, /* the name does not resolve */
	STEP_TLS,     /* handshake fails */
	STEP_CONNECT, /* the connection is never made */
	STEP_RESET,   /* reset after the request */
	STEP_CLOSED,  /* closed without a byte */
	STEP_CUT,     /* the reply ends short */
	STEP_STALL,   /* the reply's body stops */
	STEP_HEAD,    /* the reply's head is over its bound */
};

struct sim_step {
	enum sim_step_kind kind;
	int status;
	usec_t connect; /* until the connection stands */
	usec_t after;   /* from the request to the reply's head, or to the fault */
	usec_t body;    /* from the head to the end */
	bool applied;   /* the effect took place although the reply does not say so */
	bool stream;    /* an event stream: goes out from its head on */
	bool large;     /* the body is over retain.body */
	char header_name[SIM_HEADERS][32];
	char header_value[SIM_HEADERS][SIM_NAME];
	size_t header_count;
	char remote_id[SIM_NAME];
};

struct sim_script {
	char pattern[SIM_KEY];            /* a key, "*", or a prefix and "*" */
	struct sim_step steps[SIM_STEPS]; /* the last one repeats */
	size_t count;
	unsigned version; /* a newer script starts from its first step */
};

struct sim_rule {
	char name[REASON_MAX];
	struct rule_status status;
	char header[SIM_NAME];
	struct rule_header header_rule;
};

struct sim_provider {
	char name[SIM_NAME];
	struct policy policy;
	usec_t schedule[SCHEDULE_MAX];
	int concurrency;
	struct gate_policy gate;
	struct sim_script scripts[SIM_SCRIPTS];
	size_t script_count;
	struct rule rules[SIM_RULES];
	struct sim_rule rule_parts[SIM_RULES];
	struct ruleset ruleset;
};

/* --- the store ---------------------------------------------------------------------------------- */

struct sim_record;
struct sim_delivery;
struct sim_instance;

struct sim_reply {
	bool there;
	bool truncated;
	int status;
	unsigned id;                     /* of the one attempt that it answers */
	const struct sim_record *record; /* whose reply it is; NULL: of an unkeyed request */
	usec_t retry_after;              /* the provider's own, -1: none */
	uint8_t fingerprint[OP_FINGERPRINT_LEN];
};

/* What really happened of one claim, beside what the record says. */
struct sim_charge {
	uint8_t token[OP_TOKEN_LEN];
	int n;
	bool sent;
	bool open; /* may have been applied, and nothing in the store has settled that */
	struct sim_delivery *running; /* at the provider now */
	usec_t at;
	unsigned opened; /* the record's reopened count when it was sent */
};

/* Who works on one operation in one instance. */
struct sim_live {
	struct sim_delivery *owner;
	bool known;
	struct op op;
	uint8_t fingerprint[OP_FINGERPRINT_LEN];
	struct sim_delivery *waiters, **tail;
};

struct sim_record {
	struct sim_record *next;
	struct sim_provider *provider;
	char key[SIM_KEY];
	bool present;
	struct op op;
	struct sim_reply reply;
	char corrects[SIM_KEY], corrected_by[SIM_KEY];
	struct sim_live live[SIM_INSTANCES];
	int pending[SIM_INSTANCES]; /* updates of that instance that wait */

	/* The world's own book, for the invariants. */
	struct sim_charge *charges;
	size_t charge_count, charge_cap;
	int seen;       /* requests of this incarnation */
	int seen_total; /* of the name */
	int effects;    /* applied, a forwarded key counted once a generation */
	int effect_generation;
	bool success; /* a definite answer is in the store */
	usec_t *sends;
	size_t send_count, send_cap;
	unsigned script_version, script_at;
	usec_t sweep_at; /* of the next look that is planned, 0: none */
	bool touched;
	struct sim_record *next_touched;
};

enum sim_verb { VERB_GET, VERB_CLAIM, VERB_SETTLE, VERB_RENEW, VERB_VOID, VERB_CHANGE, VERB_COUNT };

enum sim_store_fault {
	STORE_OK,
	STORE_AWAY,  /* not done, and said at once */
	STORE_LOST,  /* done, and the reply lost */
	STORE_LATE,  /* done after `time`, and answered then */
	STORE_SLOW,  /* done at once, answered after `time` */
	STORE_GHOST, /* said not to be done at once, and done after `time` */
};

struct sim_store_script {
	enum sim_store_fault fault;
	usec_t time;
	int left;                      /* how often; -1: until changed */
	struct sim_instance *instance; /* NULL: of any */
};

struct sim_voided {
	uint8_t incarnation[OP_INCARNATION_LEN];
	uint8_t token[OP_TOKEN_LEN];
	usec_t until;
};

/* A change that no delivery waits for: proxy/update.c and proxy/pending.c. */
struct sim_update {
	struct sim_update *next;
	struct sim_instance *instance;
	struct sim_record *record;
	bool pending; /* tried again while the store is away */
	bool insert;
	bool has_event;
	struct op_event event; /* its pointers are into the copies below */
	struct verdict verdict;
	uint8_t token[OP_TOKEN_LEN];
	uint8_t credential[OP_CREDENTIAL_LEN];
	uint8_t incarnation[OP_INCARNATION_LEN];
	char remote_id[OP_REMOTE_ID_MAX];
	char instance_id[OP_INSTANCE_MAX];
	char corrected_by[SIM_KEY];
	struct sim_reply reply;
	struct op next_op;
	enum op_result result;
	bool done;
};

struct sim_call {
	struct sim_call *next;
	enum sim_verb verb;
	enum delivery_write write;
	bool renewal;
	struct sim_instance *instance;
	struct sim_delivery *delivery; /* or */
	struct sim_update *update;
	struct sim_record *record;
	bool expect_absent;
	uint32_t expect_counter;
	struct op op;
	struct sim_reply reply; /* stored with it, if `there` */
	uint8_t incarnation[OP_INCARNATION_LEN];
	uint8_t token[OP_TOKEN_LEN];
	usec_t lease_until;
	struct verdict verdict; /* of a settle: what the book learns when it is in the store */
	int n;
	bool settles, voids;
	enum sim_store_fault fault;
	usec_t time;

	int result; /* enum sim_result */
	struct op found;
	struct sim_reply found_reply;
};

enum sim_result { SIM_OK, SIM_CONFLICT, SIM_ABSENT, SIM_AWAY };

/* --- instances and deliveries ------------------------------------------------------------------- */

struct sim_gate {
	struct gate gate;
	struct sim_delivery *head, *tail; /* first come, first served */
	usec_t closed_until;              /* by the world's own book */
};

struct sim_instance {
	char name[SIM_NAME];
	char id[OP_INSTANCE_MAX];
	int index;
	unsigned starts;
	bool alive, draining;
	struct sim_gate gates[SIM_PROVIDERS];
};

enum sim_attempt_phase { ATTEMPT_CONNECTING, ATTEMPT_SENT, ATTEMPT_BODY, ATTEMPT_DONE };

struct sim_attempt {
	struct sim_attempt *next;
	struct sim_step step;
	enum sim_attempt_phase phase;
	usec_t started, sent_at, head_at;
	usec_t limit, unsent_limit;
	enum fault limit_fault;
	bool sent, would_end, streaming, discarding;
	enum fault cancel; /* FAULT_NONE: not cancelled */
	uint64_t random;
	usec_t renew_at;
	unsigned reply_id;
	unsigned stamp; /* the event that counts */
};

struct sim_answer {
	bool there;
	bool streamed;
	enum answer_kind kind;
	usec_t at;
	int status;
	char problem[SIM_NAME];
	char reason[REASON_MAX];
	usec_t retry_after; /* as the header says it; -1: none */
	usec_t advice;
	bool replayed, made;
	bool have_op;
	struct op op;
	struct sim_reply reply;
};

/* What a delivery brings along. */
struct sim_request {
	struct sim_instance *instance;
	struct sim_provider *provider;
	char name[SIM_NAME];
	char key[SIM_KEY]; /* "": none */
	char method[16];
	unsigned body;       /* another number, another fingerprint */
	unsigned credential; /* 0: none */
	int hint_attempts;
	usec_t hint_deadline; /* -1: none */
	usec_t upload;        /* the request's first byte came that much earlier */
	bool streamed;        /* the body cannot be sent again */
	int again;            /* a queue: delivers so often at most, as Retry-After says */
	int times;            /* which of them this is, from 0 */
	char corrects[SIM_KEY];
};

struct sim_delivery {
	struct sim_delivery *next;
	struct sim *sim;
	struct sim_request request;
	struct sim_instance *instance;
	struct sim_provider *provider;
	struct sim_record *record; /* keyed, or made for an unkeyed unknown; else NULL */
	bool keyed;
	struct delivery d;
	usec_t arrival;                     /* the request was complete */
	unsigned script_version, script_at; /* of unkeyed requests */

	bool owner; /* of the live entry */
	bool joining, join_posted;
	bool join_told;
	struct op join_op;
	struct sim_reply join_reply;
	struct sim_delivery *next_joiner;

	bool queued, grant_posted;
	struct sim_delivery *queue_prev, *queue_next;
	uint64_t granted; /* a ticket on its way */
	uint64_t ticket;

	usec_t wake_at;
	unsigned wake_stamp;
	struct sim_attempt *attempt;
	struct sim_reply last_reply, stored_reply;
	int calls;
	bool ended, crashed, caller_gone, corrects_noted;
	struct sim_answer answer;
	int answers;
};

/* --- the world ---------------------------------------------------------------------------------- */

enum sim_event_kind {
	EVENT_WAKE,
	EVENT_ATTEMPT,
	EVENT_GRANT,
	EVENT_OWNER_LEFT,
	EVENT_CALL_EXEC,
	EVENT_CALL_REPLY,
	EVENT_SWEEP,
	EVENT_UPDATE,
	EVENT_AGAIN,
};

struct sim_event {
	usec_t at;
	uint64_t sequence;
	enum sim_event_kind kind;
	unsigned stamp;
	void *object;
};

struct sim {
	usec_t now;
	uint64_t random;
	uint64_t sequence;
	struct sim_event *heap;
	size_t heap_count, heap_cap;

	struct sim_provider providers[SIM_PROVIDERS];
	size_t provider_count;
	struct sim_instance instances[SIM_INSTANCES];
	size_t instance_count;
	struct sim_record *records, *touched;
	struct sim_delivery *deliveries, **last_delivery;
	struct sim_call *calls;
	struct sim_update *updates;
	struct sim_attempt *attempts;

	struct sim_store_script store[VERB_COUNT];
	struct sim_voided voided[SIM_VOIDED];
	size_t voided_count;
	bool dead_ids_known; /* SQLite: leases of a dead instance expire at once */

	/* Asked for each request where no script is there; NULL: 200. */
	void (*pick)(struct sim *sim, struct sim_provider *provider, struct sim_step *ret_step);

	unsigned replies, scripts;
	int queued; /* deliveries of queues that are still to come */
	uint64_t steps;
	uint64_t steps_here; /* without the clock moving */
	int duplicate_effects, disputes;
	bool trace;
	char failure[512]; /* the first violation; "": none */
};

/* sim.c */
void sim_init(struct sim *sim, uint64_t seed);
void sim_free(struct sim *sim);
uint64_t sim_random(struct sim *sim);
void sim_random_bytes(struct sim *sim, uint8_t *ret_bytes, size_t len);
void sim_fail(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *sim_alloc(size_t size); /* zeroed, never NULL */
void sim_post(struct sim *sim, usec_t at, enum sim_event_kind kind, void *object, unsigned stamp);
/* Performs the next event, if it is due by `until`; false: there is none. */
bool sim_next(struct sim *sim, usec_t until);
/* Performs all that is due by `until` and sets the clock to it. */
void sim_run(struct sim *sim, usec_t until);
/* Until every delivery has ended and no update waits, at most for `most`. */
void sim_run_idle(struct sim *sim, usec_t most);
struct sim_provider *sim_add_provider(struct sim *sim, const char *name);
struct sim_instance *sim_add_instance(struct sim *sim, const char *name);
struct sim_provider *sim_find_provider(struct sim *sim, const char *name);
struct sim_instance *sim_find_instance(struct sim *sim, const char *name);
void sim_crash(struct sim *sim, struct sim_instance *instance);
void sim_start(struct sim *sim, struct sim_instance *instance);
void sim_drain(struct sim *sim, struct sim_instance *instance);
bool sim_matches(const char *pattern, const char *text);

/* sim_store.c */
struct sim_record *sim_record(struct sim *sim, struct sim_provider *provider, const char *key);
struct sim_record *sim_find_record(struct sim *sim, const char *key);
struct sim_call *sim_call_new(struct sim *sim, struct sim_instance *instance,
			      struct sim_record *record, enum sim_verb verb);
void sim_call_submit(struct sim *sim, struct sim_call *call);
void sim_call_exec(struct sim *sim, struct sim_call *call);
void sim_call_reply(struct sim *sim, struct sim_call *call);
/* Writes a record that a person or a probe changed, or retention. */
void sim_store_put(struct sim *sim, struct sim_record *record, const struct op *op);

/* sim_gate.c: proxy/provider.c and proxy/live.c */
struct gate_answer sim_gate_enter(struct sim *sim, struct sim_delivery *x);
uint64_t sim_gate_forget(struct sim_delivery *x);
void sim_gate_release(struct sim *sim, struct sim_delivery *x, uint64_t ticket);
void sim_gate_settle(struct sim *sim, struct sim_delivery *x, uint64_t ticket,
		     const struct verdict *verdict);
bool sim_gate_may_send(struct sim *sim, const struct sim_delivery *x);
struct sim_gate *sim_gate_of(const struct sim_delivery *x);
void sim_live_enter(struct sim *sim, struct sim_delivery *x);
void sim_live_update(struct sim_delivery *x);
void sim_live_leave(struct sim *sim, struct sim_delivery *x);
bool sim_live_forget(struct sim_delivery *x);
bool sim_live_has(const struct sim_record *record, const struct sim_instance *instance);

/* sim_exchange.c: proxy/exchange.c; sim_exchange_store.c: proxy/exchange_store.c */
struct sim_delivery *sim_deliver(struct sim *sim, const struct sim_request *request);
void sim_exchange_event(struct sim *sim, struct sim_delivery *x, struct delivery_event *event);
void sim_exchange_simple(struct sim *sim, struct sim_delivery *x, enum delivery_event_kind kind);
void sim_exchange_wake(struct sim *sim, struct sim_delivery *x);
void sim_exchange_granted(struct sim *sim, struct sim_delivery *x);
void sim_exchange_owner_left(struct sim *sim, struct sim_delivery *x);
void sim_exchange_read(struct sim *sim, struct sim_delivery *x);
void sim_exchange_write(struct sim *sim, struct sim_delivery *x, const struct delivery_action *act);
void sim_exchange_called(struct sim *sim, struct sim_call *call);
/* The reply that later deliveries of the record get: this delivery's own, where its attempt ended the
 * operation, else what was found stored. */
struct sim_reply sim_record_reply(const struct sim_delivery *x);
void sim_caller_gone(struct sim *sim, struct sim_delivery *x);
void sim_caller_half(struct sim *sim, struct sim_delivery *x);
void sim_again(struct sim *sim, struct sim_delivery *x);

/* sim_attempt.c: proxy/exchange_attempt.c and the provider */
void sim_attempt_start(struct sim *sim, struct sim_delivery *x, const struct delivery_action *act);
void sim_attempt_event(struct sim *sim, struct sim_delivery *x);
void sim_attempt_cancel(struct sim *sim, struct sim_delivery *x, enum fault fault);
void sim_attempt_dropped(struct sim *sim, struct sim_delivery *x);

/* sim_update.c: proxy/update.c, pending.c, sweep.c; and people */
struct sim_update *sim_update_new(struct sim *sim, struct sim_instance *instance,
				  struct sim_record *record);
void sim_update_set_event(struct sim_update *update, const struct op_event *event,
			  const uint8_t *incarnation);
void sim_update_start(struct sim *sim, struct sim_update *update);
void sim_update_called(struct sim *sim, struct sim_call *call);
void sim_pending_add(struct sim *sim, struct sim_update *update);
void sim_sweep(struct sim *sim, struct sim_record *record);
void sim_plan_sweep(struct sim *sim, struct sim_record *record);
/* What a person or a probe does: compare and swap at once. */
enum op_result sim_operate(struct sim *sim, struct sim_record *record, struct op_event *event);
void sim_retain(struct sim *sim);

/* sim_check.c */
void sim_touch(struct sim *sim, struct sim_record *record);
void sim_book_claimed(struct sim *sim, struct sim_record *record, const struct op *op);
void sim_book_sent(struct sim *sim, struct sim_delivery *x);
void sim_book_ended(struct sim *sim, struct sim_delivery *x);
void sim_book_settled(struct sim *sim, struct sim_record *record, const uint8_t *token, int n,
		      const struct verdict *verdict, const struct op *before);
void sim_book_voided(struct sim *sim, struct sim_record *record, const uint8_t *token);
/* A person or a probe said what became of everything that had been sent. */
void sim_book_resolved(struct sim_record *record);
void sim_book_answer(struct sim *sim, struct sim_delivery *x);
/* After every step: what was touched. */
void sim_check(struct sim *sim);
/* When nothing runs any more. */
void sim_check_idle(struct sim *sim);

#endif
