/* What the files of the front share. Nobody else includes it. */
#ifndef STINT_PROXY_FRONT_PRIVATE_H
#define STINT_PROXY_FRONT_PRIVATE_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "proxy/app.h"
#include "proxy/front.h"
#include "proxy/front_listen.h"
#include "proxy/mhd_loop.h"
#include "proxy/problem.h"

/* One daemon of one worker: a configured address, or a provider's own. */
struct front_listener {
	struct front *front;
	const struct provider_config *own; /* of the provider's listener, else NULL */
	struct MHD_Daemon *daemon;
	struct mhd_loop loop;
	const char *unix_path;
	int fd;       /* the listening socket; -1 once it is closed, or the daemon's to close */
	bool driving; /* `loop` runs and is to be stopped */
};

/* A caller's connection, from accept to close. */
struct front_conn {
	struct front_listener *listener;
	struct front_conn *next, **pprev; /* among front->heads while in_head */
	int fd;
	bool in_head;   /* a head is awaited or being read */
	bool begun;     /* its request line is here */
	bool first;     /* no request has come yet */
	bool read_end;  /* its reading side was shut by us: a FIN seen there is ours */
	uint64_t since; /* uv_now(): accepted, last answer written, or request line read */
};

enum front_phase {
	FRONT_HEAD,  /* request line read, head not complete */
	FRONT_BODY,  /* its body arrives and is kept, or streamed to the owner */
	FRONT_DRAIN, /* its body arrives and is thrown away: the answer is there already */
	FRONT_READY, /* the request is complete */
};

/* A request that the front answers itself. */
struct front_refusal {
	enum problem_type type;
	int status; /* 0: the type's own */
	const char *detail;
	char text[128]; /* room for a detail that is made */
};

/* A streamed body on its way from the caller to the owner. */
struct front_upload {
	char *data; /* FRONT_UPLOAD_MAX bytes, a ring; NULL until the first byte */
	size_t start, len;
	size_t kept_read; /* of request.body */
	bool wanted;      /* the owner was told -EAGAIN */
	bool ended;
	bool broken;
};

#define FRONT_UPLOAD_MAX ((size_t)65536)

struct front_private {
	struct front_request request;
	struct front_request *next, **pprev; /* among front->requests */
	struct MHD_Connection *mhd;          /* NULL: the connection is done with the request */
	struct front_conn *conn;             /* the same */
	const char *target_at; /* the target in the library's memory, until the head */
	size_t target_len;
	size_t over; /* of a body that is thrown away: bytes so far */

	enum front_phase phase;
	bool counted;    /* in front->busy */
	bool started;    /* the owner has it */
	bool released;   /* the owner has let go, or never had it */
	bool expects;    /* waits for 100 before it sends its body */
	bool in_handler; /* the library calls: it is not suspended, and must not be resumed */
	bool suspended;
	bool gone;     /* the caller is gone, and the owner knows */
	bool half;     /* a FIN came, and the owner knows */
	bool answered; /* front_request_answer() was called */
	bool aborted;  /* the connection must end without (more of) an answer */
	bool manual;   /* has a timeout of its own: see front_suspend() */
	bool linger;   /* unread bytes of the caller may be left when the connection closes */
	bool in_pull, pull_again;
	bool until_close; /* the answer's end is the connection's: a cut must be a reset */

	int status; /* of `response`, queued as soon as the library allows it */
	struct MHD_Response *response;
	ssize_t (*pull)(struct front_request *request, char *buffer, size_t max);
	int64_t pull_left; /* of the announced length; -1: none announced */

	struct front_upload upload;

	struct front_request *watch_next, **watch_pprev; /* among front->watch.fresh */
	uint64_t suspended_at;                           /* uv_now() */
	bool watched;                                    /* its socket is in front->watch.epoll */
};

/* Callers' departure: see front_watch.c. */
struct front_watch {
	int epoll;
	bool open;
	uv_poll_t poll;
	uv_timer_t tick;
	struct front_request *fresh, **fresh_tail; /* suspended a moment ago, oldest first */
};

