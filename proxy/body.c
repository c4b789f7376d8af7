#include "proxy/body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_CAPACITY 256

void body_init(struct body *body, const struct body_limits *limits)
{
	*body = (struct body){.limits = limits, .fd = -1};
}

static void drop_memory(struct body *body)
{
	free(body->memory);
	if (body->memory_cap > 0)
		atomic_fetch_sub(body->limits->pool_used, body->memory_cap);
	body->memory = NULL;
	body->memory_len = body->memory_cap = 0;
}

void body_done(struct body *body)
{
	drop_memory(body);
	if (body->fd >= 0)
		close(body->fd);
	body_init(body, body->limits);
}

/* Takes `more` bytes from the pool, or nothing. */
static bool pool_take(const struct body_limits *limits, size_t more)
{
	size_t used = atomic_load(limits->pool_used);

	do {
		if (more > limits->pool_max || used > limits->pool_max - more)
			return false;
	} while (!atomic_compare_exchange_weak(limits->pool_used, &used, used + more));
	return true;
}

enum room { ROOM_YES, ROOM_NOT_HERE, ROOM_NO_MEMORY };

/* Makes room in memory for `len` more bytes, counted against the pool. */
static enum room make_room(struct body *body, size_t len)
{
	size_t need = body->memory_len + len;
	size_t capacity = body->memory_cap == 0 ? FIRST_CAPACITY : body->memory_cap;
	char *memory;

	if (need > body->limits->memory)
		return ROOM_NOT_HERE;
	if (need <= body->memory_cap)
		return ROOM_YES;
	while (capacity < need)
		capacity *= 2;
	if (capacity > body->limits->memory)
		capacity = body->limits->memory;
	if (!pool_take(body->limits, capacity - body->memory_cap))
		return ROOM_NOT_HERE;
	memory = realloc(body->memory, capacity);
	if (memory == NULL) {
		atomic_fetch_sub(body->limits->pool_used, capacity - body->memory_cap);
		return ROOM_NO_MEMORY;
	}
	body->memory = memory;
	body->memory_cap = capacity;
	return ROOM_YES;
}

/* A file that nothing else can open, and that is gone with its descriptor. */
static int open_temp(const char *dir)
{
	char path[4096];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, S_IRUSR | S_IWUSR);
	int len;

	/* Not every file system has O_TMPFILE (NFS, some overlays): EOPNOTSUPP; kernels that know
	 * nothing of it say EISDIR. */
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	len = snprintf(path, sizeof(path), "%s/stint-body-XXXXXX", dir);
	if (len < 0 || (size_t)len >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}

static bool write_all(int fd, const char *data, size_t len, size_t offset)
{
	while (len > 0) {
		ssize_t written = pwrite(fd, data, len, (off_t)offset);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			errno = written == 0 ? ENOSPC : errno;
			return false;
		}
		data += written;
		len -= (size_t)written;
		offset += (size_t)written;
	}
	return true;
}

/* Moves what is in memory to a new file. On failure all stays as it was. */
static bool move_to_file(struct body *body)
{
	int fd = open_temp(body->limits->temp_dir);

	if (fd < 0)
		return false;
	if (!write_all(fd, body->memory, body->memory_len, 0)) {
		int error = errno;

		close(fd);
		errno = error;
		return false;
	}
	body->fd = fd;
	drop_memory(body);
	return true;
}

enum body_result body_append(struct body *body, const void *data, size_t len)
{
	if (len > body->limits->max || body->length > body->limits->max - len)
		return BODY_TOO_LARGE;
	if (len == 0)
		return BODY_OK;
	if (body->fd < 0) {
		switch (make_room(body, len)) {
		case ROOM_YES:
			memcpy(body->memory + body->memory_len, data, len);
			body->memory_len += len;
			body->length += len;
			return BODY_OK;
		case ROOM_NO_MEMORY:
			errno = ENOMEM;
			return BODY_ERROR;
		case ROOM_NOT_HERE:
			break;
		}
		if (!move_to_file(body))
			return BODY_ERROR;
	}
	if (!write_all(body->fd, data, len, body->length))
		return BODY_ERROR;
	body->length += len;
	return BODY_OK;
}

ssize_t body_read(const struct body *body, size_t offset, void *buffer, size_t len)
{
	ssize_t got;

	if (offset >= body->length || len == 0)
		return 0;
	if (len > body->length - offset)
		len = body->length - offset;
	if (body->fd < 0) {
		memcpy(buffer, body->memory + offset, len);
		return (ssize_t)len;
	}
	do
		got = pread(body->fd, buffer, len, (off_t)offset);
	while (got < 0 && errno == EINTR);
	if (got == 0) {
		/* Shorter than what was written: never a short request upstream. */
		errno = EIO;
		return -1;
	}
	return got;
}

int body_view(const struct body *body, const char **ret_data, char **ret_heap)
{
	size_t offset = 0;
	char *heap;

	if (body->fd < 0) {
		*ret_data = body->length == 0 ? "" : body->memory;
		*ret_heap = NULL;
		return 0;
	}
	heap = malloc(body->length);
	if (heap == NULL) {
		errno = ENOMEM;
		return -1;
	}
	while (offset < body->length) {
		ssize_t got = body_read(body, offset, heap + offset, body->length - offset);

		if (got < 0) {
			int error = errno;

			free(heap);
			errno = error;
			return -1;
		}
		offset += (size_t)got;
	}
	*ret_data = heap;
	*ret_heap = heap;
	return 0;
}
