/* The life of a request here: the request line makes it (take_target), the complete head is checked
 * (front_check), the body is kept (front_body), then it is handed on and the connection suspended.
 * The answer is queued while it is suspended; then the library goes on, writes, and says that it is
 * done (completed), also when the caller broke off at any point of this.
 *
 *   FRONT_HEAD --head--> FRONT_BODY --end--> FRONT_READY --answer--> completed
 *                            |                   ^
 *                            +-> FRONT_DRAIN ----+   answered before the body's end
 *
 * A request is freed when the connection is done with it and its owner has released it. */
#include "proxy/front_private.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/clock.h"

/* --- requests ------------------------------------------------------------------------------- */

/* MHD_OPTION_URI_LOG_CALLBACK: the target as it came. */
static void *take_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct front *front = cls;
	struct front_conn *conn = front_conn_of(mhd);
	size_t len = uri != NULL ? strlen(uri) : 0;
	struct front_private *p;
	char *query;

	if (conn == NULL || uri == NULL)
		return NULL;
	p = calloc(1, sizeof(*p) + len + 1);
	if (p == NULL)
		return NULL;
	p->request.front = front;
	p->request.private = p;
	p->request.target = memcpy(p + 1, uri, len + 1);
	p->request.content_length = -1;
	p->request.body.fd = -1;
	headers_init(&p->request.headers);
	p->target_at = uri;
	p->target_len = len;
	p->mhd = mhd;
	p->conn = conn;
	p->released = true;
	p->next = front->requests;
	p->pprev = &front->requests;
	if (p->next != NULL)
		front_private(p->next)->pprev = &p->next;
	front->requests = &p->request;
	front_conn_begin(conn);
	query = MHD_VERSION < 0x01000000 ? strchr(uri, '?') : NULL;
	/* 0.9.x is about to take the query apart into its memory, a record for each parameter, for
	 * nobody. The bytes are its own, and writable. */
	if (query != NULL)
		query[1] = '\0';
	return p;
}

/* MHD_OPTION_UNESCAPE_CALLBACK: nothing is decoded. */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
	(void)cls;
	(void)mhd;
	return strlen(text);
}

void front_suspend(struct front_request *request)
{
	struct front_private *p = front_private(request);

	/* A connection that was reading when it was suspended is read from first when it goes on.
	 * After a FIN that read says "closed", and the answer would be thrown away. Connections
	 * with a timeout of their own are first asked for what they have to write: then nothing is
	 * read (and a system call is saved for all others). It is set back when the answer is out.
	 * 1.0.1 takes no timeout for a connection that is suspended already. */
	if (p->phase == FRONT_READY && !p->manual) {
		MHD_set_connection_option(p->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
					  request->front->idle_s + 1);
		p->manual = true;
	}
	MHD_suspend_connection(p->mhd);
	p->suspended = true;
	front_watch_add(request);
}

void front_resume(struct front_request *request)
{
	struct front_private *p = front_private(request);

	if (!p->suspended)
		return;
	front_watch_remove(request);
	p->suspended = false;
	MHD_resume_connection(p->mhd);
	mhd_loop_kick(&p->conn->listener->loop);
}

void front_tell_gone(struct front_request *request)
{
	struct front_private *p = front_private(request);

	if (p->gone)
		return;
	p->gone = true;
	if (p->started && !p->released && request->on_gone != NULL)
		request->on_gone(request);
}

void front_request_unref(struct front_request *request)
{
	struct front_private *p = front_private(request);
	struct front *front = request->front;

	/* Its owner may release it from inside a pull, which still looks at it afterwards. */
	if (p->mhd != NULL || !p->released || p->in_pull)
		return;
	*p->pprev = p->next;
	if (p->next != NULL)
		front_private(p->next)->pprev = p->pprev;
	if (p->counted)
		front->busy--;
	headers_done(&request->headers);
	if (request->body.limits != NULL)
		body_done(&request->body);
	free(request->upstream_target);
	free(p->upload.data);
	free(p);
	front_maybe_finish(front);
}

void front_request_release(struct front_request *request)
{
	struct front_private *p = front_private(request);

	p->released = true;
	if (p->mhd != NULL && !p->answered)
		p->aborted = true;
	if (p->aborted || p->pull != NULL)
		front_resume(request);
	front_request_unref(request);
}

/* MHD_OPTION_NOTIFY_COMPLETED: the connection is done with a request, in whatever way. */
static void completed(void *cls, struct MHD_Connection *mhd, void **context,
		      enum MHD_RequestTerminationCode code)
{
	struct front_private *p = *context;
	struct front *front = cls;
	bool whole = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
	struct front_request *request;

