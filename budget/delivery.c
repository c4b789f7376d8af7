/* The happy path of a keyed delivery: NEW -> GATE -> CLAIM -> SEND -> SETTLE -> ENDED, one store
 * call before the attempt and one after it.
 *
 *   NEW ---- gate open ----> CLAIM -- written --> SEND -- outcome --> SETTLE -- final --> ENDED
 *    |           ^  ^          |                                        |
 *    | closed    |  |          | another record was there               | ready again
 *    v           |  |          v                                        v
 *  INTENT -> QUEUE  +------ consider() <-- POLL <-> LOOK               TURN -- time --> GATE
 *    |                         |
 *  JOIN (another delivery      +--> answered from the record, or TICK (time ended it)
 *  of this process runs)
 *
 * The file is long because the machine is one subject: its transitions call each other, and a reader
 * follows them best in one place. What is answered is in delivery_answer.c.
 *
 * Failure modes: the store away before the claim answers 503 and nothing is sent; a claim whose
 * word comes too late is taken back (VOID); a settle that cannot be written stays with the shell
 * and nothing more is started; a caller that leaves starts nothing new. */
#include "budget/delivery.h"

#include <assert.h>
#include <string.h>

#include "budget/delivery_answer.h"
#include "budget/schedule.h"
#include "classify/table.h"

static void consider(struct delivery *d, const struct op *op, usec_t now,
		     struct delivery_action *act);

void delivery_init(struct delivery *d, const struct policy *policy)
{
	memset(d, 0, sizeof(*d));
	d->policy = policy;
	d->replayable = true;
	d->answer_by = USEC_MAX;
}

static void release_slot(struct delivery *d, struct delivery_action *act)
{
	if (d->slot) {
		act->release = true;
		d->slot = false;
	}
}

/* Ends the delivery with whatever answer `act` already carries. */
static void end(struct delivery *d, struct delivery_action *act)
{
	release_slot(d, act);
	d->phase = DELIVERY_ENDED;
	act->act = DELIVERY_ACT_END;
}

static void answer_and_end(struct delivery *d, struct delivery_action *act)
{
	d->answered = true;
	end(d, act);
}

/* Answers with `problem`, or keeps silent where the answer is out already. */
static void refuse(struct delivery *d, const char *problem, int status, usec_t retry_after,
		   struct delivery_action *act)
{
	if (!d->answered)
		answer_problem(act, problem, status, retry_after);
	answer_and_end(d, act);
}

/* The wait is longer than the hold, a hint is spent, or nothing new may start. */
static void stop_waiting(struct delivery *d, usec_t now, struct delivery_action *act)
{
	if (!d->answered)
		answer_waiting(d, now, act);
	answer_and_end(d, act);
}

static void ask_gate(struct delivery *d, struct delivery_action *act)
{
	d->phase = DELIVERY_GATE;
	act->act = DELIVERY_ACT_GATE;
}

/* How long a call may keep the delivery: its hold, and a moment even where that is over. */
static usec_t store_limit(const struct delivery *d, usec_t now)
{
	usec_t limit = usec_max(d->answer_by, usec_add(now, STORE_PATIENCE));

	return d->deadline != 0 ? usec_min(limit, d->deadline) : limit;
}

static void write_proposal(struct delivery *d, enum delivery_phase phase, enum delivery_write write,
			   bool expect_absent, usec_t until, struct delivery_action *act)
{
	d->phase = phase;
	act->act = DELIVERY_ACT_WRITE;
	act->write = write;
	act->expect_absent = expect_absent;
	act->until = until;
}

static void read_record(struct delivery *d, usec_t now, struct delivery_action *act)
{
	d->phase = DELIVERY_LOOK;
	act->act = DELIVERY_ACT_READ;
	act->until = store_limit(d, now);
}

