/* The limits of one attempt, as one timer. It is armed for the earliest limit when that moves closer
 * and left alone when it moves away: a fired timer looks again. A request that goes well starts and
 * stops it once. */
#include "proxy/upstream_private.h"

#include "proxy/clock.h"

static void earlier(usec_t at, enum fault fault, usec_t *best, enum fault *best_fault)
{
	if (at >= *best)
		return;
	*best = at;
	*best_fault = fault;
}

/* Monotonic time from `from`: a value at or below zero is over at once, never without limit. */
static usec_t until(usec_t from, usec_t limit)
{
	return usec_add(from, usec_max(limit, 0));
}

bool limit_uploaded(const struct transfer *transfer)
{
	if (!transfer->attempt->sent || !transfer->now.body_eof)
		return false;
	/* libcurl holds up to 64 KiB of what it has read: it waits for the socket to take them. */
	return transfer->socket == NULL || (transfer->socket->wanted & UV_WRITABLE) == 0;
}

usec_t limit_next(struct transfer *transfer, enum fault *ret_fault)
{
	const struct attempt *attempt = transfer->attempt;
	const struct policy *policy = &attempt->provider->policy;
	usec_t at = attempt->limit;

	*ret_fault = attempt->limit_fault;
	earlier(until(attempt->started, policy->attempt_total), FAULT_TOTAL, &at, ret_fault);
	if (!attempt->sent) {
		earlier(until(attempt->started, policy->attempt_connect), FAULT_CONNECT_TIMEOUT,
			&at, ret_fault);
		earlier(attempt->unsent_limit, FAULT_DEADLINE, &at, ret_fault);
		return at;
	}
	/* Paused by us: the owner's buffer is full, or its caller has not uploaded more yet. */
	if (transfer->now.write_paused || transfer->now.read_paused)
		return at;
	if (transfer->now.head.state != HEAD_DONE && limit_uploaded(transfer))
		earlier(until(transfer->now.activity, policy->attempt_timeout), FAULT_TIMEOUT, &at,
			ret_fault);
	else
		earlier(until(transfer->now.activity, policy->attempt_idle), FAULT_IDLE, &at,
			ret_fault);
	return at;
}

bool limit_spent(const struct attempt *attempt, usec_t now, enum fault *ret_fault)
{
	const struct policy *policy = &attempt->provider->policy;
	usec_t at = attempt->limit;

	*ret_fault = attempt->limit_fault;
	earlier(attempt->unsent_limit, FAULT_DEADLINE, &at, ret_fault);
	earlier(until(now, policy->attempt_total), FAULT_TOTAL, &at, ret_fault);
	earlier(until(now, policy->attempt_connect), FAULT_CONNECT_TIMEOUT, &at, ret_fault);
	earlier(until(now, policy->attempt_timeout), FAULT_TIMEOUT, &at, ret_fault);
	earlier(until(now, policy->attempt_idle), FAULT_IDLE, &at, ret_fault);
	return at <= now;
}

static void timer_start(struct transfer *transfer, usec_t at, usec_t now);

static void timer_fired(uv_timer_t *timer)
{
	struct transfer *transfer = timer->data;
	usec_t now = clock_boot(), at;
	enum fault fault;

	transfer->timer_at = USEC_MAX;
	if (transfer->attempt == NULL || transfer->now.finished || transfer->now.ending)
		return;
	at = limit_next(transfer, &fault);
	if (at > now) {
		transfer->now.last_look = false;
		timer_start(transfer, at, now);
		return;
	}
	/* After a long turn of the loop the reply may wait in the socket: an answer that is here is
	 * worth more than "unknown". uv polls the sockets once before it fires a timer of 1 ms. */
	if (transfer->attempt->sent && !transfer->now.last_look) {
		transfer->now.last_look = true;
		timer_start(transfer, now, now);
		return;
	}
	transfer_end(transfer, fault);
}

static void timer_start(struct transfer *transfer, usec_t at, usec_t now)
{
	uint64_t ms = 1;

	/* Rounded up: never early. A wait beyond a day is looked at once a day. */
	if (at > now)
		ms = (uint64_t)(usec_min(at - now, USEC_DAY) + USEC_MS - 1) / (uint64_t)USEC_MS;
	transfer->timer_at = usec_max(at, now);
	uv_timer_start(&transfer->timer, timer_fired, ms, 0);
}

void limit_arm_at(struct transfer *transfer, usec_t at)
{
	if (at < transfer->timer_at)
		timer_start(transfer, at, clock_boot());
}

void limit_arm(struct transfer *transfer)
{
	enum fault fault;

	limit_arm_at(transfer, limit_next(transfer, &fault));
}

void limit_stop(struct transfer *transfer)
{
	uv_timer_stop(&transfer->timer);
	transfer->timer_at = USEC_MAX;
	transfer->now.last_look = false;
}
