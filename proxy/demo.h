/* `stint demo`: plays three stories against a provider of its own, on loopback ports and a ledger in
 * a temporary directory, and prints what happened. */
#ifndef STINT_PROXY_DEMO_H
#define STINT_PROXY_DEMO_H

/* Returns 0 if every story ended as it should, else 1. */
int demo_run(void);

#endif
