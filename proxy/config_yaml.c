/* From bytes to nodes. libyaml's events are read one by one, so that depth, width and aliases are
 * bounded before anything grows; anchors and aliases are refused, which leaves no way for a small
 * file to become a large tree. */
#include <limits.h>
#include <string.h>
#include <yaml.h>

#include "proxy/config_tree.h"

struct reader {
	struct loader *loader;
	yaml_parser_t parser;
	const char *text;
	size_t len;
	bool stop; /* nothing that follows can be trusted */
};

static int mark_number(size_t zero_based)
{
	return zero_based < INT_MAX ? (int)zero_based + 1 : INT_MAX;
}

#define LINE(mark) mark_number((mark).line)
#define COLUMN(mark) mark_number((mark).column)

static void problem(struct reader *reader, yaml_mark_t mark, const char *message)
{
	loader_problem(reader->loader, LINE(mark), COLUMN(mark), "%s", message);
}

/* The byte at a mark: libyaml counts characters. */
static char byte_at(const struct reader *reader, yaml_mark_t mark)
{
	size_t i = 0;

	for (size_t line = 0; line < mark.line && i < reader->len; i++)
		if (reader->text[i] == '\n')
			line++;
	for (size_t column = 0; column < mark.column && i < reader->len; column++) {
		i++;
		while (i < reader->len && ((unsigned char)reader->text[i] & 0xc0) == 0x80)
			i++;
	}
	return i < reader->len ? reader->text[i] : '\0';
}

static void syntax_problem(struct reader *reader)
{
	const yaml_parser_t *parser = &reader->parser;

	reader->stop = true;
	if (parser->error == YAML_MEMORY_ERROR) {
		reader->loader->oom = true;
		return;
	}
	const char *what = parser->problem != NULL ? parser->problem : "cannot be read";

	if (byte_at(reader, parser->problem_mark) == '\t')
		problem(reader, parser->problem_mark,
			"a tab cannot indent or begin a value in YAML: write spaces");
	else if (strcmp(what, "did not find expected <document start>") == 0)
		problem(reader, parser->problem_mark,
			"the file ends before this: write one mapping, all names from column 1 on");
	else
		loader_problem(reader->loader, LINE(parser->problem_mark),
			       COLUMN(parser->problem_mark), "this is not valid YAML: %s%s%s", what,
			       parser->context != NULL ? ", " : "",
			       parser->context != NULL ? parser->context : "");
}

static bool next_event(struct reader *reader, yaml_event_t *ret_event)
{
	if (reader->stop || reader->loader->oom)
		return false;
	if (yaml_parser_parse(&reader->parser, ret_event) != 1) {
		syntax_problem(reader);
		return false;
	}
	return true;
}

static bool has_tag_or_anchor(struct reader *reader, yaml_mark_t mark, const yaml_char_t *anchor,
			      const yaml_char_t *tag)
{
	if (anchor != NULL)
		problem(reader, mark,
			"anchors are not supported: write the value out, or put what providers "
			"share under defaults");
	if (tag != NULL)
		problem(reader, mark, "tags are not supported: leave it out");
	return anchor != NULL || tag != NULL;
}

static bool is_null_text(const char *text)
{
	return *text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0 ||
	       strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0;
}

static struct node *read_scalar(struct reader *reader, const yaml_event_t *event)
{
	struct loader *loader = reader->loader;
	int line = LINE(event->start_mark), column = COLUMN(event->start_mark);
	const char *text = (const char *)event->data.scalar.value;
	size_t len = event->data.scalar.length;
	struct node *node = node_new(loader, NODE_BAD, line, column);
	char expanded[SCALAR_MAX], error[256];

	if (node == NULL || has_tag_or_anchor(reader, event->start_mark, event->data.scalar.anchor,
					      event->data.scalar.tag))
		return node;
	/* escapes and block scalars can hold what the file's own bytes cannot */
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
			problem(reader, event->start_mark,
				"a value is one line without control characters");
			return node;
		}
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && is_null_text(text)) {
		node->kind = NODE_NULL;
		return node;
	}
	if (env_expand(text, expanded, sizeof(expanded), error, sizeof(error)) != 0) {
		problem(reader, event->start_mark, error);
		return node;
	}
	node->raw = loader_text(loader, text, len);
	node->text = loader_text(loader, expanded, strlen(expanded));
	if (node->raw != NULL && node->text != NULL)
		node->kind = NODE_SCALAR;
	return node;
}

static struct node *read_node(struct reader *reader, yaml_event_t *event, int depth);

static void too_many(struct reader *reader, yaml_mark_t mark)
{
	loader_problem(reader->loader, LINE(mark), COLUMN(mark),
		       "a mapping or list has at most %d entries", ENTRIES_MAX);
	reader->stop = true;
}

static void read_list(struct reader *reader, struct node *list, int depth)
{
	yaml_event_t event;

	while (next_event(reader, &event)) {
		if (event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return;
		}
		if (list->count >= ENTRIES_MAX)
			too_many(reader, event.start_mark);
		node_add_item(reader->loader, list, read_node(reader, &event, depth));
	}
}

/* A key's text, or NULL after a problem. Consumes the event and, where the key is a mapping or a
 * list, all that belongs to it. */
