/* `stint ops`: what an operator does to operations of a running stint. */
#ifndef STINT_PROXY_OPS_H
#define STINT_PROXY_OPS_H

/* The arguments after `ops`; `config` is the configuration where none is given. The exit status: 0
 * done, 1 refused or not answered, 2 the command line is wrong. */
int ops_run(int argc, char **argv, const char *config);

#endif