struct front {
	struct app *app;
	struct loop *loop;
	front_start_cb start;
	void *worker;
	struct front_listener *listeners;
	size_t listener_count;
	struct front_sockets *sockets; /* held */
	char *cert, *key;              /* PEM; NULL: no TLS */
	struct front_conn *heads;      /* connections that are reading a head, or idle */
	struct front_request *requests;
	size_t busy;         /* requests from their head to the end of both sides */
	unsigned int idle_s; /* the daemons' timeout */
	size_t pool;         /* MHD_OPTION_CONNECTION_MEMORY_LIMIT */
	uv_timer_t sweep;    /* heads that take too long */
	struct front_watch watch;
	struct front_linger *lingering;
	int lingering_count;
	bool draining;
	bool closing;
	int open; /* handles, and daemons' loops, that are to be closed */
	void (*closed)(void *data);
	void *data;
};

/* --- front_request.c ------------------------------------------------------------------------ */

/* A daemon that serves listener->fd; NULL: the library refuses. */
struct MHD_Daemon *front_start_daemon(struct front *front, struct front_listener *listener);

/* Lets the library go on with a suspended connection. */
void front_resume(struct front_request *request);
/* Inside the access handler or the content reader: takes the connection out of the library's
 * hands. */
void front_suspend(struct front_request *request);
/* The caller is gone: tells the owner once. */
void front_tell_gone(struct front_request *request);
/* Frees the request when both sides are done with it. */
void front_request_unref(struct front_request *request);

/* --- front.c -------------------------------------------------------------------------------- */

/* A handle, counted in front->open, is closed; the last one ends the front. */
void front_handle_closed(struct front *front);
/* After a request has gone: goes on with a front_close() that waited for it. */
void front_maybe_finish(struct front *front);

/* --- front_check.c -------------------------------------------------------------------------- */

/* All of design section 8 that concerns the head: fills the request, finds its provider. False:
 * ret_refusal says what to answer; the connection closes after it. */
bool front_check(struct front_request *request, const char *url, const char *method,
		 const char *version, struct front_refusal *ret_refusal);

/* --- front_body.c --------------------------------------------------------------------------- */

/* A part of the body. MHD_NO: the connection ends. */
enum MHD_Result front_body_data(struct front_request *request, const char *data, size_t *len);
/* The body is whole. */
void front_body_end(struct front_request *request);
/* The connection ended before it was. */
void front_body_break(struct front_request *request);

/* --- front_write.c -------------------------------------------------------------------------- */

/* Makes the answer of a request that the front refuses; it is queued as an owner's would be. */
void front_refuse(struct front_request *request, const struct front_refusal *refusal);
/* Inside the access handler, or suspended: hands the answer over. */
enum MHD_Result front_queue(struct front_request *request);
/* The answer went out completely, but its owner has not said yet that it ends here. */
void front_finish_pull(struct front_request *request);

/* --- front_watch.c -------------------------------------------------------------------------- */

int front_watch_init(struct front *front);
void front_watch_close(struct front *front);
/* The connection was suspended, or is about to go on (no more than a few stores, unless it was
 * suspended for long). */
void front_watch_add(struct front_request *request);
void front_watch_remove(struct front_request *request);

/* --- front_conn.c --------------------------------------------------------------------------- */

/* MHD_OPTION_NOTIFY_CONNECTION; `cls` is the listener. */
void front_conn_notify(void *cls, struct MHD_Connection *mhd, void **context,
		       enum MHD_ConnectionNotificationCode code);
struct front_conn *front_conn_of(struct MHD_Connection *mhd);
/* A head is awaited; its request line is here; it is complete. */
void front_conn_await(struct front_conn *conn);
void front_conn_begin(struct front_conn *conn);
void front_conn_head_done(struct front_conn *conn);
int front_conn_sweep_start(struct front *front);
/* Ends connections that have no request under way. */
void front_conn_close_idle(struct front *front);

/* --- front_linger.c ------------------------------------------------------------------------- */

/* Keeps a socket that is about to be closed open for a moment and reads it empty, so that the
 * answer is not destroyed by the reset that unread bytes cause (RFC 9112 section 9.6). */
void front_linger(struct front *front, int fd, size_t max);
void front_linger_close(struct front *front);

static inline struct front_private *front_private(struct front_request *request)
{
	return request->private;
}

#endif
