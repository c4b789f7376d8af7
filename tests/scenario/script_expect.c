/* Expectations, judged when everything due now has happened:
 *
 *   expect op KEY [absent] [state=S] [attempts=N] [limit=N] [unresolved=N] [class=C] [status=N]
 *          [reason=R] [effect=E] [last=N] [generation=N] [disputed=B] [quarantined=B] [tombstone=B]
 *          [reply=B] [remote-id=ID] [next=T] [deadline=T] [repeat-until=T] [corrects=K]
 *          [corrected-by=K] [created=T] [ended=T] [count=N]
 *   expect answer NAME [none] [status=N] [problem=P] [reason=R] [retry-after=T|never] [advice=T]
 *          [at=T] [within=T] [replayed=B] [made=B] [streamed=B] [state=S] [class=C] [attempts=N]
 *          [limit=N] [unresolved=N] [started=N] [same-as=NAME] [count=N]
 *   expect sends KEY [at] TIME...       when the provider saw requests, from the scenario's zero
 *   expect provider KEY requests=N [effects=N]
 *   expect gate [INSTANCE] used=N | blocked=T
 *   expect duplicate-effects=N
 *
 * KEY and NAME may end in * : all that match, at least one (or count=N of them). */
#include "tests/scenario/script.h"

#include <stdio.h>
#include <string.h>

struct check {
	struct script *script;
	const char *what;
};

static bool differs(const struct check *check, const char *name, const char *wanted,
		    const char *found)
{
	return script_fail(check->script, "%s: %s is %s, expected %s", check->what, name,
			   found[0] != '\0' ? found : "nothing", wanted);
}

static bool is_text(const struct check *check, const char *name, const char *wanted,
		    const char *found)
{
	if (wanted == NULL || strcmp(wanted, found) == 0)
		return true;
	return differs(check, name, wanted, found);
}

static bool is_number(const struct check *check, const char *name, const char *wanted, int found)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", found);
	return is_text(check, name, wanted, text);
}

static bool is_bool(const struct check *check, const char *name, const char *wanted, bool found)
{
	return is_text(check, name, wanted, found ? "yes" : "no");
}

/* A time; -1 is never. */
static bool is_time(const struct check *check, const char *name, const char *wanted, usec_t found)
{
	char text[32] = "never";
	usec_t time;

	if (wanted == NULL)
		return true;
	if (!script_parse_time(wanted, &time))
		return script_fail(check->script, "%s=%s is no time", name, wanted);
	if (time == found)
		return true;
	if (found >= 0)
		(void)snprintf(text, sizeof(text), "%.6fs", (double)found / (double)USEC_SEC);
	return differs(check, name, wanted, text);
}

static usec_t since_zero(usec_t time)
{
	return time == 0 || time == USEC_MAX ? -1 : time - SIM_T0;
}

/* --- operations ---------------------------------------------------------------------------------- */

struct wanted_op {
	const char *state, *attempts, *limit, *unresolved, *class, *status, *reason, *effect, *last;
	const char *generation, *disputed, *quarantined, *tombstone, *reply, *remote_id;
	const char *next, *deadline, *repeat_until, *created, *ended, *corrects, *corrected_by;
	const char *count;
	bool absent;
};

static void read_op(struct script *script, struct wanted_op *w)
{
	w->state = script_option(script, "state");
	w->attempts = script_option(script, "attempts");
	w->limit = script_option(script, "limit");
	w->unresolved = script_option(script, "unresolved");
	w->class = script_option(script, "class");
	w->status = script_option(script, "status");
	w->reason = script_option(script, "reason");
	w->effect = script_option(script, "effect");
	w->last = script_option(script, "last");
	w->generation = script_option(script, "generation");
	w->disputed = script_option(script, "disputed");
	w->quarantined = script_option(script, "quarantined");
	w->tombstone = script_option(script, "tombstone");
	w->reply = script_option(script, "reply");
	w->remote_id = script_option(script, "remote-id");
	w->next = script_option(script, "next");
	w->deadline = script_option(script, "deadline");
	w->repeat_until = script_option(script, "repeat-until");
	w->created = script_option(script, "created");
	w->ended = script_option(script, "ended");
	w->corrects = script_option(script, "corrects");
	w->corrected_by = script_option(script, "corrected-by");
	w->count = script_option(script, "count");
	w->absent = script_flag(script, "absent");
}

