/* What every store shares: counted replies, and the freeing of rows and answers. */
#include "budget/ledger.h"

#include <stdlib.h>
#include <string.h>

struct ledger_reply *ledger_reply_new(int status, char *head, size_t head_len, char *body,
				      size_t body_len)
{
	struct ledger_reply *reply = calloc(1, sizeof(*reply));
	if (!reply) {
		free(head);
		free(body);
		return NULL;
	}
	atomic_init(&reply->refs, 1);
	reply->status = status;
	reply->head = head;
	reply->head_len = head_len;
	reply->body = body;
	reply->body_len = body_len;
	reply->content_length = -1;
	return reply;
}

struct ledger_reply *ledger_reply_ref(struct ledger_reply *reply)
{
	if (reply)
		atomic_fetch_add_explicit(&reply->refs, 1, memory_order_relaxed);
	return reply;
}

void ledger_reply_unref(struct ledger_reply *reply)
{
	if (!reply || atomic_fetch_sub_explicit(&reply->refs, 1, memory_order_acq_rel) != 1)
		return;
	free(reply->head);
	free(reply->body);
	free(reply);
}

void ledger_texts_done(struct ledger_texts *texts)
{
	free(texts->method);
	free(texts->target);
	free(texts->upstream_key);
	free(texts->corrects);
	free(texts->corrected_by);
	*texts = (struct ledger_texts){0};
}

void ledger_row_done(struct ledger_row *row)
{
	free(row->provider);
	free(row->tenant);
	free(row->scope);
	free(row->key);
	ledger_texts_done(&row->texts);
	free(row->notes);
	ledger_reply_unref(row->reply);
	*row = (struct ledger_row){0};
}

void ledger_request_done(struct ledger_request *request)
{
	ledger_row_done(&request->found);
	for (size_t i = 0; i < request->row_count; i++)
		ledger_row_done(&request->rows[i]);
	free(request->rows);
	request->rows = NULL;
	request->row_count = 0;

	free(request->cursor);
	request->cursor = NULL;

	for (size_t i = 0; i < request->stat_count; i++)
		free(request->stats[i].provider);
	free(request->stats);
	request->stats = NULL;
	request->stat_count = 0;

	for (size_t i = 0; i < request->provider_stat_count; i++)
		free(request->provider_stats[i].provider);
	free(request->provider_stats);
	request->provider_stats = NULL;
	request->provider_stat_count = 0;

	for (size_t i = 0; i < request->gate_count; i++)
		free(request->gates[i].provider);
	free(request->gates);
	request->gates = NULL;
	request->gate_count = 0;
}
