#include "proxy/config_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
	struct arena_block *next;
	max_align_t memory[];
};

void *arena_alloc(struct arena_block **blocks, size_t size)
{
	struct arena_block *block = calloc(1, sizeof(*block) + size);

	if (block == NULL)
		return NULL;
	block->next = *blocks;
	*blocks = block;
	return block->memory;
}

void arena_done(struct arena_block **blocks)
{
	while (*blocks != NULL) {
		struct arena_block *block = *blocks;

		*blocks = block->next;
		free(block);
	}
}

void *loader_alloc(struct loader *loader, size_t size)
{
	void *memory = arena_alloc(&loader->blocks, size);

	if (memory == NULL)
		loader->oom = true;
	return memory;
}

const char *loader_text(struct loader *loader, const char *text, size_t len)
{
	char *copy = loader_alloc(loader, len + 1);

	if (copy != NULL)
		memcpy(copy, text, len);
	return copy;
}

void *loader_heap(struct loader *loader, size_t count, size_t size)
{
	void *memory = calloc(count > 0 ? count : 1, size);

	if (memory == NULL)
		loader->oom = true;
	return memory;
}

char *loader_strdup(struct loader *loader, const char *text)
{
	char *copy = strdup(text);

	if (copy == NULL)
		loader->oom = true;
	return copy;
}

void loader_done(struct loader *loader)
{
	arena_done(&loader->blocks);
}

const char *node_quote(const struct node *node, char ret_text[QUOTE_MAX])
{
	const char *raw = node->raw != NULL ? node->raw : "";
	size_t len = strlen(raw);

	switch (node->kind) {
	case NODE_MAPPING:
		return "a mapping";
	case NODE_LIST:
		return "a list";
	case NODE_NULL:
		return "nothing";
	default:
		break;
	}
	if (len <= QUOTE_MAX - 8) {
		snprintf(ret_text, QUOTE_MAX, "\"%s\"", raw);
		return ret_text;
	}
	len = QUOTE_MAX - 8;
	/* not in the middle of a character */
	while (len > 0 && ((unsigned char)raw[len] & 0xc0) == 0x80)
		len--;
	snprintf(ret_text, QUOTE_MAX, "\"%.*s...\"", (int)len, raw);
	return ret_text;
}

struct node *node_new(struct loader *loader, enum node_kind kind, int line, int column)
{
	struct node *node = loader_alloc(loader, sizeof(*node));

	if (node != NULL) {
		node->kind = kind;
		node->line = line;
		node->column = column;
	}
	return node;
}

/* Room for one more element of `size`; the old array stays in the arena. */
static void *grow(struct loader *loader, struct node *node, void *old, size_t size)
{
	if (node->count < node->room)
		return old;
	size_t room = node->room > 0 ? 2 * node->room : 4;
	void *array = loader_alloc(loader, room * size);

	if (array == NULL)
		return NULL;
	if (node->count > 0)
		memcpy(array, old, node->count * size);
	node->room = room;
	return array;
}

bool node_add_pair(struct loader *loader, struct node *mapping, const char *key, int line,
		   int column, struct node *value)
{
	struct node_pair *pairs = grow(loader, mapping, mapping->pairs, sizeof(*pairs));

	if (pairs == NULL || key == NULL || value == NULL)
		return false;
	mapping->pairs = pairs;
	pairs[mapping->count++] =
		(struct node_pair){.key = key, .line = line, .column = column, .value = value};
	return true;
}

bool node_add_item(struct loader *loader, struct node *list, struct node *item)
{
	struct node **items = grow(loader, list, list->items, sizeof(*items));

	if (items == NULL || item == NULL)
		return false;
	list->items = items;
	items[list->count++] = item;
	return true;
}

const struct node_pair *node_pair(const struct node *mapping, const char *key)
{
	if (mapping == NULL || mapping->kind != NODE_MAPPING)
		return NULL;
	for (size_t i = 0; i < mapping->count; i++)
		if (strcmp(mapping->pairs[i].key, key) == 0)
			return &mapping->pairs[i];
	return NULL;
}

const struct node *node_at(const struct node *node, const char *path)
{
	while (node != NULL && *path != '\0') {
		size_t len = strcspn(path, ".");
		const struct node *found = NULL;

		if (node->kind != NODE_MAPPING)
			return NULL;
		for (size_t i = 0; i < node->count && found == NULL; i++)
			if (strncmp(node->pairs[i].key, path, len) == 0 &&
			    node->pairs[i].key[len] == '\0')
				found = node->pairs[i].value;
		node = found;
		path += len;
		path += *path == '.';
	}
	return node;
}