static bool is_op(const struct check *c, const struct sim_record *r, const struct wanted_op *w)
{
	const struct op *op = &r->op;

	return is_text(c, "state", w->state, op_state_name(op->state)) &&
	       is_number(c, "attempts", w->attempts, op->attempts) &&
	       is_number(c, "limit", w->limit, op->limit) &&
	       is_number(c, "unresolved", w->unresolved, op_set_count(&op->unresolved)) &&
	       is_text(c, "class", w->class, outcome_class_name(op->class)) &&
	       is_number(c, "status", w->status, op->status) &&
	       is_text(c, "reason", w->reason, op->reason) &&
	       is_text(c, "effect", w->effect, effect_name(op->effect)) &&
	       is_number(c, "last", w->last, op->last_n) &&
	       is_number(c, "generation", w->generation, op->generation) &&
	       is_bool(c, "disputed", w->disputed, op->disputed) &&
	       is_bool(c, "quarantined", w->quarantined, op->quarantined) &&
	       is_bool(c, "tombstone", w->tombstone, op->tombstone) &&
	       is_bool(c, "reply", w->reply, r->reply.there) &&
	       is_text(c, "remote-id", w->remote_id, op->remote_id) &&
	       is_time(c, "next", w->next, since_zero(op->next)) &&
	       is_time(c, "deadline", w->deadline, since_zero(op->deadline)) &&
	       is_time(c, "repeat-until", w->repeat_until, since_zero(op->repeat_until)) &&
	       is_time(c, "created", w->created, since_zero(op->created)) &&
	       is_time(c, "ended", w->ended, since_zero(op->last_end)) &&
	       is_text(c, "corrects", w->corrects, r->corrects) &&
	       is_text(c, "corrected-by", w->corrected_by, r->corrected_by);
}

static bool expect_op(struct script *script)
{
	const char *key = script_word(script);
	struct check check = {script, key};
	struct wanted_op wanted;
	int found = 0;

	if (key == NULL)
		return script_fail(script, "expect op KEY");
	read_op(script, &wanted);
	for (const struct sim_record *r = script->sim.records; r != NULL; r = r->next) {
		if (!r->present || !sim_matches(key, r->key))
			continue;
		check.what = r->key;
		found++;
		if (!wanted.absent && !is_op(&check, r, &wanted))
			return false;
	}
	check.what = key;
	if (wanted.absent)
		return found == 0 || script_fail(script, "%s is there", key);
	if (wanted.count != NULL)
		return is_number(&check, "count", wanted.count, found);
	return found > 0 || script_fail(script, "there is no operation %s", key);
}

/* --- answers ------------------------------------------------------------------------------------- */

struct wanted_answer {
	const char *status, *problem, *reason, *retry_after, *advice, *at, *within, *replayed;
	const char *made, *streamed, *state, *class, *attempts, *limit, *unresolved, *started;
	const char *same_as, *count;
	bool none;
};

static void read_answer(struct script *script, struct wanted_answer *w)
{
	w->status = script_option(script, "status");
	w->problem = script_option(script, "problem");
	w->reason = script_option(script, "reason");
	w->retry_after = script_option(script, "retry-after");
	w->advice = script_option(script, "advice");
	w->at = script_option(script, "at");
	w->within = script_option(script, "within");
	w->replayed = script_option(script, "replayed");
	w->made = script_option(script, "made");
	w->streamed = script_option(script, "streamed");
	w->state = script_option(script, "state");
	w->class = script_option(script, "class");
	w->attempts = script_option(script, "attempts");
	w->limit = script_option(script, "limit");
	w->unresolved = script_option(script, "unresolved");
	w->started = script_option(script, "started");
	w->same_as = script_option(script, "same-as");
	w->count = script_option(script, "count");
	w->none = script_flag(script, "none");
}

static bool is_answer_op(const struct check *c, const struct sim_delivery *x,
			 const struct wanted_answer *w)
{
	const struct op *op = &x->answer.op;

	if (!x->answer.have_op)
		return (w->state == NULL && w->attempts == NULL) ||
		       script_fail(c->script, "%s: its answer names no operation", c->what);
	return is_text(c, "state", w->state, op_state_name(op->state)) &&
	       is_text(c, "class", w->class, outcome_class_name(op->class)) &&
	       is_number(c, "attempts", w->attempts, op->attempts) &&
	       is_number(c, "limit", w->limit, op->limit) &&
	       is_number(c, "unresolved", w->unresolved, op_set_count(&op->unresolved));
}

/* Whether both were given the reply to the same attempt. */
static bool is_same(const struct check *c, const struct sim_delivery *x, const char *name)
{
	struct sim_delivery *other = c->script->sim.deliveries;

	if (name == NULL)
		return true;
	while (other != NULL && strcmp(other->request.name, name) != 0)
		other = other->next;
	if (other == NULL || !other->answer.reply.there || !x->answer.reply.there ||
	    other->answer.reply.id != x->answer.reply.id)
		return script_fail(c->script, "%s: not the reply that %s got", c->what, name);
	return true;
}

static bool is_within(const struct check *c, const struct sim_delivery *x, const char *wanted)
{
	usec_t time;

	if (wanted == NULL)
		return true;
	if (!script_parse_time(wanted, &time))
		return script_fail(c->script, "within=%s is no time", wanted);
	return x->answer.at - x->arrival <= time ||
	       script_fail(c->script, "%s: answered after %.6fs, expected within %s", c->what,
			   (double)(x->answer.at - x->arrival) / (double)USEC_SEC, wanted);
}

