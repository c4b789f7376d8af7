/* libcurl's callbacks of one transfer: they record and queue the transfer, and call nothing of the
 * owner's but guard() and read_body(), which may not call back. */
#include "proxy/upstream_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/clock.h"

#define BUFFER_FIRST_CAP 4096
#define BUFFER_SIZED_MAX 65536 /* of a declared length, how much is allocated ahead */

static void record(struct transfer *transfer, enum fault fault, const char *why)
{
	transfer->now.recorded = fault;
	transfer->now.why = why;
}

int reply_prereq(void *clientp, char *peer, char *local, int peer_port, int local_port)
{
	struct transfer *transfer = clientp;
	struct attempt *attempt = transfer->attempt;
	usec_t now = clock_boot();
	enum fault fault;

	(void)peer;
	(void)local;
	(void)peer_port;
	(void)local_port;
	if (attempt->sent) {
		attempt->hidden_resend = true;
		record(transfer, FAULT_HIDDEN_RESEND, "the transport wanted to send it again");
		return CURL_PREREQFUNC_ABORT;
	}
	if (transfer->now.ending)
		return CURL_PREREQFUNC_ABORT;
	/* A timer may be late; what is sent is not taken back. */
	if (limit_next(transfer, &fault) <= now) {
		record(transfer, fault, "its time was over before it could be sent");
		return CURL_PREREQFUNC_ABORT;
	}
	if (attempt->guard != NULL && !attempt->guard(attempt)) {
		record(transfer, FAULT_GUARD, "the check before the first byte said no");
		return CURL_PREREQFUNC_ABORT;
	}
	record(transfer, FAULT_NONE, NULL); /* of an address that failed before this one */
	attempt->sent = true;
	attempt->sent_at = now;
	attempt->request_bytes = transfer->now.request_head;
	transfer->now.activity = now;
	/* A body that libcurl has whole is sent with the head. */
	if (transfer->now.body_eof)
		limit_arm_at(transfer, usec_add(now, attempt->provider->policy.attempt_timeout));
	else
		limit_arm(transfer);
	return CURL_PREREQFUNC_OK;
}

static ssize_t read_streamed(struct transfer *transfer, char *buffer, size_t room)
{
	struct attempt *attempt = transfer->attempt;
	ssize_t n = attempt->read_body(attempt, buffer, room);

	if (n == -EAGAIN)
		return n;
	if (n < 0 || (size_t)n > room || (n == 0 && attempt->stream_length >= 0)) {
		record(transfer, FAULT_UPLOAD, "the caller's upload ended early");
		return -EIO;
	}
	return n;
}

/* The body by parts: from a file, from the caller, or too long to go with the head. */
size_t request_read(char *buffer, size_t size, size_t count, void *clientp)
{
	struct transfer *transfer = clientp;
	struct attempt *attempt = transfer->attempt;
	int64_t length =
		attempt->body != NULL ? (int64_t)attempt->body->length : attempt->stream_length;
	size_t room = size * count;
	ssize_t n = 0;

	if (length >= 0 && room > (uint64_t)length - transfer->now.body_taken)
		room = (size_t)((uint64_t)length - transfer->now.body_taken);
	if (room > 0 && attempt->body != NULL) {
		n = body_read(attempt->body, (size_t)transfer->now.body_taken, buffer, room);
		if (n <= 0) {
			record(transfer, FAULT_LOCAL, "the buffered body could not be read");
			return CURL_READFUNC_ABORT;
		}
	} else if (room > 0) {
		n = read_streamed(transfer, buffer, room);
		if (n == -EAGAIN) {
			transfer->now.read_paused = true;
			return CURL_READFUNC_PAUSE;
		}
		if (n < 0)
			return CURL_READFUNC_ABORT;
	}
	transfer->now.body_taken += (uint64_t)n;
	attempt->request_bytes += (uint64_t)n;
	transfer->now.activity = clock_boot();
	if (n == 0 || (length >= 0 && transfer->now.body_taken == (uint64_t)length)) {
		transfer->now.body_eof = true;
		limit_arm_at(transfer, usec_add(transfer->now.activity,
						attempt->provider->policy.attempt_timeout));
	}
	return (size_t)n;
}

