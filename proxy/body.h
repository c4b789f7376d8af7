/* A replayable body: in memory up to a bound, then in an unlinked temporary file; all memory of all
 * bodies counted against one process-wide bound (replay_memory). */
#ifndef STINT_PROXY_BODY_H
#define STINT_PROXY_BODY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct body_limits {
	size_t memory; /* body.memory: beyond it to the file */
	size_t max;    /* body.max */
	const char *temp_dir;
	atomic_size_t *pool_used; /* replay_memory in use, shared by all threads */
	size_t pool_max;
};

struct body {
	const struct body_limits *limits;
	char *memory;
	size_t memory_len, memory_cap;
	int fd; /* -1: none */
	size_t length;
};

enum body_result { BODY_OK = 0, BODY_TOO_LARGE = 1, BODY_ERROR = -1 };

void body_init(struct body *body, const struct body_limits *limits);
void body_done(struct body *body);
/* Appends; BODY_TOO_LARGE (nothing appended) if it would exceed max; BODY_ERROR with errno set
 * (memory, disk). A body that begins to exceed `memory`, or that finds the pool full, moves to the
 * file. */
enum body_result body_append(struct body *body, const void *data, size_t len);
/* Reads at `offset`; 0 at the end; -1 with errno. */
ssize_t body_read(const struct body *body, size_t offset, void *buffer, size_t len);
/* The whole body as one block: points into the body, or into *ret_heap (malloc'ed, the caller frees
 * it) when it lives in a file. 0, or -1 with errno. */
int body_view(const struct body *body, const char **ret_data, char **ret_heap);

#endif
