/* {"n":1,"at":1700000000000000,"ms":12,"class":"success","effect":"definite","status":200,
 * "fault":"none","instance":"8d5e957f297893487bd98fa830fa6413","token":"...","verdict":true} */
#include "budget/sqlite_history.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char hex_digits[] = "0123456789abcdef";

static void hex_write(const uint8_t *bytes, size_t count, char *ret_text)
{
	for (size_t i = 0; i < count; i++) {
		ret_text[2 * i] = hex_digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = hex_digits[bytes[i] & 15];
	}
	ret_text[2 * count] = '\0';
}

static bool hex_read(const char *text, size_t count, uint8_t *ret_bytes)
{
	if (strlen(text) != 2 * count)
		return false;
	for (size_t i = 0; i < 2 * count; i++) {
		const char *digit = memchr(hex_digits, text[i], 16);
		if (!digit)
			return false;
		unsigned value = (unsigned)(digit - hex_digits);
		ret_bytes[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : ret_bytes[i / 2] | value);
	}
	return true;
}

/* Instance ids are plain words; whatever else were in one must not break the JSON. */
static void plain_copy(const char *text, char ret_plain[OP_INSTANCE_MAX])
{
	size_t i = 0;
	for (; i < OP_INSTANCE_MAX - 1 && text[i] != '\0'; i++) {
		bool plain = text[i] > ' ' && text[i] < 0x7f && text[i] != '"' && text[i] != '\\';
		ret_plain[i] = (char)(plain ? text[i] : '?');
	}
	ret_plain[i] = '\0';
}

static size_t attempt_write(const struct op_attempt *attempt, bool first, char *text, size_t room)
{
	char token[2 * OP_TOKEN_LEN + 1];
	char instance[OP_INSTANCE_MAX];
	hex_write(attempt->token, OP_TOKEN_LEN, token);
	plain_copy(attempt->instance, instance);
	int len = snprintf(text, room,
			   "%s{\"n\":%u,\"at\":%lld,\"ms\":%u,\"class\":\"%s\",\"effect\":\"%s\","
			   "\"status\":%u,\"fault\":\"%s\",\"instance\":\"%s\",\"token\":\"%s\"%s}",
			   first ? "" : ",", attempt->n, (long long)attempt->start, attempt->ms,
			   outcome_class_name(attempt->class), effect_name(attempt->effect),
			   attempt->status, fault_name(attempt->fault), instance, token,
			   attempt->has_verdict ? ",\"verdict\":true" : "");
	return len > 0 && (size_t)len < room ? (size_t)len : 0;
}

size_t sqlite_history_write(const struct op_attempt ring[OP_RING], char text[SQLITE_HISTORY_MAX])
{
	int newest = 0;
	for (int i = 0; i < OP_RING; i++)
		newest = ring[i].n > newest ? ring[i].n : newest;
	size_t len = 0;
	text[len++] = '[';
	for (int n = newest > OP_RING ? newest - OP_RING + 1 : 1; n <= newest; n++) {
		const struct op_attempt *attempt = &ring[(n - 1) % OP_RING];
		if (attempt->n == n)
			len += attempt_write(attempt, len == 1, text + len,
					     SQLITE_HISTORY_MAX - 2 - len);
	}
	text[len++] = ']';
	text[len] = '\0';
	return len;
}

static bool attempt_read(json_t *entry, struct op_attempt ring[OP_RING])
{
	int n, status, verdict = 0;
	json_int_t at, ms;
	const char *class_text, *effect_text, *fault_text, *instance, *token;
	if (json_unpack(entry, "{s:i,s:I,s:I,s:s,s:s,s:i,s:s,s:s,s:s,s?b}", "n", &n, "at", &at,
			"ms", &ms, "class", &class_text, "effect", &effect_text, "status", &status,
			"fault", &fault_text, "instance", &instance, "token", &token, "verdict",
			&verdict) != 0)
		return false;
	enum outcome_class class;
	enum effect effect;
	enum fault fault;
	if (n < 1 || n > ATTEMPTS_CEILING || ms < 0 || ms > UINT32_MAX || status < 0 ||
	    status > UINT16_MAX || strlen(instance) >= OP_INSTANCE_MAX ||
	    !outcome_class_parse(class_text, &class) || !effect_parse(effect_text, &effect) ||
	    !fault_parse(fault_text, &fault))
		return false;
	struct op_attempt *attempt = &ring[(n - 1) % OP_RING];
	attempt->n = (uint8_t)n;
	attempt->start = at;
	attempt->ms = (uint32_t)ms;
	attempt->status = (uint16_t)status;
	attempt->class = (uint8_t) class;
	attempt->effect = (uint8_t)effect;
	attempt->fault = (uint8_t)fault;
	attempt->has_verdict = verdict != 0;
	memcpy(attempt->instance, instance, strlen(instance) + 1);
	return hex_read(token, OP_TOKEN_LEN, attempt->token);
}

bool sqlite_history_read(const char *text, size_t len, struct op_attempt ring[OP_RING])
{
	if (len == 2 && memcmp(text, "[]", 2) == 0)
		return true;
	json_t *array = json_loadb(text, len, 0, NULL);
	bool good = json_is_array(array) && json_array_size(array) <= OP_RING;
	for (size_t i = 0; good && i < json_array_size(array); i++)
		good = attempt_read(json_array_get(array, i), ring);
	json_decref(array);
	return good;
}
