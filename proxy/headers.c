#include "proxy/headers.h"

#include <stdlib.h>

/* Room for an ordinary request or reply in one allocation each. */
#define ITEMS_FIRST 12
#define ARENA_FIRST 512

/* tchar of RFC 9110 section 5.6.2 */
static bool is_token_char(char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-')
		return true;
	return c != '\0' && strchr("!#$%&'*+.^_`|~", c) != NULL;
}

bool header_name_is_valid(const char *name, size_t len)
{
	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_token_char(name[i]))
			return false;
	}
	return true;
}

bool header_value_is_valid(const char *value, size_t len)
{
	return len == 0 || (memchr(value, '\r', len) == NULL && memchr(value, '\n', len) == NULL &&
			    memchr(value, '\0', len) == NULL);
}

void header_value_trim(const char *value, size_t len, const char **ret_value, size_t *ret_len)
{
	while (len > 0 && (value[0] == ' ' || value[0] == '\t')) {
		value++;
		len--;
	}
	while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
		len--;
	*ret_value = value;
	*ret_len = len;
}

void headers_init(struct headers *headers)
{
	*headers = (struct headers){0};
}

void headers_done(struct headers *headers)
{
	free(headers->items);
	free(headers->arena);
	headers_init(headers);
}

void headers_clear(struct headers *headers)
{
	headers->count = 0;
	headers->arena_len = 0;
}

static bool grow_items(struct headers *headers)
{
	size_t capacity = headers->capacity == 0 ? ITEMS_FIRST : headers->capacity * 2;
	struct header_view *items = realloc(headers->items, capacity * sizeof(*items));

	if (items == NULL)
		return false;
	headers->items = items;
	headers->capacity = capacity;
	return true;
}

/* Makes room for `need` more bytes and lets the views follow the block to its new place. */
static bool grow_arena(struct headers *headers, size_t need)
{
	size_t capacity = headers->arena_capacity == 0 ? ARENA_FIRST : headers->arena_capacity;
	char *arena;

	if (need > SIZE_MAX / 4 - headers->arena_len)
		return false;
	while (capacity - headers->arena_len < need)
		capacity *= 2;
	arena = malloc(capacity);
	if (arena == NULL)
		return false;
	if (headers->arena_len > 0)
		memcpy(arena, headers->arena, headers->arena_len);
	for (size_t i = 0; i < headers->count; i++) {
		struct header_view *item = &headers->items[i];

		item->name = arena + (item->name - headers->arena);
		item->value = arena + (item->value - headers->arena);
	}
	free(headers->arena);
	headers->arena = arena;
	headers->arena_capacity = capacity;
	return true;
}

static const char *arena_copy(struct headers *headers, const char *text, size_t len)
{
	char *copy = headers->arena + headers->arena_len;

	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	headers->arena_len += len + 1;
	return copy;
}

enum headers_result headers_add(struct headers *headers, const char *name, size_t name_len,
				const char *value, size_t value_len)
{
	struct header_view *item;
	size_t need;

	if (!header_name_is_valid(name, name_len) || !header_value_is_valid(value, value_len))
		return HEADERS_REFUSED;
	if (value_len > SIZE_MAX / 8 || name_len > SIZE_MAX / 8)
		return HEADERS_MEMORY;
	need = name_len + value_len + 2;
	if (headers->count == headers->capacity && !grow_items(headers))
		return HEADERS_MEMORY;
	if (headers->arena_capacity - headers->arena_len < need && !grow_arena(headers, need))
		return HEADERS_MEMORY;
	item = &headers->items[headers->count];
	item->name = arena_copy(headers, name, name_len);
	item->name_len = name_len;
	item->value = arena_copy(headers, value, value_len);
	item->value_len = value_len;
	headers->count++;
	return HEADERS_OK;
}

enum headers_result headers_add_text(struct headers *headers, const char *name, const char *value)
{
	return headers_add(headers, name, strlen(name), value, strlen(value));
}

/* Removes the lines of that name among the first `count`. */
static size_t remove_among(struct headers *headers, const char *name, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < headers->count; i++) {
		if (i < count && header_is(&headers->items[i], name))
			continue;
		headers->items[kept++] = headers->items[i];
	}
	count = headers->count - kept;
	headers->count = kept;
	return count;
}

enum headers_result headers_set(struct headers *headers, const char *name, const char *value)
{
	size_t count = headers->count;
	enum headers_result result = headers_add_text(headers, name, value);

	if (result == HEADERS_OK)
		remove_among(headers, name, count);
	return result;
}

size_t headers_remove(struct headers *headers, const char *name)
{
	return remove_among(headers, name, headers->count);
}

const struct header_view *headers_find(const struct headers *headers, const char *name)
{
	for (size_t i = 0; i < headers->count; i++) {
		if (header_is(&headers->items[i], name))
			return &headers->items[i];
	}
	return NULL;
}

size_t headers_count(const struct headers *headers, const char *name)
{
	size_t found = 0;

	for (size_t i = 0; i < headers->count; i++)
		found += header_is(&headers->items[i], name) ? 1 : 0;
	return found;
}

static bool parse_length(const char *value, size_t len, int64_t *ret_length)
{
	int64_t length = 0;

	header_value_trim(value, len, &value, &len);
	/* 18 digits cannot overflow, and no body is longer. */
	if (len == 0 || len > 18)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (value[i] < '0' || value[i] > '9')
			return false;
		length = length * 10 + (value[i] - '0');
	}
	*ret_length = length;
	return true;
}

int headers_content_length(const struct header_view *items, size_t count, int64_t *ret_length)
{
	int64_t first = -1;

	for (size_t i = 0; i < count; i++) {
		int64_t length;

		if (!header_is(&items[i], "Content-Length"))
			continue;
		if (!parse_length(items[i].value, items[i].value_len, &length))
			return -1;
		if (first >= 0 && length != first)
			return -1;
		first = length;
	}
	if (first < 0)
		return 0;
	*ret_length = first;
	return 1;
}

enum headers_result headers_serialise(const struct headers *headers, char **ret_text,
				      size_t *ret_len)
{
	size_t len = 0;
	char *text, *at;

	for (size_t i = 0; i < headers->count; i++)
		len += headers->items[i].name_len + headers->items[i].value_len + 4;
	text = malloc(len + 1);
	if (text == NULL)
		return HEADERS_MEMORY;
	at = text;
	for (size_t i = 0; i < headers->count; i++) {
		const struct header_view *item = &headers->items[i];

		memcpy(at, item->name, item->name_len);
		at += item->name_len;
		memcpy(at, ": ", 2);
		at += 2;
		memcpy(at, item->value, item->value_len);
		at += item->value_len;
		memcpy(at, "\r\n", 2);
		at += 2;
	}
	*at = '\0';
	*ret_text = text;
	*ret_len = len;
	return HEADERS_OK;
}

enum headers_result headers_parse(const char *text, size_t len, struct headers *ret_headers)
{
	const char *at = text, *end = text + len;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		const char *colon;
		enum headers_result result;

		if (stop == NULL || stop == at || stop[-1] != '\r')
			return HEADERS_REFUSED;
		colon = memchr(at, ':', (size_t)(stop - 1 - at));
		if (colon == NULL || stop - 1 - colon < 2 || colon[1] != ' ')
			return HEADERS_REFUSED;
		result = headers_add(ret_headers, at, (size_t)(colon - at), colon + 2,
				     (size_t)(stop - 1 - (colon + 2)));
		if (result != HEADERS_OK)
			return result;
		at = stop + 1;
	}
	return HEADERS_OK;
}
