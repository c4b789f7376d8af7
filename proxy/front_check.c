/* What a request must be before anything is done for it (design section 8, RFC 9112). The library
 * lets much through: 0.9.75 takes Content-Length beside Transfer-Encoding, two of either, two Hosts
 * or none, NUL in a value, bare LF as a line's end, and folds a line into the header's name; 1.0.1
 * still takes two Content-Lengths, two transfer codings and two Hosts. */
#include "proxy/front_private.h"

#include <stdlib.h>
#include <string.h>

#include "classify/text.h"
#include "proxy/clock.h"
#include "proxy/target.h"

/* What one pass over the header lines finds. */
struct scan {
	struct front_request *request;
	struct front_refusal *refusal;
	const char *next; /* 0.9.x: where the next line must begin in the library's memory */
	int max;
	int lengths, codings, hosts, expects, connections;
	const char *coding;
	size_t coding_len;
	const char *host;
	size_t host_len;
	bool continues; /* Expect: 100-continue */
	bool bad;
};

static bool refuse(struct front_refusal *refusal, enum problem_type type, int status,
		   const char *detail)
{
	*refusal = (struct front_refusal){.type = type, .status = status, .detail = detail};
	return false;
}

static bool malformed(struct front_refusal *refusal, const char *detail)
{
	return refuse(refusal, PROBLEM_BAD_REQUEST, 400, detail);
}

/* Field values are visible characters, spaces, tabs and bytes from 0x80 (RFC 9110 section 5.5). */
static bool value_is_clean(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)value[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* 1*DIGIT and nothing else; -1: not that, INT64_MAX: more than it holds. */
static int64_t parse_length(const char *text, size_t len)
{
	int64_t n = 0;

	if (len == 0)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (!text_is_digit(text[i]))
			return -1;
		n = n > (INT64_MAX - 9) / 10 ? INT64_MAX : n * 10 + (text[i] - '0');
	}
	return n;
}

static bool is_host_char(char c)
{
	return text_is_digit(c) || (text_lower(c) >= 'a' && text_lower(c) <= 'z') ||
	       (c != '\0' && strchr("-._~%!$&'()*+,;=", c) != NULL);
}

/* uri-host [ ":" port ] (RFC 9110 section 7.2), not empty. */
static bool host_is_valid(const char *host, size_t len)
{
	size_t i = 0;

	if (len > 0 && host[0] == '[') {
		for (i = 1; i < len && host[i] != ']'; i++) {
			char c = text_lower(host[i]);

			if (!text_is_digit(c) && c != ':' && c != '.' && (c < 'a' || c > 'f'))
				return false;
		}
		if (i < 3 || i++ == len)
			return false;
	} else {
		while (i < len && is_host_char(host[i]))
			i++;
		if (i == 0)
			return false;
	}
	if (i == len)
		return true;
	if (host[i++] != ':' || len - i > 5)
		return false;
	while (i < len && text_is_digit(host[i]))
		i++;
	return i == len;
}

/* 0.9.x cuts a value at NUL, takes a bare LF as a line's end and joins folded lines in ways of its
 * own. In its memory a clean head stands as it came, with each CRLF and colon overwritten: every
 * line must begin where the one before it ended. This sees all three, and more. */
static bool line_is_in_place(struct scan *scan, const char *name, size_t name_len,
			     const char *value, size_t value_len)
{
#if MHD_VERSION < 0x01000000
	const char *at = name + name_len + 1;

	if (name != scan->next || at > value)
		return false;
	for (; at < value; at++) {
		if (*at != ' ' && *at != '\t')
			return false;
	}
	scan->next = value + value_len + 2;
#else
	(void)scan, (void)name, (void)name_len, (void)value, (void)value_len;
#endif
	return true;
}

static bool note_length(struct scan *scan, const char *value, size_t len)
{
	struct front_request *request = scan->request;

	if (scan->lengths++ > 0)
		return malformed(scan->refusal, "Content-Length may be given once");
	request->content_length = parse_length(value, len);
	if (request->content_length < 0)
		return malformed(scan->refusal, "Content-Length must be a decimal number");
	if (request->content_length == INT64_MAX)
		return refuse(scan->refusal, PROBLEM_BODY_TOO_LARGE, 0, "send a shorter body");
	request->has_body = true;
	return true;
}