static bool names_wave(const char *key)
{
	return strcmp(key, "first") == 0 || strcmp(key, "factor") == 0 || strcmp(key, "max") == 0;
}

/* A backoff is either first, factor, max or a schedule: the kind that `over` names drops the other
 * one of the layer below. */
static bool is_dropped(const char *key, const struct node *over)
{
	if (node_pair(over, "schedule") != NULL && names_wave(key))
		return true;
	return strcmp(key, "schedule") == 0 && node_pair(over, "schedule") == NULL &&
	       (node_pair(over, "first") != NULL || node_pair(over, "factor") != NULL ||
		node_pair(over, "max") != NULL);
}

static struct node *merge(struct loader *loader, struct node *base, struct node *over,
			  bool is_backoff)
{
	if (over == NULL || (over->kind == NODE_NULL && base->kind == NODE_MAPPING))
		return base;
	if (base->kind != NODE_MAPPING || over->kind != NODE_MAPPING)
		return over;
	struct node *merged = node_new(loader, NODE_MAPPING, over->line, over->column);

	if (merged == NULL)
		return base;
	for (size_t i = 0; i < base->count; i++) {
		struct node_pair pair = base->pairs[i];
		const struct node_pair *other = node_pair(over, pair.key);

		if (is_backoff && is_dropped(pair.key, over))
			continue;
		if (other != NULL) {
			pair.value = merge(loader, pair.value, other->value,
					   strcmp(pair.key, "backoff") == 0);
			pair.line = other->line;
			pair.column = other->column;
		}
		node_add_pair(loader, merged, pair.key, pair.line, pair.column, pair.value);
	}
	for (size_t i = 0; i < over->count; i++)
		if (node_pair(base, over->pairs[i].key) == NULL ||
		    (is_backoff && is_dropped(over->pairs[i].key, over)))
			node_add_pair(loader, merged, over->pairs[i].key, over->pairs[i].line,
				      over->pairs[i].column, over->pairs[i].value);
	return merged;
}

struct node *tree_merge(struct loader *loader, struct node *base, struct node *over)
{
	return merge(loader, base, over, false);
}

/* Puts a value at a dotted path, making the mappings on the way. A mapping in the place of a scalar
 * default (`idempotency: none`) is never made: such children have no defaults. */
static void put(struct loader *loader, struct node *root, const char *path, struct node *value)
{
	struct node *at = root;

	for (;;) {
		size_t len = strcspn(path, ".");
		const char *key = loader_text(loader, path, len);

		if (key == NULL)
			return;
		if (path[len] == '\0') {
			node_add_pair(loader, at, key, 0, 0, value);
			return;
		}
		const struct node_pair *pair = node_pair(at, key);
		struct node *next =
			pair != NULL ? pair->value : node_new(loader, NODE_MAPPING, 0, 0);

		if (next == NULL || next->kind != NODE_MAPPING)
			return;
		if (pair == NULL)
			node_add_pair(loader, at, key, 0, 0, next);
		at = next;
		path += len + 1;
	}
}

/* Recursion is bounded: the reader refuses what is deeper than DEPTH_MAX. */
static void forget_place(struct node *node)
{
	node->line = 0;
	node->column = 0;
	for (size_t i = 0; i < node->count; i++) {
		if (node->kind == NODE_LIST) {
			forget_place(node->items[i]);
		} else if (node->kind == NODE_MAPPING) {
			node->pairs[i].line = 0;
			node->pairs[i].column = 0;
			forget_place(node->pairs[i].value);
		}
	}
}

struct node *tree_builtin(struct loader *loader, enum option_section section)
{
	struct node *root = node_new(loader, NODE_MAPPING, 0, 0);

	for (size_t i = 0; root != NULL && i < option_count; i++) {
		const struct option *option = &options[i];

		if (option->section != section || option->value == NULL ||
		    (option->flags & OPTION_LATER) != 0)
			continue;
		struct node *value = tree_read(loader, option->value, strlen(option->value));

		if (value == NULL)
			continue;
		forget_place(value);
		put(loader, root, option->path, value);
	}
	return root;
}

struct node *tree_preset(struct loader *loader, const char *text)
{
	size_t errors = loader->errors;
	struct node *root = tree_read(loader, text, strlen(text));

	if (root == NULL || root->kind != NODE_MAPPING)
		return NULL;
	tree_check_preset(loader, root);
	if (loader->errors != errors)
		return NULL;
	forget_place(root);
	return root;
}
