/* One request's way: its raw target is kept from the request line on (the library decodes what it
 * hands over, and %2F would no longer be told from a slash); its body is read, and dropped but for
 * that of a change; then its endpoint answers at once, or asks the ledger. Meanwhile the connection
 * is suspended; the answer comes through the control loop's inbox and resumes it.
 *
 * A ledger that does not answer in time, or a listener that closes, takes the request's place away
 * from the call: the request is answered without it, and the call is freed when it comes back. Every
 * call does, so admin_close() waits for them. All of it runs on the control thread. */
#include "proxy/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/admin_private.h"

#define CONNECTIONS_MAX 128
#define CONNECTION_MEMORY 32768 /* bounds a request's head */
#define CONNECTION_IDLE_S 30
#define BODY_DROP_MAX (1 << 20)
#define PATIENCE (5 * USEC_SEC)
#define TICK_MS 100

/* --- questions to the ledger --------------------------------------------------------------------- */

struct admin_call *admin_call_new(struct admin_request *request, enum ledger_verb verb)
{
	struct admin_call *call = calloc(1, sizeof(*call));

	if (call == NULL)
		return NULL;
	call->admin = request->admin;
	call->ledger.verb = verb;
	return call;
}

void admin_call_free(struct admin_call *call)
{
	if (call == NULL)
		return;
	ledger_request_done(&call->ledger);
	admin_query_done(&call->query);
	json_decref(call->order.body);
	ledger_row_done(&call->row);
	free(call->note);
	free(call->provider);
	free(call->key);
	free(call);
}

struct admin_call *admin_call_next(struct admin_request *request, enum ledger_verb verb)
{
	struct admin_call *call = admin_call_new(request, verb), *last = request->answered;

	if (call == NULL)
		return NULL;
	call->ledger.name = last->ledger.name;
	call->query = last->query;
	call->provider = last->provider;
	call->key = last->key;
	call->order = last->order;
	last->query = (struct admin_query){.text = {NULL}};
	last->provider = last->key = NULL;
	last->order = (struct admin_order){.body = NULL};
	return call;
}

/* The connection's request goes on, with the call's answer or without. */
static void resume(struct admin_request *request)
{
	request->phase = ADMIN_FINISH;
	MHD_resume_connection(request->connection);
	mhd_loop_kick(&request->admin->loop);
}

static void give_up(struct admin_call *call)
{
	struct admin_request *request = call->request;

	call->request = NULL;
	request->call = NULL;
	resume(request);
}

static void maybe_closed(struct admin *admin);

static void on_answer(struct loop_task *task)
{
	struct admin_call *call = CONTAINER_OF(task, struct admin_call, task);
	struct admin *admin = call->admin;

	*call->pprev = call->next;
	if (call->next != NULL)
		call->next->pprev = call->pprev;
	call->pprev = NULL;
	if (admin->calls == NULL && !admin->closing)
		uv_timer_stop(&admin->timer);
	if (call->request != NULL)
		resume(call->request);
	else
		admin_call_free(call);
	if (admin->closing)
		maybe_closed(admin);
}

static void on_posted(struct ledger_request *ledger)
{
	struct admin_call *call = ledger->data;

	loop_post(&call->admin->app->control, &call->task);
}

static void on_tick(uv_timer_t *timer)
{
	struct admin *admin = timer->data;
	usec_t now = clock_boot();

	for (struct admin_call *call = admin->calls; call != NULL; call = call->next) {
		if (call->request != NULL && call->deadline <= now)
			give_up(call);
	}
}

enum MHD_Result admin_ask(struct admin_request *request, struct admin_call *call)
{
	struct admin *admin = request->admin;
	struct ledger *ledger = admin->app->ledger;

	/* Nothing may be suspended when the daemon is stopped. */
	if (admin->closing || ledger == NULL) {
		admin_call_free(call);
		return admin_reply_away(request, admin->closing ? "this instance is shutting down"
								: app_ledger_health(admin->app));
	}
	call->request = request;
	request->call = call;
	request->phase = ADMIN_WAITING;
	call->deadline = usec_add(clock_boot(), admin->patience);
	call->task.run = on_answer;
	call->ledger.now = wall_clock_now(&admin->app->clock);
	call->ledger.post = on_posted;
	call->ledger.data = call;
	if (admin->calls == NULL)
		uv_timer_start(&admin->timer, on_tick, TICK_MS, TICK_MS);
	call->next = admin->calls;
	call->pprev = &admin->calls;
	if (call->next != NULL)
		call->next->pprev = &call->next;
	admin->calls = call;
	MHD_suspend_connection(request->connection);
	ledger_submit(ledger, &call->ledger);
	return MHD_YES;
}

