#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "classify/json_scan.h"
#include "proxy/config_build.h"
#include "proxy/config_value.h"
#include "proxy/preset.h"

#define TEXT_MAX 256
#define HEADER_NAME_MAX 128

bool value_refuse(struct loader *loader, const struct option *option, const struct node *node,
		  const char *format, ...)
{
	char quoted[QUOTE_MAX], what[TEXT_MAX];
	va_list arguments;

	if (node->kind == NODE_BAD)
		return false;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	loader_problem(loader, node->line, node->column, "%s is %s: %s", option->path,
		       node_quote(node, quoted), what);
	return false;
}

bool value_is_scalar(struct loader *loader, const struct option *option, const struct node *node,
		     const char *what)
{
	if (node->kind == NODE_SCALAR)
		return true;
	return value_refuse(loader, option, node, "write %s", what);
}

static bool in_range(struct loader *loader, const struct option *option, const struct node *node,
		     int64_t value, const char *noun)
{
	char range[TEXT_MAX];

	if (value >= option->min && value <= option->max)
		return true;
	option_range(option, range, sizeof(range));
	return value_refuse(loader, option, node, "write %s%s", noun, range);
}

static bool get_duration(struct loader *loader, const struct option *option,
			 const struct node *node, usec_t *ret_value)
{
	char hint[VALUE_TEXT];
	usec_t value;

	if (!value_is_scalar(loader, option, node, "a duration such as 250ms, 8s, 5m or 24h"))
		return false;
	if (value_duration(node->text, &value, hint) != 0)
		return value_refuse(loader, option, node, "write %s",
				    hint[0] != '\0' ? hint
						    : "a duration such as 250ms, 8s, 5m or 24h");
	if (!in_range(loader, option, node, value, ""))
		return false;
	*ret_value = value;
	return true;
}

static bool get_size(struct loader *loader, const struct option *option, const struct node *node,
		     size_t *ret_value)
{
	char hint[VALUE_TEXT];
	int64_t value;

	if (!value_is_scalar(loader, option, node, "a size such as 64KiB or 8MiB"))
		return false;
	if (value_size(node->text, &value, hint) != 0)
		return value_refuse(loader, option, node, "write %s",
				    hint[0] != '\0' ? hint : "a size such as 64KiB or 8MiB");
	if (!in_range(loader, option, node, value, ""))
		return false;
	*ret_value = (size_t)value;
	return true;
}

static bool get_int(struct loader *loader, const struct option *option, const struct node *node,
		    int64_t *ret_value)
{
	char range[TEXT_MAX];
	int64_t value;

	option_range(option, range, sizeof(range));
	if (node->kind != NODE_SCALAR || value_int(node->text, &value) != 0)
		return value_refuse(loader, option, node, "write a whole number, %s (%s)", range,
				    option->help);
	if (value < option->min || value > option->max)
		return value_refuse(loader, option, node, "write %s (%s)", range, option->help);
	*ret_value = value;
	return true;
}

static bool get_factor(struct loader *loader, const struct option *option, const struct node *node,
		       double *ret_value)
{
	double value;

	if (node->kind != NODE_SCALAR || value_factor(node->text, &value) != 0 ||
	    value < (double)option->min || value > (double)option->max)
		return value_refuse(loader, option, node,
				    "write a number from %" PRId64 " to %" PRId64
				    ", such as 2 or 1.5",
				    option->min, option->max);
	*ret_value = value;
	return true;
}

static bool get_bool(struct loader *loader, const struct option *option, const struct node *node,
		     bool *ret_value)
{
	bool is_true = node->kind == NODE_SCALAR && strcmp(node->text, "true") == 0;

	if (!is_true && (node->kind != NODE_SCALAR || strcmp(node->text, "false") != 0))
		return value_refuse(loader, option, node, "write true or false");
	*ret_value = is_true;
	return true;
}

static bool get_word(struct loader *loader, const struct option *option, const struct node *node,
		     unsigned *ret_index)
{
	char range[TEXT_MAX];
	const char *words = option->words;

	option_range(option, range, sizeof(range));
	for (unsigned index = 0; node->kind == NODE_SCALAR && *words != '\0'; index++) {
		bool later = words[0] == '!';
		size_t len = strcspn(words += later, " ");

		if (strlen(node->text) == len && strncmp(node->text, words, len) == 0) {
			if (later)
				return value_refuse(loader, option, node, "not built yet, write %s",
						    range);
			*ret_index = index;
			return true;
		}
		words += len;
		words += *words == ' ';
	}
	return value_refuse(loader, option, node, "write %s", range);
}

