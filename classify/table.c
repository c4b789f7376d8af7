#include "classify/table.h"

enum effect table_effect(enum outcome_class class)
{
	switch (class) {
	case CLASS_SUCCESS:
		return EFFECT_DEFINITE;
	case CLASS_INVALID:
	case CLASS_AUTH:
	case CLASS_QUOTA:
	case CLASS_RATE_LIMITED:
	case CLASS_TRANSIENT:
	case CLASS_DEFERRED:
		return EFFECT_NONE;
	case CLASS_NONE:
	case CLASS_UNKNOWN:
	case CLASS_COUNT:
		break;
	}
	return EFFECT_POSSIBLE;
}

bool table_pair_legal(enum outcome_class class, enum effect effect)
{
	if (class <= CLASS_NONE || class >= CLASS_COUNT)
		return false;
	return effect == table_effect(class);
}

bool table_may_repeat(enum outcome_class class)
{
	return class == CLASS_RATE_LIMITED || class == CLASS_TRANSIENT || class == CLASS_DEFERRED ||
	       class == CLASS_UNKNOWN;
}

static enum outcome_class client_error(int status, bool retry_after)
{
	switch (status) {
	case 401:
	case 407:
		return CLASS_AUTH;
	case 403:
		return retry_after ? CLASS_RATE_LIMITED : CLASS_AUTH;
	case 413:
		return retry_after ? CLASS_RATE_LIMITED : CLASS_INVALID;
	case 429:
		return CLASS_RATE_LIMITED;
	case 408: /* Request Timeout: the server gave up reading (RFC 9110 section 15.5.9) */
	case 421: /* Misdirected Request: another connection may do (section 15.5.20) */
	case 423: /* Locked (RFC 4918 section 11.3) */
	case 425: /* Too Early: not processed (RFC 8470 section 5.2) */
		return CLASS_TRANSIENT;
	default:
		return CLASS_INVALID;
	}
}

enum outcome_class table_status(int status, bool retry_after)
{
	if (status >= 200 && status <= 399)
		return CLASS_SUCCESS;
	if (status >= 400 && status <= 499)
		return client_error(status, retry_after);
	switch (status) {
	case 501: /* Not Implemented */
	case 505: /* HTTP Version Not Supported */
		return CLASS_INVALID;
	case 511: /* Network Authentication Required: a portal answered (RFC 6585 section 6) */
		return CLASS_TRANSIENT;
	default:
		return CLASS_UNKNOWN;
	}
}

enum outcome_class table_fault(enum fault fault, bool sent, int status)
{
	if (!sent)
		return CLASS_TRANSIENT;
	/* RFC 9113 section 8.7: closed before any processing. After a reply's head the two
	 * contradict each other, and then nothing is proven. */
	if (fault == FAULT_REFUSED_STREAM && status == 0)
		return CLASS_TRANSIENT;
	return CLASS_UNKNOWN;
}

const char *table_fault_reason(enum fault fault, int status)
{
	switch (fault) {
	case FAULT_CUT:
		return "response-cut";
	case FAULT_RESET:
	case FAULT_CLOSED:
	case FAULT_PROTOCOL:
	case FAULT_REFUSED_STREAM:
		return status != 0 ? "response-cut" : fault_name(fault);
	default:
		return fault_name(fault);
	}
}
