/* A provider's rules: what its replies and faults mean where the default table is wrong about them.
 * Pure; the caller owns every array and text, and compiles them from its configuration. */
#ifndef STINT_CLASSIFY_RULES_H
#define STINT_CLASSIFY_RULES_H

#include "classify/advice.h"
#include "classify/outcome.h"

/* Statuses from `first` to `last`, both included. */
struct rule_status {
	int first;
	int last;
};

/* Holds if the reply has the header and each of its lines equals (or, with `prefix`, begins with)
 * one of the values, white space at its ends aside; without values, if the header is there. Lines
 * that disagree match nothing: such a reply proves nothing. Names are case-insensitive, values are
 * not. */
struct rule_header {
	const char *name;
	const char *const *values;
	size_t value_count;
	bool prefix;
};

/* Holds if the pointer names a scalar that reads as one of the values (json_scan_equal); without
 * values, if it names anything, null included. */
struct rule_json {
	const char *pointer;
	const char *const *values;
	size_t value_count;
};

#define RULE_FAULT(fault) (UINT32_C(1) << (fault))
_Static_assert(FAULT_COUNT <= 32, "a rule's faults are bits of a 32-bit number");

/* One rule. A condition that is not given (no elements, NULL, 0) always holds; all given ones must.
 *
 * `faults` are RULE_FAULT() bits; 0 means RULE_FAULT(FAULT_NONE): only whole replies. So a rule on
 * a status says nothing about a reply that was cut, unless it names the fault.
 *
 * An attempt that was not sent is matched only by rules with effect `none`: no rule can make an
 * effect of a request that never left. */
struct rule {
	const char *name; /* becomes the reason; see rules_name_valid() */

	const struct rule_status *statuses; /* one of them */
	size_t status_count;
	const struct rule_header *headers; /* all of them */
	size_t header_count;
	const struct rule_json *jsons; /* all of them */
	size_t json_count;
	uint32_t faults;            /* one of them */
	const char *const *methods; /* one of them, upper case */
	size_t method_count;
	const char *path; /* prefix of the target, by whole segments */

	enum outcome_class class;
	enum effect
		effect; /* table_pair_legal() with the class; a rule with another pair is skipped */
	usec_t wait;    /* above 0: its own wait; else none */
	bool wait_advice; /* wait as the provider's own headers say, whatever the class */
	bool retry_never;
	bool resolves;
};

/* A provider's rules in order, the first match wins, and its own waiting headers. */
struct ruleset {
	const struct rule *rules;
	size_t count;
	const struct advice_source *sources; /* the configuration's `advice` */
	size_t source_count;
	/* inspect.body: longer bodies fulfil no JSON condition and give no advice; 0: none does */
	size_t inspect_max;
	bool inspect_2xx; /* inspect.on: 2xx; without it the same holds for the body of a 2xx */
};

/* The first rule that matches, or NULL. JSON conditions hold on a body only if all of it is there
 * (not truncated, at most inspect_max) and is valid JSON. */
const struct rule *rules_match(const struct ruleset *rules, const struct facts *facts);

/* Whether the facts hold a body that may be looked into, and all of it. */
bool rules_body_whole(const struct ruleset *rules, const struct facts *facts);

/* Asked at a reply's headers: may the body still decide which rule matches, or say when to come
 * back? If not, the verdict at the headers is the verdict of the whole reply. */
bool rules_need_body(const struct ruleset *rules, const struct facts *facts);

/* Whether rule `index` can never match because one single earlier rule matches whatever it would;
 * then that one's index is written. Rules that cover another only together are not noticed. */
bool rules_shadowed(const struct ruleset *rules, size_t index, size_t *ret_by);

/* Reads "503", "500-504" or "5xx". */
bool rules_status_parse(const char *text, struct rule_status *ret_status);

/* Whether the name can be a reason: a lower-case letter, then lower-case letters, digits and single
 * hyphens between them, shorter than REASON_MAX. Anything more would not be a token of a structured
 * field (RFC 9651 section 3.3.4). */
bool rules_name_valid(const char *name);

#endif
