/* What a reply says about when to come back (design section 5, "Waiting advice"), read strictly: no
 * text, however broken, makes a wait of zero. Pure. */
#ifndef STINT_CLASSIFY_ADVICE_H
#define STINT_CLASSIFY_ADVICE_H

#include "classify/outcome.h"

/* The units of a provider's own headers, by their names in the configuration. Both epochs are
 * guessed by magnitude, since providers change their minds: up to 10^6 it is seconds from now, 10^9
 * to 10^11 seconds of the epoch, 10^12 to 10^15 milliseconds of it; between these it is unreadable.
 * An `s` of 10^9 or more and an `ms` of 10^12 or more are taken for epochs too. */
#define ADVICE_UNITS(X)                                                                            \
	X(S, "s")                                                                                  \
	X(MS, "ms")                                                                                \
	X(EPOCH, "epoch")                                                                          \
	X(EPOCH_MS, "epoch-ms")                                                                    \
	X(GO_DURATION, "go-duration") /* 6m30s, 17ms */                                            \
	X(RFC3339, "rfc3339")                                                                      \
	X(RATELIMIT, "ratelimit") /* RateLimit: "default";r=0;t=30: the longest t where r is 0 */

enum advice_unit {
#define X(id, text) ADVICE_UNIT_##id,
	ADVICE_UNITS(X)
#undef X
		ADVICE_UNIT_COUNT
};

/* Where else a provider says when to come back: a header, or a scalar in the body. */
struct advice_source {
	const char *header; /* NULL: `pointer` */
	enum advice_unit unit;
	const char *pointer; /* RFC 6901, json_scan_pointer_valid(); NULL: `header` */
};

struct advice {
	usec_t wait; /* us from the reply's headers, above 0; -1: nothing but one's own backoff */
	bool stated; /* a readable value was there, be it a zero: what has less rank is not asked */
	bool invalid;     /* something was there and could not be read, or lay in the past */
	bool retry_after; /* a readable Retry-After itself was there */
	/* What `wait` was read from, else the first that was there: as the facts, or the source, spell
	 * it, not NUL-terminated. `where` is NULL if nothing was there. */
	const char *where;
	size_t where_len;
	const char *text;
	size_t text_len;
};

/* Reads `retry-after-ms`, then `x-ms-retry-after-ms`, then `Retry-After`; the first with a positive
 * value is the advice, and of several lines of one name the largest. Absolute times are taken
 * against the reply's Date (one readable line, and no Age), else against facts->received_wall. */
void advice_read(const struct facts *facts, struct advice *ret_advice);

/* Adds the provider's own headers: does nothing if the advice is `stated` already, else takes the
 * largest value of all the sources, since a reply does not say which of its limits was hit. Sources
 * in the body are passed over. */
void advice_add_sources(const struct facts *facts, const struct advice_source *sources,
			size_t count, struct advice *advice);

/* The same for the sources in the body, which the caller knows to be whole. A null and what is not
 * there say nothing; what is no string or number, or over ADVICE_TEXT_MAX bytes, is unreadable. */
#define ADVICE_TEXT_MAX 255
void advice_add_body(const struct facts *facts, const struct advice_source *sources, size_t count,
		     struct advice *advice);

/* The value of one header line: 1 if it could be read, and the wait, 0 or more, is written; 0 if it
 * is readable but says nothing (a RateLimit with units left); -1 if unreadable, negative or past.
 * `reference_wall` is "now" for absolute times. */
int advice_value(const char *text, size_t len, enum advice_unit unit, usec_t reference_wall,
		 usec_t *ret_wait);

/* The same for Retry-After: delta or decimal seconds, or an HTTP-date. */
int advice_retry_after(const char *text, size_t len, usec_t reference_wall, usec_t *ret_wait);

/* The wall time that the reply's absolute times are relative to. */
usec_t advice_reference(const struct facts *facts);

const char *advice_unit_name(enum advice_unit unit);
bool advice_unit_parse(const char *text, enum advice_unit *ret_unit);

#endif
