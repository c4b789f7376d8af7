#include "classify/outcome.h"

#include <string.h>

#define NAME_OTHER "other"

static const char *const class_names[CLASS_COUNT] = {
#define X(id, text) [CLASS_##id] = text,
	OUTCOME_CLASSES(X)
#undef X
};

static const char *const effect_names[EFFECT_COUNT] = {
	[EFFECT_NONE] = "none",
	[EFFECT_POSSIBLE] = "possible",
	[EFFECT_DEFINITE] = "definite",
};

static const char *const fault_names[FAULT_COUNT] = {
#define X(id, text) [FAULT_##id] = text,
	OUTCOME_FAULTS(X)
#undef X
};

/* Callers hand in what a store or a peer wrote, so an index may be anything. */
static const char *name_at(const char *const *names, size_t count, size_t index)
{
	return index < count ? names[index] : NAME_OTHER;
}

static bool index_of(const char *const *names, size_t count, const char *text, size_t *ret_index)
{
	if (text == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(names[i], text) == 0) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

const char *outcome_class_name(enum outcome_class class)
{
	return name_at(class_names, CLASS_COUNT, (size_t) class);
}

const char *effect_name(enum effect effect)
{
	return name_at(effect_names, EFFECT_COUNT, (size_t)effect);
}

const char *fault_name(enum fault fault)
{
	return name_at(fault_names, FAULT_COUNT, (size_t)fault);
}

bool outcome_class_parse(const char *text, enum outcome_class *ret_class)
{
	size_t index;

	if (!index_of(class_names, CLASS_COUNT, text, &index))
		return false;
	*ret_class = (enum outcome_class)index;
	return true;
}

bool effect_parse(const char *text, enum effect *ret_effect)
{
	size_t index;

	if (!index_of(effect_names, EFFECT_COUNT, text, &index))
		return false;
	*ret_effect = (enum effect)index;
	return true;
}

bool fault_parse(const char *text, enum fault *ret_fault)
{
	size_t index;

	if (!index_of(fault_names, FAULT_COUNT, text, &index))
		return false;
	*ret_fault = (enum fault)index;
	return true;
}
