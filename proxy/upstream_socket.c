/* libcurl's sockets on uv. A connection's socket stays registered until libcurl closes it; between
 * transfers uv goes on polling for what it polled for, and an idle socket that becomes ready (the
 * provider closed it) is disarmed then, so that it does not spin. uv_close() takes the descriptor out
 * of epoll at once, so close() may follow; the handle's memory goes with its close callback.
 *
 * A socket whose connect did not end well is closed by libcurl 7.88 without the close callback
 * (measured: uv aborts on the dead descriptor). So only what has carried a request is kept when
 * libcurl lets go of it, and a descriptor that comes back from socket() replaces what was known
 * under its number. */
#include "proxy/upstream_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/clock.h"

static void socket_ready(uv_poll_t *poll, int status, int events);

static struct upstream_socket *socket_find(struct upstream *upstream, curl_socket_t fd)
{
	return (size_t)fd < upstream->socket_cap ? upstream->sockets[fd] : NULL;
}

static void socket_arm(struct upstream_socket *sock, int events)
{
	if (sock->armed == events)
		return;
	sock->armed = events;
	/* Fails only on a descriptor that another handle polls, which socket_add() excludes. */
	if (events == 0)
		uv_poll_stop(&sock->poll);
	else
		uv_poll_start(&sock->poll, events, socket_ready);
}

static void socket_disown(struct upstream_socket *sock)
{
	if (sock->owner != NULL && sock->owner->socket == sock)
		sock->owner->socket = NULL;
	sock->owner = NULL;
	sock->wanted = 0;
}

static void socket_closed(uv_handle_t *handle)
{
	struct upstream_socket *sock = handle->data;
	struct upstream *upstream = sock->upstream;

	free(sock);
	upstream_handle_closed(upstream);
}

static void socket_remove(struct upstream_socket *sock)
{
	socket_disown(sock);
	sock->closed = true;
	sock->upstream->sockets[sock->fd] = NULL;
	uv_close((uv_handle_t *)&sock->poll, socket_closed);
}

static struct upstream_socket *socket_add(struct upstream *upstream, curl_socket_t fd)
{
	struct upstream_socket *sock;
	size_t need = (size_t)fd + 1;

	if (need > upstream->socket_cap) {
		size_t cap = upstream->socket_cap != 0 ? upstream->socket_cap : 64;
		struct upstream_socket **grown;

		while (cap < need)
			cap *= 2;
		grown = realloc(upstream->sockets, cap * sizeof *grown);
		if (grown == NULL)
			return NULL;
		memset(grown + upstream->socket_cap, 0,
		       (cap - upstream->socket_cap) * sizeof *grown);
		upstream->sockets = grown;
		upstream->socket_cap = cap;
	}
	sock = calloc(1, sizeof *sock);
	if (sock == NULL)
		return NULL;
	if (uv_poll_init_socket(&upstream->loop->uv, &sock->poll, fd) < 0) {
		free(sock);
		return NULL;
	}
	sock->poll.data = sock;
	sock->upstream = upstream;
	sock->fd = fd;
	upstream->handles++;
	upstream->sockets[fd] = sock;
	return sock;
}

/* After POLLERR uv reports an error and has stopped the handle. libcurl is told "readable" (and
 * writable, if it waits for that): a reply may stand before the reset, and libcurl given an error
 * alone would not read it. */
static void socket_ready(uv_poll_t *poll, int status, int events)
{
	struct upstream_socket *sock = poll->data;
	int mask = 0;

	if (status < 0) {
		sock->armed = 0;
		events = UV_READABLE | sock->wanted;
	}
	if (sock->wanted == 0 || (events & sock->wanted) == 0) {
		socket_arm(sock, sock->wanted);
		return;
	}
	if ((events & UV_READABLE) != 0)
		mask |= CURL_CSELECT_IN;
	if ((events & UV_WRITABLE) != 0)
		mask |= CURL_CSELECT_OUT;
	if ((events & UV_WRITABLE) != 0 && sock->owner != NULL)
		sock->owner->now.activity = clock_boot();
	upstream_action(sock->upstream, sock->fd, mask);
	/* Still open, and libcurl's wish unchanged, so that it has not said it again. */
	if (!sock->closed && (sock->wanted & ~sock->armed) != 0)
		socket_arm(sock, sock->wanted);
}

