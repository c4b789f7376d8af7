/* A layer over SQLite's own file access that makes chosen calls fail, and that knows which bytes a
 * power cut would leave. One for a process; its state is read and set between requests. */
#ifndef STINT_TESTS_FAULT_VFS_H
#define STINT_TESTS_FAULT_VFS_H

#include <stdbool.h>

enum fault_kind {
	FAULT_VFS_NONE,
	FAULT_VFS_IOERR, /* any call; a failed write leaves its first half */
	FAULT_VFS_FULL,  /* writes only */
};

/* Registers the layer as the default. */
void fault_vfs_install(void);

/* The call with this number (from 1, of those that `kind` counts) fails; with `lasting`, all that
 * follow it too. Restarts the counting. */
void fault_vfs_arm(enum fault_kind kind, long nth, bool lasting);
void fault_vfs_disarm(void);
bool fault_vfs_hit(void); /* whether a call has failed since arming */

/* Counters since the start. */
long fault_vfs_writes(void);
long fault_vfs_syncs(void);
bool fault_vfs_log_is_synced(void); /* nothing was written to a -wal file since its last sync */

/* The next sync waits until fault_vfs_let_sync(). false: none came within 10 s. */
void fault_vfs_block_sync(void);
bool fault_vfs_wait_blocked(void);
void fault_vfs_let_sync(void);

/* With `keep`, each sync of a -wal file keeps a copy as FILE.synced: what a power cut leaves of it. */
void fault_vfs_keep_synced(bool keep);

#endif
