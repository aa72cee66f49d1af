/* What one tenant has asked of the driver: objects that hold memory of the card, channel groups, and counts of all requests.
   Knows no descriptor and no process. Not thread-safe: one watcher per tenant. */
#ifndef GUARD_LEDGER_H
#define GUARD_LEDGER_H

#include "abi.h"
#include <stdbool.h>
#include <stddef.h>

#define MOST_OBJECTS 8192
#define MOST_GROUPS 64

struct object {
    uint32_t root, parent, handle, class_id;
    uint64_t bytes; /* of card memory */
};

struct group { /* a channel group with a channel on which compute was allocated, once both are known */
    uint32_t root, handle, channel;
    bool compute;
    uint32_t schedule_size; /* of the tenant's own GPFIFO_SCHEDULE; 0: not seen */
    int descriptor;         /* the tenant's, on which it was made */
};

struct ledger {
    uint64_t requests[256], notified, not_understood, wrapped, emulated, emulated_failed;
    uint64_t bytes, most_bytes;
    struct object object[MOST_OBJECTS];
    size_t objects;
    struct group group[MOST_GROUPS];
    size_t groups;
};

void ledger_add(struct ledger *ledger, const struct object *object, int descriptor);
void ledger_free(struct ledger *ledger, uint32_t root, uint32_t handle); /* with everything below it */
void ledger_scheduled(struct ledger *ledger, uint32_t root, uint32_t group, uint32_t params_size);
struct group *ledger_compute_group(struct ledger *ledger); /* NULL: none has been seen whole */
bool class_takes_card_memory(uint32_t class_id);

#endif
