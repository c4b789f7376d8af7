/* GET /v1/operations and GET /v1/operations/{provider}/{key}: a question to the ledger, and its
 * answer as JSON. */
#include <string.h>

#include "proxy/admin_json.h"
#include "proxy/admin_private.h"

#define TOO_LATE "it does not answer in time"

/* Begins a question, if the query is good. NULL: *ret_result is what became of the request. */
static struct admin_call *begin(struct admin_request *request, enum ledger_verb verb,
				unsigned takes, enum MHD_Result *ret_result)
{
	struct admin_call *call = admin_call_new(request, verb);
	char detail[ADMIN_DETAIL_MAX];

	*ret_result = MHD_NO;
	if (call == NULL)
		return NULL;
	switch (admin_query_read(request->target, takes, &call->query, detail)) {
	case ADMIN_QUERY_OK:
		return call;
	case ADMIN_QUERY_BAD:
		*ret_result = admin_reply_bad(request, detail);
		break;
	case ADMIN_QUERY_NO_MEMORY:
		break;
	}
	admin_call_free(call);
	return NULL;
}

/* --- the list ------------------------------------------------------------------------------------ */

enum MHD_Result admin_operations_start(struct admin_request *request)
{
	char detail[ADMIN_DETAIL_MAX];
	enum MHD_Result result;
	struct admin_call *call = begin(request, LEDGER_LIST, ADMIN_LIST_TAKES, &result);

	if (call == NULL)
		return result;
	if (!admin_query_filter(&call->query, &call->ledger.filter, detail)) {
		result = admin_reply_bad(request, detail);
		admin_call_free(call);
		return result;
	}
	return admin_ask(request, call);
}

static json_t *list_json(const struct ledger_request *ledger)
{
	json_t *object = json_object(), *list = json_array();
	bool ok = object != NULL && list != NULL;

	for (size_t i = 0; ok && i < ledger->row_count; i++)
		ok = json_array_append_new(list, admin_operation_json(&ledger->rows[i], false)) ==
		     0;
	ok = ok && json_object_set(object, "operations", list) == 0 &&
	     admin_set(object, "next",
		       ledger->cursor != NULL ? json_string(ledger->cursor) : json_null());
	json_decref(list);
	if (ok)
		return object;
	json_decref(object);
	return NULL;
}

enum MHD_Result admin_operations_finish(struct admin_request *request,
					const struct ledger_request *ledger)
{
	if (ledger == NULL)
		return admin_reply_away(request, TOO_LATE);
	switch (ledger->result) {
	case LEDGER_OK:
		return admin_reply_json(request, MHD_HTTP_OK, list_json(ledger));
	case LEDGER_ABSENT:
	case LEDGER_CONFLICT:
		return admin_reply_bad(request, "cursor must be the \"next\" of an earlier answer");
	default:
		return admin_reply_away(request, ledger->error);
	}
}

/* --- one operation ------------------------------------------------------------------------------- */

static bool read_name(struct admin_request *request, struct admin_call *call, const char **ret_bad)
{
	*ret_bad = NULL;
	if (!admin_path_segment(request->target, 2, &call->provider))
		*ret_bad = "provider in the path is not encoded as it must be: use %XX";
	else if (!admin_path_segment(request->target, 3, &call->key))
		*ret_bad = "key in the path is not encoded as it must be: use %XX";
	else if (call->provider != NULL && call->key != NULL &&
		 !op_key_is_valid(call->key, strlen(call->key)))
		*ret_bad = "key in the path must be 1 to 255 visible ASCII characters";
	return *ret_bad == NULL && call->provider != NULL && call->key != NULL;
}

struct admin_call *admin_operation_call(struct admin_request *request, enum MHD_Result *ret_result)
{
	struct admin_call *call = begin(request, LEDGER_GET, ADMIN_GET_TAKES, ret_result);
	const char *tenant, *scope, *bad;

	if (call == NULL)
		return NULL;
	if (!read_name(request, call, &bad)) {
		*ret_result = bad != NULL ? admin_reply_bad(request, bad) : MHD_NO;
		admin_call_free(call);
		return NULL;
	}
	tenant = call->query.text[ADMIN_TENANT];
	scope = call->query.text[ADMIN_SCOPE];
	call->ledger.name = (struct op_name){
		.provider = call->provider,
		.tenant = tenant != NULL ? tenant : "",
		.scope = scope != NULL ? scope : "",
		.key = call->key,
	};
	call->ledger.filter.want_notes = true;
	return call;
}

enum MHD_Result admin_operation_start(struct admin_request *request)
{
	enum MHD_Result result;
	struct admin_call *call = admin_operation_call(request, &result);

	return call != NULL ? admin_ask(request, call) : result;
}

enum MHD_Result admin_operation_absent(struct admin_request *request)
{
	return admin_reply_blank(
		request, MHD_HTTP_NOT_FOUND,
		"There is no such operation; tenant and scope are part of its name "
		"and go into the query");
}

enum MHD_Result admin_operation_finish(struct admin_request *request,
				       const struct ledger_request *ledger)
{
	if (ledger == NULL)
		return admin_reply_away(request, TOO_LATE);
	switch (ledger->result) {
	case LEDGER_OK:
		return admin_reply_json(request, MHD_HTTP_OK,
					admin_operation_json(&ledger->found, true));
	case LEDGER_ABSENT:
	case LEDGER_CONFLICT:
		return admin_operation_absent(request);
	default:
		return admin_reply_away(request, ledger->error);
	}
}
