/* Request bodies. Kept whole up to body.max; a longer one is streamed: the first body.max bytes are
 * kept, the rest goes through a ring, and when that is full the connection is suspended until the
 * owner has read from it. What arrives after the answer is already known is thrown away, up to
 * body.drain: in the middle of a body the library cannot answer. */
#include "proxy/front_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/clock.h"

static void start_streaming(struct front_request *request)
{
	struct front_private *p = front_private(request);

	request->streamed = true;
	request->complete = clock_boot();
	p->started = true;
	p->released = false;
	request->front->start(request);
}

static void drain(struct front_request *request, enum problem_type type, int status,
		  const char *detail)
{
	const struct front_refusal refusal = {.type = type, .status = status, .detail = detail};

	front_private(request)->phase = FRONT_DRAIN;
	front_refuse(request, &refusal);
}

/* Appends what fits. Returns how many bytes were dealt with. */
static size_t keep(struct front_request *request, const char *data, size_t len)
{
	struct body *body = &request->body;
	size_t max = request->provider->limits.max;
	size_t room = max > body->length ? max - body->length : 0;

	if (len > room && request->provider->config->body_over == BODY_OVER_REFUSE) {
		drain(request, PROBLEM_BODY_TOO_LARGE, 0, "send a body of at most body.max bytes");
		return 0;
	}
	if (body_append(body, data, len < room ? len : room) != BODY_OK) {
		drain(request, PROBLEM_NOT_SENT, 503,
		      "the request body could not be kept (memory or temporary files are short); "
		      "nothing was sent, send it again later");
		return 0;
	}
	if (len <= room)
		return len;
	start_streaming(request);
	return room;
}

/* --- the ring ------------------------------------------------------------------------------- */

static size_t ring_put(struct front_upload *upload, const char *data, size_t len)
{
	size_t end = (upload->start + upload->len) % FRONT_UPLOAD_MAX;
	size_t room = FRONT_UPLOAD_MAX - upload->len;
	size_t first;

	if (len > room)
		len = room;
	first = len < FRONT_UPLOAD_MAX - end ? len : FRONT_UPLOAD_MAX - end;
	memcpy(upload->data + end, data, first);
	memcpy(upload->data, data + first, len - first);
	upload->len += len;
	return len;
}

static size_t ring_get(struct front_upload *upload, char *buffer, size_t len)
{
	size_t first;

	if (len > upload->len)
		len = upload->len;
	first = len < FRONT_UPLOAD_MAX - upload->start ? len : FRONT_UPLOAD_MAX - upload->start;
	memcpy(buffer, upload->data + upload->start, first);
	memcpy(buffer + first, upload->data, len - first);
	upload->start = (upload->start + len) % FRONT_UPLOAD_MAX;
	upload->len -= len;
	return len;
}

/* Tells an owner that was sent away with -EAGAIN. */
static void tell_body(struct front_request *request)
{
	struct front_private *p = front_private(request);

	if (!p->upload.wanted || p->released)
		return;
	p->upload.wanted = false;
	if (request->on_body != NULL)
		request->on_body(request);
}

static enum MHD_Result stream(struct front_request *request, const char *data, size_t *len)
{
	struct front_private *p = front_private(request);
	struct front_upload *upload = &p->upload;

	if (upload->data == NULL) {
		upload->data = malloc(FRONT_UPLOAD_MAX);
		if (upload->data == NULL)
			return MHD_NO;
	}
	while (*len > 0 && p->phase == FRONT_BODY && !p->aborted) {
		size_t put = ring_put(upload, data, *len);

		data += put;
		*len -= put;
		tell_body(request); /* may read, answer or release */
		if (put == 0 && upload->len == FRONT_UPLOAD_MAX) {
			front_suspend(request);
			break;
		}
	}
	return p->aborted ? MHD_NO : MHD_YES;
}

/* --- from the library ----------------------------------------------------------------------- */

static enum MHD_Result throw_away(struct front_request *request, size_t *len)
{
	struct front_private *p = front_private(request);

	p->over += *len;
	*len = 0;
	return p->over > request->provider->config->body_drain ? MHD_NO : MHD_YES;
}

enum MHD_Result front_body_data(struct front_request *request, const char *data, size_t *len)
{
	struct front_private *p = front_private(request);

	if (p->phase == FRONT_BODY && !request->streamed) {
		size_t kept = keep(request, data, *len);

		data += kept;
		*len -= kept;
	}
	if (*len > 0 && p->phase == FRONT_BODY && request->streamed && !p->aborted) {
		if (stream(request, data, len) != MHD_YES)
			return MHD_NO;
		/* Whatever is left waits for the owner, unless it has answered meanwhile. */
	}
	if (*len > 0 && p->phase == FRONT_DRAIN)
		return throw_away(request, len);
	return p->aborted ? MHD_NO : MHD_YES;
}

void front_body_end(struct front_request *request)
{
	struct front_private *p = front_private(request);

	p->phase = FRONT_READY;
	p->upload.ended = true;
	if (!request->streamed)
		request->complete = clock_boot();
	else
		tell_body(request);
}

void front_body_break(struct front_request *request)
{
	struct front_private *p = front_private(request);

	if (!request->streamed || p->upload.ended)
		return;
	p->upload.broken = true;
	tell_body(request);
}

/* --- from the owner ------------------------------------------------------------------------- */

ssize_t front_request_read(struct front_request *request, char *buffer, size_t len)
{
	struct front_private *p = front_private(request);
	struct front_upload *upload = &p->upload;
	ssize_t n;

	if (upload->kept_read < request->body.length) {
		n = body_read(&request->body, upload->kept_read, buffer, len);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		upload->kept_read += (size_t)n;
		return n;
	}
	if (upload->len > 0) {
		n = (ssize_t)ring_get(upload, buffer, len);
		/* Half a ring of room is worth a turn of the library. */
		if (p->suspended && !upload->ended && upload->len <= FRONT_UPLOAD_MAX / 2)
			front_resume(request);
		return n;
	}
	if (upload->ended || !request->streamed)
		return 0;
	if (upload->broken || p->mhd == NULL)
		return -ECONNRESET;
	upload->wanted = true;
	return -EAGAIN;
}
