#include "fault_vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fault_file {
	sqlite3_file base;
	sqlite3_file *real; /* behind this struct */
	const char *name;   /* NULL: a temporary file */
	bool is_log;
};

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	sqlite3_vfs *real;
	sqlite3_vfs vfs;
	enum fault_kind kind;
	long nth, counted;
	bool lasting, hit, log_dirty, keep;
	bool block, blocked;
	long writes, syncs;
} control = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Whether this call is to fail. */
static bool fails(bool is_write)
{
	pthread_mutex_lock(&control.mutex);
	bool counts =
		control.kind == FAULT_VFS_IOERR || (control.kind == FAULT_VFS_FULL && is_write);
	bool fail = false;
	if (counts) {
		control.counted++;
		fail = control.lasting ? control.counted >= control.nth
				       : control.counted == control.nth;
		control.hit = control.hit || fail;
	}
	pthread_mutex_unlock(&control.mutex);
	return fail;
}

#define REAL(file) (((struct fault_file *)(file))->real)

static int f_close(sqlite3_file *file)
{
	return REAL(file)->pMethods->xClose(REAL(file));
}

static int f_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 at)
{
	if (fails(false))
		return SQLITE_IOERR_READ;
	return REAL(file)->pMethods->xRead(REAL(file), bytes, count, at);
}

static int f_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
	struct fault_file *mine = (struct fault_file *)file;
	pthread_mutex_lock(&control.mutex);
	enum fault_kind kind = control.kind;
	control.writes++;
	control.log_dirty = control.log_dirty || mine->is_log;
	pthread_mutex_unlock(&control.mutex);
	if (fails(true)) {
		if (kind == FAULT_VFS_FULL)
			return SQLITE_FULL;
		REAL(file)->pMethods->xWrite(REAL(file), bytes, count / 2, at);
		return SQLITE_IOERR_WRITE;
	}
	return REAL(file)->pMethods->xWrite(REAL(file), bytes, count, at);
}

static int f_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	if (fails(false))
		return SQLITE_IOERR_TRUNCATE;
	return REAL(file)->pMethods->xTruncate(REAL(file), size);
}

static void copy_synced(const char *name)
{
	char copy[512], buffer[4096];
	size_t count;
	snprintf(copy, sizeof(copy), "%s.synced", name);
	FILE *from = fopen(name, "r"), *to = fopen(copy, "w");
	if (!from || !to)
		abort();
	while ((count = fread(buffer, 1, sizeof(buffer), from)) > 0)
		if (fwrite(buffer, 1, count, to) != count)
			abort();
	fclose(from);
	if (fclose(to) != 0)
		abort();
}

static int f_sync(sqlite3_file *file, int flags)
{
	struct fault_file *mine = (struct fault_file *)file;
	(void)flags;
	pthread_mutex_lock(&control.mutex);
	control.syncs++;
	if (mine->is_log)
		control.log_dirty = false;
	bool keep = control.keep && mine->name;
	while (control.block) {
		control.blocked = true;
		pthread_cond_broadcast(&control.changed);
		pthread_cond_wait(&control.changed, &control.mutex);
	}
	pthread_mutex_unlock(&control.mutex);
	if (fails(false))
		return SQLITE_IOERR_FSYNC;
	/* The database itself is not copied: closing the copy's source would drop SQLite's locks. */
	if (keep && mine->is_log)
		copy_synced(mine->name);
	return SQLITE_OK; /* no power is cut here: the real sync would only take time */
}

static int f_file_size(sqlite3_file *file, sqlite3_int64 *size)
{
	if (fails(false))
		return SQLITE_IOERR_FSTAT;
	return REAL(file)->pMethods->xFileSize(REAL(file), size);
}

static int f_lock(sqlite3_file *file, int level)
{
	if (fails(false))
		return SQLITE_IOERR_LOCK;
	return REAL(file)->pMethods->xLock(REAL(file), level);
}

static int f_unlock(sqlite3_file *file, int level)
{
	return REAL(file)->pMethods->xUnlock(REAL(file), level);
}

static int f_check_lock(sqlite3_file *file, int *held)
{
	return REAL(file)->pMethods->xCheckReservedLock(REAL(file), held);
}

static int f_control(sqlite3_file *file, int op, void *arg)
{
	return REAL(file)->pMethods->xFileControl(REAL(file), op, arg);
}

static int f_sector_size(sqlite3_file *file)
{
	return REAL(file)->pMethods->xSectorSize(REAL(file));
}

static int f_characteristics(sqlite3_file *file)
{
	return REAL(file)->pMethods->xDeviceCharacteristics(REAL(file));
}

static int f_shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **map)
{
	if (fails(false))
		return SQLITE_IOERR_SHMMAP;
	return REAL(file)->pMethods->xShmMap(REAL(file), page, size, extend, map);
}

