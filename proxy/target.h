/* Request targets: what is let in, whose route it is, what goes upstream, and what of it may be
 * kept. Targets are raw bytes; nothing is decoded or normalised on the way (RFC 9112 section 3.2). */
#ifndef STINT_PROXY_TARGET_H
#define STINT_PROXY_TARGET_H

#include <stdbool.h>
#include <stddef.h>

struct config;
struct provider_config;
struct strings;

/* Room for a redacted target in the ledger, NUL included. */
#define TARGET_KIND_MAX 512

/* Whether a raw target is let in: origin-form, or "*" with OPTIONS. Absolute-form and
 * authority-form (and so CONNECT) are refused, and control characters, spaces and "#" anywhere.
 * Bytes that RFC 3986 wants encoded but clients send raw (UTF-8, "|", "{}") pass as they are. When
 * false, ret_detail (static text) says why. */
bool target_check(const char *method, const char *raw, size_t len, const char **ret_detail);

/* The provider of a checked target: that of the listener it came in on (`own`, else NULL), else by
 * Host (without regard to case, port or a final dot), else by the longest path prefix that ends at
 * a segment's end. `host` may be NULL. NULL: no route. */
const struct provider_config *target_route(const struct config *config,
					   const struct provider_config *own, const char *host,
					   size_t host_len, const char *raw, size_t len);

/* What goes upstream of a checked and routed target: the upstream's path and then the rest after
 * the route's prefix, as it came. ret_upstream is malloc'ed and the caller's; ret_rest (the target
 * after route removal) points into it. An empty rest becomes "/"; "*" stays "*". 0, or -1 out of
 * memory. */
int target_build(const struct provider_config *provider, const char *raw, size_t len,
		 char **ret_upstream, const char **ret_rest);

/* The target as the ledger, the log and the API may show it: ASCII, at most size - 1 bytes ("..."
 * where it was cut), the values of query parameters with one of these names replaced by "***", and
 * so what stands before an "@" after "//". Names are compared decoded, without regard to case, also
 * inside brackets ("card[token]") and inside another value ("next=/x?token="). */
void target_redact(const char *target, const struct strings *names, char *ret_kind, size_t size);

#endif
