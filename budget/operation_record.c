/* The operation's record: its set, its ring, its names, its invariants. Nothing here moves it. */
#include "budget/operation_step.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* --- names and methods ---------------------------------------------------------------------- */

static const char *const state_names[OP_STATE_COUNT] = {
#define X(id, text) [OP_##id] = (text),
	OP_STATES(X)
#undef X
};

const char *op_state_name(enum op_state state)
{
	return (unsigned)state < OP_STATE_COUNT ? state_names[state] : "other";
}

bool op_state_parse(const char *text, enum op_state *ret_state)
{
	for (int i = 0; i < OP_STATE_COUNT; i++) {
		if (strcmp(text, state_names[i]) == 0) {
			*ret_state = (enum op_state)i;
			return true;
		}
	}
	return false;
}

bool op_method_is_safe(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
	       strcmp(method, "OPTIONS") == 0;
}

bool op_method_is_idempotent(const char *method)
{
	return op_method_is_safe(method) || strcmp(method, "PUT") == 0 ||
	       strcmp(method, "DELETE") == 0 || strcmp(method, "TRACE") == 0;
}

enum repeat_rule op_repeat_rule(const struct policy *policy, const char *method)
{
	if (op_method_is_safe(method))
		return REPEAT_ALWAYS;
	if (policy->repeat_any_time && op_method_is_idempotent(method))
		return REPEAT_ALWAYS;
	if (policy->forwards_key && policy->key_retention > 0)
		return REPEAT_RETENTION;
	if (policy->forwards_key || op_method_is_idempotent(method))
		return REPEAT_WITHIN_HOLD;
	return REPEAT_NEVER;
}

/* --- the set of unresolved attempts ---------------------------------------------------------- */

bool op_set_has(const struct op_set *set, int n)
{
	if (n < 1 || n > ATTEMPTS_CEILING)
		return false;
	return (set->bits[(n - 1) / 64] >> ((n - 1) % 64) & 1) != 0;
}

void op_set_add(struct op_set *set, int n)
{
	assert(n >= 1 && n <= ATTEMPTS_CEILING);
	if (n >= 1 && n <= ATTEMPTS_CEILING)
		set->bits[(n - 1) / 64] |= UINT64_C(1) << ((n - 1) % 64);
}

void op_set_remove(struct op_set *set, int n)
{
	if (n >= 1 && n <= ATTEMPTS_CEILING)
		set->bits[(n - 1) / 64] &= ~(UINT64_C(1) << ((n - 1) % 64));
}

int op_set_count(const struct op_set *set)
{
	int count = 0;

	/* Each turn takes the lowest bit away. The compiler's own count may call libgcc. */
	for (int i = 0; i < 2; i++) {
		for (uint64_t bits = set->bits[i]; bits != 0; bits &= bits - 1)
			count++;
	}
	return count;
}

bool op_step_empty_by_hand(struct op *op, int n)
{
	bool had = false;

	for (int i = 1; i <= n && i <= ATTEMPTS_CEILING; i++) {
		had = had || op_set_has(&op->unresolved, i);
		op_set_remove(&op->unresolved, i);
	}
	if (had)
		op->settled_by_hand = true;
	return had;
}

/* --- questions ------------------------------------------------------------------------------- */

bool op_is_terminal(const struct op *op)
{
	return op->state == OP_SUCCEEDED || op->state == OP_FAILED || op->state == OP_EXHAUSTED;
}

bool op_repeat_is_safe(const struct op *op, usec_t at)
{
	return op_set_count(&op->unresolved) == 0 || at < op->repeat_until;
}

/* --- attempts -------------------------------------------------------------------------------- */

static int slot_of(int n)
{
	return (n - 1) % OP_RING;
}

const struct op_attempt *op_find_attempt(const struct op *op, int n)
{
	const struct op_attempt *entry;

	if (n < 1 || n > ATTEMPTS_CEILING)
		return NULL;
	entry = &op->ring[slot_of(n)];
	return entry->n == n ? entry : NULL;
}

int op_running(const struct op *op)
{
	for (int i = 0; op->state == OP_ATTEMPTING && i < OP_RING; i++) {
		if (op->ring[i].n != 0 && op->ring[i].class == CLASS_NONE)
			return op->ring[i].n;
	}
	return 0;
}

struct op_attempt *op_step_attempt(struct op *op, int n)
{
	return op_find_attempt(op, n) ? &op->ring[slot_of(n)] : NULL;
}