int upstream_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *clientp, void *socketp)
{
	struct upstream *upstream = clientp;
	struct upstream_socket *sock = socket_find(upstream, fd);
	struct transfer *transfer = NULL;

	(void)socketp;
	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
	if (what == CURL_POLL_REMOVE) {
		if (sock == NULL)
			return 0;
		if (sock->opened && sock->owner != NULL && sock->owner->attempt->sent)
			socket_disown(sock);
		else
			socket_remove(sock);
		return 0;
	}
	if (sock == NULL)
		sock = socket_add(upstream, fd);
	if (sock == NULL) {
		/* -1 would end every transfer of the multi handle. */
		if (transfer != NULL)
			transfer_end(transfer, FAULT_LOCAL);
		return 0;
	}
	sock->wanted = ((what & CURL_POLL_IN) != 0 ? UV_READABLE : 0) |
		       ((what & CURL_POLL_OUT) != 0 ? UV_WRITABLE : 0);
	if ((sock->wanted & ~sock->armed) != 0 || (sock->armed & ~sock->wanted & UV_WRITABLE) != 0)
		socket_arm(sock, sock->wanted);
	sock->owner = transfer; /* NULL: libcurl's own, closing a connection */
	if (transfer == NULL)
		return 0;
	transfer->socket = sock;
	if (transfer->attempt->sent)
		limit_arm(transfer);
	return 0;
}

curl_socket_t upstream_socket_open(void *clientp, curlsocktype purpose,
				   struct curl_sockaddr *address)
{
	struct transfer *transfer = clientp;
	struct upstream *upstream = transfer->upstream;
	struct upstream_socket *stale, *sock;
	curl_socket_t fd;
	int wanted = 0;

	(void)purpose;
	/* A connection for a request that is out already: the second sending begins here. */
	if (transfer->attempt->sent) {
		transfer->attempt->hidden_resend = true;
		transfer->now.recorded = FAULT_HIDDEN_RESEND;
		return CURL_SOCKET_BAD;
	}
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    address->protocol);
	if (fd < 0) {
		/* No IPv6 here is no shortage: libcurl tries the next address. */
		if (errno != EAFNOSUPPORT && errno != EPROTONOSUPPORT && errno != EINVAL) {
			transfer->now.recorded = FAULT_LOCAL;
			transfer->now.why = "no socket: out of descriptors or memory";
		}
		return CURL_SOCKET_BAD;
	}
	stale = socket_find(upstream, fd);
	if (stale != NULL) {
		/* libcurl knows the number and may not say again what it wants of it. */
		wanted = stale->wanted;
		socket_remove(stale);
	}
	sock = socket_add(upstream, fd);
	if (sock == NULL) {
		close(fd);
		transfer->now.recorded = FAULT_LOCAL;
		transfer->now.why = "no room to register a socket";
		return CURL_SOCKET_BAD;
	}
	sock->opened = true;
	sock->owner = transfer;
	sock->wanted = wanted;
	socket_arm(sock, wanted);
	transfer->now.opened = true;
	return fd;
}

int upstream_socket_close(void *clientp, curl_socket_t fd)
{
	struct upstream *upstream = clientp;
	struct upstream_socket *sock = socket_find(upstream, fd);

	if (sock != NULL)
		socket_remove(sock);
	return close(fd);
}

void upstream_socket_sweep(struct transfer *transfer)
{
	struct upstream *upstream = transfer->upstream;

	if (!transfer->now.opened) {
		if (transfer->socket != NULL)
			socket_disown(transfer->socket);
		return;
	}
	for (size_t i = 0; i < upstream->socket_cap; i++) {
		if (upstream->sockets[i] != NULL && upstream->sockets[i]->owner == transfer)
			socket_remove(upstream->sockets[i]);
	}
}
