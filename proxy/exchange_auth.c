/* An exchange and auth.pause_after: whether its credential may be used, and what its attempts say of
 * it (auth_pause.h). All of it is off, and no credential is hashed for it, unless it is configured. */
#include "proxy/auth_pause.h"
#include "proxy/exchange_internal.h"

static bool is_watched(struct exchange *x)
{
	if (x->provider->auth_pause == NULL || x->off)
		return false;
	exchange_set_credential(x);
	return x->delivery.has_credential;
}

bool exchange_auth_may_start(struct exchange *x)
{
	return x->auth_probe != 0 || !is_watched(x) ||
	       auth_pause_enter(x->provider->auth_pause, x->delivery.credential, clock_boot(),
				&x->auth_probe);
}

void exchange_auth_report(struct exchange *x, const struct verdict *verdict)
{
	if (is_watched(x))
		auth_pause_report(x->provider->auth_pause, x->delivery.credential,
				  auth_report_of(verdict), clock_boot());
}

void exchange_auth_end(struct exchange *x)
{
	if (x->auth_probe == 0)
		return;
	auth_pause_probe_back(x->provider->auth_pause, x->delivery.credential, x->auth_probe);
	x->auth_probe = 0;
}

void exchange_auth_refuse(struct exchange *x)
{
	const struct delivery_action refusal = {.answer = ANSWER_PROBLEM,
						.problem = "paused",
						.status = 503,
						.reason = "auth-paused",
						.retry_after = AUTH_PAUSE_TIME};

	if (x->answered)
		return;
	x->answered = true;
	exchange_answer(x, &refusal);
}