	*context = NULL;
	if (p == NULL)
		return;
	request = &p->request;
	front_watch_remove(request);
	if (p->manual && whole)
		MHD_set_connection_option(mhd, MHD_CONNECTION_OPTION_TIMEOUT, front->idle_s);
	if (p->linger && whole)
		front_linger(front, p->conn->fd,
			     request->provider != NULL ? request->provider->config->body_drain
						       : front->pool);
	front_conn_await(p->conn);
	p->conn = NULL;
	p->mhd = NULL;
	p->suspended = false;
	if (p->response != NULL)
		MHD_destroy_response(p->response);
	p->response = NULL;
	front_body_break(request);
	if (!whole || !p->answered || p->aborted) {
		front_tell_gone(request);
	} else if (p->started && !p->released) {
		if (request->on_written != NULL)
			request->on_written(request);
		front_finish_pull(request);
	}
	front_request_unref(request);
}

/* --- the access handler --------------------------------------------------------------------- */

static enum MHD_Result refuse(struct front_request *request, const struct front_refusal *refusal)
{
	struct front_private *p = front_private(request);

	p->linger = request->has_body;
	front_refuse(request, refusal);
	return front_queue(request);
}

/* The head is here. Nothing queued: the library sends 100 where it is waited for, and goes on. */
static enum MHD_Result take_head(struct front_request *request, const char *url, const char *method,
				 const char *version)
{
	struct front_private *p = front_private(request);
	const struct provider_config *config;
	struct front_refusal refusal;

	front_conn_head_done(p->conn);
	p->counted = true;
	request->front->busy++;
	if (!front_check(request, url, method, version, &refusal))
		return refuse(request, &refusal);
	config = request->provider->config;
	body_init(&request->body, &request->provider->limits);
	p->phase = FRONT_BODY;
	if (config->body_over == BODY_OVER_REFUSE && request->content_length >= 0 &&
	    (uint64_t)request->content_length > request->provider->limits.max) {
		refusal = (struct front_refusal){.type = PROBLEM_BODY_TOO_LARGE,
						 .detail = "send a body of at most body.max bytes"};
		/* Whoever waits for 100 has sent nothing yet; a body that is not too long to be
		 * thrown away is read to its end first, so that the caller reads the answer. */
		if (p->expects || (uint64_t)request->content_length > config->body_drain)
			return refuse(request, &refusal);
		p->phase = FRONT_DRAIN;
		front_refuse(request, &refusal);
	}
	return MHD_YES;
}

static enum MHD_Result take_end(struct front_request *request)
{
	struct front_private *p = front_private(request);

	if (p->phase != FRONT_READY)
		front_body_end(request);
	if (!p->started && !p->answered) {
		p->started = true;
		p->released = false;
		request->front->start(request);
	}
	if (p->aborted)
		return MHD_NO;
	if (p->answered)
		return front_queue(request);
	front_suspend(request);
	return MHD_YES;
}

static enum MHD_Result access_handler(void *cls, struct MHD_Connection *mhd, const char *url,
				      const char *method, const char *version, const char *data,
				      size_t *len, void **context)
{
	struct front_private *p = *context;
	enum MHD_Result result;

	(void)cls;
	(void)mhd;
	if (p == NULL || p->aborted)
		return MHD_NO;
	p->in_handler = true;
	if (p->phase == FRONT_HEAD)
		result = take_head(&p->request, url, method, version);
	else if (*len > 0)
		result = front_body_data(&p->request, data, len);
	else
		result = take_end(&p->request);
	p->in_handler = false;
	return result;
}

/* --- the daemon ------------------------------------------------------------------------------ */

struct MHD_Daemon *front_start_daemon(struct front *front, struct front_listener *listener)
{
	const struct config *config = front->app->config;
	unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
	int share = front->app->worker_count > 1 ? front->app->worker_count : 1;
	int connections = (config->front_connections + share - 1) / share;
	struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, front->cert},
				       {MHD_OPTION_HTTPS_MEM_KEY, 0, front->key},
				       {MHD_OPTION_END, 0, NULL}};
	struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};

	if (front->cert != NULL)
		flags |= MHD_USE_TLS;
	/* 0.9.x is not asked to be strict: it would answer what front_check() answers better, and a
	 * missing Host twice (measured). 1.0 refuses folded lines, bare LF and NUL at level 1. */
	return MHD_start_daemon(
		flags, 0, NULL, NULL, access_handler, front,
#if MHD_VERSION >= 0x01000000
		MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#endif
		MHD_OPTION_LISTEN_SOCKET, listener->fd, MHD_OPTION_URI_LOG_CALLBACK, take_target,
		front, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, front,
		MHD_OPTION_NOTIFY_COMPLETED, completed, front, MHD_OPTION_NOTIFY_CONNECTION,
		front_conn_notify, listener, MHD_OPTION_CONNECTION_MEMORY_LIMIT, front->pool,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)connections,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned int)config->front_per_address,
		MHD_OPTION_CONNECTION_TIMEOUT, front->idle_s, MHD_OPTION_ARRAY,
		front->cert != NULL ? tls : none, MHD_OPTION_END);
}
