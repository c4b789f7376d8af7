/* What one attempt showed: the facts that went in, and the verdict that came out (design words:
 * class, effect, reason). Pure data, shared by every room. */
#ifndef STINT_CLASSIFY_OUTCOME_H
#define STINT_CLASSIFY_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "classify/usec.h"

/* Can the same input succeed later? The text of each class is its name in the Stint field, the
 * ledger and the metrics. */
#define OUTCOME_CLASSES(X)                                                                         \
	X(NONE, "none")                                                                            \
	X(SUCCESS, "success")                                                                      \
	X(INVALID, "invalid")                                                                      \
	X(AUTH, "auth")                                                                            \
	X(QUOTA, "quota")                                                                          \
	X(RATE_LIMITED, "rate_limited")                                                            \
	X(TRANSIENT, "transient")                                                                  \
	X(DEFERRED, "deferred")                                                                    \
	X(UNKNOWN, "unknown")

enum outcome_class {
#define X(id, text) CLASS_##id,
	OUTCOME_CLASSES(X)
#undef X
		CLASS_COUNT
};

/* Is repeating it safe? none: provably not applied; possible: may have been; definite: it was. */
enum effect { EFFECT_NONE, EFFECT_POSSIBLE, EFFECT_DEFINITE, EFFECT_COUNT };

/* Transport faults by neutral names; FAULT_NONE where a complete reply came. */
#define OUTCOME_FAULTS(X)                                                                          \
	X(NONE, "none")                                                                            \
	X(RESOLVE, "resolve")                 /* the name did not resolve */                       \
	X(CONNECT, "connect")                 /* refused, unreachable */                           \
	X(CONNECT_TIMEOUT, "connect-timeout") /* attempt.connect ran out: TCP or TLS */            \
	X(TLS, "tls")                         /* handshake or certificate */                       \
	X(TIMEOUT, "timeout")                 /* attempt.timeout, no reply headers */              \
	X(IDLE, "idle-timeout")               /* attempt.idle between bytes, either way */         \
	X(TOTAL, "total-timeout")             /* attempt.total or the window */                    \
	X(RESET, "reset")                     /* connection reset or send/receive error */         \
	X(CLOSED, "closed")                   /* closed without a byte of reply */                 \
	X(CUT, "cut")                         /* reply began and ended short */                    \
	X(PROTOCOL, "protocol")               /* not HTTP, or broken framing */                    \
	X(HEAD_TOO_LARGE, "head-too-large")   /* reply head over its bound */                      \
	X(HIDDEN_RESEND, "hidden-resend")     /* the transport wanted to send a second time */     \
	X(GUARD, "guard")                   /* the pre-request check said no; nothing was sent */  \
	X(DEADLINE, "deadline")             /* the delivery's own deadline cut it */               \
	X(CALLER, "caller-gone")            /* the caller left a cancellable attempt */            \
	X(UPLOAD, "upload-cut")             /* the caller's streamed body ended early */           \
	X(REFUSED_STREAM, "refused-stream") /* HTTP/2: provably unprocessed */                     \
	X(LOCAL, "local")                   /* out of memory, descriptors, ... on our side */

enum fault {
#define X(id, text) FAULT_##id,
	OUTCOME_FAULTS(X)
#undef X
		FAULT_COUNT
};

/* One header line of a reply; not NUL-terminated, may hold any byte. */
struct header_view {
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

/* Everything that is known about one attempt when it has ended, or, with `complete` false and
 * `fault` NONE, at its reply's headers (to ask what the verdict would be). */
struct facts {
	const char *method; /* upper case, NUL-terminated */
	const char *path;   /* target after route removal, NUL-terminated */
	int status;         /* 0: no reply headers */
	enum fault fault;
	bool sent; /* the pre-request callback ran and let it go: a request may be out */
	const struct header_view *headers;
	size_t header_count;
	const char *body; /* what was kept of the reply's body, decoded from chunks; may be NULL */
	size_t body_len;
	bool body_truncated;  /* the reply's body is longer than body_len */
	usec_t received_wall; /* local wall clock at the reply's headers, us since the epoch */
};

#define REASON_MAX 64

/* What the facts mean. `reason` is a hyphenated word: a rule's name, "status-503", "timeout". */
struct verdict {
	enum outcome_class class;
	enum effect effect;
	bool retry_never;    /* a rule's `retry: never`, or advice beyond the cap under `stop` */
	bool resolves;       /* a rule's `resolves: true` */
	bool advice_invalid; /* waiting advice was there and could not be read */
	usec_t advice;       /* the provider's own waiting advice, uncapped; -1: none */
	usec_t rule_wait;    /* a rule's own wait; -1: none */
	int status;
	enum fault fault;
	char reason[REASON_MAX];
};

/* Texts of the enumerations; "other" outside their range. */
const char *outcome_class_name(enum outcome_class class);
const char *effect_name(enum effect effect);
const char *fault_name(enum fault fault);

/* The reverse; false (and nothing written) if the text names none. */
bool outcome_class_parse(const char *text, enum outcome_class *ret_class);
bool effect_parse(const char *text, enum effect *ret_effect);
bool fault_parse(const char *text, enum fault *ret_fault);

#endif
