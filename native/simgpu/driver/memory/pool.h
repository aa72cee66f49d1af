/* Stream-ordered memory pools. A pool is charged what it has reserved: what is in use, in granules of 2 MiB, and what it
   keeps after a free up to its release threshold. The pages behind it are packed without gaps. */
#ifndef GPUPOOL_SIMGPU_POOL_H
#define GPUPOOL_SIMGPU_POOL_H

#include "memory.h"

struct CUmemPoolHandle_st {
    int device;
    bool standard, graph; /* a device's default pool; the one for graphs' memory nodes */
    bool dying;           /* destroyed, and goes with its last allocation */
    int flags[4];         /* reuse policies by attribute */
    uint64_t threshold, reserved, used, reserved_high, used_high, max_size;
    uint32_t access;      /* bit per device that may use it besides its own */
    CUmemoryPool next;
};

/* pools.c, under the lock unless said otherwise */
CUresult pool_allocate(CUmemoryPool pool, size_t size, CUcontext context, void **out);
CUresult pool_take(CUmemoryPool pool, size_t size);  /* counts it as used, reserving what that needs */
void pool_give(CUmemoryPool pool, size_t size);
void pool_release(struct block *block);              /* an allocation of a pool is freed */
void pool_trim(CUmemoryPool pool, uint64_t keep);
CUmemoryPool pool_default(int device);
CUmemoryPool pool_of_graphs(int device);
void pools_settle(int device); /* without the lock: a wait is where reserved memory above the threshold goes */

#endif
