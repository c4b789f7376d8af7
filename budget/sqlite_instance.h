/* Instance ids as locked files: PATH.instances/ID is locked for as long as its process lives, so
 * that others see at once when it is gone. */
#ifndef STINT_BUDGET_SQLITE_INSTANCE_H
#define STINT_BUDGET_SQLITE_INSTANCE_H

#include "budget/operation.h"

struct sqlite_instance {
	char *directory;
	char id[OP_INSTANCE_MAX];
	int fd; /* -1: not open */
};

/* Makes a random id and its locked file; clears files of dead instances away. 0 and ret_instance,
 * or -1 and one sentence in error. */
int sqlite_instance_open(const char *path, char *error, size_t error_len,
			 struct sqlite_instance *ret_instance);
void sqlite_instance_close(struct sqlite_instance *instance);

/* Whether the process with this id is gone for certain. In doubt it lives, and its leases run. */
bool sqlite_instance_is_dead(const struct sqlite_instance *instance, const char *id);

#endif