static const char *read_key(struct reader *reader, yaml_event_t *event, int depth)
{
	yaml_mark_t mark = event->start_mark;
	const char *key = NULL;

	if (event->type == YAML_SCALAR_EVENT) {
		const char *text = (const char *)event->data.scalar.value;
		size_t len = event->data.scalar.length;

		if (!has_tag_or_anchor(reader, mark, event->data.scalar.anchor,
				       event->data.scalar.tag)) {
			if (strcmp(text, "<<") == 0)
				problem(reader, mark,
					"merge keys are not supported: put what providers share "
					"under defaults");
			else if (len == 0 || strlen(text) != len || strpbrk(text, "\r\n\t") != NULL)
				problem(reader, mark, "a name is one word");
			else
				key = loader_text(reader->loader, text, len);
		}
		yaml_event_delete(event);
		return key;
	}
	read_node(reader, event, depth);
	problem(reader, mark, "a name is one word, not a mapping, list or alias");
	return NULL;
}

static void read_mapping(struct reader *reader, struct node *mapping, int depth)
{
	yaml_event_t event;

	while (next_event(reader, &event)) {
		if (event.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&event);
			return;
		}
		yaml_mark_t mark = event.start_mark;

		if (mapping->count >= ENTRIES_MAX)
			too_many(reader, mark);
		const char *key = read_key(reader, &event, depth);

		if (!next_event(reader, &event))
			return;
		struct node *value = read_node(reader, &event, depth);

		if (key == NULL || value == NULL)
			continue;
		const struct node_pair *first = node_pair(mapping, key);

		if (value->kind == NODE_NULL) {
			/* where nothing is written the place of the name says more */
			value->line = LINE(mark);
			value->column = COLUMN(mark);
		}
		if (first != NULL)
			loader_problem(reader->loader, LINE(mark), COLUMN(mark),
				       "duplicate key %.60s: it is also on line %d, leave one out",
				       key, first->line);
		else
			node_add_pair(reader->loader, mapping, key, LINE(mark), COLUMN(mark),
				      value);
	}
}

/* Consumes the event and all that belongs to it. */
static struct node *read_node(struct reader *reader, yaml_event_t *event, int depth)
{
	struct node *node = NULL;
	yaml_mark_t mark = event->start_mark;
	yaml_event_type_t type = event->type;
	bool bad = false;

	if (type == YAML_SCALAR_EVENT) {
		node = read_scalar(reader, event);
	} else if (type == YAML_ALIAS_EVENT) {
		problem(reader, mark,
			"aliases are not supported: write the value out, or put what providers "
			"share under defaults");
		node = node_new(reader->loader, NODE_BAD, LINE(mark), COLUMN(mark));
	} else if (depth >= DEPTH_MAX) {
		loader_problem(reader->loader, LINE(mark), COLUMN(mark),
			       "nested more than %d deep: no name of stint is", DEPTH_MAX);
		reader->stop = true;
	} else if (type == YAML_MAPPING_START_EVENT) {
		bad = has_tag_or_anchor(reader, mark, event->data.mapping_start.anchor,
					event->data.mapping_start.tag);
		node = node_new(reader->loader, NODE_MAPPING, LINE(mark), COLUMN(mark));
	} else if (type == YAML_SEQUENCE_START_EVENT) {
		bad = has_tag_or_anchor(reader, mark, event->data.sequence_start.anchor,
					event->data.sequence_start.tag);
		node = node_new(reader->loader, NODE_LIST, LINE(mark), COLUMN(mark));
	}
	yaml_event_delete(event);
	if (node == NULL || reader->stop)
		return node;
	if (type == YAML_MAPPING_START_EVENT)
		read_mapping(reader, node, depth + 1);
	else if (type == YAML_SEQUENCE_START_EVENT)
		read_list(reader, node, depth + 1);
	if (bad)
		node->kind = NODE_BAD;
	return node;
}

static struct node *read_stream(struct reader *reader)
{
	yaml_event_t event;
	struct node *root = NULL;
	int documents = 0;

	while (next_event(reader, &event)) {
		yaml_event_type_t type = event.type;

		if (type == YAML_DOCUMENT_START_EVENT && documents++ > 0) {
			problem(reader, event.start_mark,
				"a second document: write everything into one");
			reader->stop = true;
		}
		if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
		    type == YAML_DOCUMENT_END_EVENT || type == YAML_STREAM_END_EVENT)
			yaml_event_delete(&event);
		else
			root = read_node(reader, &event, 0);
		if (type == YAML_STREAM_END_EVENT)
			break;
	}
	return reader->stop || reader->loader->oom ? NULL : root;
}

struct node *tree_read(struct loader *loader, const char *text, size_t len)
{
	struct reader reader = {.loader = loader, .text = text, .len = len};
	char error[64];
	int line, column;

	if (text_scan(text, len, &line, &column, error, sizeof(error)) != 0) {
		loader_problem(loader, line, column, "%s: write plain UTF-8 text", error);
		return NULL;
	}
	if (yaml_parser_initialize(&reader.parser) != 1) {
		loader->oom = true;
		return NULL;
	}
	/* no guessing of UTF-16 from the first bytes */
	yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, len);
	struct node *root = read_stream(&reader);

	yaml_parser_delete(&reader.parser);
	return root;
}