/* Waits for the operation's own time, without slot, lease or charge. */
static void wait_turn(struct delivery *d, usec_t now, struct delivery_action *act)
{
	release_slot(d, act);
	if (d->answered || d->caller == CALLER_GONE) {
		end(d, act);
		return;
	}
	if (d->caller == CALLER_HALF || d->draining || !d->replayable ||
	    (d->hint_attempts > 0 && d->started >= d->hint_attempts) || d->op.next > d->answer_by) {
		stop_waiting(d, now, act);
		return;
	}
	d->phase = DELIVERY_TURN;
	act->act = DELIVERY_ACT_WAIT;
	act->until = d->op.next;
}

/* Waits for the gate: until its own time, or until it grants a slot. */
static void wait_gate(struct delivery *d, usec_t now, struct delivery_action *act)
{
	if (d->caller == CALLER_GONE) {
		end(d, act);
		return;
	}
	if (d->caller == CALLER_HALF || d->draining || now >= d->answer_by ||
	    (d->gate_until != USEC_MAX && d->gate_until > d->answer_by)) {
		stop_waiting(d, now, act);
		return;
	}
	d->phase = DELIVERY_QUEUE;
	act->act = DELIVERY_ACT_WAIT;
	act->until = usec_min(d->gate_until, d->answer_by);
}

/* A record never charged goes retain.key after its last delivery (design section 4, "Window"):
 * one write an hour is enough to know that. */
static bool is_seen(const struct delivery *d, usec_t now)
{
	return d->op.state == OP_READY && d->op.attempts == 0 &&
	       now - d->op.delivered >= SEEN_EVERY;
}

/* Time alone may have ended it: such a change is written before anything else is said. Returns
 * whether there is one. */
static bool tick(struct delivery *d, usec_t now, struct delivery_action *act)
{
	struct op_event ev = {.kind = OP_EV_TICK, .now = now};
	unsigned notes;

	if (op_apply(&d->op, d->policy, &ev, &d->proposal, &notes) != OP_CHANGED) {
		ev.kind = OP_EV_SEEN;
		if (!is_seen(d, now) ||
		    op_apply(&d->op, d->policy, &ev, &d->proposal, &notes) != OP_CHANGED)
			return false;
	}
	release_slot(d, act);
	write_proposal(d, DELIVERY_TICK, WRITE_TICK, false, store_limit(d, now), act);
	return true;
}

/* The slot is held and the record absent or ready and due: lease and charge. */
static void claim(struct delivery *d, const uint8_t *token, usec_t now, struct delivery_action *act)
{
	struct op base;
	struct op_event ev = {.kind = OP_EV_CLAIM, .now = now, .token = token};
	bool absent = !d->have_op;
	unsigned notes;

	if (d->caller != CALLER_HERE || d->draining) {
		wait_gate(d, now, act);
		release_slot(d, act);
		return;
	}
	/* A safe request is over at the delivery's own deadline: no attempt without attempt.least. */
	if (d->deadline != 0 &&
	    usec_add(now, d->safe ? d->policy->attempt_least : 1) > d->deadline) {
		stop_waiting(d, now, act);
		return;
	}
	if (absent)
		op_init(&base, d->policy, d->incarnation, d->fingerprint, now);
	else
		base = d->op;
	if (token != NULL)
		memcpy(d->token, token, OP_TOKEN_LEN);
	ev.token = d->token;
	ev.instance = d->instance;
	ev.repeat = d->repeat;
	ev.hold_until = d->answer_by;
	if (op_apply(&base, d->policy, &ev, &d->proposal, &notes) != OP_CHANGED) {
		/* What was due a moment ago is not any more: time moved it. */
		if (absent || !tick(d, now, act))
			stop_waiting(d, now, act);
		return;
	}
	d->attempt_n = op_running(&d->proposal);
	write_proposal(d, DELIVERY_CLAIM, WRITE_CLAIM, absent, store_limit(d, now), act);
}

/* A record held for a refused credential goes on when the delivery brings another (W36). */
static bool release_by_credential(struct delivery *d, usec_t now, struct delivery_action *act)
{
	struct op_event ev = {.kind = OP_EV_RELEASE_CREDENTIAL, .now = now};
	unsigned notes;

	if (!d->has_credential || d->op.state != OP_HELD)
		return false;
	ev.credential = d->credential;
	if (op_apply(&d->op, d->policy, &ev, &d->proposal, &notes) != OP_CHANGED)
		return false;
	d->released_by_credential = true;
	release_slot(d, act);
	write_proposal(d, DELIVERY_TICK, WRITE_TICK, false, store_limit(d, now), act);
	return true;
}

