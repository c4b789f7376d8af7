#include "proxy/admin_client.h"

#include <curl/curl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/admin_auth.h"
#include "proxy/config.h"

#define ANSWER_MAX (16 << 20)
#define CONNECT_MS 5000L
#define TOTAL_MS 30000L

struct admin_client {
	CURL *curl;
	char *origin; /* scheme://host:port */
	char *socket; /* a unix socket's path, or NULL */
	char *token;  /* or NULL */
};

/* --- where it listens ---------------------------------------------------------------------------- */

static int set_unix(struct admin_client *client, const char *path)
{
	client->socket = strdup(path);
	client->origin = strdup("http://localhost");
	return client->socket != NULL && client->origin != NULL ? 0 : -1;
}

/* scheme://authority and at most one slash: a path, a query or a name in it would go unused. */
static bool is_origin(const char *url, size_t *ret_len)
{
	const char *rest = strncmp(url, "http://", 7) == 0    ? url + 7
			   : strncmp(url, "https://", 8) == 0 ? url + 8
							      : NULL;
	size_t len;

	if (rest == NULL)
		return false;
	len = strcspn(rest, "/?#@ \t\r\n");
	if (len == 0 || (rest[len] != '\0' && strcmp(rest + len, "/") != 0))
		return false;
	*ret_len = (size_t)(rest - url) + len;
	return true;
}

static int set_url(struct admin_client *client, const char *url, char *error)
{
	size_t len;

	if (strncmp(url, "unix:/", 6) == 0)
		return set_unix(client, url + 5);
	if (!is_origin(url, &len)) {
		(void)snprintf(error, ADMIN_CLIENT_ERROR_MAX,
			       "--admin is \"%s\": write http://HOST:PORT or unix:/PATH", url);
		return -1;
	}
	client->origin = strndup(url, len);
	return client->origin != NULL ? 0 : -1;
}

/* A listener on all addresses is asked on this host. */
static int set_address(struct admin_client *client, const struct listen_address *address)
{
	const char *host = address->host;
	bool v6;

	if (address->path != NULL)
		return set_unix(client, address->path);
	if (strcmp(host, "0.0.0.0") == 0)
		host = "127.0.0.1";
	else if (strcmp(host, "::") == 0)
		host = "::1";
	v6 = strchr(host, ':') != NULL;
	if (asprintf(&client->origin, "http://%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "",
		     address->port) < 0)
		client->origin = NULL;
	return client->origin != NULL ? 0 : -1;
}

static int read_token(struct admin_client *client, const char *path, char *error)
{
	char text[ADMIN_TOKEN_MAX + 2];
	FILE *file = fopen(path, "re");
	size_t len;

	if (file == NULL) {
		(void)snprintf(error, ADMIN_CLIENT_ERROR_MAX, "%s: the token cannot be read", path);
		return -1;
	}
	len = fread(text, 1, sizeof(text) - 1, file);
	(void)fclose(file);
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	text[len] = '\0';
	for (size_t i = 0; len <= ADMIN_TOKEN_MAX && i < len; i++) {
		if (text[i] < 0x21 || text[i] > 0x7e)
			len = 0;
	}
	if (len > 0 && len <= ADMIN_TOKEN_MAX)
		client->token = strdup(text);
	else
		(void)snprintf(error, ADMIN_CLIENT_ERROR_MAX,
			       "%s: a token is one word of visible ASCII, at most %d characters",
			       path, ADMIN_TOKEN_MAX);
	OPENSSL_cleanse(text, sizeof(text));
	return client->token != NULL ? 0 : -1;
}

static int read_config(struct admin_client *client, const struct admin_target *target, char *error)
{
	struct config_problems problems;
	struct config *config = config_load(target->config, NULL, &problems);
	int rc = -1;

	if (config == NULL) {
		(void)config_problems_print(&problems, target->config, stderr);
		(void)snprintf(error, ADMIN_CLIENT_ERROR_MAX,
			       "%s does not say where stint listens; --admin URL does",
			       target->config);
	} else {
		rc = set_address(client, &config->admin_listen);
		if (rc == 0 && target->token_file == NULL && config->admin_token_file != NULL)
			rc = read_token(client, config->admin_token_file, error);
	}
	config_problems_done(&problems);
	config_free(config);
	return rc;
}

int admin_client_new(const struct admin_target *target, char error[ADMIN_CLIENT_ERROR_MAX],
		     struct admin_client **ret_client)
{
	struct admin_client *client = calloc(1, sizeof(*client));
	int rc;

	(void)snprintf(error, ADMIN_CLIENT_ERROR_MAX, "out of memory");
	if (client == NULL)
		return -1;
	rc = target->admin != NULL ? set_url(client, target->admin, error)
				   : read_config(client, target, error);
	if (rc == 0 && target->token_file != NULL)
		rc = read_token(client, target->token_file, error);
	if (rc == 0)
		client->curl = curl_easy_init();
	if (client->curl == NULL) {
		admin_client_free(client);
		return -1;
	}
	*ret_client = client;
	return 0;
}

