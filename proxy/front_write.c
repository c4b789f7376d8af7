/* Answers. Fixed bodies are lent to the library without a copy. A streamed one is pulled by it; when
 * there is nothing to pull the connection is suspended until front_stream_ready(). What ends early
 * ends without its last chunk, or short of its Content-Length, or with a reset where only the
 * connection's end tells the body's. */
#include "proxy/front_private.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proxy/refusal.h"

#define STREAM_BLOCK 16384

/* What the library keeps for one header line of the request, and adds of its own to an answer. */
#define LINE_COST 80
#define HEAD_COST 512

/* Closes with a reset, and no FIN before it (tcp_disconnect() of a connected socket). */
static void reset(const struct front_conn *conn)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	connect(conn->fd, &nobody, sizeof(nobody));
}

static ssize_t cut(struct front_private *p)
{
	if (p->until_close && p->conn != NULL)
		reset(p->conn);
	return MHD_CONTENT_READER_END_WITH_ERROR;
}

static ssize_t pull_once(struct front_private *p, char *buffer, size_t max)
{
	ssize_t n = 0;

	p->in_pull = true;
	do {
		p->pull_again = false;
		n = p->pull(&p->request, buffer, max);
	} while (n == 0 && p->pull_again);
	p->in_pull = false;
	if (n < 0)
		p->pull = NULL;
	return n;
}

/* The library's content reader. */
static ssize_t read_content(void *cls, uint64_t position, char *buffer, size_t max)
{
	struct front_private *p = cls;
	ssize_t n;

	(void)position;
	if (p->aborted || p->released || p->pull == NULL)
		return cut(p);
	n = pull_once(p, buffer, max);
	if (n > 0) {
		if (p->pull_left >= 0)
			p->pull_left -= n;
		return n;
	}
	if (n == 0) {
		front_suspend(&p->request);
		return 0;
	}
	if (n == -1 && p->pull_left <= 0)
		return MHD_CONTENT_READER_END_OF_STREAM;
	return cut(p);
}

static ssize_t read_nothing(void *cls, uint64_t position, char *buffer, size_t max)
{
	(void)cls;
	(void)position;
	(void)buffer;
	(void)max;
	return MHD_CONTENT_READER_END_WITH_ERROR;
}

static void unref_reply(void *cls)
{
	ledger_reply_unref(cls);
}

/* An answer without a body that may tell the length of one: to HEAD, and 304. */
static struct MHD_Response *make_bare(const struct front_answer *answer)
{
	int64_t length = answer->head_length;
	struct MHD_Response *response;

	if (length < 0 && answer->pull != NULL)
		length = answer->stream_length;
	else if (length < 0 && answer->reply != NULL && answer->reply->body_len > 0)
		length = (int64_t)answer->reply->body_len;
	else if (length < 0 && answer->text != NULL)
		length = (int64_t)answer->text_len;
	if (length == 0)
		return MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
	response = MHD_create_response_from_callback(
		length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)length, 1, read_nothing, NULL, NULL);
	/* Of unknown length: neither Content-Length: 0 (false) nor Transfer-Encoding, after which
	 * 0.9.75 writes a last chunk even here. */
	if (response != NULL && length < 0)
		MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
	return response;
}

static struct MHD_Response *make_stream(struct front_private *p, const struct front_answer *answer)
{
	p->pull_left = answer->stream_length;
	p->until_close = answer->stream_length < 0 && p->request.http10;
	return MHD_create_response_from_callback(
		answer->stream_length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)answer->stream_length,
		STREAM_BLOCK, read_content, p, NULL);
}

/* Takes answer->text over where it returns a response. */
static struct MHD_Response *make_body(struct front_private *p, const struct front_answer *answer)
{
	struct MHD_Response *response = NULL;
	bool bare = strcmp(p->request.method, "HEAD") == 0 || answer->status == 304;

	if (bare || answer->status == 204) {
		response = bare ? make_bare(answer)
				: MHD_create_response_from_buffer(0, (void *)"",
								  MHD_RESPMEM_PERSISTENT);
		if (response != NULL)
			free(answer->text);
		return response;
	}
	if (answer->pull != NULL)
		return make_stream(p, answer);
	if (answer->reply != NULL && answer->reply->body_len > 0) {
		struct ledger_reply *reply = ledger_reply_ref(answer->reply);

		response = MHD_create_response_from_buffer_with_free_callback_cls(
			reply->body_len, reply->body, unref_reply, reply);
		if (response == NULL)
			ledger_reply_unref(reply);
		return response;
	}
	if (answer->text != NULL && answer->text_len > 0)
		return MHD_create_response_from_buffer_with_free_callback_cls(
			answer->text_len, answer->text, free, answer->text);
	response = MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
	if (response != NULL)
		free(answer->text);
	return response;
}