/* --- requests ------------------------------------------------------------------------------------ */

static enum MHD_Result dispatch_change(struct admin_request *request, const char *method)
{
	if (!request->takes_body || strcmp(method, MHD_HTTP_METHOD_POST) != 0)
		return admin_reply_blank(request, MHD_HTTP_METHOD_NOT_ALLOWED,
					 "This path changes something: use POST");
	switch (admin_auth_check_change(&request->admin->auth, request->connection)) {
	case ADMIN_CHANGE_FOREIGN:
		return admin_reply_blank(request, MHD_HTTP_FORBIDDEN,
					 "A page of another origin may change nothing here");
	case ADMIN_CHANGE_NO_JSON:
		return admin_reply_blank(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
					 "Send the change as JSON with Content-Type: "
					 "application/json");
	case ADMIN_CHANGE_ALLOWED:
		break;
	}
	if (request->dropped > 0)
		return admin_reply_too_large(request, "A change is at most 64 KiB of JSON");
	return request->route->start(request);
}

static enum MHD_Result dispatch(struct admin_request *request, const char *method)
{
	const struct admin_route *route = admin_route_find(request->target);

	switch (admin_auth_check(&request->admin->auth, request->connection,
				 route != NULL && route->open)) {
	case ADMIN_WRONG_HOST:
		return admin_reply_blank(request, MHD_HTTP_FORBIDDEN,
					 "This listener answers to localhost and to addresses; use "
					 "one of them in the URL");
	case ADMIN_NO_TOKEN:
		return admin_reply_blank(request, MHD_HTTP_UNAUTHORIZED,
					 "Send the token of admin.token_file as Authorization: "
					 "Bearer TOKEN");
	case ADMIN_ALLOWED:
		break;
	}
	if (route == NULL)
		return admin_reply_blank(request, MHD_HTTP_NOT_FOUND,
					 "There is /healthz, /readyz, /metrics, /v1/operations, "
					 "/v1/operations/{provider}/{key}, its /release and "
					 "/v1/providers");
	request->route = route;
	if (route->changes)
		return dispatch_change(request, method);
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return admin_reply_blank(request, MHD_HTTP_METHOD_NOT_ALLOWED,
					 "This path is only read: use GET");
	return route->start(request);
}

static enum MHD_Result finish(struct admin_request *request)
{
	struct admin_call *call = request->call;
	enum MHD_Result result;

	request->call = NULL;
	request->answered = call;
	result = request->route->finish(request, call != NULL ? &call->ledger : NULL);
	request->answered = NULL;
	admin_call_free(call);
	return result;
}

/* Whether the method and the path are those of a change; what is said of others needs no body. */
static bool takes_body(const struct admin_request *request, const char *method)
{
	const struct admin_route *route = admin_route_find(request->target);

	return route != NULL && route->changes && strcmp(method, MHD_HTTP_METHOD_POST) == 0;
}

/* False: the connection is closed. */
static bool take_body(struct admin_request *request, const char *upload, size_t len)
{
	size_t need = request->body_len + len + 1;
	char *body;

	if (!request->takes_body || request->dropped > 0 || need > ADMIN_BODY_MAX + 1) {
		request->dropped += len;
		return request->dropped <= BODY_DROP_MAX;
	}
	body = realloc(request->body, need);
	if (body == NULL)
		return false;
	memcpy(body + request->body_len, upload, len);
	body[need - 1] = '\0';
	request->body = body;
	request->body_len = need - 1;
	return true;
}

