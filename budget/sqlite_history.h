/* The history column: an operation's last attempts as a JSON array. */
#ifndef STINT_BUDGET_SQLITE_HISTORY_H
#define STINT_BUDGET_SQLITE_HISTORY_H

#include "budget/operation.h"

#define SQLITE_HISTORY_MAX 8192 /* OP_RING entries at their longest are shorter */

/* Writes the ring, oldest attempt first, into text. Returns its length without the NUL. */
size_t sqlite_history_write(const struct op_attempt ring[OP_RING], char text[SQLITE_HISTORY_MAX]);

/* The reverse: fills a zeroed ring. false if the text is not what sqlite_history_write() makes. */
bool sqlite_history_read(const char *text, size_t len, struct op_attempt ring[OP_RING]);

#endif
