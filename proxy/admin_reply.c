#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/admin_json.h"
#include "proxy/admin_private.h"
#include "proxy/problem.h"

/* Where the ledger may be back. */
#define RETRY_AFTER "5"

static enum MHD_Result reply(struct admin_request *request, unsigned status, const char *type,
			     char *body, size_t len)
{
	struct MHD_Response *response;
	enum MHD_Result result;

	if (body == NULL)
		return MHD_NO;
	response = MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_FREE);
	if (response == NULL) {
		free(body);
		return MHD_NO;
	}
	/* A header that there is no memory for does not make the answer worse than none. */
	(void)MHD_add_response_header(response, "Content-Type", type);
	(void)MHD_add_response_header(response, "Cache-Control", "no-store");
	(void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (status == MHD_HTTP_UNAUTHORIZED)
		(void)MHD_add_response_header(response, "WWW-Authenticate",
					      "Bearer realm=\"stint\"");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		(void)MHD_add_response_header(
			response, "Allow",
			request->route != NULL && request->route->changes ? "POST" : "GET, HEAD");
	if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
		(void)MHD_add_response_header(response, "Retry-After", RETRY_AFTER);
	result = MHD_queue_response(request->connection, status, response);
	MHD_destroy_response(response);
	return result;
}

enum MHD_Result admin_reply_text(struct admin_request *request, unsigned status, const char *type,
				 char *body, size_t len)
{
	return reply(request, status, type, body, len);
}

static enum MHD_Result reply_value(struct admin_request *request, unsigned status, const char *type,
				   json_t *value)
{
	char *body = value != NULL ? json_dumps(value, ADMIN_JSON_FLAGS) : NULL;

	json_decref(value);
	return reply(request, status, type, body, body != NULL ? strlen(body) : 0);
}

enum MHD_Result admin_reply_json(struct admin_request *request, unsigned status, json_t *value)
{
	return reply_value(request, status, "application/json", value);
}

static const char *status_title(unsigned status)
{
	switch (status) {
	case MHD_HTTP_UNAUTHORIZED:
		return "Unauthorized";
	case MHD_HTTP_FORBIDDEN:
		return "Forbidden";
	case MHD_HTTP_NOT_FOUND:
		return "Not Found";
	case MHD_HTTP_METHOD_NOT_ALLOWED:
		return "Method Not Allowed";
	case MHD_HTTP_CONFLICT:
		return "Conflict";
	case MHD_HTTP_UNSUPPORTED_MEDIA_TYPE:
		return "Unsupported Media Type";
	case MHD_HTTP_PRECONDITION_REQUIRED:
		return "Precondition Required";
	default:
		return "Error";
	}
}

/* NULL: out of memory. */
static json_t *blank(unsigned status, const char *detail)
{
	json_t *value = json_object();

	if (value != NULL && admin_set_text(value, "type", "about:blank") &&
	    admin_set_text(value, "title", status_title(status)) &&
	    admin_set_number(value, "status", (int64_t)status) &&
	    admin_set_text(value, "detail", detail))
		return value;
	json_decref(value);
	return NULL;
}

enum MHD_Result admin_reply_blank(struct admin_request *request, unsigned status,
				  const char *detail)
{
	return reply_value(request, status, PROBLEM_CONTENT_TYPE, blank(status, detail));
}

enum MHD_Result admin_reply_conflict(struct admin_request *request, const struct ledger_row *row,
				     const char *detail)
{
	json_t *value = blank(MHD_HTTP_CONFLICT, detail);
	char version[ADMIN_VERSION_MAX];

	admin_version(&row->op, version);
	if (value == NULL || !admin_set_text(value, "provider", row->provider) ||
	    !admin_set_text(value, "key", row->key) ||
	    !admin_set_text(value, "state", op_state_name(row->op.state)) ||
	    !admin_set_text(value, "version", version)) {
		json_decref(value);
		return MHD_NO;
	}
	return reply_value(request, MHD_HTTP_CONFLICT, PROBLEM_CONTENT_TYPE, value);
}

static enum MHD_Result reply_problem(struct admin_request *request, enum problem_type type,
				     const char *detail)
{
	struct problem problem;
	size_t len = 0;
	char *body;

	problem_init(&problem, type, detail);
	body = problem_json(&problem, &len);
	return reply(request, (unsigned)problem_status(&problem), PROBLEM_CONTENT_TYPE, body, len);
}

enum MHD_Result admin_reply_bad(struct admin_request *request, const char *detail)
{
	return reply_problem(request, PROBLEM_BAD_REQUEST, detail);
}

enum MHD_Result admin_reply_too_large(struct admin_request *request, const char *detail)
{
	return reply_problem(request, PROBLEM_BODY_TOO_LARGE, detail);
}

enum MHD_Result admin_reply_away(struct admin_request *request, const char *why)
{
	char detail[512];

	(void)snprintf(detail, sizeof(detail),
		       "The ledger cannot be read: %s. Ask again when it can; /readyz says so",
		       why != NULL && why[0] != '\0' ? why : "it is not open");
	return reply_problem(request, PROBLEM_LEDGER_AWAY, detail);
}
