/* A client of a running stint's admin listener, for the commands that talk to one (design section 10):
 * where it listens, the token, and one request at a time. */
#ifndef STINT_PROXY_ADMIN_CLIENT_H
#define STINT_PROXY_ADMIN_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define ADMIN_CLIENT_ERROR_MAX 512

/* How a command line names the listener. */
struct admin_target {
	const char *config;     /* a configuration file: its admin.listen and admin.token_file */
	const char *admin;      /* http://HOST:PORT, https://..., unix:PATH; comes before config */
	const char *token_file; /* or NULL; comes before the configuration's */
};

struct admin_client;

struct admin_answer {
	int status;
	json_t *json; /* the body, where it is JSON; or NULL */
};

/* 0; -1 with a sentence in error: the target is wrong (a usage error). */
int admin_client_new(const struct admin_target *target, char error[ADMIN_CLIENT_ERROR_MAX],
		     struct admin_client **ret_client);
void admin_client_free(struct admin_client *client); /* NULL is fine */

/* One request; `body` (not taken) makes it a change. 0 with whatever was answered, for
 * admin_answer_done(); -1 with a sentence in error: there was no answer. */
int admin_client_ask(struct admin_client *client, const char *method, const char *path,
		     const json_t *body, char error[ADMIN_CLIENT_ERROR_MAX],
		     struct admin_answer *ret_answer);
void admin_answer_done(struct admin_answer *answer);
/* What a refusal says: the problem's detail, else its title, else "". */
const char *admin_answer_detail(const struct admin_answer *answer);

/* The path of one operation, percent-encoded: /v1/operations/PROVIDER/KEY, then `action` ("/release",
 * or ""), then tenant and scope where they are not NULL. malloc'ed; NULL: out of memory. */
char *admin_client_operation_path(const char *provider, const char *key, const char *action,
				  const char *tenant, const char *scope);

#endif