static bool add_headers(struct MHD_Response *response, const struct headers *headers)
{
	for (size_t i = 0; headers != NULL && i < headers->count; i++) {
		const struct header_view *line = &headers->items[i];

		/* 0.9.75 takes no empty value; one space is the same on the wire. Names that it
		 * wants to write itself it refuses: Content-Length alone is let go. */
		if (MHD_add_response_header(response, line->name,
					    line->value_len > 0 ? line->value : " ") != MHD_YES &&
		    !header_is(line, "Content-Length"))
			return false;
	}
	return true;
}

/* The answer's head must fit into the library's memory beside the request's: else it would close
 * the connection without a word. */
static bool head_fits(const struct front_private *p, const struct headers *headers)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(p->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	size_t used = HEAD_COST + p->request.headers.count * LINE_COST;

	used += info != NULL ? info->header_size : 0;
	for (size_t i = 0; headers != NULL && i < headers->count; i++)
		used += headers->items[i].name_len + headers->items[i].value_len + 4;
	return used <= p->request.front->pool;
}

/* Sets p->response, or p->aborted where there is no memory for it. */
static void prepare(struct front_private *p, const struct front_answer *answer)
{
	bool close = answer->close || p->request.front->draining || p->phase != FRONT_READY;

	p->pull = answer->pull;
	p->status = answer->status >= 200 && answer->status <= 999 ? answer->status : 502;
	p->response = make_body(p, answer);
	if (p->response == NULL)
		free(answer->text);
	if (p->response == NULL || !add_headers(p->response, answer->headers) ||
	    (close && MHD_add_response_header(p->response, "Connection", "close") != MHD_YES)) {
		if (p->response != NULL)
			MHD_destroy_response(p->response);
		p->response = NULL;
		p->aborted = true;
	}
}

/* A problem document. */
static void prepare_problem(struct front_private *p, const struct front_refusal *refusal,
			    bool close)
{
	struct front_request *request = &p->request;
	const char *detail = refusal->detail != NULL ? refusal->detail : refusal->text;
	struct front_answer answer = {.stream_length = -1, .head_length = -1, .close = close};
	struct problem problem;
	struct headers headers;

	problem_init(&problem, refusal->type, detail);
	problem.status = refusal->status;
	problem.provider = request->provider != NULL ? request->provider->config->name : NULL;
	headers_init(&headers);
	answer.headers = &headers;
	answer.text = refusal_write(request->provider != NULL ? request->provider->config : NULL,
				    &problem, &headers, &answer.status, &answer.text_len);
	if (answer.text == NULL || headers_add_text(&headers, "Stint", "made") != HEADERS_OK ||
	    (answer.status == 503 &&
	     headers_add_text(&headers, "Retry-After", "1") != HEADERS_OK)) {
		free(answer.text);
		p->aborted = true;
	} else {
		prepare(p, &answer);
	}
	headers_done(&headers);
}

void front_refuse(struct front_request *request, const struct front_refusal *refusal)
{
	struct front_private *p = front_private(request);

	p->answered = true;
	if (request->provider != NULL)
		metrics_refusal(&request->provider->metrics, problem_name(refusal->type));
	prepare_problem(p, refusal, true);
}

enum MHD_Result front_queue(struct front_request *request)
{
	struct front_private *p = front_private(request);
	struct MHD_Response *response = p->response;
	enum MHD_Result result = MHD_NO;

	p->response = NULL;
	if (!p->aborted && response != NULL)
		result = MHD_queue_response(p->mhd, (unsigned int)p->status, response);
	if (response != NULL)
		MHD_destroy_response(response);
	p->aborted = p->aborted || result != MHD_YES;
	return result;
}

void front_request_answer(struct front_request *request, const struct front_answer *answer)
{
	static const struct front_refusal too_large = {
		.type = PROBLEM_RESPONSE_HEAD_TOO_LARGE,
		.detail = "the provider's response head does not fit beside the request's; what "
			  "came of the operation is in its record",
	};
	struct front_private *p = front_private(request);

	if (p->answered || p->mhd == NULL || p->gone) {
		free(answer->text);
		p->answered = true;
		return;
	}
	p->answered = true;
	if (head_fits(p, answer->headers)) {
		prepare(p, answer);
	} else {
		free(answer->text);
		prepare_problem(p, &too_large, answer->close);
	}
	if (p->phase != FRONT_READY) {
		/* In the middle of a body the library takes no answer: the rest is thrown away. */
		p->phase = FRONT_DRAIN;
		front_resume(request);
	} else if (!p->in_handler) {
		front_queue(request);
		front_resume(request);
	}
}

void front_stream_ready(struct front_request *request)
{
	struct front_private *p = front_private(request);

	if (p->in_pull) {
		p->pull_again = true;
	} else if (p->mhd == NULL) {
		front_finish_pull(request);
		front_request_unref(request);
	} else if (p->pull != NULL && p->response == NULL) {
		front_resume(request);
	}
}

void front_finish_pull(struct front_request *request)
{
	struct front_private *p = front_private(request);
	char rest[256];

	/* Of an announced length the library wants no more than that; HEAD wants nothing. */
	while (p->pull != NULL && !p->released && !p->gone) {
		if (pull_once(p, rest, sizeof(rest)) == 0)
			return;
	}
}
