/* What the files of the admin listener share. Nobody else includes it, but for the tests. */
#ifndef STINT_PROXY_ADMIN_PRIVATE_H
#define STINT_PROXY_ADMIN_PRIVATE_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "proxy/admin_auth.h"
#include "proxy/admin_query.h"
#include "proxy/app.h"
#include "proxy/front_listen.h"
#include "proxy/mhd_loop.h"

struct admin_call;
struct admin_request;

/* One endpoint. `start` answers at once, or fills a call and hands it to admin_ask(); `finish` then
 * answers with what came back. Both queue exactly one reply, or return MHD_NO (out of memory: the
 * connection is closed). */
struct admin_route {
	const char *pattern; /* "*" stands for one segment that is not empty */
	bool open;           /* needs no token anywhere */
	bool changes;        /* POST with a JSON body; else GET and HEAD */
	enum MHD_Result (*start)(struct admin_request *request);
	/* `ledger` is NULL where it did not answer in time, or the listener closes. */
	enum MHD_Result (*finish)(struct admin_request *request,
				  const struct ledger_request *ledger);
};

struct admin {
	struct app *app;
	struct admin_auth auth;
	struct front_sockets *sockets;
	struct MHD_Daemon *daemon;
	struct mhd_loop loop;
	uv_timer_t timer;         /* ends waits that take too long; runs while there are calls */
	struct admin_call *calls; /* out at the ledger */
	usec_t patience;          /* how long a request waits for the ledger */
	int open;                 /* what admin_close() still waits for */
	bool closing;
	void (*closed)(void *data);
	void *data;
};

enum admin_phase { ADMIN_HEAD, ADMIN_BODY, ADMIN_WAITING, ADMIN_FINISH };

/* One request, from its request line until its reply has gone out. */
struct admin_request {
	struct admin *admin;
	struct MHD_Connection *connection;
	const struct admin_route *route;
	enum admin_phase phase;
	bool takes_body;
	char *body; /* of a change: NUL-terminated, at most ADMIN_BODY_MAX bytes */
	size_t body_len;
	size_t dropped;              /* bytes of a body that nobody wants, or that is too long */
	struct admin_call *call;     /* while it waits, and once it is answered */
	struct admin_call *answered; /* the one that `finish` answers from, while it runs */
	char target[];               /* raw */
};

#define ADMIN_BODY_MAX 65536
#define ADMIN_ACTOR_MAX 128 /* bytes */
#define ADMIN_REASON_MAX 1000

/* What a person wants to be done to one operation: the body of a change. */
struct admin_order {
	json_t *body; /* owns the texts */
	const char *version, *actor, *reason;
};

/* One question to the ledger. It outlives its request where that gives up. */
struct admin_call {
	struct loop_task task;
	struct ledger_request ledger;
	struct admin *admin;
	struct admin_request *request; /* NULL: nobody waits any more */
	struct admin_call *next, **pprev;
	usec_t deadline;          /* clock_boot() */
	struct admin_query query; /* owns the texts that `ledger` points into */
	char *provider, *key;     /* the same */
	struct admin_order order; /* of a change */
	struct ledger_row row;    /* the record as the change will have left it; owned */
	char *note;
};

/* --- admin.c ------------------------------------------------------------------------------------- */

/* NULL: out of memory. The caller fills `ledger` (and what it points into) and hands it to
 * admin_ask(), or frees it. */
struct admin_call *admin_call_new(struct admin_request *request, enum ledger_verb verb);
void admin_call_free(struct admin_call *call);
/* The next question of the same request, after request->answered: it takes over the name, the query and
 * the order. NULL: out of memory. */
struct admin_call *admin_call_next(struct admin_request *request, enum ledger_verb verb);
/* Suspends the connection and asks; answers 503 at once if the ledger is not open. Takes the call. */
enum MHD_Result admin_ask(struct admin_request *request, struct admin_call *call);

/* --- admin_reply.c ------------------------------------------------------------------------------- */

/* Takes the body (malloc'ed; NULL: out of memory, and then MHD_NO). */
enum MHD_Result admin_reply_text(struct admin_request *request, unsigned status, const char *type,
				 char *body, size_t len);
/* Takes the value; NULL as above. */
enum MHD_Result admin_reply_json(struct admin_request *request, unsigned status, json_t *value);
/* A problem of no type of its own (about:blank): 401, 403, 404, 405. `detail` says what to do. */
enum MHD_Result admin_reply_blank(struct admin_request *request, unsigned status,
				  const char *detail);
enum MHD_Result admin_reply_bad(struct admin_request *request, const char *detail);
enum MHD_Result admin_reply_too_large(struct admin_request *request, const char *detail);
/* 409, with what the operation is now. */
enum MHD_Result admin_reply_conflict(struct admin_request *request, const struct ledger_row *row,
				     const char *detail);
/* 503 ledger-away; why may be NULL. */
enum MHD_Result admin_reply_away(struct admin_request *request, const char *why);

/* --- admin_routes.c, admin_operations.c, admin_change.c ------------------------------------------ */

/* NULL: there is no such path. */
const struct admin_route *admin_route_find(const char *target);

enum MHD_Result admin_operations_start(struct admin_request *request);
enum MHD_Result admin_operations_finish(struct admin_request *request,
					const struct ledger_request *ledger);
enum MHD_Result admin_operation_start(struct admin_request *request);
enum MHD_Result admin_operation_finish(struct admin_request *request,
				       const struct ledger_request *ledger);

/* A question for the operation that the path and the query name, with its notes. NULL: *ret_result is
 * what became of the request. */
struct admin_call *admin_operation_call(struct admin_request *request, enum MHD_Result *ret_result);
enum MHD_Result admin_operation_absent(struct admin_request *request); /* 404 */

enum MHD_Result admin_release_start(struct admin_request *request);
enum MHD_Result admin_release_finish(struct admin_request *request,
				     const struct ledger_request *ledger);

#endif
