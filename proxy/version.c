#include "proxy/version.h"

#ifndef STINT_VERSION
#define STINT_VERSION "unknown"
#endif
#ifndef STINT_REVISION
#define STINT_REVISION "unknown"
#endif

const char *stint_version(void)
{
	return STINT_VERSION;
}

const char *stint_revision(void)
{
	return STINT_REVISION;
}
