/* Drives one libmicrohttpd daemon (external epoll) from a libuv loop. */
#ifndef STINT_PROXY_MHD_LOOP_H
#define STINT_PROXY_MHD_LOOP_H

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

#include "proxy/loop.h"

struct mhd_loop {
	struct MHD_Daemon *daemon; /* started with MHD_USE_EPOLL, without a thread of its own */
	uv_poll_t poll;
	uv_timer_t timer;
	uv_prepare_t prepare; /* runs the daemon once before the loop sleeps, after a kick */
	bool kicked, running;
	int open_handles;
	void (*closed)(void *data);
	void *data;
};

/* 0 or a negative errno. The daemon is run at once and again while MHD_get_timeout() says 0 (else it
 * stalls: measured). */
int mhd_loop_start(struct mhd_loop *mhd, struct loop *loop, struct MHD_Daemon *daemon);
/* After MHD_resume_connection(), or whatever else the daemon must look at. On the loop's thread. */
void mhd_loop_kick(struct mhd_loop *mhd);
/* Runs it now, unless that is what is being done. */
void mhd_loop_run(struct mhd_loop *mhd);
/* Stops driving it; `closed` (may be NULL) fires when its handles are closed. The daemon is the
 * caller's and is stopped, with nothing suspended, in the same turn of the loop. */
void mhd_loop_stop(struct mhd_loop *mhd, void (*closed)(void *data), void *data);

#endif
