/* `stint serve`: builds the app, runs the workers and the control thread until a signal ends it. */
#ifndef STINT_PROXY_SERVE_H
#define STINT_PROXY_SERVE_H

/* Runs until SIGTERM or SIGINT. Returns the exit status: 0 after a clean drain, 1 if it could not
 * start (said on standard error). */
int serve_run(const char *config_file);

#endif
