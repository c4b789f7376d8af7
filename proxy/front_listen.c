#include "proxy/front_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct unix_socket {
	char *path;
	int fd;
	dev_t dev; /* of the file, to remove no other's */
	ino_t ino;
};

struct front_sockets {
	atomic_int refs;
	struct unix_socket *items;
	size_t count;
};

struct front_sockets *front_sockets_new(void)
{
	struct front_sockets *sockets = calloc(1, sizeof(*sockets));

	if (sockets != NULL)
		atomic_init(&sockets->refs, 1);
	return sockets;
}

struct front_sockets *front_sockets_ref(struct front_sockets *sockets)
{
	atomic_fetch_add(&sockets->refs, 1);
	return sockets;
}

bool front_sockets_unref(struct front_sockets *sockets)
{
	if (sockets == NULL || atomic_fetch_sub(&sockets->refs, 1) > 1)
		return false;
	for (size_t i = 0; i < sockets->count; i++) {
		struct unix_socket *item = &sockets->items[i];
		struct stat file;

		if (lstat(item->path, &file) == 0 && file.st_dev == item->dev &&
		    file.st_ino == item->ino)
			unlink(item->path);
		close(item->fd);
		free(item->path);
	}
	free(sockets->items);
	free(sockets);
	return true;
}

static int fail(int fd, const struct listen_address *address, const char *what, const char *why,
		char *error, size_t error_len)
{
	if (fd >= 0)
		close(fd);
	snprintf(error, error_len, "cannot listen on %s: %s%s%s", address->text, what,
		 what[0] != '\0' ? ": " : "", why);
	return -1;
}

static int open_tcp(const struct listen_address *address, bool share, char *error, size_t error_len)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC,
				       .ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *found = NULL;
	const int on = 1;
	char port[16];
	int fd, rc;

	snprintf(port, sizeof(port), "%d", address->port);
	rc = getaddrinfo(address->host, port, &hints, &found);
	if (rc != 0)
		return fail(-1, address, "", gai_strerror(rc), error, error_len);
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		freeaddrinfo(found);
		return fail(fd, address, "socket", strerror(errno), error, error_len);
	}
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    (share && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) ||
	    bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0)
		rc = errno;
	freeaddrinfo(found);
	return rc == 0 ? fd : fail(fd, address, "", strerror(rc), error, error_len);
}

/* Whether somebody listens at the path. Only a refusal says that nobody does. */
static bool somebody_answers(const struct sockaddr_un *name)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool answers = true;

	if (fd < 0)
		return true;
	if (connect(fd, (const struct sockaddr *)name, sizeof(*name)) != 0)
		answers = errno != ECONNREFUSED && errno != ENOENT;
	close(fd);
	return answers;
}

static int bind_unix(const struct listen_address *address, struct unix_socket *ret_socket,
		     char *error, size_t error_len)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	size_t len = strlen(address->path);
	struct stat file;
	int fd;

	if (len >= sizeof(name.sun_path))
		return fail(-1, address, "", "the path is too long", error, error_len);
	memcpy(name.sun_path, address->path, len + 1);
	if (lstat(address->path, &file) == 0) {
		if (!S_ISSOCK(file.st_mode))
			return fail(-1, address, "", "the file exists and is no socket", error,
				    error_len);
		if (somebody_answers(&name))
			return fail(-1, address, "", strerror(EADDRINUSE), error, error_len);
		unlink(address->path);
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&name, sizeof(name)) != 0 ||
	    listen(fd, SOMAXCONN) != 0 || lstat(address->path, &file) != 0)
		return fail(fd, address, "", strerror(errno), error, error_len);
	*ret_socket = (struct unix_socket){.fd = fd, .dev = file.st_dev, .ino = file.st_ino};
	return 0;
}

static int open_unix(struct front_sockets *sockets, const struct listen_address *address,
		     char *error, size_t error_len)
{
	struct unix_socket *found = NULL, *items;
	int fd;

	for (size_t i = 0; i < sockets->count && found == NULL; i++) {
		if (strcmp(sockets->items[i].path, address->path) == 0)
			found = &sockets->items[i];
	}
	if (found == NULL) {
		items = realloc(sockets->items, (sockets->count + 1) * sizeof(*items));
		if (items == NULL)
			return fail(-1, address, "", strerror(ENOMEM), error, error_len);
		sockets->items = items;
		found = &items[sockets->count];
		if (bind_unix(address, found, error, error_len) != 0)
			return -1;
		found->path = strdup(address->path);
		if (found->path == NULL) {
			unlink(address->path);
			return fail(found->fd, address, "", strerror(ENOMEM), error, error_len);
		}
		sockets->count++;
	}
	fd = fcntl(found->fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 ? fd : fail(-1, address, "", strerror(errno), error, error_len);
}

int front_listen_open(struct front_sockets *sockets, const struct listen_address *address,
		      bool share, char *error, size_t error_len)
{
	if (address->path != NULL)
		return open_unix(sockets, address, error, error_len);
	return open_tcp(address, share, error, error_len);
}
