/* The option table: every name of the configuration with type, default, range and help. It feeds
 * the parser, the defaults, --help and the sample file. */
#ifndef STINT_PROXY_OPTIONS_H
#define STINT_PROXY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a path starts: at the top of the file, or in `defaults` and in each entry of `providers`. */
enum option_section { OPTION_TOP, OPTION_PROVIDER };

/* What a value looks like, and what it is stored as at `offset` of struct config or struct
 * provider_config. */
enum option_type {
	OPTION_DURATION,  /* usec_t */
	OPTION_SIZE,      /* size_t */
	OPTION_INT,       /* int */
	OPTION_COUNT,     /* int64_t */
	OPTION_FACTOR,    /* double; the range is in whole numbers */
	OPTION_BOOL,      /* bool */
	OPTION_WORD,      /* an enum: the index in `words` */
	OPTION_SWITCH,    /* bool: the index in `words` (0 or 1) */
	OPTION_TEXT,      /* char * */
	OPTION_HEADER,    /* char *: a header's name */
	OPTION_FILE,      /* char *: a file that can be read now */
	OPTION_TOKEN,     /* char *: the same, and it holds a token */
	OPTION_TEXTS,     /* struct strings */
	OPTION_HEADERS,   /* struct strings: header names */
	OPTION_POINTERS,  /* key.fingerprint's json-except */
	OPTION_WAITS,     /* backoff.schedule */
	OPTION_ADDRESS,   /* struct listen_address */
	OPTION_ADDRESSES, /* struct config: listen */
	OPTION_STORE,     /* char *: the path of sqlite:PATH */
	OPTION_WORKERS,   /* int, or `auto` */
	OPTION_LEASE,     /* usec_t, or `auto`, stored as LEASE_AUTO */
	OPTION_URL,       /* struct upstream_url */
	OPTION_ROUTE,     /* char *: a path prefix */
	OPTION_HOST,      /* char *: a host name */
	OPTION_KEYS,      /* key.from */
	OPTION_SCOPE,     /* `none`, or header sources */
	OPTION_TENANT,    /* `none`, or a header source */
	OPTION_REMOTE_ID, /* a header or JSON source */
	OPTION_VALUE,     /* char *: a header's value */
	OPTION_PRESET,    /* char *: the name of a preset */
	OPTION_RULES,     /* struct ruleset: rules */
	OPTION_ADVICE,    /* struct ruleset: sources */
	OPTION_REFUSAL,   /* refusal.headers */
	OPTION_TEMPLATE,  /* char *: text with {problem} and {detail} */
	OPTION_GATE,      /* char *: NULL for `provider`, or the NAME of header:NAME */
	OPTION_NONE,      /* `none`, where the other choice is a mapping */
	/* only of options that are not built yet */
	OPTION_RATE,
	OPTION_MAPPING,
	OPTION_LIST,
};

#define LEASE_AUTO ((int64_t)-1)

enum option_flag {
	OPTION_LATER = 1, /* known, and refused: its feature is not built yet */
	OPTION_OWN = 2,   /* of one provider only: refused in `defaults` */
	OPTION_FACT = 4,  /* may stand in a preset: a fact about the provider, no policy */
};

struct option {
	enum option_section section;
	const char *path; /* dotted, below its section */
	enum option_type type;
	unsigned flags;
	const char *value;   /* the default as YAML; NULL: none */
	const char *example; /* shown in the sample where there is no default */
	int64_t min, max;    /* in the unit of the type; both 0: no range */
	const char *words;   /* choices, with spaces between; a leading ! marks one not built yet */
	size_t offset;
	const char *help;
};

extern const struct option options[];
extern const size_t option_count;

/* The option of exactly this path, or NULL. */
const struct option *option_find(enum option_section section, const char *path);
/* Whether options lie below this path ("" for the section itself). */
bool option_is_group(enum option_section section, const char *path);
/* Whether any option at or below this path is built. */
bool option_is_built(enum option_section section, const char *path);
/* Whether a preset may set any option at or below this path. */
bool option_is_fact(enum option_section section, const char *path);
/* Whether `path` lies below `group` ("" for the section itself); if so *ret_rest is what follows. */
bool option_below(const char *path, const char *group, const char **ret_rest);
/* The name known below `group` that is nearest to a misspelt one, or "" if none is near. */
void option_nearest(enum option_section section, const char *group, const char *name,
		    char ret_name[64]);
/* The one built option of the section whose path ends in `name`; NULL: none, or several. */
const struct option *option_elsewhere(enum option_section section, const char *name);

/* The range as text: "1 to 100", "1ms to 24h", "a | b"; "" for none. */
void option_range(const struct option *option, char *ret_text, size_t len);
/* What the type is called: "duration", "size". */
const char *option_type_name(enum option_type type);

#endif