/* Nothing is ever sent a second time. */
int request_seek(void *clientp, curl_off_t offset, int origin)
{
	(void)clientp;
	(void)offset;
	(void)origin;
	return CURL_SEEKFUNC_FAIL;
}

/* The final reply's head is whole. */
static void head_done(struct transfer *transfer)
{
	struct attempt *attempt = transfer->attempt;
	struct reply_head *head = &transfer->now.head;
	bool uploaded = limit_uploaded(transfer);

	transfer->now.bodiless =
		transfer->now.bodiless || head->status == 204 || head->status == 304;
	attempt->status = head->status;
	attempt->head = head->data;
	attempt->head_len = head->len;
	head->data = NULL;
	attempt->content_length = head->length;
	attempt->close_delimited = !transfer->now.bodiless && !head->chunked && head->length < 0;
	attempt->head_at = clock_boot();
	transfer->now.activity = attempt->head_at;
	/* Not after an early reply, and not to HTTP/1.0: libcurl would go on in that version. */
	if (uploaded && !head->old)
		curl_easy_setopt(transfer->easy, CURLOPT_FORBID_REUSE, 0L);
	transfer->now.early = !uploaded && (transfer->now.bodiless || attempt->content_length == 0);
	/* libcurl stops sending at an error, but one that was paused stays so for ever: wake it. */
	if (!uploaded && head->status >= 300)
		transfer->now.body_ready = true;
	transfer->now.tell_head = true;
	limit_arm(transfer);
	upstream_news(transfer);
}

size_t reply_header(char *line, size_t size, size_t count, void *clientp)
{
	struct transfer *transfer = clientp;
	size_t len = size * count;

	if (transfer->now.ending)
		return 0;
	transfer->attempt->reply_bytes += len;
	switch (head_line(&transfer->now.head, line, len)) {
	case HEAD_MORE:
	case HEAD_INTERIM:
		return len;
	case HEAD_FINAL:
		head_done(transfer);
		return len;
	case HEAD_BIG:
		record(transfer, FAULT_HEAD_TOO_LARGE, "the reply's head is over its bound");
		return 0;
	case HEAD_MEMORY:
		record(transfer, FAULT_LOCAL, "out of memory");
		return 0;
	case HEAD_BROKEN:
		break;
	}
	record(transfer, FAULT_PROTOCOL, "the reply's head is malformed or its framing ambiguous");
	return 0;
}

static bool buffer_append(struct attempt *attempt, const char *data, size_t len)
{
	size_t cap = attempt->buffer_cap, need = attempt->buffer_len + len;
	char *grown;

	if (need > cap) {
		if (cap == 0)
			cap = BUFFER_FIRST_CAP;
		if (attempt->buffer_cap == 0 && attempt->content_length > 0 &&
		    attempt->content_length <= BUFFER_SIZED_MAX)
			cap = (size_t)attempt->content_length;
		while (cap < need)
			cap *= 2;
		grown = realloc(attempt->buffer, cap);
		if (grown == NULL)
			return false;
		attempt->buffer = grown;
		attempt->buffer_cap = cap;
	}
	memcpy(attempt->buffer + attempt->buffer_len, data, len);
	attempt->buffer_len = need;
	return true;
}

size_t reply_body(char *data, size_t size, size_t count, void *clientp)
{
	struct transfer *transfer = clientp;
	struct attempt *attempt = transfer->attempt;
	size_t len = size * count;

	if (transfer->now.ending || transfer->now.head.state != HEAD_DONE)
		return 0;
	/* libcurl takes all of a piece (16 KiB at most) back or none, so the buffer holds up to one
	 * piece more than its bound: an owner that waits for the bound is sure to see it reached. */
	if (attempt->buffer_len >= attempt->buffer_max) {
		transfer->now.write_paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	if (!buffer_append(attempt, data, len)) {
		record(transfer, FAULT_LOCAL, "out of memory");
		return 0;
	}
	transfer->now.body_received += len;
	attempt->reply_bytes += len;
	transfer->now.activity = clock_boot();
	transfer->now.tell_body = true;
	if (attempt->content_length >= 0 &&
	    transfer->now.body_received == (uint64_t)attempt->content_length &&
	    !limit_uploaded(transfer))
		transfer->now.early = true;
	upstream_news(transfer);
	return len;
}
