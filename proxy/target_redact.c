/* Takes secrets out of a target before anything keeps it. */
#include "proxy/target.h"

#include <string.h>
#include <strings.h>

#include "proxy/config.h"

/* More than is ever written, so that what lies beyond it cannot leak. */
#define DECODED_MAX 2048

/* A bounded text; what does not fit sets `cut`. */
struct out {
	char *text;
	size_t size, len;
	bool cut;
};

static void put(struct out *out, const char *bytes, size_t len)
{
	if (out->cut || out->size - out->len < len) {
		out->cut = true;
		return;
	}
	memcpy(out->text + out->len, bytes, len);
	out->len += len;
}

/* One byte of a target: the ledger's texts are ASCII. */
static void put_byte(struct out *out, char byte)
{
	static const char hex[] = "0123456789ABCDEF";
	unsigned char c = (unsigned char)byte;
	char escaped[3] = {'%', hex[c >> 4], hex[c & 15]};

	if (c > 0x20 && c < 0x7f)
		put(out, &byte, 1);
	else
		put(out, escaped, sizeof(escaped));
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The character at `at`, percent-decoded, and how many bytes it takes. */
static char decode(const char *at, const char *end, size_t *ret_taken)
{
	*ret_taken = 1;
	if (*at == '%' && end - at >= 3) {
		int high = hex_digit(at[1]), low = hex_digit(at[2]);

		if (high >= 0 && low >= 0) {
			*ret_taken = 3;
			return (char)(high * 16 + low);
		}
	}
	return *at;
}

/* Where the userinfo that may begin here ends: at the last "@" before the authority's end. NULL:
 * there is none. */
static const char *userinfo_end(const char *at, const char *end)
{
	const char *found = NULL;

	while (at < end) {
		size_t taken;
		char c = decode(at, end, &taken);

		if (c == '/' || c == '?' || c == '#')
			break;
		if (c == '@')
			found = at;
		at += taken;
	}
	return found;
}

/* Writes a piece without the userinfo in it, encoded or not. */
static void put_piece(struct out *out, const char *at, const char *end)
{
	char before = '\0';

	while (at < end && !out->cut) {
		size_t taken;
		char c = decode(at, end, &taken);
		const char *skip;

		for (size_t i = 0; i < taken; i++)
			put_byte(out, at[i]);
		at += taken;
		skip = c == '/' && before == '/' ? userinfo_end(at, end) : NULL;
		if (skip != NULL) {
			put(out, "***", 3);
			at = skip;
		}
		before = c;
	}
}

static bool is_name_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || c == '-' || c == '.';
}

/* Where `name` stands in the decoded text as a parameter's name: its "=" (or the text's end); NULL
 * if it does not. */
static const char *find_name(const char *text, const char *end, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = text; len > 0 && (size_t)(end - at) >= len; at++) {
		const char *after = at + len;

		if (strncasecmp(at, name, len) != 0 || (at > text && is_name_char(at[-1])))
			continue;
		while (after < end && (*after == ']' || *after == '['))
			after++;
		if (after < end && *after == '=')
			return after;
	}
	return NULL;
}

/* Whether a query's segment holds a secret; ret_in_name: before its own "=". */
static bool is_secret(const char *at, const char *end, const char *equals,
		      const struct strings *names, bool *ret_in_name)
{
	char text[DECODED_MAX];
	size_t len = 0, name_len = SIZE_MAX;

	while (at < end && len < sizeof(text)) {
		size_t taken;

		if (at == equals)
			name_len = len;
		text[len++] = decode(at, end, &taken);
		at += taken;
	}
	for (size_t i = 0; i < names->count; i++) {
		const char *found = find_name(text, text + len, names->items[i]);

		if (found != NULL) {
			*ret_in_name = (size_t)(found - text) < name_len;
			return true;
		}
	}
	return false;
}

static void put_segment(struct out *out, const char *at, const char *end,
			const struct strings *names)
{
	const char *equals = memchr(at, '=', (size_t)(end - at));
	bool in_name;

	if (!is_secret(at, end, equals, names, &in_name)) {
		put_piece(out, at, end);
		return;
	}
	if (!in_name && equals != NULL)
		put_piece(out, at, equals + 1);
	put(out, "***", 3);
}

static void put_query(struct out *out, const char *at, const struct strings *names)
{
	for (;;) {
		const char *end = at + strcspn(at, "&");

		put_segment(out, at, end, names);
		if (*end == '\0')
			return;
		put(out, "&", 1);
		at = end + 1;
	}
}

void target_redact(const char *target, const struct strings *names, char *ret_kind, size_t size)
{
	struct out out = {.text = ret_kind, .size = size - 1};
	size_t path_len = strcspn(target, "?");

	if (size < 8) {
		ret_kind[0] = '\0';
		return;
	}
	put_piece(&out, target, target + path_len);
	if (target[path_len] == '?') {
		put(&out, "?", 1);
		put_query(&out, target + path_len + 1, names);
	}
	if (out.cut) {
		out.len = out.len > out.size - 3 ? out.size - 3 : out.len;
		memcpy(ret_kind + out.len, "...", 3);
		out.len += 3;
	}
	ret_kind[out.len] = '\0';
}