static bool get_text(struct loader *loader, const struct option *option, const struct node *node,
		     char **ret_text)
{
	if (node->kind != NODE_SCALAR || node->text[0] == '\0')
		return value_refuse(loader, option, node, "write %s such as %s",
				    option_type_name(option->type),
				    option->example != NULL ? option->example : option->value);
	/* `sdk: {retries: 3}` means something else */
	if (option->type == OPTION_HEADER &&
	    (!value_is_token(node->text) || strlen(node->text) > HEADER_NAME_MAX ||
	     strspn(node->text, "0123456789") == strlen(node->text)))
		return value_refuse(loader, option, node, "write a header name such as %s",
				    option->example);
	*ret_text = loader_strdup(loader, node->text);
	return *ret_text != NULL;
}

/* A file of secrets or certificates: missing, unreadable and empty ones are found now, not when the
 * first connection needs them. */
static bool get_file(struct loader *loader, const struct option *option, const struct node *node,
		     char **ret_path)
{
	char start[TEXT_MAX];
	struct stat info;

	if (!value_is_scalar(loader, option, node, "the path of a file"))
		return false;
	int fd = open(node->text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || fstat(fd, &info) != 0) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		return value_refuse(loader, option, node,
				    "it cannot be read (%s), write the path of a readable file",
				    strerror(error));
	}
	ssize_t len = S_ISDIR(info.st_mode) ? -1 : read(fd, start, sizeof(start));

	close(fd);
	if (len < 0)
		return value_refuse(loader, option, node,
				    "it cannot be read, write the path of a file");
	bool blank = true;

	for (ssize_t i = 0; i < len; i++)
		blank = blank && strchr(" \t\r\n", start[i]) != NULL && start[i] != '\0';
	if (blank)
		return value_refuse(loader, option, node,
				    "it is empty, write the path of a file "
				    "that holds %s",
				    option->type == OPTION_TOKEN ? "the token" : "it");
	*ret_path = loader_strdup(loader, node->text);
	return *ret_path != NULL;
}

static bool get_store(struct loader *loader, const struct option *option, const struct node *node,
		      char **ret_path)
{
	const char *prefix = "sqlite:";

	if (!value_is_scalar(loader, option, node, "sqlite:PATH"))
		return false;
	if (strncmp(node->text, "redis", strlen("redis")) == 0)
		return value_refuse(loader, option, node,
				    "redis stores are not built yet, write sqlite:PATH");
	if (strncmp(node->text, prefix, strlen(prefix)) != 0)
		return value_refuse(loader, option, node, "write sqlite:PATH");
	const char *path = node->text + strlen(prefix);

	if (path[0] == '\0' || path[0] == ':')
		return value_refuse(loader, option, node,
				    "the ledger is a file, write sqlite:PATH");
	*ret_path = loader_strdup(loader, path);
	return *ret_path != NULL;
}

bool value_set_texts(struct loader *loader, const struct option *option, const struct node *node,
		     char ***ret_items, size_t *ret_count)
{
	bool good = true;

	if (node->kind != NODE_LIST)
		return value_refuse(loader, option, node, "write a list such as %s",
				    option->example != NULL ? option->example : option->value);
	char **items = loader_heap(loader, node->count, sizeof(*items));

	if (items == NULL)
		return false;
	*ret_items = items;
	for (size_t i = 0; i < node->count; i++) {
		const struct node *item = node->items[i];
		const char *text = item->text;

		if (item->kind != NODE_SCALAR || text[0] == '\0')
			good = value_refuse(loader, option, item, "write text");
		else if (option->type == OPTION_HEADERS && !value_is_token(text))
			good = value_refuse(loader, option, item, "write a header name");
		else if (option->type == OPTION_POINTERS &&
			 (text[0] != '/' || !json_scan_pointer_valid(text) ||
			  strlen(text) > JSON_POINTER_MAX))
			good = value_refuse(loader, option, item,
					    "write a JSON pointer such as /requested_at");
		else if ((items[*ret_count] = loader_strdup(loader, text)) != NULL)
			(*ret_count)++;
	}
	return good;
}

static bool set_pointers(struct loader *loader, const struct option *option,
			 const struct node *node, struct fingerprint_config *fingerprint)
{
	if (!value_set_texts(loader, option, node, &fingerprint->except,
			     &fingerprint->except_count))
		return false;
	fingerprint->mode = FINGERPRINT_JSON;
	if (fingerprint->except_count == 0)
		return value_refuse(loader, option, node, "write at least one JSON pointer");
	return true;
}

static bool set_waits(struct loader *loader, const struct option *option, const struct node *node,
		      struct provider_config *provider)
{
	bool good = true;

