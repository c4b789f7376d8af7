/* JSON from outside: what the scanner finds lies inside of the text, is a value of its own, and does
 * not depend on what stands around it.
 *
 * The input: a pointer of at most 64 bytes up to the first NUL, then the text. */
#include <string.h>

#include "classify/json_scan.h"
#include "tests/fuzz/fuzz.h"

#define POINTER_MAX 64

static void check_scalar(const struct json_value *value)
{
	char text[256], small[4];
	bool scalar = value->type != JSON_TYPE_ARRAY && value->type != JSON_TYPE_OBJECT;
	bool copied = json_scan_copy(value, text, sizeof(text));

	if (!scalar)
		MUST(!copied && !json_scan_equal(value, "") && !json_scan_equal(value, "{}"));
	if (copied) {
		MUST(scalar && strlen(text) <= value->len);
		MUST(json_scan_equal(value, text));
		if (text[0] != '\0') {
			text[strlen(text) - 1] ^= 1;
			MUST(!json_scan_equal(value, text));
		}
	}
	if (json_scan_copy(value, small, sizeof(small)))
		MUST(copied && strlen(small) < sizeof(small));
}

static void check_value(const char *body, size_t len, const struct json_value *value)
{
	bool string = value->type == JSON_TYPE_STRING;
	const char *text = string ? value->text - 1 : value->text;
	size_t text_len = string ? value->len + 2 : value->len;
	struct json_value again;

	MUST(value->type >= JSON_TYPE_NULL && value->type <= JSON_TYPE_OBJECT);
	MUST(text >= body && text + text_len <= body + len && text_len > 0);
	/* It is a text of its own. */
	MUST(json_scan_find(text, text_len, "", &again));
	MUST(again.type == value->type && again.len == value->len && again.text == value->text);
	/* And none without its last byte, but for a number. */
	if (value->type != JSON_TYPE_NUMBER)
		MUST(!json_scan_find(text, text_len - 1, "", &again));
	check_scalar(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nul = memchr(data, 0, size < POINTER_MAX ? size : POINTER_MAX);
	struct json_value value = {.text = "untouched"}, whole;
	char pointer[POINTER_MAX + 1];
	const char *body;
	size_t len;
	bool found;

	if (nul == NULL)
		return 0;
	memcpy(pointer, data, (size_t)(nul - data) + 1);
	body = (const char *)nul + 1;
	len = size - (size_t)(nul + 1 - data);
	found = json_scan_find(body, len, pointer, &value);
	if (!found)
		MUST(strcmp(value.text, "untouched") == 0);
	if (found) {
		MUST(json_scan_pointer_valid(pointer));
		check_value(body, len, &value);
	}
	switch (json_scan_look_up(body, len, pointer, &whole)) {
	case JSON_SCAN_FOUND:
		MUST(found && whole.text == value.text && whole.len == value.len);
		break;
	case JSON_SCAN_MISENCODED:
		MUST(!found && whole.text >= body && whole.text + whole.len <= body + len);
		check_scalar(&whole);
		break;
	default:
		MUST(!found);
	}
	/* A pointer finds something only in what is a whole text. */
	if (json_scan_find(body, len, "", &whole))
		check_value(body, len, &whole);
	else
		MUST(!found);
	return 0;
}