struct op_attempt *op_step_attempt_of(struct op *op, const uint8_t *token)
{
	for (int i = 0; i < OP_RING; i++) {
		if (op->ring[i].n != 0 && memcmp(op->ring[i].token, token, OP_TOKEN_LEN) == 0)
			return &op->ring[i];
	}
	return NULL;
}

int op_step_highest(const struct op *op)
{
	int highest = op->attempts;

	if (op->last_n > highest)
		highest = op->last_n;
	if (op->generation_first > highest)
		highest = op->generation_first;
	for (int i = 0; i < OP_RING; i++) {
		if (op->ring[i].n > highest)
			highest = op->ring[i].n;
	}
	for (int n = highest + 1; n <= ATTEMPTS_CEILING; n++) {
		if (op_set_has(&op->unresolved, n))
			highest = n;
	}
	return highest;
}

void op_step_record(struct op_attempt *entry, const struct verdict *verdict, usec_t now)
{
	usec_t ms = now > entry->start ? (now - entry->start) / USEC_MS : 0;

	entry->ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
	entry->status = (uint16_t)verdict->status;
	entry->class = (uint8_t)verdict->class;
	entry->effect = (uint8_t)verdict->effect;
	entry->fault = (uint8_t)verdict->fault;
	entry->has_verdict = true;
}

/* --- the last verdict ------------------------------------------------------------------------ */

void op_step_take_verdict(struct op *op, int n, const struct verdict *verdict,
			  const uint8_t *credential)
{
	op->last_n = n;
	op->class = verdict->class;
	op->effect = verdict->effect;
	op->fault = verdict->fault;
	op->status = verdict->status;
	op->retry_never = verdict->retry_never;
	memcpy(op->reason, verdict->reason, sizeof(op->reason));
	op->reason[sizeof(op->reason) - 1] = '\0';

	memset(op->credential, 0, sizeof(op->credential));
	if (verdict->class == CLASS_AUTH && credential)
		memcpy(op->credential, credential, sizeof(op->credential));
}

void op_step_restore_verdict(struct op *op)
{
	struct verdict verdict = {.class = CLASS_NONE, .advice = -1, .rule_wait = -1};
	const struct op_attempt *best = NULL;

	for (int i = 0; i < OP_RING; i++) {
		const struct op_attempt *entry = &op->ring[i];

		if (entry->n != 0 && entry->class != CLASS_NONE && (!best || entry->n > best->n))
			best = entry;
	}
	if (!best) {
		op_step_take_verdict(op, 0, &verdict, NULL);
		return;
	}
	verdict.class = best->class;
	verdict.effect = best->effect;
	verdict.fault = best->fault;
	verdict.status = best->status;
	/* The ring keeps no reason: the status or the fault says it without the rule's name. No
	 * `retry: never` either: no attempt followed one, but after a reopen set it aside. */
	if (best->status)
		snprintf(verdict.reason, sizeof(verdict.reason), "status-%u", best->status);
	else if (!best->has_verdict)
		snprintf(verdict.reason, sizeof(verdict.reason), "lease-expired");
	else
		snprintf(verdict.reason, sizeof(verdict.reason), "%s", fault_name(verdict.fault));
	op_step_take_verdict(op, best->n, &verdict, NULL);
}

void op_step_already_gone(const struct op *op, const struct op_event *event, int n,
			  struct verdict *verdict)
{
	int others = op_set_count(&op->unresolved) - (op_set_has(&op->unresolved, n) ? 1 : 0);

	if (!event->is_delete || verdict->effect != EFFECT_NONE || verdict->fault != FAULT_NONE ||
	    (verdict->status != 404 && verdict->status != 410) || others == 0)
		return;
	verdict->class = CLASS_SUCCESS;
	verdict->effect = EFFECT_DEFINITE;
	verdict->retry_never = false;
	snprintf(verdict->reason, sizeof(verdict->reason), "already-gone");
}

unsigned op_step_take_success(struct op *op, const struct op_event *event)
{
	bool second = op->class == CLASS_SUCCESS;
	unsigned notes = 0;

	if (second && !(op->success_repeatable && event->repeatable))
		notes = OP_NOTE_DUPLICATE_EFFECT;
	op->success_repeatable = event->repeatable && (!second || op->success_repeatable);
	return notes;
}

void op_step_remote_id(struct op *op, const char *remote_id)
{
	if (remote_id && remote_id[0])
		snprintf(op->remote_id, sizeof(op->remote_id), "%s", remote_id);
}