static int f_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
	if (!(flags & SQLITE_SHM_UNLOCK) && fails(false))
		return SQLITE_IOERR_SHMLOCK;
	return REAL(file)->pMethods->xShmLock(REAL(file), offset, count, flags);
}

static void f_shm_barrier(sqlite3_file *file)
{
	REAL(file)->pMethods->xShmBarrier(REAL(file));
}

static int f_shm_unmap(sqlite3_file *file, int remove)
{
	return REAL(file)->pMethods->xShmUnmap(REAL(file), remove);
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = f_close,
	.xRead = f_read,
	.xWrite = f_write,
	.xTruncate = f_truncate,
	.xSync = f_sync,
	.xFileSize = f_file_size,
	.xLock = f_lock,
	.xUnlock = f_unlock,
	.xCheckReservedLock = f_check_lock,
	.xFileControl = f_control,
	.xSectorSize = f_sector_size,
	.xDeviceCharacteristics = f_characteristics,
	.xShmMap = f_shm_map,
	.xShmLock = f_shm_lock,
	.xShmBarrier = f_shm_barrier,
	.xShmUnmap = f_shm_unmap,
};

static int v_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
	(void)vfs;
	struct fault_file *mine = (struct fault_file *)file;
	mine->base.pMethods = NULL;
	if (fails(false))
		return SQLITE_CANTOPEN;
	mine->real = (sqlite3_file *)(mine + 1);
	mine->name = name;
	mine->is_log = flags & SQLITE_OPEN_WAL;
	int rc = control.real->xOpen(control.real, name, mine->real, flags, ret_flags);
	if (rc == SQLITE_OK)
		mine->base.pMethods = &methods;
	return rc;
}

static int v_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs, (void)sync;
	if (fails(false))
		return SQLITE_IOERR_DELETE;
	return control.real->xDelete(control.real, name, 0);
}

static int v_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_there)
{
	(void)vfs;
	if (fails(false))
		return SQLITE_IOERR_ACCESS;
	return control.real->xAccess(control.real, name, flags, ret_there);
}

void fault_vfs_install(void)
{
	control.real = sqlite3_vfs_find(NULL);
	if (!control.real)
		abort();
	control.vfs = *control.real;
	control.vfs.zName = "fault";
	control.vfs.pNext = NULL;
	control.vfs.szOsFile = (int)sizeof(struct fault_file) + control.real->szOsFile;
	control.vfs.xOpen = v_open;
	control.vfs.xDelete = v_delete;
	control.vfs.xAccess = v_access;
	sqlite3_vfs_register(&control.vfs, 1);
}

static void set(enum fault_kind kind, long nth, bool lasting)
{
	pthread_mutex_lock(&control.mutex);
	control.kind = kind;
	control.nth = nth;
	control.lasting = lasting;
	if (kind != FAULT_VFS_NONE) {
		control.counted = 0;
		control.hit = false;
	}
	pthread_mutex_unlock(&control.mutex);
}

void fault_vfs_arm(enum fault_kind kind, long nth, bool lasting)
{
	set(kind, nth, lasting);
}

void fault_vfs_disarm(void)
{
	set(FAULT_VFS_NONE, 0, false);
}

#define LOCKED(type, name, value)                                                                  \
	type name(void)                                                                            \
	{                                                                                          \
		pthread_mutex_lock(&control.mutex);                                                \
		type it = value;                                                                   \
		pthread_mutex_unlock(&control.mutex);                                              \
		return it;                                                                         \
	}

LOCKED(bool, fault_vfs_hit, control.hit)
LOCKED(long, fault_vfs_writes, control.writes)
LOCKED(long, fault_vfs_syncs, control.syncs)
LOCKED(bool, fault_vfs_log_is_synced, !control.log_dirty)

void fault_vfs_block_sync(void)
{
	pthread_mutex_lock(&control.mutex);
	control.block = true;
	control.blocked = false;
	pthread_mutex_unlock(&control.mutex);
}

bool fault_vfs_wait_blocked(void)
{
	struct timespec until;
	int late = 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	pthread_mutex_lock(&control.mutex);
	while (!control.blocked && late == 0)
		late = pthread_cond_timedwait(&control.changed, &control.mutex, &until);
	bool blocked = control.blocked;
	pthread_mutex_unlock(&control.mutex);
	return blocked;
}

void fault_vfs_let_sync(void)
{
	pthread_mutex_lock(&control.mutex);
	control.block = false;
	pthread_cond_broadcast(&control.changed);
	pthread_mutex_unlock(&control.mutex);
}

void fault_vfs_keep_synced(bool keep)
{
	pthread_mutex_lock(&control.mutex);
	control.keep = keep;
	pthread_mutex_unlock(&control.mutex);
}
