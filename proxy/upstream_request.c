/* The request as libcurl's options. The header list and every text that is made for it live in one
 * block of the transfer, which is kept from request to request. */
#include "proxy/upstream_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A body up to this goes out with the head in one write (measured for libcurl 7.88: with a read
 * callback head and body are two), and always fits into the socket's buffer. */
#define BODY_WITH_HEAD 16384
#define REUSE_LEAST (2 * USEC_SEC)

/* libcurl's own headers, taken off the wire unless the request brings them. */
static const char *const OWN_HEADERS[] = {"Accept:", "Content-Type:", "User-Agent:"};
#define OWN_COUNT (sizeof OWN_HEADERS / sizeof OWN_HEADERS[0])

static bool is_token(const char *text, size_t len)
{
	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL)
			return false;
	}
	return true;
}

static bool is_target(const char *text)
{
	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++) {
		if ((unsigned char)*text <= ' ' || *text == 0x7f)
			return false;
	}
	return true;
}

static bool is_value(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\r' || text[i] == '\n' || text[i] == '\0')
			return false;
	}
	return true;
}

static bool is_name(const struct header_view *header, const char *name, size_t len)
{
	return header->name_len == len && strncasecmp(header->name, name, len) == 0;
}

/* Host is the provider's, the framing is made here, and Expect never goes out: a forwarded one
 * against a server that says 417 made libcurl send thousands of requests. */
static bool is_ours(const struct header_view *header)
{
	return is_name(header, "host", 4) || is_name(header, "content-length", 14) ||
	       is_name(header, "transfer-encoding", 17) || is_name(header, "expect", 6);
}

struct writer {
	struct curl_slist *node, *last;
	char *text;
};

static char *put(char *to, const char *from, size_t len)
{
	if (len > 0)
		memcpy(to, from, len);
	return to + len;
}

static void line_begin(struct writer *writer)
{
	writer->node->data = writer->text;
	writer->node->next = NULL;
	if (writer->last != NULL)
		writer->last->next = writer->node;
	writer->last = writer->node++;
}

static void line_text(struct writer *writer, const char *text)
{
	line_begin(writer);
	writer->text = put(writer->text, text, strlen(text) + 1);
}

/* "Name: value", or libcurl's "Name;" for an empty value: "Name:" would take the header away.
 * Returns its length on the wire. */
static size_t line_header(struct writer *writer, const struct header_view *header)
{
	const char *value = header->value;
	size_t len = header->value_len;

	while (len > 0 && (value[0] == ' ' || value[0] == '\t')) {
		value++;
		len--;
	}
	line_begin(writer);
	writer->text = put(writer->text, header->name, header->name_len);
	if (len == 0) {
		writer->text = put(writer->text, ";", 2);
		return header->name_len + 3;
	}
	writer->text = put(writer->text, ": ", 2);
	writer->text = put(writer->text, value, len);
	*writer->text++ = '\0';
	return header->name_len + len + 4;
}

static bool block_reserve(struct transfer *transfer, size_t need)
{
	char *block;

	if (need <= transfer->block_cap)
		return true;
	block = malloc(need);
	if (block == NULL)
		return false;
	free(transfer->block);
	transfer->block = block;
	transfer->block_cap = need;
	return true;
}

static const char *block_need(const struct attempt *attempt, size_t *ret_need)
{
	const struct upstream_url *url = &attempt->provider->upstream;
	/* Host, Expect and libcurl's own; each text with its NUL. */
	size_t need = strlen(url->origin) + 2 + strlen(url->authority) + sizeof "Host: " + 64;

	need += (attempt->header_count + OWN_COUNT + 2) * sizeof(struct curl_slist);
	for (size_t i = 0; i < attempt->header_count; i++) {
		const struct header_view *header = &attempt->headers[i];

		if (!is_token(header->name, header->name_len) ||
		    !is_value(header->value, header->value_len))
			return "a header of the request is malformed";
		need += header->name_len + header->value_len + 3;
	}
	*ret_need = need;
	return NULL;
}