void op_step_dispute(struct op *op, unsigned *notes)
{
	if (!op->disputed)
		*notes |= OP_NOTE_DISPUTED;
	op->disputed = true;
}

void op_step_uncharge(struct op *op)
{
	assert(op->attempts > 0);
	op->attempts--;
	if (op->attempts == 0) {
		op->deadline = 0;
		op->repeat_until = 0;
	}
}

/* Rules and table promise legal pairs only; a stored finding might hold anything. */
bool op_step_is_legal(const struct verdict *verdict)
{
	switch (verdict->class) {
	case CLASS_SUCCESS:
		return verdict->effect == EFFECT_DEFINITE;
	case CLASS_UNKNOWN:
		return verdict->effect == EFFECT_POSSIBLE;
	case CLASS_NONE:
	case CLASS_COUNT:
		return false;
	default:
		return verdict->effect == EFFECT_NONE;
	}
}

/* --- invariants ------------------------------------------------------------------------------ */

static const char *check_counts(const struct op *op)
{
	if (op->limit < 1 || op->limit > ATTEMPTS_CEILING)
		return "limit outside 1 to 100";
	if (op->attempts < 0 || op->attempts > op->limit)
		return "attempts outside 0 to limit";
	if (op_set_count(&op->unresolved) > op->attempts)
		return "more unresolved than attempts";
	if (op->unresolved.bits[1] >> (ATTEMPTS_CEILING - 64) != 0)
		return "unresolved attempt beyond 100";
	if ((op->attempts == 0) != (op->deadline == 0))
		return "a window without a charge, or a charge without a window";
	if (op->last_n < 0 || op->last_n > ATTEMPTS_CEILING || op->generation_first < 0 ||
	    op->generation_first > ATTEMPTS_CEILING)
		return "attempt number outside 0 to 100";
	return NULL;
}

static const char *check_state(const struct op *op)
{
	bool open = op_set_count(&op->unresolved) > 0;

	if ((unsigned)op->state >= OP_STATE_COUNT)
		return "no such state";
	if (open && op_is_terminal(op))
		return "terminal with something unresolved";
	if (!open && op->state == OP_UNKNOWN)
		return "unknown with nothing unresolved";
	if (op->state == OP_FAILED && op->class != CLASS_INVALID)
		return "failed without an invalid verdict";
	if (op->state == OP_READY && op->quarantined)
		return "ready in quarantine";
	if (op->disputed && op->state != OP_SUCCEEDED && op->state != OP_FAILED &&
	    op->state != OP_ATTEMPTING)
		return "disputed where something might be sent";
	if (op->terminal != 0 && !op_is_terminal(op))
		return "terminal time without a terminal state";
	if (op->held_since != 0 && op->state != OP_HELD)
		return "held time without being held";
	return NULL;
}

static const char *check_ring(const struct op *op)
{
	int running = 0;

	for (int i = 0; i < OP_RING; i++) {
		const struct op_attempt *entry = &op->ring[i];

		if (entry->n == 0)
			continue;
		if (entry->n > ATTEMPTS_CEILING || slot_of(entry->n) != i)
			return "attempt in the wrong slot";
		if (entry->class != CLASS_NONE)
			continue;
		running++;
		if (entry->n != op_step_highest(op) || op_set_has(&op->unresolved, entry->n))
			return "the running attempt is not the newest, or unresolved already";
		if (memcmp(entry->token, op->token, OP_TOKEN_LEN) != 0)
			return "the running attempt has another token than the lease";
	}
	if (running != (op->state == OP_ATTEMPTING ? 1 : 0))
		return "attempts in flight do not match the state";
	return NULL;
}

static const char *check_lease(const struct op *op)
{
	static const uint8_t no_token[OP_TOKEN_LEN];

	if (op->owner[OP_INSTANCE_MAX - 1] != '\0' || op->reason[REASON_MAX - 1] != '\0' ||
	    op->remote_id[OP_REMOTE_ID_MAX - 1] != '\0')
		return "text without an end";
	if (op->state == OP_ATTEMPTING)
		return op->attempts > 0 ? NULL : "attempting without a charge";
	if (op->lease_until != 0 || op->owner[0] != '\0' ||
	    memcmp(op->token, no_token, OP_TOKEN_LEN) != 0)
		return "a lease without an attempt";
	return NULL;
}

const char *op_check(const struct op *op)
{
	const char *problem = check_counts(op);

	if (!problem)
		problem = check_state(op);
	if (!problem)
		problem = check_ring(op);
	if (!problem)
		problem = check_lease(op);
	return problem;
}