/* The library asks once at the head, again for each piece of the body, once at its end, and once more
 * after a suspension. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **context)
{
	struct admin_request *request = *context;

	(void)data;
	(void)url;
	(void)version;
	if (request == NULL)
		return MHD_NO;
	switch (request->phase) {
	case ADMIN_HEAD:
		request->connection = connection;
		request->takes_body = takes_body(request, method);
		request->phase = ADMIN_BODY;
		return MHD_YES;
	case ADMIN_BODY:
		if (*upload_len == 0)
			return dispatch(request, method);
		if (!take_body(request, upload, *upload_len))
			return MHD_NO;
		*upload_len = 0;
		return MHD_YES;
	case ADMIN_FINISH:
		return finish(request);
	case ADMIN_WAITING:
		break;
	}
	return MHD_YES;
}

static void *on_target(void *data, const char *target, struct MHD_Connection *connection)
{
	size_t len = strlen(target);
	struct admin_request *request = calloc(1, sizeof(*request) + len + 1);

	(void)connection;
	if (request == NULL)
		return NULL;
	request->admin = data;
	memcpy(request->target, target, len + 1);
	return request;
}

static void on_completed(void *data, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct admin_request *request = *context;

	(void)data;
	(void)connection;
	(void)code;
	*context = NULL;
	if (request == NULL)
		return;
	if (request->call != NULL && request->call->pprev != NULL)
		request->call->request = NULL; /* still out; freed when it comes back */
	else
		admin_call_free(request->call);
	free(request->body);
	free(request);
}

/* --- start and end ------------------------------------------------------------------------------- */

static void admin_free(struct admin *admin)
{
	(void)front_sockets_unref(admin->sockets);
	admin_auth_done(&admin->auth);
	free(admin);
}

static int start_daemon(struct admin *admin, int fd, char *error, size_t error_len)
{
	const char *where = admin->app->config->admin_listen.text;
	int rc;

	admin->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, admin,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, on_target, admin,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, admin, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)CONNECTION_IDLE_S, MHD_OPTION_END);
	if (admin->daemon == NULL) {
		(void)snprintf(error, error_len, "cannot serve admin.listen on %s", where);
		return -1;
	}
	rc = mhd_loop_start(&admin->loop, &admin->app->control, admin->daemon);
	if (rc == 0)
		return 0;
	(void)snprintf(error, error_len, "cannot watch admin.listen on %s: %s", where,
		       uv_strerror(rc));
	MHD_stop_daemon(admin->daemon);
	return -1;
}

int admin_new(struct app *app, char *error, size_t error_len, struct admin **ret_admin)
{
	struct admin *admin = calloc(1, sizeof(*admin));
	int fd;

	(void)snprintf(error, error_len, "out of memory");
	if (admin == NULL)
		return -1;
	admin->app = app;
	admin->patience = PATIENCE;
	admin->sockets = front_sockets_new();
	if (admin->sockets == NULL ||
	    admin_auth_init(&admin->auth, app->config, error, error_len) != 0)
		goto fail;
	fd = front_listen_open(admin->sockets, &app->config->admin_listen, false, error, error_len);
	if (fd < 0 || start_daemon(admin, fd, error, error_len) != 0)
		goto fail;
	uv_timer_init(&app->control.uv, &admin->timer);
	admin->timer.data = admin;
	*ret_admin = admin;
	return 0;
fail:
	admin_free(admin);
	return -1;
}

static void maybe_closed(struct admin *admin)
{
	void (*closed)(void *data) = admin->closed;
	void *data = admin->data;

	if (admin->open > 0 || admin->calls != NULL)
		return;
	admin_free(admin);
	closed(data);
}

static void on_loop_closed(void *data)
{
	struct admin *admin = data;

	admin->open--;
	maybe_closed(admin);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_loop_closed(handle->data);
}

void admin_close(struct admin *admin, void (*closed)(void *data), void *data)
{
	MHD_socket fd;

	if (admin == NULL) {
		closed(data);
		return;
	}
	admin->closing = true;
	admin->closed = closed;
	admin->data = data;
	admin->open = 2;
	fd = MHD_quiesce_daemon(admin->daemon);
	for (struct admin_call *call = admin->calls; call != NULL; call = call->next) {
		if (call->request != NULL)
			give_up(call);
	}
	(void)MHD_run(admin->daemon); /* the answers of those */
	mhd_loop_stop(&admin->loop, on_loop_closed, admin);
	MHD_stop_daemon(admin->daemon);
	if (fd != MHD_INVALID_SOCKET)
		(void)close(fd);
	uv_close((uv_handle_t *)&admin->timer, on_timer_closed);
}
