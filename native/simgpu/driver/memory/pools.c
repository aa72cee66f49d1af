/* Stream-ordered memory pools: allocation and free in the order of a stream, and what a pool keeps. */
#include "pool.h"

#include <stdlib.h>
#include <unistd.h>

#include "devices/card.h"
#include "graphs/capture.h"
#include "machine/machine.h"
#include "streams/jobs.h"
#include "streams/stream.h"

static CUmemoryPool all_pools;
static struct CUmemPoolHandle_st defaults[CARD_LIMIT], of_graphs[CARD_LIMIT];
static CUmemoryPool current[CARD_LIMIT];
static _Atomic bool something_to_settle;

static uint64_t granules(uint64_t bytes)
{
    return (bytes + GRANULE - 1) / GRANULE * GRANULE;
}

static void reuse_everything(CUmemoryPool pool)
{
    for (int at = 0; at < 4; ++at)
        pool->flags[at] = 1;
}

CUmemoryPool pool_default(int device)
{
    CUmemoryPool pool = &defaults[device];

    if (!pool->standard) {
        pool->device = device;
        pool->standard = true;
        reuse_everything(pool);
        handle_add(pool, HANDLE_POOL);
        pool->next = all_pools;
        all_pools = pool;
    }
    return pool;
}

CUmemoryPool pool_of_graphs(int device)
{
    CUmemoryPool pool = &of_graphs[device];

    if (!pool->graph) {
        pool->device = device;
        pool->graph = true;
        pool->next = all_pools;
        all_pools = pool;
    }
    return pool;
}

static uint32_t purpose(CUmemoryPool pool)
{
    return pool->graph ? SIM_GRAPH : SIM_POOL;
}

CUresult pool_take(CUmemoryPool pool, size_t size)
{
    uint64_t used = pool->used + (size + SMALL_GRANULE - 1) / SMALL_GRANULE * SMALL_GRANULE;
    uint64_t needed = granules(used);

    REQUIRE(!pool->max_size || needed <= pool->max_size, CUDA_ERROR_OUT_OF_MEMORY);
    if (needed > pool->reserved) {
        TRY(card_charge(pool->device, purpose(pool), needed - pool->reserved));
        pool->reserved = needed;
    }
    pool->used = used;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return CUDA_SUCCESS;
}

void pool_give(CUmemoryPool pool, size_t size)
{
    pool->used -= (size + SMALL_GRANULE - 1) / SMALL_GRANULE * SMALL_GRANULE;
    something_to_settle = true;
}

void pool_trim(CUmemoryPool pool, uint64_t keep)
{
    uint64_t needed = granules(pool->used), wanted = keep > needed ? keep / GRANULE * GRANULE : needed;

    if (wanted < needed)
        wanted = needed;
    if (wanted >= pool->reserved)
        return;
    card_uncharge(pool->device, purpose(pool), pool->reserved - wanted);
    pool->reserved = wanted;
}

static void end(CUmemoryPool pool)
{
    CUmemoryPool *link = &all_pools;

    pool_trim(pool, 0);
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool);
}

/* Graphs' memory stays reserved until it is trimmed by hand, as cuDeviceGraphMemTrim says. */
void pools_settle(int device)
{
    if (!something_to_settle)
        return;
    driver_lock();
    something_to_settle = false;
    for (CUmemoryPool pool = all_pools; pool; pool = pool->next) {
        if (pool->graph)
            continue;
        if (pool->device == device)
            pool_trim(pool, pool->threshold);
        else if (granules(pool->used) < pool->reserved && pool->threshold < pool->reserved)
            something_to_settle = true;
    }
    driver_unlock();
}

CUresult pool_allocate(CUmemoryPool pool, size_t size, CUcontext context, void **out)
{
    struct block like = {
        .size = size, .kind = BLOCK_POOLED, .device = pool->device, .context = context, .pool = pool,
    };

    REQUIRE(size <= MEMORY_MAX, CUDA_ERROR_OUT_OF_MEMORY);
    TRY(pool_take(pool, size));
    CUresult allocated = block_allocate(out, &like, size < SMALL_BELOW ? 0 : GRANULE);
    if (allocated != CUDA_SUCCESS)
        pool_give(pool, size);
    return allocated;
}

