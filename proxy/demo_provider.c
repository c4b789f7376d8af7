#include "proxy/demo_provider.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct demo_provider {
	struct MHD_Daemon *daemon;
	atomic_int seen, charged, flaky;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *body)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		strlen(body), (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", "application/json");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **state)
{
	struct demo_provider *provider = data;
	const char *plan = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "plan");
	char body[64];

	(void)url;
	(void)method;
	(void)version;
	(void)upload;
	if (*state == NULL) {
		*state = provider;
		return MHD_YES;
	}
	if (*upload_len > 0) {
		*upload_len = 0;
		return MHD_YES;
	}
	atomic_fetch_add(&provider->seen, 1);
	if (plan != NULL && strcmp(plan, "flaky") == 0 && atomic_fetch_add(&provider->flaky, 1) < 2)
		return answer(connection, 503, "{\"error\": \"try again\"}\n");
	(void)snprintf(body, sizeof(body), "{\"id\": \"pay_%d\", \"status\": \"paid\"}\n",
		       atomic_fetch_add(&provider->charged, 1) + 1);
	if (plan != NULL && strcmp(plan, "lost") == 0)
		return MHD_NO; /* the money has moved; the connection closes without a word */
	return answer(connection, 200, body);
}

struct demo_provider *demo_provider_new(void)
{
	struct demo_provider *provider = calloc(1, sizeof(*provider));
	struct sockaddr_in address = {.sin_family = AF_INET};

	if (provider == NULL)
		return NULL;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	provider->daemon =
		MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request,
				 provider, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_END);
	if (provider->daemon == NULL) {
		free(provider);
		return NULL;
	}
	return provider;
}

int demo_provider_port(const struct demo_provider *provider)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(provider->daemon, MHD_DAEMON_INFO_BIND_PORT);

	return info != NULL ? info->port : 0;
}

int demo_provider_seen(struct demo_provider *provider)
{
	return atomic_load(&provider->seen);
}

int demo_provider_charged(struct demo_provider *provider)
{
	return atomic_load(&provider->charged);
}

void demo_provider_free(struct demo_provider *provider)
{
	if (provider == NULL)
		return;
	MHD_stop_daemon(provider->daemon);
	free(provider);
}
