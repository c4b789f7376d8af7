/* The daemon's epoll descriptor is watched by the loop. When it is readable, when the daemon's own
 * timeout is due, and after a kick the daemon is run, and run again while it says that it has more
 * to do at once. Nothing of it runs inside another of its runs. */
#include "proxy/mhd_loop.h"

#include <errno.h>
#include <limits.h>

/* Runs in a row before others on the loop get their turn. */
#define RUNS_MAX 64

static void timed_out(uv_timer_t *timer);

/* The timer is only ever moved forward in time: one that fires early costs one idle run, one that
 * is moved for each request costs two heap operations each. */
static void arm(struct mhd_loop *mhd, uint64_t ms)
{
	if (uv_is_active((uv_handle_t *)&mhd->timer) && uv_timer_get_due_in(&mhd->timer) <= ms)
		return;
	uv_timer_start(&mhd->timer, timed_out, ms, 0);
}

void mhd_loop_run(struct mhd_loop *mhd)
{
	MHD_UNSIGNED_LONG_LONG ms = 0;

	if (mhd->running)
		return;
	mhd->kicked = false;
	mhd->running = true;
	for (int i = 0; i < RUNS_MAX; i++) {
		MHD_run(mhd->daemon);
		if (mhd->kicked) {
			mhd->kicked = false;
			ms = 0;
			continue;
		}
		if (MHD_get_timeout(mhd->daemon, &ms) != MHD_YES) {
			mhd->running = false;
			return;
		}
		if (ms > 0)
			break;
	}
	mhd->running = false;
	arm(mhd, ms);
}

static void timed_out(uv_timer_t *timer)
{
	mhd_loop_run(timer->data);
}

static void readable(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	mhd_loop_run(poll->data);
}

static void before_sleep(uv_prepare_t *prepare)
{
	struct mhd_loop *mhd = prepare->data;

	if (mhd->kicked)
		mhd_loop_run(mhd);
}

int mhd_loop_start(struct mhd_loop *mhd, struct loop *loop, struct MHD_Daemon *daemon)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int rc;

	*mhd = (struct mhd_loop){.daemon = daemon};
	if (info == NULL || info->epoll_fd < 0)
		return -EINVAL;
	rc = uv_poll_init(&loop->uv, &mhd->poll, info->epoll_fd);
	if (rc < 0)
		return rc;
	uv_timer_init(&loop->uv, &mhd->timer);
	uv_prepare_init(&loop->uv, &mhd->prepare);
	mhd->poll.data = mhd->timer.data = mhd->prepare.data = mhd;
	mhd->open_handles = 3;
	uv_poll_start(&mhd->poll, UV_READABLE, readable);
	uv_prepare_start(&mhd->prepare, before_sleep);
	mhd->kicked = true; /* runs it before the loop sleeps for the first time */
	return 0;
}

void mhd_loop_kick(struct mhd_loop *mhd)
{
	mhd->kicked = true;
}

static void handle_closed(uv_handle_t *handle)
{
	struct mhd_loop *mhd = handle->data;

	if (--mhd->open_handles == 0 && mhd->closed != NULL)
		mhd->closed(mhd->data);
}

void mhd_loop_stop(struct mhd_loop *mhd, void (*closed)(void *data), void *data)
{
	mhd->closed = closed;
	mhd->data = data;
	mhd->kicked = false;
	uv_close((uv_handle_t *)&mhd->poll, handle_closed);
	uv_close((uv_handle_t *)&mhd->timer, handle_closed);
	uv_close((uv_handle_t *)&mhd->prepare, handle_closed);
}