void pool_release(struct block *block)
{
    CUmemoryPool pool = block->pool;
    size_t size = block->size;

    block_remove(block);
    pool_give(pool, size);
    if (pool->dying && !pool->used)
        end(pool);
}

static CUresult allocate(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream handle)
{
    CUstream stream;

    LOCKED();
    REQUIRE(out && size, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    TRY(capture_refuses_legacy(stream));
    int device = stream->context->device;
    if (!pool)
        pool = current[device] ? current[device] : pool_default(device);
    REQUIRE(handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    if (capture_is_active(stream))
        return capture_allocate(stream, pool->device, size, out);
    TRY(card_health(device));
    return pool_allocate(pool, size, stream->context, (void **)out);
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream)
{
    return allocate(pointer, size, NULL, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream)
{
    REQUIRE(pool, CUDA_ERROR_INVALID_VALUE);
    return allocate(pointer, size, pool, stream);
}

/* What the stream was given before has already moved its data, unless jobs are waiting: then those come first. */
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
    CUstream stream;
    struct target target;
    bool captured, pending;

    {
        LOCKED();
        TRY(stream_resolve(handle, &stream));
        TRY(capture_refuses_legacy(stream));
        struct block *block = block_exact((void *)pointer);
        target = stream_target(stream);
        captured = capture_is_active(stream);
        if (captured)
            return capture_free(stream, pointer);
        REQUIRE(block, CUDA_ERROR_INVALID_VALUE);
        REQUIRE(block->kind == BLOCK_POOLED || block->kind == BLOCK_DEVICE || block->kind == BLOCK_GRAPH,
                CUDA_ERROR_INVALID_VALUE);
        if (block->kind == BLOCK_GRAPH)
            return graph_memory_free_by_stream(block);
        pending = !jobs_none();
    }
    if (pending)
        TRY(wait_for_stream(&target));
    LOCKED();
    struct block *block = block_exact((void *)pointer);
    REQUIRE(block, CUDA_ERROR_INVALID_VALUE);
    if (block->kind == BLOCK_POOLED)
        pool_release(block);
    else
        block_remove(block);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    LOCKED();
    REQUIRE(pool, CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    *pool = pool_default(device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    LOCKED();
    REQUIRE(pool, CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    *pool = current[device] ? current[device] : pool_default(device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    LOCKED();
    DEVICE(device);
    REQUIRE(handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(pool->device == device, CUDA_ERROR_INVALID_DEVICE);
    current[device] = pool;
    return CUDA_SUCCESS;
}

static CUresult device_of(const CUmemLocation *location, CUmemAllocationType type, int *device)
{
    REQUIRE(location && type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    *device = location->id;
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    int device;

    READY();
    TRY(device_of(location, type, &device));
    return cuDeviceGetDefaultMemPool(pool, device);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    int device;

    READY();
    TRY(device_of(location, type, &device));
    return cuDeviceGetMemPool(pool, device);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    int device;

    READY();
    TRY(device_of(location, type, &device));
    return cuDeviceSetMemPool(device, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    LOCKED();
    REQUIRE(out && props && props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(props->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    DEVICE(props->location.id);
    REQUIRE(props->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
    CUmemoryPool pool = handle_new(sizeof *pool, HANDLE_POOL);
    REQUIRE(pool, CUDA_ERROR_OUT_OF_MEMORY);
    pool->device = props->location.id;
    pool->max_size = props->maxSize;
    reuse_everything(pool);
    pool->next = all_pools;
    all_pools = pool;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    LOCKED();
    REQUIRE(handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!pool->standard, CUDA_ERROR_NOT_PERMITTED);
    if (current[pool->device] == pool)
        current[pool->device] = NULL;
    handle_drop(pool);
    pool->dying = true;
    if (!pool->used)
        end(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    LOCKED();
    REQUIRE(handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    pool_trim(pool, keep);
    return CUDA_SUCCESS;
}
