/* What a caller says about its delivery: Stint-Attempts, Stint-Deadline, Stint-Corrects. Hints only
 * lower; whatever is malformed is refused and never read as "no limit". */
#ifndef STINT_PROXY_HINTS_H
#define STINT_PROXY_HINTS_H

#include <stdbool.h>
#include <stddef.h>

#include "budget/name.h"
#include "classify/outcome.h"

#define HINTS_DETAIL_MAX 128

struct hints {
	int attempts;                  /* 1 to 100; 0: not given */
	usec_t deadline;               /* from receipt, > 0; -1: not given */
	char corrects[OP_KEY_MAX + 1]; /* ""; not given */
};

/* Reads the hints of a request's headers. False if one is malformed or there on two lines:
 * ret_detail (at least HINTS_DETAIL_MAX bytes) says which and what to write, and ret_hints is not
 * written. Values are read as they are: white space around a number is malformed too. */
bool hints_parse(const struct header_view *headers, size_t count, struct hints *ret_hints,
		 char *ret_detail);

#endif