static void go_on_ready(struct delivery *d, usec_t now, struct delivery_action *act)
{
	if (d->op.next > now) {
		wait_turn(d, now, act);
		return;
	}
	if (d->draining || d->caller == CALLER_HALF ||
	    now > usec_add(d->answer_by, STORE_PATIENCE)) {
		stop_waiting(d, now, act);
		return;
	}
	if (d->slot)
		claim(d, NULL, now, act);
	else
		ask_gate(d, act);
}

static usec_t next_poll(struct delivery *d)
{
	d->poll = d->poll == 0 ? POLL_FIRST : usec_min(2 * d->poll, POLL_MAX);
	return d->poll;
}

static void poll_other(struct delivery *d, usec_t now, struct delivery_action *act)
{
	release_slot(d, act);
	if (d->policy->in_flight == IN_FLIGHT_REFUSE || now >= d->answer_by || d->draining) {
		refuse(d, "in-progress", 409, BUSY_RETRY_AFTER, act);
		return;
	}
	d->phase = DELIVERY_POLL;
	act->act = DELIVERY_ACT_WAIT;
	act->until = usec_min(usec_add(now, next_poll(d)), d->answer_by);
}

/* The Look of section 3: what the record says decides. */
static void consider(struct delivery *d, const struct op *op, usec_t now,
		     struct delivery_action *act)
{
	d->op = *op;
	d->stored_counter = op->counter;
	d->have_op = true;
	if (d->answered || d->caller == CALLER_GONE) {
		end(d, act);
		return;
	}
	if (memcmp(op->fingerprint, d->fingerprint, OP_FINGERPRINT_LEN) != 0) {
		refuse(d, "key-reuse", 422, -1, act);
		return;
	}
	if (tick(d, now, act))
		return;
	if (d->op.state == OP_ATTEMPTING) {
		poll_other(d, now, act);
		return;
	}
	if (d->op.state == OP_READY) {
		go_on_ready(d, now, act);
		return;
	}
	if (release_by_credential(d, now, act))
		return;
	/* The provider's own word to this delivery, where it has one and the record no better. */
	if (d->started > 0 && d->op.state != OP_SUCCEEDED && d->op.state != OP_FAILED)
		answer_last(d, now, act);
	else
		answer_record(d, act);
	answer_and_end(d, act);
}

static void on_gate_open(struct delivery *d, const struct delivery_event *ev,
			 struct delivery_action *act)
{
	d->slot = true;
	if (d->phase != DELIVERY_GATE && d->phase != DELIVERY_QUEUE) {
		/* A grant that crossed the end of the wait. */
		release_slot(d, act);
		return;
	}
	claim(d, ev->token, ev->now, act);
}

static void on_gate_closed(struct delivery *d, const struct delivery_event *ev,
			   struct delivery_action *act)
{
	d->gate_until = ev->until;
	d->gate_rate_limited = ev->rate_limited;
	if (d->ledgered && !d->have_op) {
		op_init(&d->proposal, d->policy, d->incarnation, d->fingerprint, ev->now);
		write_proposal(d, DELIVERY_INTENT, WRITE_INTENT, true, store_limit(d, ev->now),
			       act);
		return;
	}
	wait_gate(d, ev->now, act);
}

static void send(struct delivery *d, struct delivery_action *act)
{
	d->phase = DELIVERY_SEND;
	d->started++;
	act->act = DELIVERY_ACT_SEND;
	act->limit = d->op.deadline != 0 ? d->op.deadline : USEC_MAX;
	act->unsent_limit = USEC_MAX;
	act->until = USEC_MAX;
	if (d->deadline == 0)
		return;
	act->unsent_limit = d->deadline;
	if (d->safe) {
		if (d->deadline < act->limit) {
			act->limit = d->deadline;
			act->limit_is_deadline = true;
		}
	} else {
		act->until = usec_add(d->deadline, DEADLINE_GRACE);
	}
}

