/* The front: libmicrohttpd on a worker's loop. Reads and checks requests strictly (design section
 * 8), finds the provider, buffers the body, hands complete requests on, and writes the answers. */
#ifndef STINT_PROXY_FRONT_H
#define STINT_PROXY_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "budget/ledger.h"
#include "proxy/body.h"
#include "proxy/headers.h"
#include "proxy/hints.h"
#include "proxy/loop.h"
#include "proxy/provider.h"

struct front; /* all listeners of one worker: MHD daemons, their sockets and timers */
struct app;   /* app.h */

#define FRONT_METHOD_MAX 24

/* One request, from its head to the last byte of its answer. Owned by the front; stays valid until
 * both the connection is done with it and front_request_release() was called. */
struct front_request {
	/* Read-only for others. */
	struct front *front;
	struct provider *provider;
	char method[FRONT_METHOD_MAX]; /* as received; any token */
	char *target;                  /* raw request target */
	char *upstream_target;         /* what goes upstream: the upstream's path and the rest */
	const char *rest;              /* target after route removal, points into upstream_target:
				  fingerprint, ledger, rules */
	struct headers headers;        /* as received */
	struct hints hints;
	const char *content_type; /* NUL-terminated copy or NULL */
	struct body body;
	int64_t content_length; /* -1: none given (chunked or no body) */
	bool has_body;          /* Content-Length or Transfer-Encoding was there */
	bool streamed;          /* longer than body.max: `body` holds the first part, the rest comes
				   by front_request_read() */
	bool http10;
	usec_t started;  /* clock_boot(): head complete */
	usec_t complete; /* clock_boot(): the whole request, or where streaming begins */

	/* The owner of a started request sets these before returning from the start callback. */
	void (*on_half)(struct front_request *request);    /* bare FIN from the caller */
	void (*on_gone)(struct front_request *request);    /* reset, or closed while answering */
	void (*on_written)(struct front_request *request); /* the answer went out completely */
	void (*on_body)(struct front_request *request);    /* streamed: more to read, or broken */
	void *data;

	struct front_private *private;
};

/* What is written. Exactly one of fixed (reply or text) and stream. */
struct front_answer {
	int status;
	const struct headers *headers; /* copied; hop-by-hop ones are already out. Content-Length is
					  not among them */
	/* Fixed: the body of `reply` (a reference is taken), or `text` (malloc'ed, ownership goes
	 * over, text_len), or nothing. */
	struct ledger_reply *reply;
	char *text;
	size_t text_len;
	/* Stream: called on the loop's thread for at most `max` bytes: > 0 bytes, 0: nothing now
	 * (front_stream_ready() will follow), -1: the end, -2: cut (the connection is aborted without
	 * a clean end). */
	ssize_t (*pull)(struct front_request *request, char *buffer, size_t max);
	int64_t stream_length; /* Content-Length, or -1: chunked (until close for HTTP/1.0) */
	int64_t head_length;   /* answer to HEAD, or 304: the Content-Length to show; -1: none */
	bool close;            /* close the connection afterwards */
};

/* Called with each complete (or streaming) request that passed the checks. Malformed ones, those
 * without a route and those too large are answered by the front itself. */
typedef void (*front_start_cb)(struct front_request *request);

/* Opens the listeners of one worker (SO_REUSEPORT for TCP; a unix socket is opened once and shared).
 * For one worker after the other, not at once. error gets one sentence. Returns 0 or -1. */
int front_new(struct app *app, struct loop *loop, front_start_cb start, void *worker, char *error,
	      size_t error_len, struct front **ret_front);
void *front_worker(const struct front *front);
/* Stops accepting; requests under way go on (drain). Answers get "Connection: close". */
void front_drain(struct front *front);
/* Number of requests under way. */
size_t front_busy(const struct front *front);
/* Closes everything; requests still under way get on_gone first. `closed` fires last. */
void front_close(struct front *front, void (*closed)(void *data), void *data);

/* Writes the answer. Once for each request; any time on the loop's thread after start. */
void front_request_answer(struct front_request *request, const struct front_answer *answer);
void front_stream_ready(struct front_request *request);
/* Reads a body, from its first byte: bytes, 0 at its end, -EAGAIN: nothing yet (on_body follows),
 * -ECONNRESET: the caller broke off. What is in `body` comes first, then the rest. */
ssize_t front_request_read(struct front_request *request, char *buffer, size_t len);
/* The owner is done with the request (its answer may still be going out; callbacks no longer
 * fire). */
void front_request_release(struct front_request *request);

#endif
