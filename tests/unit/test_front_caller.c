/* Callers that leave or dawdle, draining, closing, unix sockets and TLS. */
#include "front_rig.h"

/* --- departure ------------------------------------------------------------------------------ */

static void set_hard(int fd)
{
	const struct linger hard = {1, 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static void test_reset(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig), early = dial(rig);

	hold(rig, fd, GET);
	turn_for(rig, 60 * USEC_MS);
	set_hard(fd);
	close(fd);
	await(rig, &rig->gone, 1);
	assert_int_equal(rig->half, 0);
	answer_text(rig->held[0], 200, "too late");
	assert_int_equal(rig->written, 0);
	/* before it is watched */
	hold(rig, early, GET);
	set_hard(early);
	close(early);
	await(rig, &rig->gone, 2);
}

static void test_half(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig), early = dial(rig);
	struct reply reply;

	hold(rig, fd, GET);
	turn_for(rig, 60 * USEC_MS);
	shutdown(fd, SHUT_WR);
	await(rig, &rig->half, 1);
	turn_for(rig, 60 * USEC_MS);
	assert_int_equal(rig->half, 1);
	assert_int_equal(rig->gone, 0);
	/* the answer is still written */
	answer_text(rig->held[0], 200, "still");
	reply = read_to_end(rig, fd);
	assert_int_equal(reply.status, 200);
	assert_string_equal(reply.body, "still");
	free(reply.text);
	assert_int_equal(rig->written, 1);
	close(fd);
	/* before it is watched, and the same for a stream with pauses */
	hold(rig, early, GET);
	shutdown(early, SHUT_WR);
	pull_from(rig, "one", 3, 0);
	answer_stream(rig->held[1], -1);
	turn_for(rig, 60 * USEC_MS);
	assert_int_equal(rig->half, 2);
	pull_from(rig, "two", 3, -1);
	front_stream_ready(rig->held[1]);
	reply = read_to_end(rig, early);
	assert_string_equal(reply.body, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
	free(reply.text);
	close(early);
	assert_int_equal(rig->gone, 0);
}

static void test_half_then_reset(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);

	hold(rig, fd, GET);
	shutdown(fd, SHUT_WR);
	await(rig, &rig->half, 1);
	/* nothing spins after the FIN */
	for (int i = 0; i < 10; i++) {
		struct pollfd loop = {.fd = uv_backend_fd(&rig->loop.uv), .events = POLLIN};

		turn(rig);
		assert_int_equal(poll(&loop, 1, 0), 0);
	}
	set_hard(fd);
	close(fd);
	await(rig, &rig->gone, 1);
	assert_int_equal(rig->half, 1);
}

static void test_pipelined_is_no_departure(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);

	hold(rig, fd, GET);
	turn_for(rig, 60 * USEC_MS);
	say(rig, fd, GET);
	turn_for(rig, 60 * USEC_MS);
	assert_int_equal(rig->half + rig->gone, 0);
	assert_int_equal(rig->started, 1);
	answer_text(rig->held[0], 200, "one");
	expect_status(rig, fd, 200);
	await(rig, &rig->started, 2);
	answer_text(rig->held[1], 200, "two");
	expect_status(rig, fd, 200);
	close(fd);
}

static void test_reset_while_streaming(void **state)
{
	struct rig *rig = *state;
	int fd = dial(rig);

	pull_from(rig, "one", 3, 0);
	answer_stream(hold(rig, fd, GET), -1);
	turn_for(rig, 60 * USEC_MS);
	set_hard(fd);
	close(fd);
	await(rig, &rig->gone, 1);
	front_stream_ready(rig->held[0]);
}

/* --- time, drain, end ----------------------------------------------------------------------- */

static int set_up_hasty(void **state)
{
	struct rig *rig = rig_new();

	rig->config.front_head_time = 80 * USEC_MS;
	open_front(rig);
	*state = rig;
	return 0;
}

