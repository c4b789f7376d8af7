/* What the upstream's own files share: the multi handle with its sockets, and one transfer, which is
 * the libcurl side of one struct attempt. No other file includes this.
 *
 * The happy path: attempt_start() takes a transfer from the pool, gives its options to libcurl and
 * adds it to the multi handle; the idle handle runs libcurl before the loop blocks; a socket becomes
 * ready, libcurl runs, its callbacks record; then the queue of transfers with news is drained, which
 * is the only place where the owner's callbacks are called. Failure: a limit, a cancel or libcurl's
 * own result end a transfer in one function, transfer_finish(), once. */
#ifndef STINT_PROXY_UPSTREAM_PRIVATE_H
#define STINT_PROXY_UPSTREAM_PRIVATE_H

#include <curl/curl.h>

#include "proxy/upstream.h"

/* One socket of libcurl's that is known to uv. Those of connections stay registered between
 * transfers (measured: 32 us a request became 26), until libcurl closes them. */
struct upstream_socket {
	uv_poll_t poll;
	struct upstream *upstream;
	struct transfer *owner; /* whose bytes move on it; NULL between transfers */
	curl_socket_t fd;
	int wanted;  /* UV_READABLE, UV_WRITABLE: what libcurl asked for; 0 while idle */
	int armed;   /* what uv polls for; more than `wanted` while idle */
	bool opened; /* for a connection; others are the resolver's */
	bool closed;
};

struct upstream {
	struct loop *loop;
	CURLM *multi;
	uv_timer_t timer; /* libcurl's */
	uv_idle_t idle;   /* on while there is something to do before the loop may block */
	bool idle_on;
	bool kick;    /* libcurl's timer is due now */
	bool in_curl; /* a libcurl call is on the stack: news wait for its return */
	struct upstream_socket **sockets; /* by descriptor */
	size_t socket_cap;
	struct transfer *queue, **queue_tail; /* transfers with news */
	struct attempt *failed;               /* attempts without a transfer */
	struct transfer *running;             /* doubly linked */
	struct transfer *pool;
	size_t pool_count;
	size_t handles; /* uv handles not closed yet */
	bool closing, torn_down;
	void (*closed)(void *data);
	void *closed_data;
};

/* Where a reply's head stands. */
enum head_state { HEAD_START, HEAD_LINES, HEAD_DONE };

struct reply_head {
	enum head_state state;
	int status;
	bool old; /* HTTP/1.0 */
	char *data;
	size_t len, cap;
	size_t bytes;         /* of this head, its status line included */
	size_t interim_bytes; /* of all 1xx heads before it */
	int64_t length;       /* Content-Length; -1: none */
	int codings;          /* transfer codings named */
	bool chunked;
};

/* What belongs to one request; zeroed between two. */
struct transfer_state {
	bool in_multi, finished;
	bool opened;    /* a socket, for it */
	bool ending;    /* a cancel or a limit has ended it; `end` says which */
	bool cancelled; /* by its owner: no more news but on_done */
	enum fault end;
	enum fault recorded; /* noted by a callback that made libcurl stop */
	const char *why;     /* its sentence, or NULL */
	bool tell_head, tell_body;
	bool write_paused, read_paused; /* as libcurl was told */
	bool consumed, body_ready;      /* the owner's wish to go on, for the next step */
	bool early;                     /* the reply is whole while the upload is not */
	bool last_look; /* a limit has passed: one more turn for what is already in the socket */

	uint64_t request_head; /* its bytes on the wire, with a body that goes with it */
	uint64_t body_taken;   /* body bytes handed to libcurl by parts */
	bool body_eof;         /* libcurl has all of the body */
	uint64_t body_received;
	bool bodiless; /* HEAD, 204, 304 */
	struct reply_head head;
	usec_t activity; /* bytes last moved */
};