/* Takes back a claim under which nothing was sent. */
static void take_back(struct delivery *d, usec_t now, struct delivery_action *act)
{
	struct op_event ev = {.kind = OP_EV_VOID, .now = now, .token = d->token};
	unsigned notes;

	release_slot(d, act);
	if (op_apply(&d->op, d->policy, &ev, &d->proposal, &notes) != OP_CHANGED) {
		consider(d, &d->op, now, act);
		return;
	}
	write_proposal(d, DELIVERY_VOID, WRITE_VOID, false, store_limit(d, now), act);
}

/* What the next attempt waits for beside the backoff: a rule's own wait, and the advice up to the cap.
 * Advice beyond the cap ends the attempts under `beyond: stop`. -1: nothing. */
static usec_t wait_advice(const struct policy *policy, struct verdict *verdict)
{
	static const char beyond[] = "advice-beyond-cap";

	if (verdict->advice > policy->retry_after_max && policy->beyond == BEYOND_STOP &&
	    table_may_repeat(verdict->class)) {
		verdict->retry_never = true;
		memcpy(verdict->reason, beyond, sizeof(beyond));
	}
	return usec_max(verdict->rule_wait, usec_min(verdict->advice, policy->retry_after_max));
}

void delivery_settle_event(const struct delivery *d, const struct op *op, usec_t now,
			   struct op_event *ret_event)
{
	*ret_event = (struct op_event){.kind = OP_EV_SETTLE, .now = now, .token = d->token};
	ret_event->n = d->attempt_n;
	ret_event->verdict = &d->verdict;
	ret_event->wait = d->settle_wait;
	ret_event->is_delete = d->is_delete;
	ret_event->repeatable =
		d->repeat == REPEAT_ALWAYS || (d->repeat != REPEAT_NEVER && now < op->repeat_until);
	ret_event->remote_id = d->remote_id[0] != '\0' ? d->remote_id : NULL;
	ret_event->credential = d->has_credential ? d->credential : NULL;
}

/* Applies the outcome to `op`; the proposal is what comes of it. */
static bool apply_settle(struct delivery *d, const struct op *op, usec_t now)
{
	struct op_event ev;

	delivery_settle_event(d, op, now, &ev);
	return op_apply(op, d->policy, &ev, &d->proposal, &d->notes) == OP_CHANGED;
}

usec_t delivery_wait(const struct policy *policy, const struct op *op, struct verdict *verdict,
		     uint64_t random)
{
	usec_t advice = wait_advice(policy, verdict);
	int done = op->attempts - op->generation_first;

	return backoff_wait(&policy->backoff, done < 1 ? 1 : done, advice, random);
}

/* The attempt is settled and `op` is what stands: the next attempt, or the answer. */
static void after_settle(struct delivery *d, usec_t now, struct delivery_action *act)
{
	if (d->answered || d->caller == CALLER_GONE) {
		end(d, act);
		return;
	}
	if (d->op.state == OP_READY && !d->unsaved) {
		wait_turn(d, now, act);
		return;
	}
	answer_last(d, now, act);
	answer_and_end(d, act);
}

static void write_settle(struct delivery *d, usec_t now, struct delivery_action *act)
{
	/* Without a key only what may have been applied is recorded, under a generated id. */
	bool absent = !d->ledgered;

	write_proposal(d, DELIVERY_SETTLE, WRITE_SETTLE, absent,
		       usec_max(d->answer_by, usec_add(now, SETTLE_PATIENCE)), act);
}

