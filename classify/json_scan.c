#include "classify/json_scan.h"

#include "classify/json_text.h"
#include "classify/text.h"

/* The text being read, what was seen in it, and the look-up that goes with it: from `found` on. */
struct scan {
	const char *at;
	const char *end;
	unsigned depth;
	bool deep;
	bool misencoded;
	bool found;
	bool ambiguous;
	struct json_value value;
};

static bool scan_value(struct scan *scan, const char *pointer);

static void skip_space(struct scan *scan)
{
	while (scan->at < scan->end &&
	       (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\n' || *scan->at == '\r'))
		scan->at++;
}

static bool take(struct scan *scan, char c)
{
	if (scan->at == scan->end || *scan->at != c)
		return false;
	scan->at++;
	return true;
}

/* What stands for itself in a string and is one byte: nearly all there is. */
static bool is_plain(char c)
{
	return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* A string in its quotes; says where its characters stand. */
static bool scan_string(struct scan *scan, const char **ret_text, size_t *ret_len)
{
	const char *start;
	uint32_t code;
	size_t len;

	if (!take(scan, '"'))
		return false;
	start = scan->at;
	for (;;) {
		while (scan->at < scan->end && is_plain(*scan->at))
			scan->at++;
		if (scan->at == scan->end || *scan->at == '"')
			break;
		if (*scan->at == '\\') {
			if (!json_text_escape(scan->at + 1, scan->end, &scan->at, &code))
				return false;
			if (json_text_is_half(code))
				scan->misencoded = true;
			continue;
		}
		if ((unsigned char)*scan->at < 0x20)
			return false;
		len = json_text_utf8((const unsigned char *)scan->at,
				     (size_t)(scan->end - scan->at));
		if (len == 0)
			scan->misencoded = true;
		scan->at += len > 0 ? len : 1;
	}
	*ret_text = start;
	*ret_len = (size_t)(scan->at - start);
	return take(scan, '"');
}

static size_t skip_digits(struct scan *scan)
{
	const char *start = scan->at;

	while (scan->at < scan->end && text_is_digit(*scan->at))
		scan->at++;
	return (size_t)(scan->at - start);
}

static bool scan_number(struct scan *scan)
{
	take(scan, '-');
	if (!take(scan, '0') && skip_digits(scan) == 0)
		return false;
	if (take(scan, '.') && skip_digits(scan) == 0)
		return false;
	if (take(scan, 'e') || take(scan, 'E')) {
		if (!take(scan, '+'))
			take(scan, '-');
		if (skip_digits(scan) == 0)
			return false;
	}
	return true;
}

static bool scan_word(struct scan *scan, const char *word)
{
	if (!text_starts(scan->at, (size_t)(scan->end - scan->at), word))
		return false;
	scan->at += strlen(word);
	return true;
}

/* The next byte of a pointer's token, -1 at its end (RFC 6901 section 4). */
static int token_next(const char **pointer)
{
	const char *at = *pointer;

	if (*at == '\0' || *at == '/')
		return -1;
	if (*at != '~') {
		*pointer = at + 1;
		return (unsigned char)*at;
	}
	*pointer = at + 2;
	return at[1] == '0' ? '~' : '/';
}

static const char *token_end(const char *token)
{
	while (*token != '\0' && *token != '/')
		token++;
	return token;
}

static bool token_is_member(const char *token, const char *text, size_t len)
{
	struct json_text in = {.at = text, .end = text + len};
	int byte;

	do {
		byte = json_text_next(&in);
		if (byte != token_next(&token))
			return false;
	} while (byte >= 0);
	return true;
}

/* An array index has no leading zeros; "-" names what is not there. */
static bool token_is_index(const char *token, size_t index)
{
	size_t value = 0;
	const char *end = token_end(token);

	if (token == end || (*token == '0' && end - token > 1))
		return false;
	for (; token < end; token++) {
		if (!text_is_digit(*token) || __builtin_mul_overflow(value, (size_t)10, &value) ||
		    __builtin_add_overflow(value, (size_t)(*token - '0'), &value))
			return false;
	}
	return value == index;
}

static bool scan_object(struct scan *scan, const char *pointer)
{
	const char *token = pointer != NULL && *pointer == '/' ? pointer + 1 : NULL;
	bool met = false;

	scan->at++;
	skip_space(scan);
	if (take(scan, '}'))
		return true;
	do {
		const char *name;
		size_t len;
		bool is_it;

		skip_space(scan);
		if (!scan_string(scan, &name, &len))
			return false;
		skip_space(scan);
		if (!take(scan, ':'))
			return false;
		is_it = token != NULL && token_is_member(token, name, len);
		if (is_it && met)
			scan->ambiguous = true;
		met = met || is_it;
		if (!scan_value(scan, is_it ? token_end(token) : NULL))
			return false;
	} while (take(scan, ','));
	return take(scan, '}');
}

static bool scan_array(struct scan *scan, const char *pointer)
{
	const char *token = pointer != NULL && *pointer == '/' ? pointer + 1 : NULL;
	size_t index = 0;

	scan->at++;
	skip_space(scan);
	if (take(scan, ']'))
		return true;
	do {
		bool is_it = token != NULL && token_is_index(token, index);

		if (!scan_value(scan, is_it ? token_end(token) : NULL))
			return false;
		index++;
	} while (take(scan, ','));
	return take(scan, ']');
}

/* Either kind of nesting, one level down. */
static bool scan_nested(struct scan *scan, const char *pointer)
{
	bool ok;

	if (scan->depth == JSON_SCAN_DEPTH) {
		scan->deep = true;
		return false;
	}
	scan->depth++;
	ok = *scan->at == '{' ? scan_object(scan, pointer) : scan_array(scan, pointer);
	scan->depth--;
	return ok;
}

/* Reads a value without the space around it, and says what stood where. */
static bool scan_bare(struct scan *scan, const char *pointer, struct json_value *ret_value)
{
	bool ok;

	if (scan->at == scan->end)
		return false;
	ret_value->text = scan->at;
	switch (*scan->at) {
	case '{':
	case '[':
		ret_value->type = *scan->at == '{' ? JSON_TYPE_OBJECT : JSON_TYPE_ARRAY;
		ok = scan_nested(scan, pointer);
		break;
	case '"':
		ret_value->type = JSON_TYPE_STRING;
		return scan_string(scan, &ret_value->text, &ret_value->len);
	case 't':
	case 'f':
		ret_value->type = JSON_TYPE_BOOLEAN;
		ok = scan_word(scan, *scan->at == 't' ? "true" : "false");
		break;
	case 'n':
		ret_value->type = JSON_TYPE_NULL;
		ok = scan_word(scan, "null");
		break;
	default:
		ret_value->type = JSON_TYPE_NUMBER;
		ok = scan_number(scan);
		break;
	}
	ret_value->len = (size_t)(scan->at - ret_value->text);
	return ok;
}

/* Reads a value and the space around it. `pointer` is what is left of the pointer if this value is
 * on its way, "" if this is the value it names, NULL if it is neither. */
static bool scan_value(struct scan *scan, const char *pointer)
{
	struct json_value value;

	skip_space(scan);
	if (!scan_bare(scan, pointer, &value))
		return false;
	skip_space(scan);
	if (pointer != NULL && *pointer == '\0') {
		scan->value = value;
		scan->found = true;
	}
	return true;
}

bool json_scan_pointer_valid(const char *pointer)
{
	if (*pointer != '\0' && *pointer != '/')
		return false;
	for (; *pointer != '\0'; pointer++) {
		if (*pointer == '~' && pointer[1] != '0' && pointer[1] != '1')
			return false;
	}
	return true;
}

enum json_scan_result json_scan_look_up(const char *body, size_t len, const char *pointer,
					struct json_value *ret_value)
{
	struct scan scan = {.at = body};

	if (body == NULL || !json_scan_pointer_valid(pointer))
		return JSON_SCAN_MALFORMED;
	scan.end = body + len;
	if (!scan_value(&scan, pointer))
		return scan.deep ? JSON_SCAN_DEEP : JSON_SCAN_MALFORMED;
	if (scan.at != scan.end)
		return JSON_SCAN_MALFORMED;
	if (scan.ambiguous)
		return JSON_SCAN_DUPLICATE;
	if (!scan.found)
		return JSON_SCAN_ABSENT;
	*ret_value = scan.value;
	return scan.misencoded ? JSON_SCAN_MISENCODED : JSON_SCAN_FOUND;
}

bool json_scan_find(const char *body, size_t len, const char *pointer, struct json_value *ret_value)
{
	struct json_value value;

	if (json_scan_look_up(body, len, pointer, &value) != JSON_SCAN_FOUND)
		return false;
	*ret_value = value;
	return true;
}

/* The scalar's bytes in turn, -1 at their end. What is no string has no backslash in it. */
static bool scalar_open(const struct json_value *value, struct json_text *ret_in)
{
	if (value->type == JSON_TYPE_ARRAY || value->type == JSON_TYPE_OBJECT)
		return false;
	*ret_in = (struct json_text){.at = value->text, .end = value->text + value->len};
	return true;
}

bool json_scan_equal(const struct json_value *value, const char *text)
{
	struct json_text in;
	int byte;

	if (!scalar_open(value, &in))
		return false;
	while ((byte = json_text_next(&in)) >= 0) {
		/* A NUL in the string cannot equal the end of the text. */
		if (byte == 0 || byte != (unsigned char)*text)
			return false;
		text++;
	}
	return *text == '\0';
}

bool json_scan_copy(const struct json_value *value, char *ret_text, size_t size)
{
	struct json_text in;
	size_t used = 0;
	int byte;

	if (!scalar_open(value, &in))
		return false;
	while ((byte = json_text_next(&in)) >= 0) {
		if (byte == 0 || used + 1 >= size)
			return false;
		ret_text[used++] = (char)byte;
	}
	if (used >= size)
		return false;
	ret_text[used] = '\0';
	return true;
}
