/* The list `rules` while it is read: what its two readers, of a rule and of its conditions, share. */
#ifndef STINT_PROXY_CONFIG_RULES_H
#define STINT_PROXY_CONFIG_RULES_H

#include "proxy/config_build.h"

#define RULES_MAX 100          /* of one provider */
#define RULE_CONDITIONS_MAX 16 /* headers, and JSON pointers, of one rule */
#define RULE_VALUES_MAX 64     /* of one condition */
#define RULE_TEXT_MAX 256      /* bytes of a name, value or pointer in a condition */
#define RULE_WHO_MAX (REASON_MAX + 16)

struct rule_reader {
	struct loader *loader;
	struct arena_block **memory; /* the configuration's own: what rules point to */
	char who[RULE_WHO_MAX];      /* "rule quota", "rule 3" */
	bool good;                   /* no problem so far */
};

/* Memory and copies for the rules; NULL: there is none, and that is known to the loader. */
void *rule_alloc(struct rule_reader *reader, size_t size);
const char *rule_text(struct rule_reader *reader, const char *text);
/* "WHO: WHAT is VALUE: write ...". */
void rule_refuse(struct rule_reader *reader, const struct node *node, const char *what,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same for a name that is not known. */
void rule_refuse_key(struct rule_reader *reader, const struct node_pair *pair, const char *where,
		     const char *known);

/* Reads the mapping `when` into the rule. */
void rule_read_when(struct rule_reader *reader, const struct node *node, struct rule *rule);

#endif