static void on_outcome(struct delivery *d, const struct delivery_event *ev,
		       struct delivery_action *act)
{
	d->slot = false; /* the shell gave it back with the outcome */
	d->verdict = *ev->verdict;
	if (d->verdict.fault == FAULT_GUARD) {
		d->started--;
		take_back(d, ev->now, act);
		return;
	}
	answer_note_outcome(d);
	d->remote_id[0] = '\0';
	if (ev->remote_id != NULL)
		memcpy(d->remote_id, ev->remote_id,
		       strnlen(ev->remote_id, OP_REMOTE_ID_MAX - 1) + 1);
	d->remote_id[OP_REMOTE_ID_MAX - 1] = '\0';
	d->settle_wait = delivery_wait(d->policy, &d->op, &d->verdict, ev->random);
	if (apply_settle(d, &d->op, ev->now)) {
		write_settle(d, ev->now, act);
		return;
	}
	/* A verdict that the operation does not take: the caller gets what there is, nothing more is
	 * started, and the lease's end settles the attempt as possible. */
	d->unsaved = true;
	after_settle(d, ev->now, act);
}

/* The settle met another version: merge by the pure function and write again. */
static void merge_settle(struct delivery *d, const struct op *found, usec_t now,
			 struct delivery_action *act)
{
	d->op = *found;
	d->stored_counter = found->counter;
	if (memcmp(found->incarnation, d->proposal.incarnation, OP_INCARNATION_LEN) == 0 &&
	    apply_settle(d, found, now)) {
		write_settle(d, now, act);
		return;
	}
	after_settle(d, now, act);
}

static void on_record(struct delivery *d, const struct delivery_event *ev,
		      struct delivery_action *act)
{
	switch (d->phase) {
	case DELIVERY_SETTLE:
		merge_settle(d, ev->op, ev->now, act);
		return;
	case DELIVERY_VOID:
		d->op = *ev->op;
		d->stored_counter = ev->op->counter;
		take_back(d, ev->now, act);
		return;
	default:
		d->released_by_credential = false;
		consider(d, ev->op, ev->now, act);
		return;
	}
}

static void on_absent(struct delivery *d, const struct delivery_event *ev,
		      struct delivery_action *act)
{
	if (d->phase == DELIVERY_SETTLE) {
		/* The record went while the attempt ran: nothing to write to (the shell logs it). */
		d->op = d->proposal;
		after_settle(d, ev->now, act);
		return;
	}
	d->have_op = false;
	if (d->answered || d->caller == CALLER_GONE) {
		end(d, act);
		return;
	}
	release_slot(d, act);
	ask_gate(d, act);
}

static void on_claimed(struct delivery *d, usec_t now, struct delivery_action *act)
{
	if (d->abandoned || d->caller != CALLER_HERE) {
		take_back(d, now, act);
		return;
	}
	send(d, act);
}

/* The intent is written: the gate is asked anew, since the write cost the place in its queue. */
static void after_intent(struct delivery *d, usec_t now, struct delivery_action *act)
{
	if (d->caller != CALLER_HERE || d->draining || now >= d->answer_by)
		wait_gate(d, now, act);
	else
		ask_gate(d, act);
}

/* Nothing was sent. Not again at once: whatever said no may go on saying it. */
static void after_void(struct delivery *d, usec_t now, struct delivery_action *act)
{
	consider(d, &d->op, now, act);
	if (act->act != DELIVERY_ACT_GATE)
		return;
	if (usec_add(now, next_poll(d)) > d->answer_by) {
		stop_waiting(d, now, act);
		return;
	}
	d->phase = DELIVERY_TURN;
	act->act = DELIVERY_ACT_WAIT;
	act->until = usec_add(now, d->poll);
}

static void on_written(struct delivery *d, const struct delivery_event *ev,
		       struct delivery_action *act)
{
	d->op = d->proposal;
	d->stored_counter = d->op.counter;
	d->have_op = true;
	d->released_by_credential = false;
	switch (d->phase) {
	case DELIVERY_INTENT:
		after_intent(d, ev->now, act);
		return;
	case DELIVERY_CLAIM:
		on_claimed(d, ev->now, act);
		return;
	case DELIVERY_SETTLE:
		after_settle(d, ev->now, act);
		return;
	case DELIVERY_VOID:
		after_void(d, ev->now, act);
		return;
	default: /* TICK */
		consider(d, &d->op, ev->now, act);
		return;
	}
}

