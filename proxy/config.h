/* The configuration, parsed and checked: one struct, read-only while it is in use. Names as in
 * deploy/stint.yaml; one option table (options.c) feeds parser, defaults, help and sample. */
#ifndef STINT_PROXY_CONFIG_H
#define STINT_PROXY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "budget/gate.h"
#include "budget/policy.h"
#include "classify/rules.h"
#include "proxy/fingerprint.h"
#include "proxy/key.h"

enum mode { MODE_ENFORCE, MODE_OBSERVE, MODE_OFF };
enum key_missing { KEY_MISSING_SINGLE, KEY_MISSING_REJECT };
enum body_over { BODY_OVER_STREAM, BODY_OVER_REFUSE };
enum route_kind { ROUTE_PREFIX, ROUTE_HOST, ROUTE_LISTEN };

struct strings {
	char **items;
	size_t count;
};

/* A socket address to listen on: "127.0.0.1:8380", "[::1]:8380", "unix:/path". */
struct listen_address {
	char *text;
	char *host; /* NULL for a unix socket */
	int port;
	char *path; /* unix socket */
	bool loopback;
};

/* http://host[:port][/path] */
struct upstream_url {
	char *text;
	bool tls;
	char *host; /* without brackets */
	int port;
	char *origin;    /* scheme://host:port, brackets where needed */
	char *authority; /* the Host header: host, or host:port if not the scheme's default */
	char *path;      /* path prefix without a trailing slash; "" for none */
};

struct refusal_header {
	char *name, *value;
};

struct arena_block;

struct provider_config {
	char *name;
	char *preset; /* its name, or NULL */
	enum mode mode;
	struct upstream_url upstream;

	enum route_kind route_kind;
	char *route_prefix; /* "/payments" without a trailing slash; "" for the root */
	char *route_host;
	struct listen_address route_listen;

	struct policy policy; /* its schedule array is owned by this struct */
	usec_t *schedule;

	struct key_source *key_from;
	size_t key_from_count;
	enum key_missing key_missing;
	struct fingerprint_config fingerprint;
	bool has_tenant;
	struct key_source tenant; /* header only */
	struct key_source *scope; /* header only */
	size_t scope_count;
	char *idempotency_header; /* NULL: none */

	size_t body_memory, body_max, body_drain;
	enum body_over body_over;
	size_t retain_body;
	bool has_remote_id;
	struct key_source remote_id; /* header or json, of the reply */
	int concurrency_limit;
	int auth_pause_after;    /* refusals in a row that pause a credential; 0: never */
	char *gate_header;       /* gate.by: one gate for each value of it; NULL: one for all */
	struct gate_policy gate; /* gate.ramp and the breaker */

	/* rules, advice and inspect; what it points to lies in rule_memory */
	struct ruleset ruleset;
	struct arena_block *rule_memory;
	char *stop_header, *stop_value; /* tell an SDK not to retry; both or neither (NULL) */
	int refusal_status;             /* of refusals that stint makes itself; 0: its own */
	struct refusal_header *refusal_headers; /* names unique, nothing of framing in them */
	size_t refusal_header_count;
	char *refusal_body; /* with {problem} and {detail}; NULL: stint's own */
	char *sdk_timeout_header, *sdk_retries_header; /* or NULL */

	bool tls_verify;
	char *tls_ca, *tls_cert, *tls_key; /* or NULL */
};

struct config {
	char *file;
	struct listen_address *listen;
	size_t listen_count;
	char *tls_cert, *tls_key; /* of the listeners; or NULL */
	int workers;              /* resolved: `auto` is one per core, at most 4 */
	size_t front_head;
	int front_headers;
	usec_t front_head_time, front_body_idle;
	int front_connections, front_per_address;
	usec_t drain;
	char *temp;
	size_t replay_memory;

	struct listen_address admin_listen;
	char *admin_token_file; /* or NULL */

	char *ledger_path; /* of sqlite:PATH */
	bool ledger_disk;  /* durability: disk */
	bool ledger_required;

	int log_level; /* enum log_level of log.h: 0 debug, 1 info, 2 warn, 3 error */
	bool log_json;
	struct strings redact_headers, redact_query;
	int64_t unknown_max, unknown_unkeyed_max;
	usec_t unknown_unkeyed; /* also in each provider's policy */

	struct provider_config *providers;
	size_t provider_count;
};

/* All problems of one file, in the order of their place. */
struct config_problems {
	struct config_problem {
		int line, column; /* 1-based; 0: the whole file */
		bool warning;
		char *message;
	} * items;
	size_t count;
};

/* Reads and checks a file (or `text`, when not NULL, under the name `file`). NULL if there is any
 * problem that is no warning; ret_problems is always written. */
struct config *config_load(const char *file, const char *text,
			   struct config_problems *ret_problems);
void config_free(struct config *config);

/* "FILE:LINE:COLUMN: message" lines; returns how many of them are errors. */
size_t config_problems_print(const struct config_problems *problems, const char *file, FILE *out);
void config_problems_done(struct config_problems *problems);

/* The option table as text: for --help (name, type, default, range, help), and as the commented
 * sample file deploy/stint.yaml. */
void config_help(FILE *out);
void config_sample(FILE *out);

#endif
