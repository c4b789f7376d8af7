/* The admin listener: health, readiness, metrics and the read side of the API (design section 10), on
 * the control thread's loop. */
#ifndef STINT_PROXY_ADMIN_H
#define STINT_PROXY_ADMIN_H

#include <stddef.h>

struct admin;
struct app;

/* Opens app->config->admin_listen on app->control's loop. 0, or -1 with a sentence in error. */
int admin_new(struct app *app, char *error, size_t error_len, struct admin **ret_admin);
/* Requests that wait for the ledger are ended; `closed` fires when everything is closed. NULL: fires
 * at once. */
void admin_close(struct admin *admin, void (*closed)(void *data), void *data);

#endif
