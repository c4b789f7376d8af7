#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/credential.h"
#include "proxy/exchange_internal.h"
#include "proxy/fingerprint.h"
#include "proxy/key.h"

/* The parts of an operation's name, as extracted. */
struct identity {
	char key[OP_KEY_MAX + 1];
	char tenant[OP_KEY_MAX + 1];
	char scope[4 * (OP_KEY_MAX + 1)];
	const struct key_source *source; /* where the key came from */
};

static const char *find_key(const struct provider_config *config, const struct key_input *input,
			    struct identity *id, char *ret_detail)
{
	for (size_t i = 0; i < config->key_from_count; i++) {
		switch (key_extract(&config->key_from[i], 1, input, id->key, ret_detail)) {
		case KEY_FOUND:
			id->source = &config->key_from[i];
			return NULL;
		case KEY_INVALID:
			return "key-invalid";
		case KEY_NONE:
			break;
		}
	}
	return NULL;
}

/* Tenant and scope: headers that may be absent, but not malformed. */
static const char *find_scope(const struct provider_config *config, const struct key_input *input,
			      struct identity *id, char *ret_detail)
{
	char part[OP_KEY_MAX + 1];
	size_t len = 0;

	if (config->has_tenant &&
	    key_extract(&config->tenant, 1, input, id->tenant, ret_detail) == KEY_INVALID)
		return "key-invalid";
	for (size_t i = 0; i < config->scope_count; i++) {
		enum key_result result = key_extract(&config->scope[i], 1, input, part, ret_detail);

		if (result == KEY_INVALID)
			return "key-invalid";
		if (result == KEY_NONE)
			part[0] = '\0';
		/* Parts are visible ASCII without a space, so a space keeps them apart. */
		int n = snprintf(id->scope + len, sizeof(id->scope) - len, "%s%s", i > 0 ? " " : "",
				 part);

		if (n < 0 || (size_t)n >= sizeof(id->scope) - len) {
			(void)snprintf(ret_detail, 128, "the scope headers are too long together");
			return "key-invalid";
		}
		len += (size_t)n;
	}
	return NULL;
}

static int set_name(struct exchange *x, const struct identity *id)
{
	size_t tenant = strlen(id->tenant) + 1, scope = strlen(id->scope) + 1;
	size_t key = strlen(id->key) + 1;
	char *block = malloc(tenant + scope + key);

	if (block == NULL)
		return -1;
	memcpy(block, id->tenant, tenant);
	memcpy(block + tenant, id->scope, scope);
	memcpy(block + tenant + scope, id->key, key);
	x->name_block = block;
	x->name.provider = x->provider->config->name;
	x->name.tenant = block;
	x->name.scope = block + tenant;
	x->name.key = block + tenant + scope;
	return 0;
}

static int fingerprint(struct exchange *x, const char *body, size_t body_len)
{
	const struct front_request *request = x->request;
	struct fingerprint_input input = {
		.method = request->method,
		.target = request->rest,
		.content_type = request->content_type,
		.body = body,
		.body_len = body_len,
		.partial = request->streamed,
		.total_length = request->content_length,
	};

	return fingerprint_compute(&x->provider->config->fingerprint, &input,
				   x->delivery.fingerprint);
}

/* With `idempotency: {header: H}`: the caller's own bytes of H where the key came from there and
 * the name has no more to it, else a hash over the whole name (design section 4, "Upstream key"). */
static int make_upstream_key(struct exchange *x, const struct identity *id)
{
	const struct provider_config *config = x->provider->config;
	const char *header = config->idempotency_header;
	const struct header_view *line;
	char hashed[44];

	if (header == NULL)
		return 0;
	if (id->source->kind == KEY_HEADER && strcasecmp(id->source->name, header) == 0 &&
	    id->source->part == 0 && !config->has_tenant && config->scope_count == 0) {
		line = headers_find(&x->request->headers, header);
		if (line != NULL) {
			x->upstream_key = strndup(line->value, line->value_len);
			return x->upstream_key == NULL ? -1 : 0;
		}
	}
	fingerprint_upstream_key(config->name, id->tenant, id->scope, id->key, 0, hashed);
	x->upstream_key = strdup(hashed);
	return x->upstream_key == NULL ? -1 : 0;
}

void exchange_set_credential(struct exchange *x)
{
	struct ledger *ledger = x->worker->app->ledger;

	if (x->delivery.has_credential || ledger == NULL || x->request == NULL)
		return;
	x->delivery.has_credential =
		credential_hmac(ledger->ops->secret(ledger), x->request->headers.items,
				x->request->headers.count, x->delivery.credential) == 0;
}

int exchange_set_upstream_key(struct exchange *x, const struct ledger_texts *texts)
{
	const char *header = x->provider->config->idempotency_header;
	char hashed[44];
	const char *key = texts->upstream_key;
	char *copy;

	if (header == NULL || !x->keyed)
		return 0;
	if (x->delivery.op.generation > 0 || key == NULL) {
		fingerprint_upstream_key(x->name.provider, x->name.tenant, x->name.scope,
					 x->name.key, x->delivery.op.generation, hashed);
		key = hashed;
	}
	copy = strdup(key);
	if (copy == NULL)
		return -1;
	free(x->upstream_key);
	x->upstream_key = copy;
	return 0;
}

static const char *identify_keyed(struct exchange *x, const struct identity *id, const char *body,
				  size_t body_len)
{
	const struct policy *policy = &x->provider->config->policy;

	x->keyed = true;
	x->delivery.ledgered = true;
	x->delivery.repeat = op_repeat_rule(policy, x->request->method);
	if (x->worker->app->ledger == NULL)
		return NULL; /* refused by the caller of exchange_identify() */
	x->delivery.instance = x->worker->app->ledger->ops->instance(x->worker->app->ledger);
	if (set_name(x, id) != 0 || fingerprint(x, body, body_len) != 0 ||
	    make_upstream_key(x, id) != 0)
		return "ledger-away";
	return NULL;
}

const char *exchange_identify(struct exchange *x, char *ret_detail)
{
	const struct provider_config *config = x->provider->config;
	struct front_request *request = x->request;
	struct key_input input = {
		.headers = request->headers.items,
		.header_count = request->headers.count,
		.content_type = request->content_type,
	};
	struct identity id = {.source = NULL};
	const char *problem, *body = NULL;
	char *heap = NULL;

	if (x->off || x->delivery.safe)
		return NULL;
	if (body_view(&request->body, &body, &heap) != 0) {
		(void)snprintf(ret_detail, 128, "the buffered body cannot be read back");
		return "bad-request";
	}
	if (!request->streamed) {
		input.body = body;
		input.body_len = request->body.length;
	}
	problem = find_key(config, &input, &id, ret_detail);
	if (problem == NULL)
		problem = find_scope(config, &input, &id, ret_detail);
	if (problem == NULL && id.source != NULL)
		problem = identify_keyed(x, &id, body, request->body.length);
	else if (problem == NULL && config->key_missing == KEY_MISSING_REJECT) {
		(void)snprintf(ret_detail, 256,
			       "this provider wants an operation key on %s: send %s",
			       request->method,
			       config->key_from_count > 0 ? config->key_from[0].text : "one");
		problem = "key-missing";
	}
	free(heap);
	return problem;
}
