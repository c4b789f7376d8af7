/* The demo's provider: a small payments API that fails on demand. */
#ifndef STINT_PROXY_DEMO_PROVIDER_H
#define STINT_PROXY_DEMO_PROVIDER_H

struct demo_provider;

/* Listens on a free loopback port, with a thread of its own. POST /charge?plan=flaky answers 503
 * twice and then 200; ?plan=lost charges and closes the connection without an answer. NULL if it
 * cannot. */
struct demo_provider *demo_provider_new(void);
int demo_provider_port(const struct demo_provider *provider);
/* Requests seen, and charges made. */
int demo_provider_seen(struct demo_provider *provider);
int demo_provider_charged(struct demo_provider *provider);
void demo_provider_free(struct demo_provider *provider);

#endif