struct transfer {
	uv_timer_t timer; /* armed for the earliest limit or before it; re-armed when it fires */
	usec_t timer_at;  /* when it fires; USEC_MAX: it is not armed */
	CURL *easy;
	struct upstream *upstream;
	struct attempt *attempt; /* NULL in the pool */
	struct transfer *next, *prev;
	struct transfer *queue_next;
	bool queued;
	struct upstream_socket *socket;
	char *block; /* header list and texts of the request; kept from request to request */
	size_t block_cap;
	struct transfer_state now;
	char error[CURL_ERROR_SIZE];
};

/* upstream.c */
void upstream_news(struct transfer *transfer); /* queues it for the next drain */
/* Runs libcurl for a socket (or CURL_SOCKET_TIMEOUT), then drains. Never from a callback. */
void upstream_action(struct upstream *upstream, curl_socket_t fd, int mask);
/* Queues an attempt that got no transfer: FAULT_LOCAL, from the loop. */
void upstream_failed(struct upstream *upstream, struct attempt *attempt);
void upstream_handle_closed(struct upstream *upstream);

/* upstream_socket.c: libcurl's socket callbacks; `clientp` is the struct upstream, but for open,
 * where it is the transfer. */
int upstream_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *clientp, void *socketp);
curl_socket_t upstream_socket_open(void *clientp, curlsocktype purpose,
				   struct curl_sockaddr *address);
int upstream_socket_close(void *clientp, curl_socket_t fd);
/* Once libcurl has let go of a transfer: parts it from its socket, and forgets those of its sockets
 * that never became a connection. */
void upstream_socket_sweep(struct transfer *transfer);

/* upstream_transfer.c */
void transfer_begin(struct upstream *upstream, struct attempt *attempt);
/* Performs what is queued for it: the end, the resume, the owner's callbacks. It may be back in the
 * pool afterwards. */
void transfer_step(struct transfer *transfer);
/* Takes it out of libcurl and writes the attempt's outcome. Once; transfer_step() must follow. */
void transfer_finish(struct transfer *transfer, CURLcode code);
/* Ends it from outside with `fault`. */
void transfer_end(struct transfer *transfer, enum fault fault);
void transfer_free(struct transfer *transfer); /* a pooled one */

/* upstream_request.c */
/* Gives libcurl everything about the request. 0, or -1 with transfer->why. */
int request_prepare(struct transfer *transfer);

/* upstream_reply.c: libcurl's callbacks while the transfer runs. */
int reply_prereq(void *clientp, char *peer, char *local, int peer_port, int local_port);
size_t reply_header(char *line, size_t size, size_t count, void *clientp);
size_t reply_body(char *data, size_t size, size_t count, void *clientp);
size_t request_read(char *buffer, size_t size, size_t count, void *clientp);
int request_seek(void *clientp, curl_off_t offset, int origin);

/* upstream_head.c */
enum head_result { HEAD_MORE, HEAD_INTERIM, HEAD_FINAL, HEAD_BROKEN, HEAD_BIG, HEAD_MEMORY };
void head_reset(struct reply_head *head);
/* Takes one line as libcurl hands it over. HEAD_FINAL: `data`, `status` and the framing are set. */
enum head_result head_line(struct reply_head *head, const char *line, size_t len);

/* upstream_limit.c */
/* The earliest limit now, and its name. */
usec_t limit_next(struct transfer *transfer, enum fault *ret_fault);
/* Whether a limit of the policy leaves no time at all, before anything is started. */
bool limit_spent(const struct attempt *attempt, usec_t now, enum fault *ret_fault);
void limit_arm(struct transfer *transfer);               /* for limit_next(), if that is sooner */
void limit_arm_at(struct transfer *transfer, usec_t at); /* for `at`, if that is sooner */
void limit_stop(struct transfer *transfer);
/* The whole request is with the socket. */
bool limit_uploaded(const struct transfer *transfer);

/* upstream_fault.c */
struct fault_context {
	bool sent;       /* the pre-request callback let it go */
	bool head_began; /* a final reply's status line was seen */
	bool head_done;
};
/* What libcurl's result means where nothing of ours has ended the transfer; FAULT_NONE: whole. */
enum fault fault_from_curl(CURLcode code, const struct fault_context *context);

#endif
