/* Outcomes and voids that the store would not take yet: kept in bounded memory and tried again until
 * it does (design section 7). While it is full, keyed unsafe work is refused. */
#ifndef STINT_PROXY_PENDING_H
#define STINT_PROXY_PENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/update.h"

#define PENDING_MAX 10000
#define PENDING_REPLIES_MAX                                                                        \
	((size_t)32 << 20) /* bytes; beyond it the outcome is kept without its reply */
#define PENDING_RETRY_MS 250

struct pending;

/* Lives on app->control; NULL: out of memory. */
struct pending *pending_new(struct app *app);
/* Hands an update over, from any thread; its loop becomes the control loop, its done is set here.
 * Never refused: what is full is what makes deliveries be refused beforehand. */
void pending_add(struct pending *pending, struct update *update);
bool pending_is_full(struct pending *pending);
size_t pending_count(struct pending *pending);
/* Whether an update for this name waits (its lease is not swept). */
bool pending_has(struct pending *pending, const struct op_name *name);
/* Tries everything once more and stops; `closed` fires when no update is under way. What is left is
 * logged: the sweep of the next start settles it as possible. */
void pending_close(struct pending *pending, void (*closed)(void *data), void *data);
void pending_free(struct pending *pending);

#endif
