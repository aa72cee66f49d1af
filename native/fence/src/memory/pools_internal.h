/* The record of pools, shared by pools.c, which keeps it, and pool_calls.c, which handles the calls. */
#ifndef GPUPOOL_POOLS_INTERNAL_H
#define GPUPOOL_POOLS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "pools.h"

/* A pool this process has used. One that was destroyed with allocations in it lives until they are freed; then the driver no longer says how
   much it holds, so each allocation is given back by its own size. */
struct pool {
    CUmemoryPool handle;
    int card;
    uint64_t charged;
    bool destroyed;
    struct pool *next;
};

struct pools {
    pthread_mutex_t lock;
    struct pool *first;
    atomic_bool unsettled; /* something was freed in stream order: a pool gives it up when the stream gets there */
};

/* NULL: none was used yet, or no memory. `make`: then the list is made. The lock is held where it is not NULL. */
struct pools *pools_lock(bool make);
void pools_unlock(struct pools *pools);

/* These with the lock. */
struct pool *pools_find(const struct pools *pools, CUmemoryPool handle);
struct pool *pools_remember(struct pools *pools, CUmemoryPool handle, int card);
void pools_settle_one(struct pool *pool); /* charges it for what it has reserved */

uint64_t pools_attribute(CUmemoryPool pool, CUmemPool_attribute which);

#endif