static void test_slow_head(void **state)
{
	struct rig *rig = *state;
	int silent = dial(rig), slow = dial(rig), again = dial(rig), busy = dial(rig);
	usec_t end = clock_boot() + PATIENCE;
	char byte;

	rig->plan = PLAN_ANSWER;
	say(rig, again, GET);
	expect_status(rig, again, 200);
	say(rig, again, "GET /pay HTTP/1.1\r\nX-A: ");
	say(rig, slow, "GET /p");
	hold(rig, busy, GET);
	/* a byte now and then does not help */
	while (send(slow, "a", 1, MSG_NOSIGNAL) == 1) {
		assert_true(clock_boot() < end);
		turn_for(rig, 5 * USEC_MS);
	}
	expect_end(rig, silent);
	expect_end(rig, again);
	assert_true(recv(slow, &byte, 1, 0) <= 0);
	/* a request under way is nobody's head, and an idle connection may stay */
	answer_text(rig->held[0], 200, "late");
	expect_status(rig, busy, 200);
	turn_for(rig, 200 * USEC_MS);
	assert_true(has_nothing(busy));
	close(silent);
	close(slow);
	close(again);
	close(busy);
}

static void test_drain(void **state)
{
	struct rig *rig = *state;
	int idle = dial(rig), begun = dial(rig), busy = dial(rig);
	struct reply reply;

	rig->plan = PLAN_ANSWER;
	say(rig, idle, GET);
	expect_status(rig, idle, 200);
	say(rig, begun, "GET /pay HTTP/1.1\r\n");
	hold(rig, busy, GET);
	front_drain(rig->front);
	assert_int_equal(front_busy(rig->front), 1);
	expect_end(rig, idle);
	assert_true(connect_port(rig->port) < 0);
	rig->plan = PLAN_ANSWER;
	say(rig, begun, "Host: h\r\n\r\n");
	reply = read_to_end(rig, begun);
	assert_int_equal(reply.status, 200);
	assert_string_equal(header(&reply, "Connection"), "close");
	free(reply.text);
	answer_text(rig->held[0], 200, "last");
	reply = read_to_end(rig, busy);
	assert_string_equal(reply.body, "last");
	assert_string_equal(header(&reply, "Connection"), "close");
	free(reply.text);
	assert_int_equal(rig->half + rig->gone, 0);
	close(idle);
	close(begun);
	close(busy);
}

