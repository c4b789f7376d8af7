/* The log: one line for each event, JSON or text, on standard error. A line is built in a fixed
 * buffer and written with one write(); values are escaped, bounded and never hold secrets: callers
 * pass redacted targets and no header values. */
#ifndef STINT_PROXY_LOG_H
#define STINT_PROXY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "classify/usec.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

#define LOG_LINE_MAX 4096

struct log_line {
	bool on; /* the level is logged; else the other calls do nothing */
	bool json;
	bool cut; /* a member did not fit */
	size_t len;
	char text[LOG_LINE_MAX];
};

/* Process-wide (the only mutable global): level and format. */
void log_setup(enum log_level level, bool json);

/* Begins a line: {"time": RFC 3339 ms, "level": ..., "event": event. */
void log_begin(struct log_line *line, enum log_level level, const char *event);
void log_text(struct log_line *line, const char *name, const char *value); /* NULL: left out */
void log_number(struct log_line *line, const char *name, int64_t value);
void log_seconds(struct log_line *line, const char *name, usec_t value); /* as decimal ms */
void log_bool(struct log_line *line, const char *name, bool value);
void log_end(struct log_line *line); /* writes it; a line too long ends in "truncated": true */

/* A line with one text, for what happens rarely. */
void log_message(enum log_level level, const char *event, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
