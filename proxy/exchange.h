/* The exchange: performs what the delivery machine (budget/delivery.h) decides for one request, on
 * the front, the gate, the ledger and the upstream. It decides nothing itself. */
#ifndef STINT_PROXY_EXCHANGE_H
#define STINT_PROXY_EXCHANGE_H

#include "proxy/front.h"

struct exchange;
struct worker;

/* The front's start callback: takes the request over. */
void exchange_start(struct front_request *request);
/* The worker drains: waiting deliveries are answered. */
void exchange_drain_all(struct worker *worker);
/* The drain's grace is over: attempts in flight are cut. */
void exchange_cut_all(struct worker *worker);

#endif
