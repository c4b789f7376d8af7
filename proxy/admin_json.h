/* The API's JSON: members of objects, and an operation as design section 10 names its fields. */
#ifndef STINT_PROXY_ADMIN_JSON_H
#define STINT_PROXY_ADMIN_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "budget/ledger.h"

/* Compact, and reals without the noise of their last digits. */
#define ADMIN_JSON_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(15))

/* Each sets one member; false: out of memory. */
bool admin_set(json_t *object, const char *name,
	       json_t *value); /* takes value; NULL is a failure */
/* NULL is left out; bytes of a text that is no UTF-8 come out as "?". */
bool admin_set_text(json_t *object, const char *name, const char *text);
bool admin_set_number(json_t *object, const char *name, int64_t number);
bool admin_set_bool(json_t *object, const char *name, bool value);
bool admin_set_seconds(json_t *object, const char *name, usec_t value);
/* RFC 3339 with milliseconds; 0 and less are left out, there is no such time. */
bool admin_set_time(json_t *object, const char *name, usec_t wall);

/* The version of a record as one opaque text: whoever compares it needs no more than equality. */
#define ADMIN_VERSION_MAX (2 * OP_INCARNATION_LEN + 12)
void admin_version(const struct op *op, char ret_version[ADMIN_VERSION_MAX]);

/* One operation; NULL: out of memory. What does not apply is left out: times that there are none of,
 * class, effect, status and reason before the first verdict, owner and lease_until but while it is
 * attempting. `with_history` adds history[], and corrects and corrected_by. */
json_t *admin_operation_json(const struct ledger_row *row, bool with_history);

/* history[]: attempts of the ring and the notes, in order of time. The same, NULL: out of memory. */
json_t *admin_history_json(const struct op *op, const char *notes);

#endif
