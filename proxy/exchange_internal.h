/* The parts of one exchange, shared by the exchange_*.c files alone. */
#ifndef STINT_PROXY_EXCHANGE_INTERNAL_H
#define STINT_PROXY_EXCHANGE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "budget/delivery.h"
#include "budget/ledger.h"
#include "proxy/exchange.h"
#include "proxy/headers.h"
#include "proxy/live.h"
#include "proxy/provider.h"
#include "proxy/upstream.h"
#include "proxy/worker.h"

/* One attempt on its way, and its reply. */
struct send {
	struct attempt attempt;
	struct exchange *exchange;
	struct headers out;  /* what goes upstream */
	struct headers raw;  /* the reply's, as received */
	struct headers kept; /* of these, what goes to the caller and the ledger */
	bool head_seen;
	bool would_end;  /* judged at the head: this reply ends the delivery */
	bool inspecting; /* a rule waits for its body, within inspect.body */
	bool streaming;  /* its bytes go to the caller as they come */
	bool discarding; /* nobody reads it any more: it is only brought to its end */
	bool done;       /* the attempt is over (a stream may still be draining) */
	bool truncated;  /* longer than retain.body, the rest dropped */
	char *copy;      /* keyed: what a stream has passed on so far, while within retain.body */
	size_t copy_len;
	bool copy_over;  /* it was longer, or memory was short: no copy is kept */
	uint64_t random; /* for this attempt's jitter, the same when asked twice */
	usec_t claimed;  /* clock_boot() */
};

struct exchange {
	struct exchange *prev, *next; /* the worker's list */
	struct worker *worker;
	struct provider *provider;
	struct front_request *request; /* NULL after it was released */
	struct delivery delivery;
	bool off;   /* mode off: nothing is recorded or marked */
	bool keyed; /* an operation key came with it, and the method is unsafe */
	struct op_name name;
	char *name_block;
	char *upstream_key;   /* what goes into idempotency.header; NULL: not forwarded */
	bool key_from_stored; /* upstream_key is the record's */
	bool corrects_noted;

	struct live_entry *entry;
	struct live_waiter waiter;
	bool waiter_out; /* its task will run */
	struct gate_waiter gate;
	bool gate_out;
	uint64_t ticket;
	uint64_t auth_probe; /* it probes a paused credential; 0: it does not */

	uv_timer_t timer;
	usec_t wake_at;   /* the machine's WAIT, JOIN, or time limit: ledger time; USEC_MAX: none */
	usec_t renew_at;  /* clock_boot() */
	usec_t stream_at; /* clock_boot(): a reply that pauses until then streams */

	struct send *send;
	struct ledger_reply *last_reply; /* of the last sent attempt that was answered */
	bool last_truncated;
	bool last_keeps; /* it is within retain.body: the ledger and joiners may have it */
	struct ledger_reply *stored_reply; /* of the record */
	int calls;                         /* ledger calls under way */
	bool answered;
	bool ended;
	bool closing;
	bool caller_gone;

	usec_t began;        /* clock_boot() */
	usec_t attempt_time; /* of all attempts of this delivery */
	usec_t wait_since;   /* waiting now, since; 0: not */
	usec_t wait_time;
};

/* exchange.c */
void exchange_event(struct exchange *x, const struct delivery_event *first);
void exchange_simple_event(struct exchange *x, enum delivery_event_kind kind);
void exchange_arm_timer(struct exchange *x);
/* Frees it when nothing refers to it any more. */
void exchange_maybe_free(struct exchange *x);
usec_t exchange_now(const struct exchange *x); /* ledger time */
usec_t exchange_boot_at(const struct exchange *x, usec_t wall);

/* Ends it for the machine: leaves the live table; what is still on its way ends by itself. */
void exchange_end(struct exchange *x);

/* exchange_gate.c */
/* Asks for a slot. Whether `ret_event` is the next event; `token` has the bytes that it points to. */
bool exchange_gate_ask(struct exchange *x, uint8_t token[OP_TOKEN_LEN],
		       struct delivery_event *ret_event);
/* Leaves the queue; a slot granted in the same moment goes back. */
void exchange_gate_leave(struct exchange *x);
/* Gives the slot back, without an outcome. */
void exchange_gate_release(struct exchange *x);

/* exchange_join.c */
/* Enters the table of live operations: as the one that works on it, or as one that joins. */
void exchange_join_enter(struct exchange *x);
void exchange_join_leave(struct exchange *x);

/* exchange_key.c: what the request is an operation of. Returns NULL, or the problem's name with
 * ret_detail (at least 256 bytes). */
const char *exchange_identify(struct exchange *x, char *ret_detail);
/* The delivery's credential as an HMAC: only where a refusal is settled or a held record met, since
 * it costs more than the rest of the name. */
void exchange_set_credential(struct exchange *x);
/* Whether `upstream_key` must be taken from the record (idempotency), and how. */
int exchange_set_upstream_key(struct exchange *x, const struct ledger_texts *texts);

/* exchange_auth.c */
/* Whether an attempt with its credential may be asked for; false: the credential is paused. */
bool exchange_auth_may_start(struct exchange *x);
void exchange_auth_report(struct exchange *x, const struct verdict *verdict);
void exchange_auth_refuse(struct exchange *x); /* answers */
void exchange_auth_end(struct exchange *x);    /* a probe comes back */

/* exchange_store.c */
void exchange_read(struct exchange *x);
void exchange_write(struct exchange *x, const struct delivery_action *act);
void exchange_renew(struct exchange *x);
void exchange_note_corrects(struct exchange *x);
/* The reply that answers later deliveries of a record in state `op`: the last one of this delivery
 * where its own attempt ended the operation, else what was found stored. NULL: none is kept. */
struct ledger_reply *exchange_record_reply(const struct exchange *x, const struct op *op);
/* A claim whose fate is not known, or that could not be taken back, is voided in the background. */
void exchange_void_later(struct exchange *x);

/* exchange_attempt.c */
void exchange_send(struct exchange *x, const struct delivery_action *act);
void exchange_cancel(struct exchange *x, enum fault fault);
void exchange_send_free(struct exchange *x);
/* What is known of the attempt by now. */
void exchange_facts(const struct exchange *x, const struct send *s, struct facts *ret_facts);

/* exchange_reply.c */
void exchange_reply_head(struct attempt *attempt);
void exchange_reply_body(struct attempt *attempt);
/* The reply has paused for long enough to stream. */
void exchange_reply_paused(struct exchange *x);
/* Moves the complete reply out of the attempt; of a stream, which is still being read, a copy. */
void exchange_reply_keep(struct exchange *x, struct send *s);
void exchange_reply_remote_id(const struct exchange *x, const struct send *s,
			      char ret_id[OP_KEY_MAX + 1]);
/* Nobody reads the stream any more. */
void exchange_stream_dropped(struct exchange *x);
/* The front's pull of a streamed reply (front.h). */
ssize_t exchange_pull(struct front_request *request, char *buffer, size_t max);

/* exchange_answer.c */
void exchange_answer(struct exchange *x, const struct delivery_action *act);
/* With the problem's own status (problem.h). */
void exchange_answer_problem(struct exchange *x, const char *problem, usec_t retry_after,
			     const char *detail);
void exchange_answer_stream(struct exchange *x);
void exchange_count_result(struct exchange *x, int result);

#endif