static void on_away(struct delivery *d, const struct delivery_event *ev,
		    struct delivery_action *act)
{
	if (d->phase == DELIVERY_SETTLE) {
		d->op = d->proposal;
		d->unsaved = true;
		after_settle(d, ev->now, act);
		return;
	}
	if (d->started > 0 && !d->answered && d->caller != CALLER_GONE) {
		answer_last(d, ev->now, act);
		answer_and_end(d, act);
		return;
	}
	refuse(d, "ledger-away", 503, BUSY_RETRY_AFTER, act);
}

static void on_busy(struct delivery *d, const struct delivery_event *ev,
		    struct delivery_action *act)
{
	/* For what the caller is told; before this delivery acts on it, it reads the record. */
	if (ev->op != NULL) {
		d->op = *ev->op;
		d->have_op = true;
	}
	if (!ev->same) {
		refuse(d, "key-reuse", 422, -1, act);
		return;
	}
	if (d->policy->in_flight == IN_FLIGHT_REFUSE || ev->now >= d->answer_by || d->draining) {
		refuse(d, "in-progress", 409, BUSY_RETRY_AFTER, act);
		return;
	}
	d->joined_next = ev->op != NULL && ev->op->state == OP_READY ? ev->op->next : 0;
	d->phase = DELIVERY_JOIN;
	act->act = DELIVERY_ACT_JOIN;
	act->until = d->answer_by;
}

static void on_timer(struct delivery *d, const struct delivery_event *ev,
		     struct delivery_action *act)
{
	switch (d->phase) {
	case DELIVERY_JOIN:
		refuse(d, "in-progress", 409, usec_max(d->joined_next - ev->now, BUSY_RETRY_AFTER),
		       act);
		return;
	case DELIVERY_QUEUE:
		if (ev->now >= d->answer_by)
			stop_waiting(d, ev->now, act);
		else
			ask_gate(d, act);
		return;
	case DELIVERY_TURN:
		go_on_ready(d, ev->now, act);
		return;
	case DELIVERY_POLL:
		if (ev->now >= d->answer_by)
			refuse(d, "in-progress", 409, BUSY_RETRY_AFTER, act);
		else
			read_record(d, ev->now, act);
		return;
	case DELIVERY_SEND:
		/* The delivery's deadline; the sent attempt goes on as if the caller had left. */
		if (!d->answered) {
			answer_deadline(d, act);
			d->answered = true;
		}
		return;
	case DELIVERY_SETTLE:
		if (!d->answered && d->caller != CALLER_GONE) {
			struct op stored = d->op;

			d->op = d->proposal;
			answer_last(d, ev->now, act);
			d->op = stored;
			d->answered = true;
		}
		return;
	case DELIVERY_CLAIM:
	case DELIVERY_LOOK:
	case DELIVERY_INTENT:
	case DELIVERY_TICK:
	case DELIVERY_VOID:
		if (!d->answered && d->started > 0)
			answer_last(d, ev->now, act);
		else if (!d->answered)
			answer_problem(act, "ledger-away", 503, BUSY_RETRY_AFTER);
		d->answered = true;
		d->abandoned = true;
		return;
	default:
		return;
	}
}

static bool is_waiting(const struct delivery *d)
{
	return d->phase == DELIVERY_JOIN || d->phase == DELIVERY_QUEUE ||
	       d->phase == DELIVERY_TURN || d->phase == DELIVERY_POLL;
}

static void on_caller(struct delivery *d, const struct delivery_event *ev,
		      struct delivery_action *act)
{
	if (ev->kind == DELIVERY_EV_HALF) {
		if (d->caller == CALLER_HERE)
			d->caller = CALLER_HALF;
		/* A joiner starts nothing: it may go on waiting for its answer. */
		if (d->phase == DELIVERY_QUEUE || d->phase == DELIVERY_TURN)
			stop_waiting(d, ev->now, act);
		return;
	}
	d->caller = CALLER_GONE;
	if (is_waiting(d))
		end(d, act);
	else if (d->phase == DELIVERY_SEND && d->safe)
		act->act = DELIVERY_ACT_CANCEL;
}