static bool note_line(struct scan *scan, const char *name, size_t name_len, const char *value,
		      size_t len)
{
	if (text_equal_nocase(name, name_len, "Content-Length"))
		return note_length(scan, value, len);
	if (text_equal_nocase(name, name_len, "Transfer-Encoding")) {
		if (scan->codings++ > 0)
			return malformed(scan->refusal, "Transfer-Encoding may be given once");
		scan->coding = value;
		scan->coding_len = len;
		scan->request->has_body = true;
	} else if (text_equal_nocase(name, name_len, "Host")) {
		if (scan->hosts++ > 0)
			return malformed(scan->refusal, "Host may be given once");
		scan->host = value;
		scan->host_len = len;
	} else if (text_equal_nocase(name, name_len, "Expect")) {
		scan->expects++;
		scan->continues = text_equal_nocase(value, len, "100-continue");
	} else if (text_equal_nocase(name, name_len, "Connection") &&
		   !text_equal_nocase(value, len, "keep-alive") &&
		   !text_equal_nocase(value, len, "close")) {
		scan->connections++; /* worth a closer look */
	}
	return true;
}

static bool take_line(struct scan *scan, const char *name, size_t name_len, const char *value,
		      size_t value_len)
{
	struct headers *headers = &scan->request->headers;

	if (value == NULL)
		value = "";
	if (!line_is_in_place(scan, name, name_len, value, value_len))
		return malformed(scan->refusal, "a header line is folded, ends in a bare LF or "
						"holds NUL; send one line for each header");
	if (!header_name_is_valid(name, name_len))
		return malformed(scan->refusal, "a header name is no token (RFC 9110 section 5.1)");
	if (!value_is_clean(value, value_len))
		return malformed(scan->refusal, "a header value holds control characters");
	if (headers->count >= (size_t)scan->max)
		return refuse(scan->refusal, PROBLEM_BAD_REQUEST, 431,
			      "too many header lines; front.headers is the limit");
	if (!note_line(scan, name, name_len, value, value_len))
		return false;
	header_value_trim(value, value_len, &value, &value_len);
	if (headers_add(headers, name, name_len, value, value_len) != HEADERS_OK)
		return refuse(scan->refusal, PROBLEM_NOT_SENT, 503,
			      "out of memory; send it again later");
	return true;
}

static enum MHD_Result each_line(void *cls, enum MHD_ValueKind kind, const char *name,
				 size_t name_len, const char *value, size_t value_len)
{
	struct scan *scan = cls;

	(void)kind;
	scan->bad = !take_line(scan, name, name_len, value, value_len);
	return scan->bad ? MHD_NO : MHD_YES;
}

/* Where the header lines must begin: right after a request line whose parts stand one space apart.
 * NULL if they do not (NUL in one of them, more spaces, a bare LF). */
static const char *request_line_end(const struct front_private *p, const char *url,
				    const char *method, const char *version)
{
#if MHD_VERSION < 0x01000000
	if (url != p->target_at || url != method + strlen(method) + 1 ||
	    version != url + p->target_len + 1)
		return NULL;
#else
	(void)p, (void)url, (void)method;
#endif
	return version + strlen(version) + 2;
}

static bool check_request_line(struct front_request *request, const char *method,
			       const char *version, struct front_refusal *refusal)
{
	size_t len = strlen(method);

	request->http10 = strcmp(version, "HTTP/1.0") == 0;
	if (!header_name_is_valid(method, len))
		return malformed(refusal, "the method is no token (RFC 9110 section 9.1)");
	if (len >= FRONT_METHOD_MAX)
		return refuse(refusal, PROBLEM_BAD_REQUEST, 501, "the method is not implemented");
	memcpy(request->method, method, len + 1);
	if (strcmp(method, "CONNECT") == 0)
		return refuse(
			refusal, PROBLEM_BAD_REQUEST, 501,
			"CONNECT is not implemented: only the configured upstreams are dialled");
	return true;
}

