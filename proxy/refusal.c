#include "proxy/refusal.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/config.h"
#include "proxy/headers.h"
#include "proxy/problem.h"

/* Appends text as the inside of a JSON string: UTF-8 passes, so only these need an escape. */
static void put_json(char **at, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			*(*at)++ = '\\';
		*(*at)++ = (unsigned char)*text < 0x20 ? ' ' : *text;
	}
}

/* The text of the configuration with {problem} and {detail} put in; NULL: out of memory. */
static char *fill(const char *pattern, const char *problem, const char *detail, size_t *ret_len)
{
	static const char names[2][10] = {"{problem}", "{detail}"};
	const char *const values[2] = {problem, detail};
	size_t room = strlen(pattern) + 1;
	char *text, *at;

	for (const char *c = pattern; *c != '\0'; c++)
		room += *c == '{' ? 2 * (strlen(problem) + strlen(detail)) : 0;
	text = at = malloc(room);
	while (text != NULL && *pattern != '\0') {
		size_t i = 0;

		while (i < 2 && strncmp(pattern, names[i], strlen(names[i])) != 0)
			i++;
		if (i < 2) {
			put_json(&at, values[i]);
			pattern += strlen(names[i]);
		} else {
			*at++ = *pattern++;
		}
	}
	if (text == NULL)
		return NULL;
	*at = '\0';
	*ret_len = (size_t)(at - text);
	return text;
}

char *refusal_write(const struct provider_config *config, const struct problem *problem,
		    struct headers *headers, int *ret_status, size_t *ret_len)
{
	const char *pattern = config != NULL ? config->refusal_body : NULL;
	struct problem said = *problem;
	char *text;

	said.status = config != NULL && config->refusal_status != 0 ? config->refusal_status
								    : problem_status(problem);
	text = pattern != NULL ? fill(pattern, problem_name(said.type), said.detail, ret_len)
			       : problem_json(&said, ret_len);
	for (size_t i = 0; text != NULL && config != NULL && i < config->refusal_header_count; i++)
		if (headers_set(headers, config->refusal_headers[i].name,
				config->refusal_headers[i].value) != HEADERS_OK)
			goto no_memory;
	if (text != NULL && headers_find(headers, "Content-Type") == NULL &&
	    headers_add_text(headers, "Content-Type",
			     pattern != NULL ? "text/plain; charset=utf-8"
					     : PROBLEM_CONTENT_TYPE) != HEADERS_OK)
		goto no_memory;
	*ret_status = said.status;
	return text;
no_memory:
	free(text);
	return NULL;
}
