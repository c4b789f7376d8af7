/* Listening sockets: TCP (with SO_REUSEPORT for the workers), unix sockets bound once in the process
 * and shared. */
#ifndef STINT_PROXY_FRONT_LISTEN_H
#define STINT_PROXY_FRONT_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/config.h"

struct front_sockets; /* the process's unix sockets; counted, freed (and unlinked) by the last */

/* NULL: out of memory. */
struct front_sockets *front_sockets_new(void);
struct front_sockets *front_sockets_ref(struct front_sockets *sockets);
/* True if it was the last: the sockets are closed, their files removed where they are still ours. */
bool front_sockets_unref(struct front_sockets *sockets);

/* A non-blocking listening socket of the caller's; -1 with one sentence in error. A unix socket is
 * bound by the first call for its path and dup'ed by the next ones; a socket file that nobody
 * answers at is replaced. `share`: the TCP port may be opened again, by each worker and by the next
 * process of a rolling restart. Not from two threads at once for one front_sockets. */
int front_listen_open(struct front_sockets *sockets, const struct listen_address *address,
		      bool share, char *error, size_t error_len);

#endif
