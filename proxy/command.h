/* The command line: `stint serve | check | explain | demo | version | help`. */
#ifndef STINT_PROXY_COMMAND_H
#define STINT_PROXY_COMMAND_H

/* Returns the exit status: 0, 1 for what went wrong, 2 for a command line that is not understood. */
int command_run(int argc, char **argv);

#endif
