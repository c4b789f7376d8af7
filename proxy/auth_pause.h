/* auth.pause_after: credentials that a provider keeps refusing, so that no more deliveries are spent
 * on them. Per provider and per credential (HMAC), in memory, of bounded size. */
#ifndef STINT_PROXY_AUTH_PAUSE_H
#define STINT_PROXY_AUTH_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "budget/operation.h"

#define AUTH_PAUSE_TIME USEC_MIN /* until a probe may ask whether the credential is good again */
/* A table of AUTH_PAUSE_SETS sets with AUTH_PAUSE_WAYS credentials each. In a full set the one that
 * was met last longest ago gives way, those that are paused after all others. */
#define AUTH_PAUSE_SETS 128
#define AUTH_PAUSE_WAYS 8

struct auth_pause;

/* What a verdict says about the credential that the attempt carried. */
enum auth_report {
	AUTH_REPORT_NOTHING, /* not sent, no answer, an answer that may come from in front of the check */
	AUTH_REPORT_REFUSED,  /* class auth */
	AUTH_REPORT_ACCEPTED, /* the provider went on to the request itself */
};

/* `after`: refusals in a row that pause a credential, at least 1. NULL: out of memory. Every function
 * may be called from any thread; `now` is of one clock that never goes back. */
struct auth_pause *auth_pause_new(int after);
void auth_pause_free(struct auth_pause *pause); /* NULL is fine */

/* Whether a delivery with this credential may start. True with *ret_probe 0: it is not paused. True
 * with another number: it is, and this is the one probe that may go; that is given back by
 * auth_pause_probe_back() whatever became of it. */
bool auth_pause_enter(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN],
		      usec_t now, uint64_t *ret_probe);
void auth_pause_probe_back(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN],
			   uint64_t probe);

enum auth_report auth_report_of(const struct verdict *verdict);
/* What an attempt showed. Accepted: the row of refusals begins anew and the pause ends. Refused: it
 * counts, and at the limit pauses the credential (again) for AUTH_PAUSE_TIME; one that is paused is
 * not paused for longer by what was under way. Nothing: changes nothing. */
void auth_pause_report(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN],
		       enum auth_report report, usec_t now);
/* A person released an operation that this credential was refused for. */
void auth_pause_lift(struct auth_pause *pause, const uint8_t credential[OP_CREDENTIAL_LEN]);

/* How many credentials are paused now; NULL: 0. */
int auth_pause_count(struct auth_pause *pause);

#endif