/* Writes the header list and the URL into the block. */
static void block_write(struct transfer *transfer, struct curl_slist **ret_list, char **ret_url)
{
	const struct attempt *attempt = transfer->attempt;
	const struct upstream_url *url = &attempt->provider->upstream;
	struct curl_slist *nodes = (struct curl_slist *)(void *)transfer->block;
	bool given[OWN_COUNT] = {false};
	struct writer writer = {.node = nodes};

	writer.text = (char *)(nodes + attempt->header_count + OWN_COUNT + 2);
	*ret_url = writer.text;
	writer.text = put(writer.text, url->origin, strlen(url->origin));
	writer.text = put(writer.text, "/", 2);

	line_begin(&writer);
	writer.text = put(writer.text, "Host: ", 6);
	writer.text = put(writer.text, url->authority, strlen(url->authority) + 1);
	transfer->now.request_head =
		strlen(attempt->method) + strlen(attempt->target) + 14 + strlen(url->authority) + 8;
	for (size_t i = 0; i < attempt->header_count; i++) {
		const struct header_view *header = &attempt->headers[i];

		if (is_ours(header))
			continue;
		for (size_t k = 0; k < OWN_COUNT; k++)
			given[k] = given[k] ||
				   is_name(header, OWN_HEADERS[k], strlen(OWN_HEADERS[k]) - 1);
		transfer->now.request_head += line_header(&writer, header);
	}
	line_text(&writer, "Expect:");
	for (size_t k = 0; k < OWN_COUNT; k++) {
		if (!given[k])
			line_text(&writer, OWN_HEADERS[k]);
	}
	*ret_list = nodes;
}

#define SET(option, value)                                                                         \
	do {                                                                                       \
		if (curl_easy_setopt(easy, option, value) != CURLE_OK)                             \
			return -1;                                                                 \
	} while (0)

static int set_callbacks(struct transfer *transfer)
{
	CURL *easy = transfer->easy;

	SET(CURLOPT_PRIVATE, transfer);
	SET(CURLOPT_ERRORBUFFER, transfer->error);
	SET(CURLOPT_PREREQFUNCTION, reply_prereq);
	SET(CURLOPT_PREREQDATA, transfer);
	SET(CURLOPT_HEADERFUNCTION, reply_header);
	SET(CURLOPT_HEADERDATA, transfer);
	SET(CURLOPT_WRITEFUNCTION, reply_body);
	SET(CURLOPT_WRITEDATA, transfer);
	SET(CURLOPT_SEEKFUNCTION, request_seek);
	SET(CURLOPT_OPENSOCKETFUNCTION, upstream_socket_open);
	SET(CURLOPT_OPENSOCKETDATA, transfer);
	SET(CURLOPT_CLOSESOCKETFUNCTION, upstream_socket_close);
	SET(CURLOPT_CLOSESOCKETDATA, transfer->upstream);
	return 0;
}

static int set_connection(struct transfer *transfer)
{
	const struct attempt *attempt = transfer->attempt;
	const struct provider_config *provider = attempt->provider;
	usec_t reuse = provider->policy.attempt_reuse;
	usec_t connect = usec_min(provider->policy.attempt_connect, USEC_DAY);
	CURL *easy = transfer->easy;

	SET(CURLOPT_PROTOCOLS_STR, provider->upstream.tls ? "https" : "http");
	SET(CURLOPT_PROXY, ""); /* the environment is not asked */
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_NOSIGNAL, 1L);
	/* A resolver thread that hangs is left behind; joining it would stop the whole loop. */
	SET(CURLOPT_QUICK_EXIT, 1L);
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_DNS_CACHE_TIMEOUT, 60L); /* positive answers; negative ones are not kept */
	/* attempt.connect is our timer's; libcurl's own gives each of several addresses a share. */
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)((connect + USEC_MS - 1) / USEC_MS));
	if (!attempt->repeatable) {
		/* libcurl 7.88 drops a connection when its idle time in whole seconds is over this
		 * value, so that n - 1 is "idle for less than n seconds". Later releases count in
		 * milliseconds and take 0 for "no limit", so the least that can be asked for is
		 * 1, for attempt.reuse of 2 s; below it the connection is a fresh one. */
		if (reuse >= REUSE_LEAST)
			SET(CURLOPT_MAXAGE_CONN, (long)(usec_min(reuse, USEC_DAY) / USEC_SEC - 1));
		else
			SET(CURLOPT_FRESH_CONNECT, 1L);
	}
	if (!provider->upstream.tls)
		return 0;
	SET(CURLOPT_SSL_ENABLE_ALPN, 0L);
	SET(CURLOPT_SSL_VERIFYPEER, provider->tls_verify ? 1L : 0L);
	SET(CURLOPT_SSL_VERIFYHOST, provider->tls_verify ? 2L : 0L);
	if (provider->tls_ca != NULL) {
		SET(CURLOPT_CAINFO, provider->tls_ca);
		SET(CURLOPT_CAPATH, NULL); /* this file alone: not the system's beside it */
	}
	if (provider->tls_cert != NULL)
		SET(CURLOPT_SSLCERT, provider->tls_cert);
	if (provider->tls_key != NULL)
		SET(CURLOPT_SSLKEY, provider->tls_key);
	return 0;
}

