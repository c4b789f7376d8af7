/* Which build this is; the Makefile passes both texts. */
#ifndef STINT_PROXY_VERSION_H
#define STINT_PROXY_VERSION_H

const char *stint_version(void);  /* "0.1.0" */
const char *stint_revision(void); /* the commit, or "unknown" */

#endif
