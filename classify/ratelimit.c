#include "classify/ratelimit.h"

#include "classify/text.h"

#define INTEGER_DIGITS 15 /* RFC 9651 section 3.3.1 */
#define DECIMAL_DIGITS 12 /* section 3.3.2, before the point */

struct reader {
	const char *at;
	size_t left;
};

static char front(const struct reader *in)
{
	return in->left > 0 ? *in->at : '\0';
}

static void advance(struct reader *in)
{
	in->at++;
	in->left--;
}

static bool take(struct reader *in, char c)
{
	if (in->left == 0 || *in->at != c)
		return false;
	advance(in);
	return true;
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_alpha(char c)
{
	return is_lower(text_lower(c));
}

static bool is_one_of(char c, const char *set)
{
	return memchr(set, c, strlen(set)) != NULL;
}

static bool is_token(char c)
{
	return is_alpha(c) || text_is_digit(c) || is_one_of(c, "!#$%&'*+-.^_`|~:/");
}

/* The characters between the quotes; only \" and \\ may be escaped (section 4.2.5). */
static bool take_string(struct reader *in, const char **ret_text, size_t *ret_len)
{
	const char *start;

	if (!take(in, '"'))
		return false;
	start = in->at;
	while (in->left > 0 && *in->at != '"') {
		if (take(in, '\\')) {
			if (front(in) != '"' && front(in) != '\\')
				return false;
		} else if (*in->at < 0x20 || *in->at > 0x7e) {
			return false;
		}
		advance(in);
	}
	*ret_text = start;
	*ret_len = (size_t)(in->at - start);
	return take(in, '"');
}

static bool take_token(struct reader *in, const char **ret_text, size_t *ret_len)
{
	const char *start = in->at;

	if (!is_alpha(front(in)) && front(in) != '*')
		return false;
	while (in->left > 0 && is_token(*in->at))
		advance(in);
	*ret_text = start;
	*ret_len = (size_t)(in->at - start);
	return true;
}

/* An integer, or a decimal, which has no value here: -1, as a negative integer has. */
static bool take_number(struct reader *in, int64_t *ret_value)
{
	bool negative = take(in, '-');
	int64_t value = 0;
	size_t digits = 0;
	size_t fraction = 0;

	for (; in->left > 0 && text_is_digit(*in->at); advance(in)) {
		if (++digits > INTEGER_DIGITS)
			return false;
		value = value * 10 + (*in->at - '0');
	}
	if (digits == 0)
		return false;
	if (!take(in, '.')) {
		*ret_value = negative ? -1 : value;
		return true;
	}
	for (; in->left > 0 && text_is_digit(*in->at); advance(in))
		fraction++;
	*ret_value = -1;
	return digits <= DECIMAL_DIGITS && fraction >= 1 && fraction <= 3;
}

/* Bytes between colons, as far as their alphabet goes. */
static bool take_bytes(struct reader *in)
{
	if (!take(in, ':'))
		return false;
	while (in->left > 0 && *in->at != ':') {
		if (!is_alpha(*in->at) && !text_is_digit(*in->at) && !is_one_of(*in->at, "+/="))
			return false;
		advance(in);
	}
	return take(in, ':');
}

/* Any bare item; the value of a non-negative integer, else -1. */
static bool take_item(struct reader *in, int64_t *ret_value)
{
	const char *text;
	size_t len;
	int64_t number;

	*ret_value = -1;
	switch (front(in)) {
	case '"':
		return take_string(in, &text, &len);
	case ':':
		return take_bytes(in);
	case '?':
		advance(in);
		return take(in, '0') || take(in, '1');
	case '@':
		advance(in);
		return take_number(in, &number);
	case '%':
		advance(in);
		return take_string(in, &text, &len);
	default:
		break;
	}
	if (is_alpha(front(in)) || front(in) == '*')
		return take_token(in, &text, &len);
	return take_number(in, ret_value);
}

static bool take_key(struct reader *in, const char **ret_text, size_t *ret_len)
{
	const char *start = in->at;

	if (!is_lower(front(in)) && front(in) != '*')
		return false;
	while (in->left > 0 && (is_lower(*in->at) || text_is_digit(*in->at) || *in->at == '_' ||
				*in->at == '-' || *in->at == '.' || *in->at == '*'))
		advance(in);
	*ret_text = start;
	*ret_len = (size_t)(in->at - start);
	return true;
}

static int64_t *known_number(struct ratelimit_item *item, const char *key, size_t len)
{
	if (text_equal(key, len, "r"))
		return &item->remaining;
	if (text_equal(key, len, "t"))
		return &item->reset;
	if (text_equal(key, len, "q"))
		return &item->quota;
	if (text_equal(key, len, "w"))
		return &item->window;
	return NULL;
}

static bool take_parameters(struct reader *in, struct ratelimit_item *item)
{
	while (take(in, ';')) {
		const char *key;
		size_t key_len;
		int64_t *number;
		int64_t value = -1; /* a key alone is true, and no number */

		while (take(in, ' '))
			;
		if (!take_key(in, &key, &key_len))
			return false;
		if (take(in, '=') && !take_item(in, &value))
			return false;
		number = known_number(item, key, key_len);
		if (number == NULL)
			continue;
		if (value < 0)
			return false;
		*number = value; /* a key that comes again replaces itself (section 4.2.3.2) */
	}
	return true;
}

static void skip_space(struct reader *in)
{
	while (take(in, ' ') || take(in, '\t'))
		;
}

bool ratelimit_parse(const char *text, size_t len, struct ratelimit_item *items, size_t max,
		     size_t *ret_count)
{
	struct reader in;
	size_t count = 0;

	text_trim(&text, &len);
	in = (struct reader){text, len};
	while (in.left > 0) {
		struct ratelimit_item *item;

		if (count == max)
			return false;
		item = &items[count++];
		*item = (struct ratelimit_item){NULL, 0, -1, -1, -1, -1};
		if (front(&in) == '"' ? !take_string(&in, &item->name, &item->name_len)
				      : !take_token(&in, &item->name, &item->name_len))
			return false;
		if (!take_parameters(&in, item))
			return false;
		skip_space(&in);
		if (in.left == 0)
			break;
		if (!take(&in, ','))
			return false;
		skip_space(&in);
		if (in.left == 0)
			return false; /* a comma at the end (section 4.2.1) */
	}
	*ret_count = count;
	return true;
}
