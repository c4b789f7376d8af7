/* What time does to records, on the control thread: expired leases are settled as possible, windows
 * and repeat limits end, retention trims; and the counts that the process keeps are refreshed. */
#ifndef STINT_PROXY_SWEEP_H
#define STINT_PROXY_SWEEP_H

#include <stdbool.h>

#include "proxy/app.h"

#define SWEEP_MS 500 /* expired leases are swept at least once a second: design section 4 */

struct sweep;

/* Lives on app->control; NULL: out of memory. */
struct sweep *sweep_new(struct app *app);
/* True when a pass has found nothing more to do since the ledger was opened: at start nothing is
 * admitted before what a crash left has been settled. */
bool sweep_is_clean(const struct sweep *sweep);
/* Ends when no ledger call is under way; `closed` fires then. */
void sweep_close(struct sweep *sweep, void (*closed)(void *data), void *data);
void sweep_free(struct sweep *sweep);

#endif