static void on_drain(struct delivery *d, const struct delivery_event *ev,
		     struct delivery_action *act)
{
	d->draining = true;
	if (!is_waiting(d))
		return;
	if (d->started == 0 && d->phase != DELIVERY_JOIN && d->phase != DELIVERY_POLL)
		refuse(d, "draining", 503, BUSY_RETRY_AFTER, act);
	else if (d->started == 0)
		refuse(d, "in-progress", 409, BUSY_RETRY_AFTER, act);
	else
		stop_waiting(d, ev->now, act);
}

static void on_start(struct delivery *d, const struct delivery_event *ev,
		     struct delivery_action *act)
{
	if (d->draining)
		refuse(d, "draining", 503, BUSY_RETRY_AFTER, act);
	else if (d->caller != CALLER_HERE || (d->deadline != 0 && ev->now >= d->deadline) ||
		 (d->phase == DELIVERY_JOIN && ev->now >= d->answer_by))
		stop_waiting(d, ev->now, act);
	else if (d->phase == DELIVERY_JOIN)
		read_record(d, ev->now, act); /* it was there a moment ago */
	else
		ask_gate(d, act);
}

void delivery_step(struct delivery *d, const struct delivery_event *ev, struct delivery_action *act)
{
	assert(d->phase != DELIVERY_ENDED);
	memset(act, 0, sizeof(*act));
	act->until = USEC_MAX;
	act->retry_after = -1;
	switch (ev->kind) {
	case DELIVERY_EV_START:
		on_start(d, ev, act);
		break;
	case DELIVERY_EV_BUSY:
		on_busy(d, ev, act);
		break;
	case DELIVERY_EV_RECORD:
		on_record(d, ev, act);
		break;
	case DELIVERY_EV_ABSENT:
		on_absent(d, ev, act);
		break;
	case DELIVERY_EV_WRITTEN:
		on_written(d, ev, act);
		break;
	case DELIVERY_EV_AWAY:
		on_away(d, ev, act);
		break;
	case DELIVERY_EV_GATE_OPEN:
		on_gate_open(d, ev, act);
		break;
	case DELIVERY_EV_GATE_CLOSED:
		on_gate_closed(d, ev, act);
		break;
	case DELIVERY_EV_OUTCOME:
		on_outcome(d, ev, act);
		break;
	case DELIVERY_EV_STREAM:
		d->answered = true;
		break;
	case DELIVERY_EV_TIMER:
		on_timer(d, ev, act);
		break;
	case DELIVERY_EV_HALF:
	case DELIVERY_EV_GONE:
		on_caller(d, ev, act);
		break;
	case DELIVERY_EV_DRAIN:
		on_drain(d, ev, act);
		break;
	}
}

bool delivery_would_end(const struct delivery *d, const struct verdict *verdict, usec_t now,
			uint64_t random)
{
	struct verdict copy = *verdict;
	struct op_event ev;
	struct op next;
	unsigned notes;

	delivery_settle_event(d, &d->op, now, &ev);
	ev.wait = delivery_wait(d->policy, &d->op, &copy, random);
	ev.verdict = &copy;
	ev.remote_id = NULL;
	if (op_apply(&d->op, d->policy, &ev, &next, &notes) != OP_CHANGED)
		return false;
	return next.state != OP_READY || d->draining || !d->replayable ||
	       d->caller == CALLER_HALF || next.next > d->answer_by ||
	       (d->hint_attempts > 0 && d->started >= d->hint_attempts);
}

bool delivery_may_send(const struct delivery *d, usec_t now)
{
	/* A twentieth of the lease, at most 250 ms: what starts must not outlive it by a hair. */
	usec_t guard = usec_min(d->policy->lease / 20, 250 * USEC_MS);

	if (!d->ledgered)
		return true;
	if (usec_add(now, guard) >= d->op.lease_until)
		return false;
	return op_repeat_is_safe(&d->op, now);
}
