#include "graph_memory.h"

#include <pthread.h>

#include "account.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/state.h"

struct graph_memory {
    pthread_mutex_t lock;
    struct {
        uint64_t live, charged;
    } card[FENCE_MAX_DEVICES];
};

static _Atomic(struct graph_memory *) own_memory;

static struct graph_memory *lock_memory(void)
{
    struct graph_memory *found = atomic_load(&own_memory);
    if (!found) {
        struct graph_memory *made = fence_process_memory(sizeof *made);
        if (!made)
            return NULL;
        found = atomic_compare_exchange_strong(&own_memory, &found, made) ? made : found;
    }
    pthread_mutex_lock(&found->lock);
    return found;
}

static uint64_t reserved_by_driver(int card)
{
    cuuint64_t bytes = 0;
    CUdevice device = card_device(card);
    bool is_known = device >= 0 && fence_real.cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                                                       &bytes) == CUDA_SUCCESS;
    return is_known ? bytes : 0;
}

/* With the lock. */
static void settle(struct graph_memory *memory, int card)
{
    uint64_t reserved = reserved_by_driver(card), live = memory->card[card].live, old = memory->card[card].charged;
    uint64_t wanted = reserved > live ? reserved : live;
    if (wanted > old)
        account_charge(card, wanted - old);
    else if (wanted < old)
        account_release(card, old - wanted);
    memory->card[card].charged = wanted;
}

void graph_memory_settle(int card)
{
    struct graph_memory *memory = atomic_load(&own_memory) ? lock_memory() : NULL;
    if (!memory)
        return;
    settle(memory, card);
    pthread_mutex_unlock(&memory->lock);
}

bool graph_memory_trim(int card)
{
    struct graph_memory *memory = atomic_load(&own_memory) ? lock_memory() : NULL;
    if (!memory)
        return false;
    uint64_t before = memory->card[card].charged;
    CUdevice device = card_device(card);
    if (device >= 0)
        fence_real.cuDeviceGraphMemTrim(device);
    settle(memory, card);
    bool gave = memory->card[card].charged < before;
    pthread_mutex_unlock(&memory->lock);
    return gave;
}

void graph_memory_change(const uint64_t *bytes, bool more)
{
    struct graph_memory *memory = lock_memory();
    for (int card = 0; memory && card < (int)FENCE_MAX_DEVICES; card++) {
        if (!bytes[card])
            continue;
        memory->card[card].live += more ? bytes[card] : -bytes[card];
        settle(memory, card);
    }
    if (memory)
        pthread_mutex_unlock(&memory->lock);
}
