/* What stint's own refusals look like: a problem document, or what the provider's configuration
 * makes of it (`refusal`), so that the provider's SDK takes it for what it is. */
#ifndef STINT_PROXY_REFUSAL_H
#define STINT_PROXY_REFUSAL_H

#include <stddef.h>

struct headers;
struct problem;
struct provider_config;

/* Adds the refusal's own headers, Content-Type among them, and returns its body (malloc, the
 * caller's) with its status. `config` NULL: no provider is known. `problem->detail` is not NULL.
 * NULL: out of memory. */
char *refusal_write(const struct provider_config *config, const struct problem *problem,
		    struct headers *headers, int *ret_status, size_t *ret_len);

#endif
