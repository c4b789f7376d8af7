/* The head of a reply, line by line as libcurl hands it over: interim heads dropped, framing read a
 * second time and strictly. libcurl takes the first of two Content-Lengths or lets a transfer coding
 * win; what can be read in two ways is refused here (RFC 9112 section 6.3). */
#include "proxy/upstream_private.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_FIRST_CAP 1024

void head_reset(struct reply_head *head)
{
	free(head->data);
	memset(head, 0, sizeof *head);
	head->length = -1;
}

static bool head_append(struct reply_head *head, const char *data, size_t len)
{
	size_t cap = head->cap != 0 ? head->cap : HEAD_FIRST_CAP;
	char *grown;

	while (cap - head->len < len)
		cap *= 2; /* bounded: the caller has checked len against UPSTREAM_HEAD_MAX */
	if (cap != head->cap) {
		grown = realloc(head->data, cap);
		if (grown == NULL)
			return false;
		head->data = grown;
		head->cap = cap;
	}
	memcpy(head->data + head->len, data, len);
	head->len += len;
	return true;
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static enum head_result status_line(struct reply_head *head, const char *line, size_t len)
{
	/* "HTTP/1.x nnn", then a space or the end (RFC 9112 section 4). */
	if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || !digit(line[7]) || line[8] != ' ' ||
	    !digit(line[9]) || !digit(line[10]) || !digit(line[11]) ||
	    (len > 12 && line[12] != ' '))
		return HEAD_BROKEN;
	head->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
	if (head->status < 100 || head->status == 101) /* nothing was offered to switch to */
		return HEAD_BROKEN;
	head->old = line[7] == '0';
	head->state = HEAD_LINES;
	head->len = 0;
	head->length = -1;
	head->codings = 0;
	head->chunked = false;
	return HEAD_MORE;
}

/* "5", or "5, 5" as merged by some hop; the same number wherever it is said. */
static bool content_length(struct reply_head *head, const char *value, size_t len)
{
	size_t i = 0;

	for (;;) {
		int64_t number = 0;
		size_t start;

		while (i < len && blank(value[i]))
			i++;
		for (start = i; i < len && digit(value[i]); i++) {
			if (number > (INT64_MAX - 9) / 10)
				return false;
			number = number * 10 + (value[i] - '0');
		}
		if (i == start || (head->length >= 0 && head->length != number))
			return false;
		head->length = number;
		while (i < len && blank(value[i]))
			i++;
		if (i == len)
			return true;
		if (value[i++] != ',')
			return false;
	}
}

static bool framing(struct reply_head *head, const char *line, size_t name, size_t len)
{
	const char *value = line + name + 1;
	size_t value_len = len - name - 1;

	while (value_len > 0 && blank(value[0])) {
		value++;
		value_len--;
	}
	while (value_len > 0 && blank(value[value_len - 1]))
		value_len--;
	if (name == 14 && strncasecmp(line, "content-length", 14) == 0)
		return content_length(head, value, value_len);
	if (name == 17 && strncasecmp(line, "transfer-encoding", 17) == 0) {
		/* No TE was sent, so chunked alone may come, once, from HTTP/1.1. */
		head->codings++;
		head->chunked = value_len == 7 && strncasecmp(value, "chunked", 7) == 0;
		return head->chunked && head->codings == 1 && !head->old;
	}
	return true;
}

/* obs-fold (RFC 9112 section 5.2): the line before it goes on after one space. The framing headers
 * have been read by then, here and by libcurl: they do not fold. */
static enum head_result unfold(struct reply_head *head, const char *line, size_t len)
{
	const char *last = head->data + head->len - 2;

	if (head->len < 2)
		return HEAD_BROKEN;
	while (last > head->data && last[-1] != '\n')
		last--;
	if (strncasecmp(last, "content-length:", 15) == 0 ||
	    strncasecmp(last, "transfer-encoding:", 18) == 0)
		return HEAD_BROKEN;
	head->len -= 2;
	while (len > 0 && blank(line[0])) {
		line++;
		len--;
	}
	if (!head_append(head, " ", 1) || !head_append(head, line, len) ||
	    !head_append(head, "\r\n", 2))
		return HEAD_MEMORY;
	return HEAD_MORE;
}

static enum head_result field_line(struct reply_head *head, const char *line, size_t len)
{
	const char *colon;
	size_t name, start = head->len;

	if (memchr(line, '\0', len) != NULL)
		return HEAD_BROKEN;
	if (blank(line[0]))
		return unfold(head, line, len);
	colon = memchr(line, ':', len);
	if (colon == NULL || colon == line)
		return HEAD_BROKEN;
	name = (size_t)(colon - line);
	/* A space before the colon is removed (RFC 9112 section 5.1), but a framing header that
	 * libcurl has not taken for one may not become one. */
	while (name > 0 && blank(line[name - 1]))
		name--;
	if (line + name != colon && (strncasecmp(line, "content-length", name) == 0 ||
				     strncasecmp(line, "transfer-encoding", name) == 0))
		return HEAD_BROKEN;
	if (!head_append(head, line, name) ||
	    !head_append(head, colon, len - (size_t)(colon - line)) ||
	    !head_append(head, "\r\n", 2))
		return HEAD_MEMORY;
	/* A bare CR becomes a space before anything reads it (RFC 9112 section 2.2). */
	for (size_t i = start; i < head->len - 2; i++) {
		if (head->data[i] == '\r')
			head->data[i] = ' ';
	}
	return framing(head, head->data + start, name, head->len - start - 2) ? HEAD_MORE
									      : HEAD_BROKEN;
}

static enum head_result head_end(struct reply_head *head)
{
	if (head->status >= 200) {
		if (head->chunked && head->length >= 0)
			return HEAD_BROKEN;
		head->state = HEAD_DONE;
		return HEAD_FINAL;
	}
	head->interim_bytes += head->bytes;
	head->bytes = 0;
	head->len = 0;
	head->status = 0;
	head->state = HEAD_START;
	/* Any number of interim replies may come; not any amount of them. */
	return head->interim_bytes > UPSTREAM_HEAD_MAX ? HEAD_BROKEN : HEAD_INTERIM;
}

enum head_result head_line(struct reply_head *head, const char *line, size_t len)
{
	if (head->state == HEAD_DONE) /* trailers */
		return HEAD_MORE;
	head->bytes += len;
	if (len > 0 && line[len - 1] == '\n')
		len--;
	if (len > 0 && line[len - 1] == '\r')
		len--;
	if (head->state == HEAD_START) {
		enum head_result result = status_line(head, line, len);

		if (result == HEAD_MORE && head->bytes > UPSTREAM_HEAD_MAX)
			return HEAD_BIG;
		return result;
	}
	if (head->bytes > UPSTREAM_HEAD_MAX)
		return HEAD_BIG;
	return len == 0 ? head_end(head) : field_line(head, line, len);
}