static bool is_answer(const struct check *c, const struct sim_delivery *x,
		      const struct wanted_answer *w)
{
	const struct sim_answer *a = &x->answer;

	if (w->none)
		return !a->there || script_fail(c->script, "%s: answered %d", c->what, a->status);
	if (!a->there)
		return script_fail(c->script, "%s: not answered", c->what);
	return is_number(c, "status", w->status, a->status) &&
	       is_text(c, "problem", w->problem, a->problem) &&
	       is_text(c, "reason", w->reason, a->reason) &&
	       is_time(c, "retry-after", w->retry_after, a->retry_after) &&
	       is_time(c, "advice", w->advice, a->advice) &&
	       is_time(c, "at", w->at, a->at - SIM_T0) && is_within(c, x, w->within) &&
	       is_bool(c, "replayed", w->replayed, a->replayed) &&
	       is_bool(c, "made", w->made, a->made) &&
	       is_bool(c, "streamed", w->streamed, a->streamed) &&
	       is_number(c, "started", w->started, x->d.started) && is_answer_op(c, x, w) &&
	       is_same(c, x, w->same_as);
}

static bool expect_answer(struct script *script)
{
	const char *name = script_word(script);
	struct check check = {script, name};
	struct wanted_answer wanted;
	int found = 0;

	if (name == NULL)
		return script_fail(script, "expect answer NAME");
	read_answer(script, &wanted);
	for (const struct sim_delivery *x = script->sim.deliveries; x != NULL; x = x->next) {
		if (!sim_matches(name, x->request.name))
			continue;
		check.what = x->request.name;
		found++;
		if (!is_answer(&check, x, &wanted))
			return false;
	}
	check.what = name;
	if (wanted.count != NULL)
		return is_number(&check, "count", wanted.count, found);
	return found > 0 || script_fail(script, "there is no delivery %s", name);
}

/* --- the provider -------------------------------------------------------------------------------- */

static bool expect_sends(struct script *script)
{
	const char *key = script_word(script), *text;
	struct sim_record *record = key != NULL ? sim_find_record(&script->sim, key) : NULL;
	struct check check = {script, key};
	char name[32];
	size_t n = 0;

	if (record == NULL)
		return script_fail(script, "expect sends KEY TIME...");
	(void)script_flag(script, "at");
	for (; (text = script_word(script)) != NULL; n++) {
		(void)snprintf(name, sizeof(name), "request %zu", n + 1);
		if (n >= record->send_count)
			return differs(&check, name, text, "");
		if (!is_time(&check, name, text, record->sends[n] - SIM_T0))
			return false;
	}
	return n == record->send_count ||
	       script_fail(script, "%s: %zu requests, expected %zu", key, record->send_count, n);
}

static bool expect_provider(struct script *script)
{
	const char *key = script_word(script);
	const char *requests = script_option(script, "requests");
	const char *effects = script_option(script, "effects");
	struct check check = {script, key};
	int seen = 0, applied = 0;

	if (key == NULL)
		return script_fail(script, "expect provider KEY");
	for (const struct sim_record *r = script->sim.records; r != NULL; r = r->next) {
		if (!sim_matches(key, r->key))
			continue;
		seen += r->seen_total;
		applied += r->effects;
	}
	return is_number(&check, "requests", requests, seen) &&
	       is_number(&check, "effects", effects, applied);
}

static bool expect_gate(struct script *script)
{
	const char *used = script_option(script, "used");
	const char *blocked = script_option(script, "blocked");
	const char *name = script_word(script);
	struct sim *sim = &script->sim;
	struct sim_instance *instance = &sim->instances[0];
	struct check check = {script, "gate"};

	if (name != NULL)
		instance = sim_find_instance(sim, name);
	if (instance == NULL)
		return script_fail(script, "no instance %s", name);
	return is_number(&check, "used", used, instance->gates[0].gate.used) &&
	       is_time(&check, "blocked", blocked,
		       gate_blocked_for(&instance->gates[0].gate, sim->now));
}

bool script_expect(struct script *script)
{
	const char *wanted = script_option(script, "duplicate-effects"), *what;
	struct check check = {script, "all"};

	if (wanted != NULL)
		return is_number(&check, "duplicate-effects", wanted,
				 script->sim.duplicate_effects);
	what = script_word(script);
	if (what == NULL)
		return script_fail(script, "expect what?");
	if (strcmp(what, "op") == 0)
		return expect_op(script);
	if (strcmp(what, "answer") == 0)
		return expect_answer(script);
	if (strcmp(what, "sends") == 0)
		return expect_sends(script);
	if (strcmp(what, "provider") == 0)
		return expect_provider(script);
	if (strcmp(what, "gate") == 0)
		return expect_gate(script);
	return script_fail(script, "unknown expectation \"%s\"", what);
}