/* The framing header's bytes on the wire. */
static uint64_t framing_length(int64_t length)
{
	uint64_t bytes = sizeof "Content-Length: \r\n"; /* its NUL stands for the first digit */

	if (length < 0)
		return sizeof "Transfer-Encoding: chunked\r\n" - 1;
	for (; length > 9; length /= 10)
		bytes++;
	return bytes;
}

static int set_body(struct transfer *transfer)
{
	const struct attempt *attempt = transfer->attempt;
	const struct body *body = attempt->body;
	CURL *easy = transfer->easy;
	int64_t length = 0;

	if (attempt->has_body)
		length = body != NULL ? (int64_t)body->length : attempt->stream_length;
	transfer->now.body_eof = length == 0;
	if (attempt->has_body && !transfer->now.bodiless)
		transfer->now.request_head += framing_length(length);
	if (transfer->now.bodiless) {
		if (length != 0) {
			transfer->now.why = "a HEAD request with a body is not sent";
			return -1;
		}
		SET(CURLOPT_NOBODY, 1L);
	} else if (!attempt->has_body) {
		SET(CURLOPT_HTTPGET, 1L);
	} else if (length == 0 || (body != NULL && length <= BODY_WITH_HEAD && body->fd < 0)) {
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
		SET(CURLOPT_POSTFIELDS, length > 0 ? body->memory : "");
		transfer->now.body_eof = true;
		transfer->now.request_head += (uint64_t)length;
	} else {
		SET(CURLOPT_UPLOAD, 1L);
		SET(CURLOPT_READFUNCTION, request_read);
		SET(CURLOPT_READDATA, transfer);
		if (length > 0)
			SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)length);
	}
	SET(CURLOPT_CUSTOMREQUEST, attempt->method);
	return 0;
}

int request_prepare(struct transfer *transfer)
{
	const struct attempt *attempt = transfer->attempt;
	CURL *easy = transfer->easy;
	struct curl_slist *list;
	char *url;
	size_t need = 0;

	transfer->now.why = "the method or target is malformed";
	if (!is_token(attempt->method, strlen(attempt->method)) || !is_target(attempt->target))
		return -1;
	transfer->now.why = block_need(attempt, &need);
	if (transfer->now.why != NULL)
		return -1;
	transfer->now.why = "libcurl refused an option, or out of memory";
	if (!block_reserve(transfer, need))
		return -1;
	block_write(transfer, &list, &url);
	transfer->now.bodiless = strcmp(attempt->method, "HEAD") == 0;
	if (set_callbacks(transfer) != 0 || set_connection(transfer) != 0 ||
	    set_body(transfer) != 0)
		return -1;
	SET(CURLOPT_URL, url);
	SET(CURLOPT_REQUEST_TARGET, attempt->target);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_HTTP09_ALLOWED, 0L);
	SET(CURLOPT_HTTPHEADER, list);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	/* Until a reply's head says otherwise: 7.88 keeps a connection whose first write failed
	 * (measured: a TLS alert after the handshake), and the next request would meet it. */
	SET(CURLOPT_FORBID_REUSE, 1L);
	SET(CURLOPT_HTTP_CONTENT_DECODING, 0L);
	transfer->now.why = NULL;
	return 0;
}
