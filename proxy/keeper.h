/* Keeps the blocks of all gates in the ledger, so that a restart does not send into a provider that
 * asked to be left alone: written behind, at most once for each change, and read at start. */
#ifndef STINT_PROXY_KEEPER_H
#define STINT_PROXY_KEEPER_H

#include <stdbool.h>

struct app;
struct keeper;

/* Lives on app->control; NULL: out of memory. */
struct keeper *keeper_new(struct app *app);
/* Before workers run: takes over the providers' changes, gives them the ledger's secret where it is
 * open, and begins to read what is kept. Where the ledger opens later, it is read then. */
void keeper_start(struct keeper *keeper);
/* Whether the ledger was read, or did not answer (it is asked again every second). */
bool keeper_has_looked(const struct keeper *keeper);
/* Writes what has changed once more and stops; `closed` fires when no write is under way. */
void keeper_close(struct keeper *keeper, void (*closed)(void *data), void *data);
void keeper_free(struct keeper *keeper);

#endif