static bool check_lines(struct front_request *request, struct scan *scan, const char *method,
			struct front_refusal *refusal)
{
	struct front_private *p = front_private(request);
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(p->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

	if (info == NULL || info->header_size > request->front->app->config->front_head)
		return refuse(refusal, PROBLEM_BAD_REQUEST, 431,
			      "the request head is too large; front.head is the limit");
	MHD_get_connection_values_n(p->mhd, MHD_HEADER_KIND, each_line, scan);
	if (scan->bad)
		return false;
#if MHD_VERSION < 0x01000000
	if (scan->next + 2 != method + info->header_size)
		return malformed(refusal, "a header line is folded, ends in a bare LF or holds "
					  "NUL; send one line for each header");
#else
	(void)method;
#endif
	return true;
}

/* RFC 9112 section 6: one way to tell where the body ends, or none. */
static bool check_framing(struct front_request *request, const struct scan *scan,
			  struct front_refusal *refusal)
{
	if (scan->codings == 0)
		return true;
	if (scan->lengths > 0)
		return malformed(refusal, "send Content-Length or Transfer-Encoding, not both");
	if (request->http10)
		return malformed(refusal, "HTTP/1.0 has no Transfer-Encoding");
	if (!text_equal_nocase(scan->coding, scan->coding_len, "chunked")) {
		const char *coding = scan->coding;
		size_t len = scan->coding_len, token = 0;

		text_trim(&coding, &len);
		while (token < len && strchr(" \t,;", coding[token]) == NULL)
			token++;
		if (len == 0 || text_equal_nocase(coding, token, "chunked"))
			return malformed(refusal, "Transfer-Encoding must be chunked, once");
		return refuse(refusal, PROBLEM_BAD_REQUEST, 501,
			      "no transfer coding but chunked is implemented");
	}
	return true;
}

static bool check_host(const struct front_request *request, struct scan *scan,
		       struct front_refusal *refusal)
{
	if (scan->hosts == 0)
		return request->http10 || malformed(refusal, "HTTP/1.1 requires Host");
	text_trim(&scan->host, &scan->host_len);
	if (!host_is_valid(scan->host, scan->host_len))
		return malformed(refusal, "Host is malformed");
	return true;
}

/* Finds the provider, and what of the target goes upstream. */
static bool route(struct front_request *request, const struct scan *scan,
		  struct front_refusal *refusal)
{
	struct front_private *p = front_private(request);
	const struct config *config = request->front->app->config;
	const struct provider_config *found;
	const char *detail = NULL;

	if (!target_check(request->method, request->target, p->target_len, &detail))
		return malformed(refusal, detail);
	found = target_route(config, p->conn->listener->own, scan->host, scan->host_len,
			     request->target, p->target_len);
	if (found == NULL)
		return refuse(refusal, PROBLEM_NO_ROUTE, 0,
			      "configure a provider with this path prefix, host or listener, or "
			      "correct the request");
	request->provider = &request->front->app->providers[found - config->providers];
	if (target_build(found, request->target, p->target_len, &request->upstream_target,
			 &request->rest) != 0)
		return refuse(refusal, PROBLEM_NOT_SENT, 503, "out of memory; send it again later");
	return true;
}

/* Connection must not take away what the request cannot lose. */
static bool check_connection(const struct front_request *request, struct front_refusal *refusal)
{
	struct headers out;
	const char *detail = NULL;
	enum headers_result result;

	headers_init(&out);
	result = headers_filter_request(request->headers.items, request->headers.count,
					request->provider->config, &out, &detail);
	headers_done(&out);
	if (result == HEADERS_MEMORY)
		return refuse(refusal, PROBLEM_NOT_SENT, 503, "out of memory; send it again later");
	return result == HEADERS_OK ||
	       malformed(refusal, detail != NULL ? detail : "Connection is malformed");
}

static bool check_hints(struct front_request *request, struct front_refusal *refusal)
{
	char detail[HINTS_DETAIL_MAX];

	_Static_assert(sizeof(refusal->text) >= HINTS_DETAIL_MAX, "the detail fits");
	if (hints_parse(request->headers.items, request->headers.count, &request->hints, detail))
		return true;
	refuse(refusal, PROBLEM_HINT_INVALID, 0, NULL);
	memcpy(refusal->text, detail, sizeof(detail));
	return false;
}

bool front_check(struct front_request *request, const char *url, const char *method,
		 const char *version, struct front_refusal *refusal)
{
	struct front_private *p = front_private(request);
	const struct header_view *type;
	struct scan scan = {.request = request,
			    .refusal = refusal,
			    .max = request->front->app->config->front_headers,
			    .next = request_line_end(p, url, method, version)};

	request->started = clock_boot();
	if (scan.next == NULL)
		return malformed(refusal, "the request line is malformed");
	if (!check_request_line(request, method, version, refusal) ||
	    !check_lines(request, &scan, method, refusal) ||
	    !check_framing(request, &scan, refusal) || !check_host(request, &scan, refusal))
		return false;
	if (scan.expects > 0 && !request->http10 && (scan.expects > 1 || !scan.continues))
		return refuse(refusal, PROBLEM_BAD_REQUEST, 417,
			      "no expectation but 100-continue is met");
	p->expects = scan.continues && !request->http10;
	if (!route(request, &scan, refusal))
		return false;
	if (scan.connections > 0 && !check_connection(request, refusal))
		return false;
	type = headers_find(&request->headers, "Content-Type");
	request->content_type = type != NULL ? type->value : NULL;
	return check_hints(request, refusal);
}
