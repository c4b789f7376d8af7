/* Connections, and the time they may take for a head: the library's timeout starts anew with every
 * byte, so that a head could take for ever. Idle connections and incomplete heads stand in one list,
 * which a timer looks through. */
#include "proxy/front_private.h"

#include <stdlib.h>
#include <sys/socket.h>

static struct front *front_of(const struct front_conn *conn)
{
	return conn->listener->front;
}

static void leave_heads(struct front_conn *conn)
{
	if (!conn->in_head)
		return;
	*conn->pprev = conn->next;
	if (conn->next != NULL)
		conn->next->pprev = conn->pprev;
	conn->in_head = false;
}

void front_conn_await(struct front_conn *conn)
{
	struct front *front = front_of(conn);

	leave_heads(conn);
	conn->in_head = true;
	conn->begun = false;
	conn->since = uv_now(&front->loop->uv);
	conn->next = front->heads;
	conn->pprev = &front->heads;
	if (front->heads != NULL)
		front->heads->pprev = &conn->next;
	front->heads = conn;
}

void front_conn_begin(struct front_conn *conn)
{
	conn->begun = true;
	if (!conn->first)
		conn->since = uv_now(&front_of(conn)->loop->uv);
}

void front_conn_head_done(struct front_conn *conn)
{
	leave_heads(conn);
	conn->first = false;
}

void front_conn_notify(void *cls, struct MHD_Connection *mhd, void **context,
		       enum MHD_ConnectionNotificationCode code)
{
	struct front_conn *conn = *context;
	const union MHD_ConnectionInfo *info;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (conn != NULL)
			leave_heads(conn);
		free(conn);
		*context = NULL;
		return;
	}
	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	conn = calloc(1, sizeof(*conn));
	if (conn == NULL || info == NULL) {
		/* Without it there is no request: the library sees the end of its input. */
		free(conn);
		if (info != NULL)
			shutdown(info->connect_fd, SHUT_RDWR);
		return;
	}
	conn->listener = cls;
	conn->fd = info->connect_fd;
	conn->first = true;
	*context = conn;
	front_conn_await(conn);
}

struct front_conn *front_conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info != NULL ? info->socket_context : NULL;
}

static bool is_late(const struct front_conn *conn, uint64_t now, const struct config *config)
{
	usec_t allowed = config->front_head_time;

	/* Between two requests: as long as may pass without a byte, and then a head's time. */
	if (!conn->first && !conn->begun)
		allowed = usec_add(allowed, config->front_body_idle);
	return usec_mul((usec_t)(now - conn->since), USEC_MS) > allowed;
}

static void sweep(uv_timer_t *timer)
{
	struct front *front = timer->data;
	uint64_t now = uv_now(&front->loop->uv);

	/* The library reads the end of its input, and closes in its own time. */
	for (struct front_conn *conn = front->heads; conn != NULL; conn = conn->next) {
		if (is_late(conn, now, front->app->config))
			shutdown(conn->fd, SHUT_RDWR);
	}
}

int front_conn_sweep_start(struct front *front)
{
	usec_t every = front->app->config->front_head_time / 8;
	uint64_t ms = (uint64_t)(usec_max(10 * USEC_MS, usec_min(every, USEC_SEC)) / USEC_MS);

	front->sweep.data = front;
	return uv_timer_start(&front->sweep, sweep, ms, ms);
}

void front_conn_close_idle(struct front *front)
{
	/* Only the reading side: a request that is already here is still read and answered. */
	for (struct front_conn *conn = front->heads; conn != NULL; conn = conn->next) {
		if (!conn->begun) {
			conn->read_end = true;
			shutdown(conn->fd, SHUT_RD);
		}
	}
}
