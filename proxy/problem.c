#include "proxy/problem.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/timefmt.h"

static const struct {
	const char *name, *title;
	int status;
} table[] = {
#define X(id, name, status, title) {name, title, status},
	PROBLEMS(X)
#undef X
};

void problem_init(struct problem *problem, enum problem_type type, const char *detail)
{
	*problem = (struct problem){.type = type, .detail = detail, .attempts = -1, .limit = -1};
}

void problem_set_operation(struct problem *problem, const char *provider, const char *key,
			   const struct op *op)
{
	problem->provider = provider;
	problem->key = key;
	problem->state = op_state_name(op->state);
	problem->class = op->class == CLASS_NONE ? NULL : outcome_class_name(op->class);
	problem->attempts = op->attempts;
	problem->limit = op->limit;
	problem->last_status = op->status;
	problem->last_reason = op->reason[0] == '\0' ? NULL : op->reason;
	problem->last_at = op->last_end;
}

const char *problem_name(enum problem_type type)
{
	return table[type].name;
}

int problem_status(const struct problem *problem)
{
	return problem->status > 0 ? problem->status : table[problem->type].status;
}

/* A JSON string of any bytes. */
static json_t *text_of(const char *text)
{
	json_t *value = json_string(text);
	char *ascii;

	if (value != NULL)
		return value;
	ascii = strdup(text);
	if (ascii == NULL)
		return NULL;
	for (char *c = ascii; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			*c = '?';
	}
	value = json_string(ascii);
	free(ascii);
	return value;
}

static bool set_text(json_t *object, const char *name, const char *text)
{
	return text == NULL || json_object_set_new(object, name, text_of(text)) == 0;
}

static bool set_number(json_t *object, const char *name, int number)
{
	return number < 0 || json_object_set_new(object, name, json_integer(number)) == 0;
}

static bool set_last(json_t *object, const struct problem *problem)
{
	char at[TIMEFMT_MAX];
	json_t *last;
	bool ok;

	if (problem->last_status <= 0 && problem->last_reason == NULL && problem->last_at <= 0)
		return true;
	last = json_object();
	ok = last != NULL &&
	     set_number(last, "status", problem->last_status > 0 ? problem->last_status : -1) &&
	     set_text(last, "reason", problem->last_reason);
	if (ok && problem->last_at > 0) {
		timefmt_rfc3339(problem->last_at, at);
		ok = set_text(last, "at", at);
	}
	if (!ok) {
		json_decref(last);
		return false;
	}
	return json_object_set_new(object, "last", last) == 0;
}

static bool set_all(json_t *object, const struct problem *problem)
{
	char type[64];

	snprintf(type, sizeof(type), "urn:stint:%s", table[problem->type].name);
	return set_text(object, "type", type) &&
	       set_text(object, "title", table[problem->type].title) &&
	       set_number(object, "status", problem_status(problem)) &&
	       set_text(object, "detail", problem->detail) &&
	       set_text(object, "provider", problem->provider) &&
	       set_text(object, "key", problem->key) && set_text(object, "state", problem->state) &&
	       set_text(object, "class", problem->class) &&
	       set_number(object, "attempts", problem->attempts) &&
	       set_number(object, "limit", problem->limit) && set_last(object, problem);
}

char *problem_json(const struct problem *problem, size_t *ret_len)
{
	json_t *object = json_object();
	char *text = NULL;

	if (object != NULL && set_all(object, problem))
		text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	if (text != NULL)
		*ret_len = strlen(text);
	return text;
}
