#include "proxy/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proxy/timefmt.h"

#define TAIL_ROOM 32 /* for the end of a line that was cut: a quote, "truncated", brace, newline */

static struct {
	atomic_int level;
	atomic_bool json;
} setup = {LOG_LEVEL_INFO, true};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_setup(enum log_level level, bool json)
{
	atomic_store(&setup.level, (int)level);
	atomic_store(&setup.json, json);
}

static bool fits(const struct log_line *line, size_t len)
{
	return line->len + len + TAIL_ROOM <= LOG_LINE_MAX;
}

static void put(struct log_line *line, const char *text, size_t len)
{
	if (!fits(line, len)) {
		line->cut = true;
		return;
	}
	memcpy(line->text + line->len, text, len);
	line->len += len;
}

static void put_text(struct log_line *line, const char *text)
{
	put(line, text, strlen(text));
}

/* The length of the UTF-8 sequence at s (RFC 3629: no overlong forms, no surrogates), 0 if it is
 * none. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
	static const unsigned char low[] = {0xa0, 0x90}, high[] = {0x9f, 0x8f};
	size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;

	if (s[0] < 0xc2 || s[0] > 0xf4 || left < len)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((s[0] == 0xe0 && s[1] < low[0]) || (s[0] == 0xed && s[1] > high[0]) ||
	    (s[0] == 0xf0 && s[1] < low[1]) || (s[0] == 0xf4 && s[1] > high[1]))
		return 0;
	return len;
}

/* Escapes as in a JSON string; what is no UTF-8 becomes "?". The text format uses the same. */
static void put_escaped(struct log_line *line, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t left = strlen(text), step;
	char escape[8];

	for (; left > 0 && !line->cut; s += step, left -= step) {
		step = 1;
		if (*s == '"' || *s == '\\') {
			escape[0] = '\\';
			escape[1] = (char)*s;
			put(line, escape, 2);
		} else if (*s < 0x20 || *s == 0x7f) {
			(void)snprintf(escape, sizeof(escape), "\\u%04x", *s);
			put(line, escape, 6);
		} else if (*s < 0x80) {
			put(line, (const char *)s, 1);
		} else if (*s == 0xc2 && left > 1 && s[1] >= 0x80 && s[1] < 0xa0) {
			/* U+0080 to U+009F: a terminal obeys them as it does ESC. */
			(void)snprintf(escape, sizeof(escape), "\\u%04x", s[1]);
			put(line, escape, 6);
			step = 2;
		} else {
			step = utf8_length(s, left);
			put(line, step > 0 ? (const char *)s : "?", step > 0 ? step : 1);
			step = step > 0 ? step : 1;
		}
	}
}

/* A text that needs no quotes in the text format. */
static bool is_plain(const char *text)
{
	for (const char *c = text; *c != '\0'; c++) {
		if (*c <= ' ' || *c == '"' || *c == '\\' || *c == '=' || *c >= 0x7f)
			return false;
	}
	return text[0] != '\0';
}

void log_begin(struct log_line *line, enum log_level level, const char *event)
{
	struct timespec now;
	char time[TIMEFMT_MAX];

	line->on = (int)level >= atomic_load_explicit(&setup.level, memory_order_relaxed);
	if (!line->on)
		return;
	line->json = atomic_load_explicit(&setup.json, memory_order_relaxed);
	line->len = 0;
	line->cut = false;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	timefmt_rfc3339((usec_t)now.tv_sec * USEC_SEC + now.tv_nsec / 1000, time);
	if (line->json) {
		put_text(line, "{\"time\":\"");
		put_text(line, time);
		put_text(line, "\",\"level\":\"");
		put_text(line, level_names[level]);
		put_text(line, "\",\"event\":\"");
		put_escaped(line, event);
		line->text[line->len++] =
			'"'; /* from the tail's room: an event may have been cut */
	} else {
		put_text(line, time);
		put_text(line, " ");
		put_text(line, level_names[level]);
		put_text(line, &"     "[strlen(level_names[level]) - 1]);
		put_escaped(line, event);
	}
}

static void put_name(struct log_line *line, const char *name)
{
	put_text(line, line->json ? ",\"" : " ");
	put_text(line, name);
	put_text(line, line->json ? "\":" : "=");
}

/* A member goes in whole or not at all, so that a cut line is still a line. */
static void put_member(struct log_line *line, const char *name, const char *value, bool quoted)
{
	size_t before = line->len;

	if (line->cut)
		return;
	put_name(line, name);
	if (quoted)
		put_text(line, "\"");
	put_escaped(line, value);
	if (quoted)
		put_text(line, "\"");
	if (line->cut)
		line->len = before;
}

void log_text(struct log_line *line, const char *name, const char *value)
{
	if (line->on && value != NULL)
		put_member(line, name, value, line->json || !is_plain(value));
}

void log_number(struct log_line *line, const char *name, int64_t value)
{
	char text[24];

	if (!line->on)
		return;
	(void)snprintf(text, sizeof(text), "%lld", (long long)value);
	put_member(line, name, text, false);
}

void log_seconds(struct log_line *line, const char *name, usec_t value)
{
	char text[32];

	if (!line->on)
		return;
	(void)snprintf(text, sizeof(text), "%lld.%03lld", (long long)(value / USEC_MS),
		       (long long)(value < 0 ? 0 : value % USEC_MS));
	put_member(line, name, text, false);
}

void log_bool(struct log_line *line, const char *name, bool value)
{
	if (line->on)
		put_member(line, name, value ? "true" : "false", false);
}

void log_end(struct log_line *line)
{
	static const char cut_json[] = ",\"truncated\":true", cut_text[] = " truncated=true";
	const char *tail = line->json ? cut_json : cut_text;

	if (!line->on)
		return;
	if (line->cut) {
		memcpy(line->text + line->len, tail, strlen(tail));
		line->len += strlen(tail);
	}
	if (line->json)
		line->text[line->len++] = '}';
	line->text[line->len++] = '\n';
	/* A log that cannot be written must not stop the traffic. */
	if (write(STDERR_FILENO, line->text, line->len) < 0)
		return;
}

void log_message(enum log_level level, const char *event, const char *format, ...)
{
	struct log_line line;
	char text[1024];
	va_list arguments;
	int len;

	log_begin(&line, level, event);
	if (!line.on)
		return;
	va_start(arguments, format);
	len = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	log_text(&line, "message", len < 0 ? format : text);
	if (len >= (int)sizeof(text))
		line.cut = true;
	log_end(&line);
}
