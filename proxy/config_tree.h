/* A configuration file as a tree of nodes with their places, and what all steps of loading share:
 * memory, problems, and the layers' merge. */
#ifndef STINT_PROXY_CONFIG_TREE_H
#define STINT_PROXY_CONFIG_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "proxy/config.h"
#include "proxy/options.h"

#define FILE_MAX ((size_t)1 << 20) /* bytes of a configuration file */
#define DEPTH_MAX 16               /* mappings and lists inside each other */
#define ENTRIES_MAX 1000           /* of one mapping or list */
#define PROBLEMS_MAX 100           /* kept of one file, and half as many warnings */
#define SCALAR_MAX 4096            /* bytes of one value, after ${env:...} */

enum node_kind {
	NODE_NULL, /* nothing written, or ~ or null */
	NODE_SCALAR,
	NODE_MAPPING,
	NODE_LIST,
	NODE_BAD, /* a problem was reported; nothing more is said of it */
};

struct node {
	enum node_kind kind;
	int line, column; /* 1-based; 0: a built-in default */
	const char *text; /* NODE_SCALAR: after ${env:...} */
	const char *raw;  /* the text as written, for messages: an expanded one may be a secret */
	size_t count, room;
	struct node_pair *pairs; /* NODE_MAPPING: keys are unique */
	struct node **items;     /* NODE_LIST */
};

struct node_pair {
	const char *key;
	int line, column;
	struct node *value;
};

struct arena_block;

/* Zeroed memory that lives until arena_done(). NULL if there is none. */
void *arena_alloc(struct arena_block **blocks, size_t size);
void arena_done(struct arena_block **blocks);

struct loader {
	struct config_problems *problems;
	size_t errors; /* problems that are no warnings, also those that were not kept */
	size_t warnings;
	bool oom;
	struct arena_block *blocks;
};

/* Zeroed memory that lives until loader_done(). NULL, and loader->oom, if there is none. */
void *loader_alloc(struct loader *loader, size_t size);
const char *loader_text(struct loader *loader, const char *text, size_t len);
/* For the configuration itself: freed by config_free(). Never of size 0. */
void *loader_heap(struct loader *loader, size_t count, size_t size);
char *loader_strdup(struct loader *loader, const char *text);
void loader_done(struct loader *loader);

/* Adds a problem, once. */
void loader_problem(struct loader *loader, int line, int column, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void loader_warning(struct loader *loader, int line, int column, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Brings the problems into the order of their places. */
void loader_sort(struct loader *loader);

/* What a node says, shortened and in quotes, for a message. */
#define QUOTE_MAX 80
const char *node_quote(const struct node *node, char ret_text[QUOTE_MAX]);

struct node *node_new(struct loader *loader, enum node_kind kind, int line, int column);
/* false: out of memory. */
bool node_add_pair(struct loader *loader, struct node *mapping, const char *key, int line,
		   int column, struct node *value);
bool node_add_item(struct loader *loader, struct node *list, struct node *item);
const struct node_pair *node_pair(const struct node *mapping, const char *key);
/* Follows a dotted path; NULL: not there. */
const struct node *node_at(const struct node *node, const char *path);

/* Reads YAML. NULL if nothing useful came of it; then there is a problem. */
struct node *tree_read(struct loader *loader, const char *text, size_t len);
/* A valid one-line YAML text of the option table, with line 0 everywhere. */
struct node *tree_builtin(struct loader *loader, enum option_section section);
/* Mappings merge key by key at every depth, everything else replaces. Nodes are shared. */
struct node *tree_merge(struct loader *loader, struct node *base, struct node *over);
/* Reports keys that are unknown, not built, misplaced or of the wrong shape. */
void tree_check_keys(struct loader *loader, const struct node *root);
/* The same for a preset, which holds facts about a provider and no policy. */
void tree_check_preset(struct loader *loader, const struct node *root);
/* A preset's text as a tree without places, as built-in defaults are: what a file says over it is
 * reported at the file's place. NULL after a problem. */
struct node *tree_preset(struct loader *loader, const char *text);

/* Replaces ${env:NAME} and ${env:NAME:-default}. 0, or -1 with a sentence in ret_error. */
int env_expand(const char *text, char *ret_text, size_t len, char *ret_error, size_t error_len);
/* The first byte that is no text (NUL, control character, bad UTF-8): 1 and its place, else 0. */
int text_scan(const char *text, size_t len, int *ret_line, int *ret_column, char *ret_error,
	      size_t error_len);

#endif
