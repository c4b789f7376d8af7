/* A file appears under its id only when it is locked already (written under another name, then
 * renamed): nobody ever sees a living instance's file without its lock. A name is never used twice,
 * so a dead one's file may be removed by whoever finds it. */
#include "budget/sqlite_instance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID_BYTES 8
#define NEW_SUFFIX ".new"
#define TRIES 8

/* What others may have called themselves: never a path. */
static bool is_id(const char *id)
{
	return strlen(id) == 2 * ID_BYTES && strspn(id, "0123456789abcdef") == 2 * ID_BYTES;
}

/* Takes the lock of a file and removes it, if its process is gone. errno says why not. */
static bool clear_if_dead(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT;
	bool dead = flock(fd, LOCK_EX | LOCK_NB) == 0;
	if (dead)
		unlinkat(directory, name, 0);
	close(fd);
	return dead;
}

bool sqlite_instance_is_dead(const struct sqlite_instance *instance, const char *id)
{
	if (!is_id(id) || strcmp(id, instance->id) == 0)
		return false;
	int directory = open(instance->directory, O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return false;
	bool dead = clear_if_dead(directory, id);
	close(directory);
	return dead;
}

static void clear_dead(const char *path)
{
	DIR *directory = opendir(path);
	if (!directory)
		return;
	for (struct dirent *entry; (entry = readdir(directory));) {
		char id[2 * ID_BYTES + 1];
		snprintf(id, sizeof(id), "%.*s", 2 * ID_BYTES, entry->d_name);
		if (is_id(id))
			clear_if_dead(dirfd(directory), entry->d_name);
	}
	closedir(directory);
}

static bool make_id(char ret_id[OP_INSTANCE_MAX])
{
	uint8_t bytes[ID_BYTES];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return false;
	for (size_t i = 0; i < ID_BYTES; i++)
		snprintf(ret_id + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

/* Returns the locked file's descriptor, or -1 with errno. */
static int make_file(int directory, const char *id)
{
	char name[OP_INSTANCE_MAX + sizeof(NEW_SUFFIX)];
	snprintf(name, sizeof(name), "%s" NEW_SUFFIX, id);
	int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && renameat(directory, name, directory, id) == 0)
		return fd;
	int why = errno;
	unlinkat(directory, name, 0);
	close(fd);
	errno = why;
	return -1;
}

int sqlite_instance_open(const char *path, char *error, size_t error_len,
			 struct sqlite_instance *ret_instance)
{
	struct sqlite_instance instance = {.fd = -1};
	if (asprintf(&instance.directory, "%s.instances", path) < 0) {
		snprintf(error, error_len, "out of memory");
		return -1;
	}
	int directory = -1;
	if (mkdir(instance.directory, 0700) == 0 || errno == EEXIST)
		directory = open(instance.directory, O_DIRECTORY | O_CLOEXEC);
	if (directory >= 0)
		clear_dead(instance.directory);
	/* Another instance may take an unlocked new file for a dead one's: then again. */
	for (int i = 0; directory >= 0 && instance.fd < 0 && i < TRIES; i++)
		if (make_id(instance.id))
			instance.fd = make_file(directory, instance.id);
	if (instance.fd < 0) {
		snprintf(error, error_len, "cannot make a file in %s: %s", instance.directory,
			 strerror(errno));
		free(instance.directory);
	} else {
		*ret_instance = instance;
	}
	if (directory >= 0)
		close(directory);
	return instance.fd < 0 ? -1 : 0;
}

void sqlite_instance_close(struct sqlite_instance *instance)
{
	if (!instance->directory)
		return;
	int directory = open(instance->directory, O_DIRECTORY | O_CLOEXEC);
	if (directory >= 0) {
		unlinkat(directory, instance->id, 0);
		close(directory);
	}
	close(instance->fd);
	free(instance->directory);
	*instance = (struct sqlite_instance){.fd = -1};
}
