#include "proxy/demo.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proxy/demo_provider.h"

#define START_TRIES 200 /* of 25 ms */

struct demo {
	struct demo_provider *provider;
	char dir[64];
	char config[96], log[96];
	int port, admin_port;
	pid_t child;
	CURL *curl;
};

struct reply {
	long status;
	char stint[256];
	char body[1024];
	size_t body_len;
};

/* --- the proxy under demonstration: this very binary, as a child ---------------------------------- */

static int free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0)
		return 0;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &len) == 0)
		port = ntohs(address.sin_port);
	close(fd);
	return port;
}

static int write_config(struct demo *demo)
{
	FILE *file;

	(void)snprintf(demo->config, sizeof(demo->config), "%s/stint.yaml", demo->dir);
	(void)snprintf(demo->log, sizeof(demo->log), "%s/stint.log", demo->dir);
	file = fopen(demo->config, "we");
	if (file == NULL)
		return -1;
	(void)fprintf(file,
		      "listen: 127.0.0.1:%d\n"
		      "workers: 1\n"
		      "admin: {listen: \"127.0.0.1:%d\"}\n"
		      "ledger: {store: \"sqlite:%s/ledger.db\"}\n"
		      "defaults:\n"
		      "  budget: {attempts: 5, window: 30s}\n"
		      "  backoff: {first: 200ms, factor: 2, max: 2s}\n"
		      "  hold: 10s\n"
		      "providers:\n"
		      "  payments:\n"
		      "    route: /payments\n"
		      "    upstream: http://127.0.0.1:%d\n"
		      "    idempotency: {header: Idempotency-Key, retention: 24h}\n"
		      "  transfers:\n"
		      "    route: /transfers\n"
		      "    upstream: http://127.0.0.1:%d\n",
		      demo->port, demo->admin_port, demo->dir, demo_provider_port(demo->provider),
		      demo_provider_port(demo->provider));
	return fclose(file) == 0 ? 0 : -1;
}

