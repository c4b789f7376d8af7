/* Functions that this project does not use: with this header, which the build puts before every
 * source of the three rooms, naming one of them does not compile.
 *
 * A poisoned name is an error in a declaration too, so the system headers that declare one come
 * first; their include guards keep them from being read again. Tests are compiled without it. */
#ifndef STINT_CLASSIFY_BANNED_H
#define STINT_CLASSIFY_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No bound on what they write. */
#pragma GCC poison strcpy stpcpy strcat sprintf vsprintf gets
/* Leaves the result without its NUL, or fills the rest with zeros: snprintf or memcpy. */
#pragma GCC poison strncpy
/* Keeps its state in a global, and writes into its input. */
#pragma GCC poison strtok
/* Takes anything for a number, and overflows silently: strtoll with its end pointer. */
#pragma GCC poison atoi atol atoll atof

#endif
