/* Lingering close. A socket that is closed with unread bytes sends a reset, which destroys what the
 * caller has not read yet: the answer. So after an early answer a second descriptor of the socket
 * stays open, and what still arrives is read and thrown away, for a moment and up to body.drain. */
#include "proxy/front_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS 2000
#define LINGER_MAX 64 /* at a time; more are closed at once */

struct front_linger {
	struct front *front;
	struct front_linger *next, **pprev;
	int fd;
	size_t left;
	int open; /* handles */
	uv_poll_t poll;
	uv_timer_t timer;
};

static void handle_closed(uv_handle_t *handle)
{
	struct front_linger *linger = handle->data;
	struct front *front = linger->front;

	if (--linger->open == 0)
		free(linger);
	front_handle_closed(front);
}

static void end(struct front_linger *linger)
{
	*linger->pprev = linger->next;
	if (linger->next != NULL)
		linger->next->pprev = linger->pprev;
	linger->front->lingering_count--;
	uv_close((uv_handle_t *)&linger->poll, handle_closed);
	uv_close((uv_handle_t *)&linger->timer, handle_closed);
	close(linger->fd);
}

static void readable(uv_poll_t *poll, int status, int events)
{
	struct front_linger *linger = poll->data;
	char buffer[16384];
	ssize_t n;

	(void)status;
	(void)events;
	n = recv(linger->fd, buffer, sizeof(buffer), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || (size_t)n >= linger->left)
		end(linger);
	else
		linger->left -= (size_t)n;
}

static void timed_out(uv_timer_t *timer)
{
	end(timer->data);
}

void front_linger(struct front *front, int fd, size_t max)
{
	struct front_linger *linger;
	int copy;

	if (front->closing || front->lingering_count >= LINGER_MAX || max == 0)
		return;
	linger = calloc(1, sizeof(*linger));
	copy = linger != NULL ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	if (copy < 0 || uv_poll_init(&front->loop->uv, &linger->poll, copy) != 0) {
		if (copy >= 0)
			close(copy);
		free(linger);
		return;
	}
	uv_timer_init(&front->loop->uv, &linger->timer);
	linger->front = front;
	linger->fd = copy;
	linger->left = max;
	linger->open = 2;
	front->open += 2;
	linger->poll.data = linger->timer.data = linger;
	linger->next = front->lingering;
	linger->pprev = &front->lingering;
	if (linger->next != NULL)
		linger->next->pprev = &linger->next;
	front->lingering = linger;
	front->lingering_count++;
	uv_poll_start(&linger->poll, UV_READABLE, readable);
	uv_timer_start(&linger->timer, timed_out, LINGER_MS, 0);
}

void front_linger_close(struct front *front)
{
	while (front->lingering != NULL)
		end(front->lingering);
}