static int start_child(struct demo *demo)
{
	demo->child = fork();
	if (demo->child < 0)
		return -1;
	if (demo->child > 0)
		return 0;
	int log = open(demo->log, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

	if (log >= 0)
		dup2(log, STDERR_FILENO);
	execl("/proc/self/exe", "stint", "serve", "-c", demo->config, (char *)NULL);
	_exit(127);
}

static size_t keep_body(char *data, size_t size, size_t count, void *to)
{
	struct reply *reply = to;
	size_t len = size * count, room = sizeof(reply->body) - 1 - reply->body_len;
	size_t take = len < room ? len : room;

	memcpy(reply->body + reply->body_len, data, take);
	reply->body_len += take;
	reply->body[reply->body_len] = '\0';
	return len;
}

static size_t keep_header(char *data, size_t size, size_t count, void *to)
{
	struct reply *reply = to;
	size_t len = size * count, skip = strlen("Stint: ");

	if (len > skip && strncasecmp(data, "Stint: ", skip) == 0) {
		size_t take =
			len - skip < sizeof(reply->stint) ? len - skip : sizeof(reply->stint) - 1;

		memcpy(reply->stint, data + skip, take);
		reply->stint[take] = '\0';
		reply->stint[strcspn(reply->stint, "\r\n")] = '\0';
	}
	return len;
}

/* body NULL: GET. Returns 0 when there is an answer. */
static int request(struct demo *demo, const char *url, const char *key, const char *body,
		   struct reply *ret_reply)
{
	struct curl_slist *headers = NULL;
	char line[128];
	CURLcode code;

	memset(ret_reply, 0, sizeof(*ret_reply));
	curl_easy_reset(demo->curl);
	curl_easy_setopt(demo->curl, CURLOPT_URL, url);
	curl_easy_setopt(demo->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(demo->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(demo->curl, CURLOPT_TIMEOUT, 30L);
	curl_easy_setopt(demo->curl, CURLOPT_WRITEFUNCTION, keep_body);
	curl_easy_setopt(demo->curl, CURLOPT_WRITEDATA, ret_reply);
	curl_easy_setopt(demo->curl, CURLOPT_HEADERFUNCTION, keep_header);
	curl_easy_setopt(demo->curl, CURLOPT_HEADERDATA, ret_reply);
	if (body != NULL) {
		(void)snprintf(line, sizeof(line), "Idempotency-Key: %s", key);
		headers = curl_slist_append(headers, "Content-Type: application/json");
		headers = curl_slist_append(headers, line);
		curl_easy_setopt(demo->curl, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(demo->curl, CURLOPT_POSTFIELDS, body);
	}
	code = curl_easy_perform(demo->curl);
	curl_slist_free_all(headers);
	curl_easy_getinfo(demo->curl, CURLINFO_RESPONSE_CODE, &ret_reply->status);
	return code == CURLE_OK ? 0 : -1;
}

static int wait_ready(struct demo *demo)
{
	const struct timespec pause = {.tv_nsec = 25 * 1000 * 1000};
	char url[64];
	struct reply reply;

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/readyz", demo->admin_port);
	for (int i = 0; i < START_TRIES; i++) {
		if (request(demo, url, NULL, NULL, &reply) == 0 && reply.status == 200)
			return 0;
		if (waitpid(demo->child, NULL, WNOHANG) == demo->child) {
			demo->child = 0;
			return -1;
		}
		nanosleep(&pause, NULL);
	}
	return -1;
}

/* --- the stories --------------------------------------------------------------------------------- */

static int deliver(struct demo *demo, const char *path, const char *key, struct reply *ret_reply)
{
	char url[96];
	int seen = demo_provider_seen(demo->provider);

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", demo->port, path);
	(void)printf("   POST %s   Idempotency-Key: %s\n", path, key);
	if (request(demo, url, key, "{\"amount\": 4200}", ret_reply) != 0) {
		(void)printf("   no answer\n");
		return -1;
	}
	(void)printf("   -> %ld   Stint: %s\n      %s%s", ret_reply->status, ret_reply->stint,
		     ret_reply->body,
		     ret_reply->body_len > 0 && ret_reply->body[ret_reply->body_len - 1] == '\n'
			     ? ""
			     : "\n");
	(void)printf("      the provider saw %d request(s) for it\n\n",
		     demo_provider_seen(demo->provider) - seen);
	return demo_provider_seen(demo->provider) - seen;
}

static bool has(const struct reply *reply, const char *text)
{
	return strstr(reply->stint, text) != NULL;
}

static const char flaky[] = "/payments/charge?plan=flaky";
static const char lost[] = "/transfers/charge?plan=lost";

static bool play(struct demo *demo)
{
	struct reply reply;
	bool good = true;

	(void)printf(
		"1. A provider that honours keys answers 503 twice. stint waits and tries again;\n"
		"   the caller makes one request.\n\n");
	good &= deliver(demo, flaky, "invoice:42:charge", &reply) == 3 && reply.status == 200 &&
		has(&reply, "attempts=3");
	(void)printf(
		"2. A provider that knows no keys loses its answer. The money may have moved: it\n"
		"   is recorded as unknown, and not sent again, whoever asks.\n\n");
	good &= deliver(demo, lost, "invoice:43:charge", &reply) == 1 && reply.status == 502 &&
		has(&reply, "state=unknown");
	good &= deliver(demo, lost, "invoice:43:charge", &reply) == 0 && reply.status == 424;
	(void)printf(
		"3. The first call delivered once more, by a queue that never heard of it: the\n"
		"   ledger answers.\n\n");
	good &= deliver(demo, flaky, "invoice:42:charge", &reply) == 0 && reply.status == 200 &&
		has(&reply, "replayed");
	(void)printf("Charges that the provider made: %d, for two invoices.\n",
		     demo_provider_charged(demo->provider));
	return good && demo_provider_charged(demo->provider) == 2;
}

static int setup(struct demo *demo)
{
	(void)snprintf(demo->dir, sizeof(demo->dir), "/tmp/stint-demo-XXXXXX");
	if (mkdtemp(demo->dir) == NULL) {
		demo->dir[0] = '\0';
		return -1;
	}
	demo->curl = curl_easy_init();
	demo->provider = demo_provider_new();
	demo->port = free_port();
	demo->admin_port = free_port();
	if (demo->curl == NULL || demo->provider == NULL || demo->port == 0 ||
	    demo->admin_port == 0 || write_config(demo) != 0)
		return -1;
	return start_child(demo) != 0 ? -1 : wait_ready(demo);
}

static void teardown(struct demo *demo)
{
	static const char *const names[] = {"stint.yaml", "stint.log", "ledger.db", "ledger.db-wal",
					    "ledger.db-shm"};
	char path[160];

	if (demo->child > 0) {
		kill(demo->child, SIGTERM);
		(void)waitpid(demo->child, NULL, 0);
	}
	demo_provider_free(demo->provider);
	curl_easy_cleanup(demo->curl);
	if (demo->dir[0] == '\0')
		return;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", demo->dir, names[i]);
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof(path), "%s/ledger.db.instances", demo->dir);
	(void)rmdir(path);
	(void)rmdir(demo->dir);
}

int demo_run(void)
{
	struct demo demo = {0};
	bool good = false;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (setup(&demo) == 0)
		good = play(&demo);
	else
		(void)fprintf(stderr, "stint demo: the proxy did not start on loopback\n");
	teardown(&demo);
	curl_global_cleanup();
	return good ? 0 : 1;
}
