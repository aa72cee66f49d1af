#include "pools_internal.h"

#include <stdlib.h>

#include "account.h"
#include "process/real.h"
#include "process/state.h"

static _Atomic(struct pools *) own_pools;

struct pools *pools_lock(bool make)
{
    struct pools *found = atomic_load(&own_pools);
    if (!found && !make)
        return NULL;
    if (!found) {
        struct pools *made = fence_process_memory(sizeof *made);
        if (!made)
            return NULL;
        found = NULL;
        found = atomic_compare_exchange_strong(&own_pools, &found, made) ? made : found;
    }
    pthread_mutex_lock(&found->lock);
    return found;
}

void pools_unlock(struct pools *pools)
{
    pthread_mutex_unlock(&pools->lock);
}

uint64_t pools_attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    return fence_real.cuMemPoolGetAttribute(pool, which, &value) == CUDA_SUCCESS ? value : 0;
}

void pools_settle_one(struct pool *pool)
{
    if (pool->destroyed)
        return;
    uint64_t reserved = pools_attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    if (reserved > pool->charged)
        account_charge(pool->card, reserved - pool->charged);
    else if (reserved < pool->charged)
        account_release(pool->card, pool->charged - reserved);
    pool->charged = reserved;
}

struct pool *pools_find(const struct pools *pools, CUmemoryPool handle)
{
    struct pool *pool = pools->first;
    while (pool && (pool->handle != handle || pool->destroyed))
        pool = pool->next;
    return pool;
}

struct pool *pools_remember(struct pools *pools, CUmemoryPool handle, int card)
{
    struct pool *pool = pools_find(pools, handle);
    if (pool || !(pool = calloc(1, sizeof *pool)))
        return pool;
    *pool = (struct pool){.handle = handle, .card = card, .next = pools->first};
    return pools->first = pool;
}

void pools_settle(int card)
{
    struct pools *pools = pools_lock(false);
    if (!pools)
        return;
    for (struct pool *pool = pools->first; pool; pool = pool->next)
        if (pool->card == card)
            pools_settle_one(pool);
    pools_unlock(pools);
}

bool pools_trim(int card)
{
    struct pools *pools = pools_lock(false);
    bool gave = false;
    if (!pools)
        return false;
    for (struct pool *pool = pools->first; pool; pool = pool->next) {
        uint64_t before = pool->charged;
        if (pool->card != card || pool->destroyed)
            continue;
        fence_real.cuMemPoolTrimTo(pool->handle, 0);
        pools_settle_one(pool);
        gave |= pool->charged < before;
    }
    pools_unlock(pools);
    return gave;
}


bool pools_unsettled(void)
{
    struct pools *pools = atomic_load(&own_pools);
    return pools && atomic_load_explicit(&pools->unsettled, memory_order_relaxed);
}

void pools_settle_all(void)
{
    struct pools *pools = pools_lock(false);
    if (!pools)
        return;
    atomic_store(&pools->unsettled, false);
    for (struct pool *pool = pools->first; pool; pool = pool->next)
        pools_settle_one(pool);
    pools_unlock(pools);
}
