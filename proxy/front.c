/* A worker's listeners from opening to closing. A request's life is in front_request.c. */
#include "proxy/front_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The library's memory for one connection holds the request's head and then also the answer's. Over
 * 32 KiB it is mapped, and pages that are not needed are not touched. */
#define POOL_EXTRA ((size_t)8192)
#define POOL_LEAST ((size_t)40960)
#define TLS_FILE_MAX 65536

/* --- listeners ------------------------------------------------------------------------------ */

/* The whole file, NUL-terminated; NULL with a sentence. */
static char *read_pem(const char *path, char *error, size_t error_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = malloc(TLS_FILE_MAX + 1);
	size_t len = 0;
	ssize_t n = fd < 0 || text == NULL ? -1 : 1;

	while (n > 0 && len < TLS_FILE_MAX) {
		n = read(fd, text + len, TLS_FILE_MAX - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0) {
		snprintf(error, error_len, "cannot read %s: %s", path, strerror(errno));
		free(text);
		text = NULL;
	} else {
		text[len] = '\0';
	}
	if (fd >= 0)
		close(fd);
	return text;
}

static int open_listener(struct front *front, const struct listen_address *address,
			 const struct provider_config *own, char *error, size_t error_len)
{
	struct front_listener *listener = &front->listeners[front->listener_count];

	*listener = (struct front_listener){.front = front, .own = own, .unix_path = address->path};
	listener->fd = front_listen_open(front->sockets, address, true, error, error_len);
	if (listener->fd < 0)
		return -1;
	listener->daemon = front_start_daemon(front, listener);
	if (listener->daemon == NULL) {
		snprintf(error, error_len, "cannot serve %s: libmicrohttpd refuses%s",
			 address->text,
			 front->cert != NULL ? " (is the certificate one, and the key its own?)"
					     : "");
		close(listener->fd);
		return -1;
	}
	front->listener_count++;
	return 0;
}

static int open_listeners(struct front *front, char *error, size_t error_len)
{
	const struct config *config = front->app->config;

	front->listeners = calloc(config->listen_count + config->provider_count + 1,
				  sizeof(*front->listeners));
	if (front->listeners == NULL) {
		snprintf(error, error_len, "out of memory");
		return -1;
	}
	for (size_t i = 0; i < config->listen_count; i++) {
		if (open_listener(front, &config->listen[i], NULL, error, error_len) != 0)
			return -1;
	}
	for (size_t i = 0; i < config->provider_count; i++) {
		const struct provider_config *own = &config->providers[i];

		if (own->route_kind == ROUTE_LISTEN &&
		    open_listener(front, &own->route_listen, own, error, error_len) != 0)
			return -1;
	}
	return 0;
}

/* Everything but the handles, which the loop still has to close. */
static void free_front(struct front *front)
{
	if (front_sockets_unref(front->sockets))
		front->app->sockets = NULL;
	free(front->listeners);
	free(front->cert);
	free(front->key);
	free(front);
}

static int hold_sockets(struct front *front)
{
	struct app *app = front->app;

	if (app->sockets != NULL)
		front->sockets = front_sockets_ref(app->sockets);
	else
		front->sockets = app->sockets = front_sockets_new();
	return front->sockets != NULL ? 0 : -1;
}

static int prepare(struct front *front, char *error, size_t error_len)
{
	const struct config *config = front->app->config;
	usec_t idle = usec_max(config->front_body_idle, USEC_SEC);

	front->idle_s = (unsigned int)(usec_min(idle + USEC_SEC - 1, USEC_DAY) / USEC_SEC);
	front->pool = config->front_head + POOL_EXTRA;
	if (front->pool < POOL_LEAST)
		front->pool = POOL_LEAST;
	if (hold_sockets(front) != 0) {
		snprintf(error, error_len, "out of memory");
		return -1;
	}
	if (config->tls_cert != NULL) {
		front->cert = read_pem(config->tls_cert, error, error_len);
		front->key =
			front->cert != NULL ? read_pem(config->tls_key, error, error_len) : NULL;
		if (front->key == NULL)
			return -1;
	}
	return open_listeners(front, error, error_len);
}

static int drive(struct front *front)
{
	int rc;

	uv_timer_init(&front->loop->uv, &front->sweep);
	front->open++;
	rc = front_conn_sweep_start(front);
	if (rc == 0)
		rc = front_watch_init(front);
	for (size_t i = 0; i < front->listener_count && rc == 0; i++) {
		struct front_listener *listener = &front->listeners[i];

		rc = mhd_loop_start(&listener->loop, front->loop, listener->daemon);
		listener->driving = rc == 0;
		front->open += rc == 0;
	}
	return rc;
}

int front_new(struct app *app, struct loop *loop, front_start_cb start, void *worker, char *error,
	      size_t error_len, struct front **ret_front)
{
	struct front *front = calloc(1, sizeof(*front));
	int rc;

	if (front == NULL) {
		snprintf(error, error_len, "out of memory");
		return -1;
	}
	front->app = app;
	front->loop = loop;
	front->start = start;
	front->worker = worker;
	if (prepare(front, error, error_len) != 0) {
		for (size_t i = 0; i < front->listener_count; i++)
			MHD_stop_daemon(front->listeners[i].daemon);
		free_front(front);
		return -1;
	}
	rc = drive(front);
	if (rc != 0) {
		snprintf(error, error_len, "cannot watch the listeners: %s", uv_strerror(rc));
		front_close(front, NULL, NULL);
		return -1;
	}
	*ret_front = front;
	return 0;
}

void *front_worker(const struct front *front)
{
	return front->worker;
}

size_t front_busy(const struct front *front)
{
	return front->busy;
}

/* --- the end -------------------------------------------------------------------------------- */

void front_drain(struct front *front)
{
	if (front->draining)
		return;
	front->draining = true;
	for (size_t i = 0; i < front->listener_count; i++) {
		struct front_listener *listener = &front->listeners[i];

		/* What is in the queue is still taken; closing it would reset it. */
		mhd_loop_run(&listener->loop);
		MHD_quiesce_daemon(listener->daemon);
		if (listener->unix_path != NULL)
			shutdown(listener->fd, SHUT_RDWR); /* shared: callers are turned away now */
		close(listener->fd);
		listener->fd = -1;
	}
	front_conn_close_idle(front);
}

void front_handle_closed(struct front *front)
{
	void (*closed)(void *data) = front->closed;
	void *data = front->data;

	if (--front->open > 0)
		return;
	free_front(front);
	if (closed != NULL)
		closed(data);
}

static void loop_closed(void *data)
{
	front_handle_closed(data);
}

static void sweep_closed(uv_handle_t *handle)
{
	front_handle_closed(handle->data);
}

/* The sweep's handle is closed last: `closed` never fires inside an owner's release. */
void front_maybe_finish(struct front *front)
{
	if (front->closing && front->requests == NULL &&
	    !uv_is_closing((uv_handle_t *)&front->sweep))
		uv_close((uv_handle_t *)&front->sweep, sweep_closed);
}

/* Callbacks may release any request, so what was told leaves the list. */
static void tell_all_gone(struct front *front)
{
	struct front_request *told = NULL;

	while (front->requests != NULL) {
		struct front_request *request = front->requests;
		struct front_private *p = front_private(request);

		front->requests = p->next;
		if (p->next != NULL)
			front_private(p->next)->pprev = &front->requests;
		p->next = told;
		p->pprev = &told;
		if (told != NULL)
			front_private(told)->pprev = &p->next;
		told = request;
		front_tell_gone(request);
	}
	front->requests = told;
	if (told != NULL)
		front_private(told)->pprev = &front->requests;
}

void front_close(struct front *front, void (*closed)(void *data), void *data)
{
	front->closing = true;
	front->closed = closed;
	front->data = data;
	uv_timer_stop(&front->sweep);
	front->sweep.data = front;
	tell_all_gone(front);
	for (struct front_request *r = front->requests; r != NULL; r = front_private(r)->next) {
		front_private(r)->aborted = true;
		front_resume(r);
	}
	for (size_t i = 0; i < front->listener_count; i++) {
		struct front_listener *listener = &front->listeners[i];

		if (listener->driving)
			mhd_loop_stop(&listener->loop, loop_closed, front);
		MHD_stop_daemon(listener->daemon);
	}
	front_linger_close(front);
	front_watch_close(front);
	front_maybe_finish(front);
}