static void test_close(void **state)
{
	struct rig *rig = *state;
	int waiting = dial(rig), streaming = dial(rig), uploading = dial(rig), stuck = dial(rig);

	hold(rig, waiting, GET);
	pull_from(rig, "one", 3, 0);
	answer_stream(hold(rig, streaming, GET), -1);
	say(rig, uploading, "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
	say(rig, stuck, "POST /big HTTP/1.1\r\nHost: h\r\nContent-Length: 9000000\r\n\r\n");
	send_until_stuck(rig, stuck, 0, 9000000);
	turn_for(rig, 50 * USEC_MS);
	assert_int_equal(rig->started, 3);
	front_close(rig->front, closed, rig);
	assert_int_equal(rig->gone, 3);
	turn_for(rig, 10 * USEC_MS);
	assert_false(rig->closed); /* the owner still has them */
	answer_text(rig->held[0], 200, "nobody");
	release_all(rig);
	assert_false(rig->closed); /* not inside the release */
	while (!rig->closed)
		turn(rig);
	rig->front = NULL;
	close(waiting);
	close(streaming);
	close(uploading);
	close(stuck);
}

/* --- unix sockets, TLS ---------------------------------------------------------------------- */

static int dial_path(const char *path)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
		close(fd);
		return -1;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void test_unix(void **state)
{
	struct rig *rig = rig_new();
	struct app other = {.config = &rig->config, .providers = rig->providers};
	struct front *second = NULL, *none = NULL;
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char error[256];
	int stale, fd;

	*state = rig;
	snprintf(rig->path, sizeof(rig->path), "/tmp/stint-front-%d.sock", (int)getpid());
	rig->listens[0] = (struct listen_address){.text = rig->path, .path = rig->path};
	rig->config.provider_count = 3; /* TCP ports are shared; the socket is what counts here */
	/* a socket that nobody serves any more is replaced */
	stale = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", rig->path);
	assert_int_equal(bind(stale, (struct sockaddr *)&name, sizeof(name)), 0);
	close(stale);
	open_front(rig);
	/* another worker of this process shares it; another process must not take it */
	assert_int_equal(
		front_new(&rig->app, &rig->loop, start, rig, error, sizeof(error), &second), 0);
	assert_int_equal(front_new(&other, &rig->loop, start, rig, error, sizeof(error), &none),
			 -1);
	assert_non_null(strstr(error, "in use"));
	fd = dial_path(rig->path);
	assert_true(fd >= 0);
	say(rig, fd, GET);
	expect_status(rig, fd, 200);
	/* departure */
	hold(rig, fd, GET);
	turn_for(rig, 60 * USEC_MS);
	shutdown(fd, SHUT_WR);
	await(rig, &rig->half, 1);
	close(fd);
	await(rig, &rig->gone, 1);
	release_all(rig);
	front_drain(second);
	assert_int_equal(dial_path(rig->path), -1);
	rig->closed = false;
	front_close(second, closed, rig);
	while (!rig->closed)
		turn(rig);
	rig->closed = false;
	assert_int_equal(access(rig->path, F_OK), 0);
	front_close(rig->front, closed, rig);
	while (!rig->closed)
		turn(rig);
	rig->front = NULL;
	assert_int_equal(access(rig->path, F_OK), -1);
	/* a file that is no socket is left alone */
	close(open(rig->path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(front_new(&rig->app, &rig->loop, start, rig, error, sizeof(error), &none),
			 -1);
	assert_int_equal(access(rig->path, F_OK), 0);
	unlink(rig->path);
	tear_down(state);
}

static void run_command(const char *command)
{
	int status = system(command);

	if (status != 0)
		fail_msg("%s: %d", command, status);
}

/* openssl's client as a child: its standard input and output are the plain text. */
static pid_t spawn_client(int port, int *ret_fd)
{
	char address[64];
	int pair[2];
	pid_t pid;

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(pair[1], 0);
		dup2(pair[1], 1);
		dup2(open("/dev/null", O_WRONLY), 2);
		execlp("openssl", "openssl", "s_client", "-quiet", "-connect", address,
		       (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	*ret_fd = pair[0];
	return pid;
}

static void test_tls(void **state)
{
	struct rig *rig = rig_new();
	char cert[128], key[128], command[512], error[256];
	struct front *none = NULL;
	int fd, status;
	pid_t pid;

	*state = rig;
	snprintf(cert, sizeof(cert), "/tmp/stint-front-%d.crt", (int)getpid());
	snprintf(key, sizeof(key), "/tmp/stint-front-%d.key", (int)getpid());
	snprintf(command, sizeof(command),
		 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
		 "-subj /CN=h -days 2 -keyout %s -out %s >/dev/null 2>&1",
		 key, cert);
	run_command(command);
	rig->config.tls_cert = cert;
	rig->config.tls_key = (char *)"/nonexistent";
	assert_int_equal(front_new(&rig->app, &rig->loop, start, rig, error, sizeof(error), &none),
			 -1);
	assert_non_null(strstr(error, "/nonexistent"));
	rig->config.tls_key = cert; /* holds no key */
	assert_int_equal(front_new(&rig->app, &rig->loop, start, rig, error, sizeof(error), &none),
			 -1);
	rig->config.tls_key = key;
	open_front(rig);
	pid = spawn_client(rig->port, &fd);
	rig->plan = PLAN_ANSWER;
	say(rig, fd, "POST /pay HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
	expect_status(rig, fd, 200);
	assert_string_equal(rig->content, "hello");
	answer_text(hold(rig, fd, GET), 200, "later");
	expect_status(rig, fd, 200);
	pull_from(rig, "one", 3, 0);
	answer_stream(hold(rig, fd, GET), -1);
	turn_for(rig, 60 * USEC_MS);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	/* a killed client leaves a FIN, or a reset for what it had not read */
	{
		usec_t end = clock_boot() + PATIENCE;

		while (rig->half + rig->gone == 0) {
			assert_true(clock_boot() < end);
			turn(rig);
		}
	}
	close(fd);
	unlink(cert);
	unlink(key);
	tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reset, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_half, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_half_then_reset, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_pipelined_is_no_departure, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reset_while_streaming, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_slow_head, set_up_hasty, tear_down),
		cmocka_unit_test_setup_teardown(test_drain, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_close, set_up, tear_down),
		cmocka_unit_test(test_unix),
		cmocka_unit_test(test_tls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
