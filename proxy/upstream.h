/* One attempt at the provider: libcurl's multi interface on a libuv loop. One struct attempt is one
 * HTTP request and has exactly one completion.
 *
 * Nothing here decides: it sends once, records what was seen, and wakes the caller from the loop,
 * never from inside libcurl's callbacks. The only proof of "not sent" is that the pre-request
 * callback never ran, or that its first run said no (design section 5). */
#ifndef STINT_PROXY_UPSTREAM_H
#define STINT_PROXY_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "classify/outcome.h"
#include "proxy/body.h"
#include "proxy/config.h"
#include "proxy/loop.h"

#define UPSTREAM_HEAD_MAX 32768 /* design section 8: upstream heads are bounded */

struct upstream; /* one per worker: the multi handle, pooled easy handles, registered sockets */

struct attempt {
	/* In; all of it stays valid until done. */
	const struct provider_config *provider;
	const char *method;
	const char *target; /* raw target on the wire, with the upstream's path prefix */
	/* Sent as they are, in this order, after the Host of the provider's upstream. Framing is
	 * added here: a Host, Content-Length, Transfer-Encoding or Expect among them is left out. A
	 * malformed one is FAULT_LOCAL, not sent. */
	const struct header_view *headers;
	size_t header_count;
	bool has_body; /* false: neither Content-Length nor body goes out. Not with HEAD, unless it
			  is empty: FAULT_LOCAL, not sent */
	const struct body *body; /* buffered body; or NULL and: */
	int64_t stream_length;   /* streamed body: its length, or -1 for chunked */
	/* Streamed body: returns bytes put into buffer, 0 at the end, -EAGAIN: nothing yet (call
	 * attempt_body_ready() later), other negatives: the caller's upload broke (FAULT_UPLOAD).
	 * Called inside libcurl: it must only copy. */
	ssize_t (*read_body)(struct attempt *attempt, char *buffer, size_t len);
	bool repeatable; /* false: a fresh connection, or one idle for less than attempt.reuse */
	usec_t limit;    /* clock_boot() time at which it is over whatever happens (window) */
	usec_t unsent_limit; /* clock_boot() time until which it must have passed the pre-request
				callback (the delivery's deadline); USEC_MAX: none */
	enum fault
		limit_fault; /* what running into `limit` is called: FAULT_TOTAL, FAULT_DEADLINE */
	/* Asked inside the pre-request callback, a moment before the first byte; must not call back
	 * into the upstream. false: nothing is sent, the fault is FAULT_GUARD. */
	bool (*guard)(struct attempt *attempt);
	/* Wakes, on the loop's thread, outside of libcurl; on_head once at most, on_body whenever the
	 * buffer has grown or the body is complete, on_done exactly once and last; it may free the
	 * struct. on_head and on_body may be NULL. */
	void (*on_head)(struct attempt *attempt);
	void (*on_body)(struct attempt *attempt);
	void (*on_done)(struct attempt *attempt);
	void *data;

	/* Out. */
	int status; /* of the final reply (1xx are dropped); 0: none */
	char *head; /* raw header lines of the final reply, "Name: value\r\n" each, no status line */
	size_t head_len;
	int64_t content_length; /* of the reply, -1: none given */
	bool close_delimited;   /* neither Content-Length nor chunked: ends with the connection */
	bool complete;          /* the reply's body is whole */
	bool sent;              /* the pre-request callback let it go */
	bool hidden_resend;     /* the transport tried to send it again; it was stopped */
	enum fault fault;       /* FAULT_NONE with complete */
	char detail[128]; /* for the log and the reply: libcurl's own words, without secrets */
	usec_t started, sent_at, head_at, ended; /* clock_boot(); 0: did not happen */
	uint64_t request_bytes, reply_bytes;
	char *buffer; /* body bytes not consumed yet */
	size_t buffer_len, buffer_cap;
	size_t buffer_max; /* in, may change while it runs: the transfer is paused at this many */

	/* The upstream's own. */
	struct upstream *upstream;
	struct transfer *transfer;
	struct attempt *next; /* queue of those for which there was no memory to start */
};

/* 0 or a negative errno. ret_upstream lives on `loop`. SIGPIPE is the program's to ignore. */
int upstream_new(struct loop *loop, struct upstream **ret_upstream);
/* Cancels what runs (FAULT_LOCAL), closes connections and its handles on the loop; `closed` fires
 * last. */
void upstream_close(struct upstream *upstream, void (*closed)(void *data), void *data);

/* Starts; the outcome comes through on_done, also where it cannot start (FAULT_LOCAL, not sent),
 * never before this function has returned. */
void attempt_start(struct upstream *upstream, struct attempt *attempt);
/* Ends it with `fault`; on_done follows from the loop. Nothing happens if it is done already. */
void attempt_cancel(struct attempt *attempt, enum fault fault);
/* Drops the first n bytes of the buffer and lets a paused transfer go on. */
void attempt_consume(struct attempt *attempt, size_t n);
/* A streamed body has more to read. */
void attempt_body_ready(struct attempt *attempt);
/* Frees head and buffer, after on_done. */
void attempt_done(struct attempt *attempt);

#endif
