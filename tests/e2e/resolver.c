/* A resolver for the tests, to be preloaded: shop.test is 127.0.0.1, but only after the first
 * RESOLVER_FAILURES lookups, which fail as they do when no name server answers. */
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		struct addrinfo **ret_list)
{
	static atomic_int lookups;
	const char *failures = getenv("RESOLVER_FAILURES");
	lookup *next = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");

	if (name == NULL || strcmp(name, "shop.test") != 0)
		return next(name, service, hints, ret_list);
	if (failures != NULL && atomic_fetch_add(&lookups, 1) < strtol(failures, NULL, 10))
		return EAI_AGAIN;
	return next("127.0.0.1", service, hints, ret_list);
}
