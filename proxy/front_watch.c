/* Callers' departure. The library takes a suspended connection out of its epoll, so nobody would
 * see its end. After 20 ms of suspension its socket goes into an epoll of ours, edge-triggered and
 * asking for no data: a FIN alone is EPOLLRDHUP (nothing new is started, the answer is still
 * written), a reset or both sides' end is EPOLLERR or EPOLLHUP (gone). Pipelined bytes are neither.
 * Edges also tell of the reset after the FIN, without looking again and again.
 *
 * Requests that are answered within that time cost a list entry. */
#include "proxy/front_private.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WATCH_AFTER_MS 20

static void leave_fresh(struct front_private *p)
{
	struct front_watch *watch = &p->request.front->watch;

	*p->watch_pprev = p->watch_next;
	if (p->watch_next != NULL)
		front_private(p->watch_next)->watch_pprev = p->watch_pprev;
	else
		watch->fresh_tail = p->watch_pprev;
	p->watch_next = NULL;
	p->watch_pprev = NULL;
}

static void watch_socket(struct front_watch *watch, struct front_private *p)
{
	struct epoll_event event = {.events = EPOLLET, .data.ptr = p};

	/* While its body is on its way a FIN may follow bytes that are still to be read. */
	if (p->phase == FRONT_READY && !p->conn->read_end)
		event.events |= EPOLLRDHUP;
	p->watched = epoll_ctl(watch->epoll, EPOLL_CTL_ADD, p->conn->fd, &event) == 0;
}

static void tick(uv_timer_t *timer)
{
	struct front *front = timer->data;
	struct front_watch *watch = &front->watch;
	uint64_t now = uv_now(&front->loop->uv);

	while (watch->fresh != NULL) {
		struct front_private *p = front_private(watch->fresh);

		if (p->suspended_at + WATCH_AFTER_MS > now)
			return;
		leave_fresh(p);
		watch_socket(watch, p);
	}
	uv_timer_stop(timer);
}

void front_watch_add(struct front_request *request)
{
	struct front_private *p = front_private(request);
	struct front_watch *watch = &request->front->watch;

	p->suspended_at = uv_now(&request->front->loop->uv);
	p->watch_next = NULL;
	p->watch_pprev = watch->fresh_tail;
	*watch->fresh_tail = request;
	watch->fresh_tail = &p->watch_next;
	if (!uv_is_active((uv_handle_t *)&watch->tick))
		uv_timer_start(&watch->tick, tick, WATCH_AFTER_MS, WATCH_AFTER_MS);
}

void front_watch_remove(struct front_request *request)
{
	struct front_private *p = front_private(request);

	if (p->watch_pprev != NULL)
		leave_fresh(p);
	if (p->watched)
		epoll_ctl(request->front->watch.epoll, EPOLL_CTL_DEL, p->conn->fd, NULL);
	p->watched = false;
}

static void departed(struct front_private *p, uint32_t events)
{
	struct front_request *request = &p->request;

	if (events & (EPOLLERR | EPOLLHUP)) {
		p->aborted = true;
		/* First back to the library, which closes the connection; the owner may release the
		 * request in its callback, but the request stays until the connection is closed. */
		front_resume(request);
		front_tell_gone(request);
	} else if ((events & EPOLLRDHUP) && !p->half) {
		p->half = true;
		if (p->started && !p->released && request->on_half != NULL)
			request->on_half(request);
	}
}

/* One event at a time: a callback may end other requests, whose events must not be in hand. */
static void readable(uv_poll_t *poll, int status, int events)
{
	struct front *front = poll->data;
	struct epoll_event event;

	(void)status;
	(void)events;
	for (int i = 0; i < 64 && !front->closing; i++) {
		if (epoll_wait(front->watch.epoll, &event, 1, 0) != 1)
			return;
		departed(event.data.ptr, event.events);
	}
}

int front_watch_init(struct front *front)
{
	struct front_watch *watch = &front->watch;
	int rc;

	watch->fresh_tail = &watch->fresh;
	watch->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (watch->epoll < 0)
		return -errno;
	rc = uv_poll_init(&front->loop->uv, &watch->poll, watch->epoll);
	if (rc < 0) {
		close(watch->epoll);
		return rc;
	}
	uv_timer_init(&front->loop->uv, &watch->tick);
	watch->poll.data = watch->tick.data = front;
	watch->open = true;
	front->open += 2;
	return uv_poll_start(&watch->poll, UV_READABLE, readable);
}

static void handle_closed(uv_handle_t *handle)
{
	front_handle_closed(handle->data);
}

void front_watch_close(struct front *front)
{
	struct front_watch *watch = &front->watch;

	if (!watch->open)
		return;
	uv_close((uv_handle_t *)&watch->poll, handle_closed);
	uv_close((uv_handle_t *)&watch->tick, handle_closed);
	close(watch->epoll);
	watch->open = false;
}