	if (node->kind != NODE_LIST || node->count == 0 || node->count > SCHEDULE_MAX)
		return value_refuse(loader, option, node,
				    "write a list of 1 to %d waits such as %s", SCHEDULE_MAX,
				    option->example);
	provider->schedule = loader_heap(loader, node->count, sizeof(*provider->schedule));
	if (provider->schedule == NULL)
		return false;
	for (size_t i = 0; i < node->count; i++)
		good = get_duration(loader, option, node->items[i], &provider->schedule[i]) && good;
	provider->policy.backoff.schedule = provider->schedule;
	provider->policy.backoff.schedule_len = node->count;
	return good;
}

static bool set_workers(struct loader *loader, const struct option *option, const struct node *node,
			int *ret_workers)
{
	int64_t value;

	if (node->kind == NODE_SCALAR && strcmp(node->text, "auto") == 0) {
		long cores = sysconf(_SC_NPROCESSORS_ONLN);

		*ret_workers = cores < 1 ? 1 : cores > 4 ? 4 : (int)cores;
		return true;
	}
	if (!get_int(loader, option, node, &value))
		return false;
	*ret_workers = (int)value;
	return true;
}

static bool set_preset(struct loader *loader, const struct option *option, const struct node *node,
		       char **ret_name)
{
	char names[TEXT_MAX];

	if (node->kind != NODE_SCALAR || preset_find(node->text) == NULL) {
		preset_names(names, sizeof(names));
		return value_refuse(loader, option, node, "write one of %s", names);
	}
	*ret_name = loader_strdup(loader, node->text);
	return *ret_name != NULL;
}

static bool set_number(struct loader *loader, const struct option *option, const struct node *node,
		       void *target)
{
	int64_t whole;
	unsigned index;

	switch (option->type) {
	case OPTION_DURATION:
		return get_duration(loader, option, node, target);
	case OPTION_SIZE:
		return get_size(loader, option, node, target);
	case OPTION_INT:
		if (!get_int(loader, option, node, &whole))
			return false;
		*(int *)target = (int)whole;
		return true;
	case OPTION_COUNT:
		return get_int(loader, option, node, target);
	case OPTION_FACTOR:
		return get_factor(loader, option, node, target);
	case OPTION_BOOL:
		return get_bool(loader, option, node, target);
	case OPTION_WORD:
		return get_word(loader, option, node, target);
	case OPTION_SWITCH:
		if (!get_word(loader, option, node, &index))
			return false;
		*(bool *)target = index == 1;
		return true;
	case OPTION_WORKERS:
		return set_workers(loader, option, node, target);
	case OPTION_LEASE:
		if (node->kind == NODE_SCALAR && strcmp(node->text, "auto") == 0) {
			*(usec_t *)target = LEASE_AUTO;
			return true;
		}
		return get_duration(loader, option, node, target);
	default: /* OPTION_NONE */
		if (node->kind == NODE_SCALAR && strcmp(node->text, "none") == 0)
			return true;
		return value_refuse(loader, option, node,
				    "write none, or {header: Idempotency-Key, retention: 24h}");
	}
}

bool value_set(struct loader *loader, const struct option *option, const struct node *node,
	       void *base)
{
	void *target = (char *)base + option->offset;

	switch (option->type) {
	case OPTION_TEXT:
	case OPTION_HEADER:
		return get_text(loader, option, node, target);
	case OPTION_FILE:
	case OPTION_TOKEN:
		return get_file(loader, option, node, target);
	case OPTION_TEXTS:
	case OPTION_HEADERS: {
		struct strings *strings = target;

		return value_set_texts(loader, option, node, &strings->items, &strings->count);
	}
	case OPTION_POINTERS:
		return set_pointers(loader, option, node, target);
	case OPTION_WAITS:
		return set_waits(loader, option, node, base);
	case OPTION_ADDRESS:
		return value_set_address(loader, option, node, target);
	case OPTION_ADDRESSES:
		return value_set_addresses(loader, option, node, base);
	case OPTION_STORE:
		return get_store(loader, option, node, target);
	case OPTION_URL:
		return value_set_url(loader, option, node, target);
	case OPTION_ROUTE:
		return value_set_route(loader, option, node, target);
	case OPTION_HOST:
		return value_set_host(loader, option, node, target);
	case OPTION_KEYS:
	case OPTION_SCOPE:
	case OPTION_TENANT:
	case OPTION_REMOTE_ID:
		return value_set_sources(loader, option, node, base);
	case OPTION_VALUE:
		return value_set_field(loader, option, node, target);
	case OPTION_GATE:
		return value_set_gate(loader, option, node, target);
	case OPTION_PRESET:
		return set_preset(loader, option, node, target);
	case OPTION_RULES:
		return value_set_rules(loader, option, node, base);
	case OPTION_ADVICE:
		return value_set_advice(loader, option, node, base);
	case OPTION_REFUSAL:
		return value_set_refusal(loader, option, node, base);
	case OPTION_TEMPLATE:
		return value_set_template(loader, option, node, target);
	default:
		return set_number(loader, option, node, target);
	}
}
