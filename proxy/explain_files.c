/* What `stint explain` reads: bodies, and raw responses as `curl -i` writes them. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proxy/explain_words.h"

#define FILE_MAX_BYTES (16 * 1024 * 1024)

int explain_bad(const char *format, ...)
{
	va_list arguments;

	(void)fputs("stint: explain: ", stderr);
	va_start(arguments, format);
	(void)vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void)fputc('\n', stderr);
	return 2;
}

int explain_no_memory(void)
{
	(void)fputs("stint: explain: out of memory\n", stderr);
	return 1;
}

int explain_read_file(const char *name, char **ret_text, size_t *ret_len)
{
	FILE *in = fopen(name, "rb");
	struct stat stat;
	char *text;
	size_t len;
	bool whole;

	if (in == NULL)
		return explain_bad("%s: %s", name, strerror(errno));
	if (fstat(fileno(in), &stat) != 0 || S_ISDIR(stat.st_mode)) {
		(void)fclose(in);
		return explain_bad("%s: this is no file to read", name);
	}
	text = malloc(FILE_MAX_BYTES + 2);
	if (text == NULL) {
		(void)fclose(in);
		return explain_no_memory();
	}
	len = fread(text, 1, FILE_MAX_BYTES + 1, in);
	whole = !ferror(in);
	(void)fclose(in);
	if (!whole || len > FILE_MAX_BYTES) {
		free(text);
		return explain_bad("%s: %s", name,
				   whole ? "it is longer than 16 MiB" : "it cannot be read");
	}
	text[len] = '\0';
	*ret_text = text;
	*ret_len = len;
	return 0;
}

int explain_add_header(struct headers *headers, const char *text, size_t len)
{
	const char *colon = memchr(text, ':', len);
	const char *value;
	size_t value_len;
	enum headers_result result = HEADERS_REFUSED;

	if (colon != NULL) {
		header_value_trim(colon + 1, len - (size_t)(colon + 1 - text), &value, &value_len);
		result = headers_add(headers, text, (size_t)(colon - text), value, value_len);
	}
	if (result == HEADERS_MEMORY)
		return explain_no_memory();
	if (result != HEADERS_OK)
		return explain_bad("\"%.*s\" is no header: write \"Name: value\"",
				   len < 60 ? (int)len : 60, text);
	return 0;
}

/* "HTTP/1.1 429 Too Many Requests", "HTTP/2 429". 0: it is none. */
static int status_of_line(const char *text, size_t len)
{
	const char *space = memchr(text, ' ', len);
	size_t left = space != NULL ? len - (size_t)(space + 1 - text) : 0;
	int status = 0;

	if (len < 5 || memcmp(text, "HTTP/", 5) != 0 || left < 3 || (left > 3 && space[4] != ' '))
		return 0;
	for (int i = 1; i <= 3; i++) {
		if (space[i] < '0' || space[i] > '9')
			return 0;
		status = status * 10 + (space[i] - '0');
	}
	return status >= 100 ? status : 0;
}

/* One line off the front of the text, its CR and LF left out. False: the text is over. */
static bool next_line(const char **at, const char *end, const char **ret_line, size_t *ret_len)
{
	const char *line = *at;
	const char *feed;
	size_t len;

	if (line == end)
		return false;
	feed = memchr(line, '\n', (size_t)(end - line));
	*at = feed != NULL ? feed + 1 : end;
	len = (size_t)((feed != NULL ? feed : end) - line);
	if (len > 0 && line[len - 1] == '\r')
		len--;
	*ret_line = line;
	*ret_len = len;
	return true;
}

/* A status line, header lines, an empty line and the body; the interim replies before it (1xx) are
 * passed over. */
static int parse_reply(const char *name, const char *text, size_t len, struct explain_input *input)
{
	const char *at = text, *end = text + len;
	const char *line;
	size_t line_len;
	int rc;

	do {
		headers_clear(&input->headers);
		input->status =
			next_line(&at, end, &line, &line_len) ? status_of_line(line, line_len) : 0;
		if (input->status == 0)
			return explain_bad(
				"%s: it does not begin with a status line such as HTTP/1.1 429 "
				"Too Many Requests",
				name);
		while (next_line(&at, end, &line, &line_len) && line_len > 0) {
			rc = explain_add_header(&input->headers, line, line_len);
			if (rc != 0)
				return rc;
		}
	} while (input->status < 200);
	input->body_len = (size_t)(end - at);
	input->body = malloc(input->body_len + 1);
	if (input->body == NULL)
		return explain_no_memory();
	memcpy(input->body, at, input->body_len);
	input->body[input->body_len] = '\0';
	return 0;
}

int explain_read_reply(const char *name, struct explain_input *input)
{
	char *text;
	size_t len;
	int rc = explain_read_file(name, &text, &len);

	if (rc != 0)
		return rc;
	rc = parse_reply(name, text, len, input);
	free(text);
	return rc;
}