void admin_client_free(struct admin_client *client)
{
	if (client == NULL)
		return;
	curl_easy_cleanup(client->curl);
	if (client->token != NULL)
		OPENSSL_cleanse(client->token, strlen(client->token));
	free(client->token);
	free(client->origin);
	free(client->socket);
	free(client);
}

/* --- one request --------------------------------------------------------------------------------- */

struct received {
	char *text;
	size_t len;
};

static size_t on_bytes(char *bytes, size_t size, size_t count, void *data)
{
	struct received *received = data;
	size_t len = size * count;
	char *text;

	if (received->len + len > ANSWER_MAX)
		return 0;
	text = realloc(received->text, received->len + len + 1);
	if (text == NULL)
		return 0;
	memcpy(text + received->len, bytes, len);
	received->text = text;
	received->len += len;
	return len;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
	struct curl_slist *longer;
	char *line = NULL;

	if (asprintf(&line, "%s%s", name, value) < 0)
		return false;
	longer = curl_slist_append(*list, line);
	OPENSSL_cleanse(line, strlen(line));
	free(line);
	if (longer == NULL)
		return false;
	*list = longer;
	return true;
}

static bool make_headers(const struct admin_client *client, bool change, struct curl_slist **ret)
{
	return add_header(ret, "Accept: ", "application/json") && add_header(ret, "Expect:", "") &&
	       (!change || add_header(ret, "Content-Type: ", "application/json")) &&
	       (client->token == NULL || add_header(ret, "Authorization: Bearer ", client->token));
}

/* Only the address that was named is dialled: no proxy of the environment, no redirect. */
static void set_options(struct admin_client *client, const char *method, const char *url,
			const char *body, struct curl_slist *headers, struct received *received,
			char *why)
{
	CURL *curl = client->curl;

	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TOTAL_MS);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, received);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
	if (client->socket != NULL)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket);
	if (body != NULL) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
	}
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
}

int admin_client_ask(struct admin_client *client, const char *method, const char *path,
		     const json_t *body, char error[ADMIN_CLIENT_ERROR_MAX],
		     struct admin_answer *ret_answer)
{
	struct received received = {.text = NULL};
	struct curl_slist *headers = NULL;
	char why[CURL_ERROR_SIZE] = "";
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	char *url = NULL;
	long status = 0;
	CURLcode code = CURLE_OUT_OF_MEMORY;

	if (asprintf(&url, "%s%s", client->origin, path) < 0)
		url = NULL;
	if (url != NULL && (body == NULL || text != NULL) &&
	    make_headers(client, body != NULL, &headers)) {
		set_options(client, method, url, text, headers, &received, why);
		code = curl_easy_perform(client->curl);
	}
	if (code == CURLE_OK)
		(void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
	else
		(void)snprintf(error, ADMIN_CLIENT_ERROR_MAX, "%s: %s",
			       client->socket != NULL ? client->socket : client->origin,
			       why[0] != '\0' ? why : curl_easy_strerror(code));
	if (code == CURLE_OK) {
		ret_answer->status = (int)status;
		ret_answer->json = received.len > 0 ? json_loadb(received.text, received.len,
								 JSON_REJECT_DUPLICATES, NULL)
						    : NULL;
	}
	curl_slist_free_all(headers);
	free(received.text);
	free(text);
	free(url);
	return code == CURLE_OK ? 0 : -1;
}

void admin_answer_done(struct admin_answer *answer)
{
	json_decref(answer->json);
	answer->json = NULL;
}

const char *admin_answer_detail(const struct admin_answer *answer)
{
	const char *text = json_string_value(json_object_get(answer->json, "detail"));

	if (text == NULL)
		text = json_string_value(json_object_get(answer->json, "title"));
	return text != NULL ? text : "";
}

/* --- paths --------------------------------------------------------------------------------------- */

static void put_encoded(FILE *out, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-_~:";

	for (; *text != '\0'; text++) {
		if (strchr(plain, *text) != NULL)
			(void)fputc(*text, out);
		else
			(void)fprintf(out, "%%%02X", (unsigned char)*text);
	}
}

char *admin_client_operation_path(const char *provider, const char *key, const char *action,
				  const char *tenant, const char *scope)
{
	const char *const names[2] = {"tenant", "scope"};
	const char *const values[2] = {tenant, scope};
	char *path = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&path, &len);
	char mark = '?';

	if (out == NULL)
		return NULL;
	(void)fputs("/v1/operations/", out);
	put_encoded(out, provider);
	(void)fputc('/', out);
	put_encoded(out, key);
	(void)fputs(action, out);
	for (int i = 0; i < 2; i++) {
		if (values[i] == NULL)
			continue;
		(void)fprintf(out, "%c%s=", mark, names[i]);
		put_encoded(out, values[i]);
		mark = '&';
	}
	if (fclose(out) == 0)
		return path;
	free(path);
	return NULL;
}
