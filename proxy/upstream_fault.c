/* libcurl's result codes by phase. Before the pre-request callback everything is "not sent", and the
 * code says which side failed; after it the code says little (a send error, a TLS alert and a reset
 * are all "the connection broke"), and what counts is how much of the reply had come. */
#include "proxy/upstream_private.h"

#define TOO_LARGE 100 /* CURLE_TOO_LARGE, named since libcurl 8.6 */

static enum fault unsent_fault(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return FAULT_RESOLVE;
	case CURLE_COULDNT_CONNECT:
	case CURLE_INTERFACE_FAILED:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
		return FAULT_CONNECT;
	case CURLE_OPERATION_TIMEDOUT:
		return FAULT_CONNECT_TIMEOUT;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_SSL_ENGINE_NOTFOUND:
	case CURLE_SSL_ENGINE_SETFAILED:
	case CURLE_SSL_ENGINE_INITFAILED:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CIPHER:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_USE_SSL_FAILED:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_SHUTDOWN_FAILED:
	case CURLE_SSL_CRL_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_SSL_CLIENTCERT:
		return FAULT_TLS;
	default:
		return FAULT_LOCAL;
	}
}

static enum fault unanswered_fault(CURLcode code)
{
	switch (code) {
	case CURLE_OK: /* closed inside the head: libcurl takes that for a whole reply */
	case CURLE_GOT_NOTHING:
		return FAULT_CLOSED;
	case CURLE_OPERATION_TIMEDOUT:
		return FAULT_TIMEOUT;
	case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, other versions */
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_BAD_CONTENT_ENCODING:
	case CURLE_BAD_FUNCTION_ARGUMENT: /* libcurl's header store refuses a line */
		return FAULT_PROTOCOL;
	case CURLE_OUT_OF_MEMORY:
		return FAULT_LOCAL;
	default:
		return FAULT_RESET;
	}
}

enum fault fault_from_curl(CURLcode code, const struct fault_context *context)
{
	enum fault fault;

	if (!context->sent)
		return unsent_fault(code);
	if (context->head_done)
		return code == CURLE_OK ? FAULT_NONE : FAULT_CUT;
	/* It has been sent and libcurl looks for a connection: it wants to send again. */
	if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
		return FAULT_HIDDEN_RESEND;
	/* libcurl's bound for one line (100 kB) is above ours for the whole head. */
	if (context->head_began && (code == CURLE_OUT_OF_MEMORY || (int)code == TOO_LARGE))
		return FAULT_HEAD_TOO_LARGE;
	fault = (int)code == TOO_LARGE ? FAULT_PROTOCOL : unanswered_fault(code);
	if (context->head_began && (fault == FAULT_CLOSED || fault == FAULT_RESET))
		return FAULT_CUT;
	return fault;
}
