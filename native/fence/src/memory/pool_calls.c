/* The calls that make memory pools, allocate from them and wait for them. */
#include "account.h"
#include "charge.h"
#include "imports.h"
#include "pools_internal.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"
#include "time/gate.h"

/* What a pool keeps unused may be enough, so a share that is full does not refuse before the driver was asked. */
static bool may_fit_inside(struct pool *pool, uint64_t bytes)
{
    uint64_t used = pools_attribute(pool->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    return pool->charged > used && pool->charged - used >= bytes;
}

/* Room for what the pool may grow by. Where its unused memory may do and the share is full, the driver is asked with nothing
   reserved: only a pool in pieces then grows past the limit, for the moment until it is seen and undone. */
static CUresult reserve(struct charge *charge, CUmemoryPool handle, int card, size_t bytes)
{
    struct pools *pools = pools_lock(true);
    struct pool *pool = pools ? pools_remember(pools, handle, card) : NULL;
    bool fits = false;
    if (pool) {
        pools_settle_one(pool);
        fits = may_fit_inside(pool, bytes);
    }
    if (pools)
        pools_unlock(pools);
    if (!fits)
        return charge_begin(charge, card, bytes);
    uint64_t size = account_size(card, bytes);
    *charge = (struct charge){card, account_try(card, size) ? size : 0};
    return CUDA_SUCCESS;
}

/* Whether what the pool grew by was reserved, or can be. With the lock. */
static bool affords(const struct pool *pool, uint64_t reserved)
{
    uint64_t now = pools_attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    uint64_t grown = now > pool->charged ? now - pool->charged : 0;
    if (grown <= reserved)
        return true;
    if (!account_try(pool->card, grown - reserved))
        return false;
    account_cancel(pool->card, grown - reserved); /* pools_settle_one() charges it in a moment, under the same lock */
    return true;
}

static void undo(struct pool *pool, CUdeviceptr pointer, CUstream stream)
{
    fence_real.cuMemFreeAsync(pointer, stream);
    fence_real.cuStreamSynchronize(stream);
    fence_real.cuMemPoolTrimTo(pool->handle, 0);
}

/* After the driver gave `pointer`: keeps it and charges the pool's growth, or gives it back. */
static CUresult keep(const struct charge *charge, CUmemoryPool handle, CUdeviceptr pointer, size_t bytes, CUstream stream)
{
    struct pools *pools = pools_lock(true);
    struct pool *pool = pools ? pools_remember(pools, handle, charge->card) : NULL;
    if (!pools)
        return CUDA_ERROR_OUT_OF_MEMORY; /* was there a moment ago */
    bool affordable = pool && affords(pool, charge->bytes);
    if (pool && !affordable)
        undo(pool, pointer, stream);
    if (pool)
        pools_settle_one(pool);
    if (affordable)
        handles_add(&(struct handle){.key = pointer, .kind = HANDLE_POOLED, .card = charge->card,
                                     .bytes = account_size(charge->card, bytes), .object = pool});
    pools_unlock(pools);
    return affordable ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Captured allocations become memory nodes and are charged with the graph. */
static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return fence_real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* The card of a pool: remembered when it was made, or a device's own pool. */
static int card_of_pool(CUmemoryPool handle)
{
    struct pools *pools = pools_lock(true);
    struct pool *known = pools ? pools_find(pools, handle) : NULL;
    int card = known ? known->card : CARD_NONE, count = 0;
    if (pools)
        pools_unlock(pools);
    if (known || fence_real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return card;
    for (CUdevice device = 0; device < count; device++) {
        CUmemoryPool own;
        if (fence_real.cuDeviceGetDefaultMemPool(&own, device) == CUDA_SUCCESS && own == handle)
            return card_of_device(device);
    }
    return CARD_NONE;
}

CUresult fence_on_cuMemAllocFromPoolAsync(fence_cuMemAllocFromPoolAsync_function *real, CUdeviceptr *pointer, size_t bytes,
                                          CUmemoryPool handle, CUstream stream)
{
    struct charge charge;
    if (!fence_enter())
        return real(pointer, bytes, handle, stream);
    int card = fence_ready() ? card_of_pool(handle) : CARD_NONE;
    if (card == CARD_NONE || is_capturing(stream))
        return fence_leave(real(pointer, bytes, handle, stream));
    CUresult result = reserve(&charge, handle, card, bytes);
    if (result == CUDA_SUCCESS) {
        result = real(pointer, bytes, handle, stream);
        if (result == CUDA_SUCCESS)
            result = keep(&charge, handle, *pointer, bytes, stream);
        charge_cancel(&charge); /* the pool is charged, not the allocation */
    }
    return fence_leave(result);
}

static bool current_pool(CUstream stream, CUmemoryPool *pool, int *card)
{
    *card = card_of_stream(stream);
    CUdevice device = *card >= 0 ? card_device(*card) : -1;
    return device >= 0 && fence_real.cuDeviceGetMemPool(pool, device) == CUDA_SUCCESS;
}

CUresult fence_on_cuMemAllocAsync(fence_cuMemAllocAsync_function *real, CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    struct charge charge;
    CUmemoryPool handle;
    int card;
    if (!fence_enter())
        return real(pointer, bytes, stream);
    if (!fence_ready() || is_capturing(stream) || !current_pool(stream, &handle, &card))
        return fence_leave(real(pointer, bytes, stream));
    CUresult result = reserve(&charge, handle, card, bytes);
    if (result == CUDA_SUCCESS) {
        result = real(pointer, bytes, stream);
        if (result == CUDA_SUCCESS)
            result = keep(&charge, handle, *pointer, bytes, stream);
        charge_cancel(&charge);
    }
    return fence_leave(result);
}

bool pools_take(CUdeviceptr pointer, struct handle *handle)
{
    return handles_take(HANDLE_POOLED, pointer, handle);
}

void pools_freed(const struct handle *handle, CUresult result)
{
    struct pool *pool = handle->object;
    struct pools *pools = pools_lock(true);
    if (result != CUDA_SUCCESS)
        handles_add(handle);
    if (pool->destroyed && result == CUDA_SUCCESS) {
        uint64_t gone = handle->bytes < pool->charged ? handle->bytes : pool->charged;
        account_release(pool->card, gone);
        pool->charged -= gone;
    }
    pools_settle_one(pool);
    atomic_store(&pools->unsettled, true);
    pools_unlock(pools);
}

CUresult fence_on_cuMemFreeAsync(fence_cuMemFreeAsync_function *real, CUdeviceptr pointer, CUstream stream)
{
    struct handle handle;
    if (!fence_enter())
        return real(pointer, stream);
    bool pooled = !is_capturing(stream) && pools_take(pointer, &handle);
    bool known = !pooled && charge_take(HANDLE_MEMORY, pointer, &handle);
    CUresult result = charge_freed(&handle, known, real(pointer, stream));
    if (pooled)
        pools_freed(&handle, result);
    else if (!known)
        imports_freed(pointer, result);
    return fence_leave(result);
}

CUresult fence_cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *wanted)
{
    if (!fence_enter())
        return fence_real.cuMemPoolCreate(handle, wanted);
    bool on_card = wanted && wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    int card = on_card && fence_ready() ? card_of_device(wanted->location.id) : CARD_NONE;
    if (card == CARD_FOREIGN)
        return fence_leave(CUDA_ERROR_DEVICE_UNAVAILABLE);
    CUresult result = fence_real.cuMemPoolCreate(handle, wanted);
    struct pools *pools = result == CUDA_SUCCESS && card >= 0 ? pools_lock(true) : NULL;
    if (pools) {
        pools_remember(pools, *handle, card);
        pools_unlock(pools);
    }
    return fence_leave(result);
}

/* A destroyed pool keeps what is allocated in it; the rest goes back at once. */
static void mark_destroyed(CUmemoryPool handle, uint64_t used)
{
    struct pools *pools = pools_lock(true);
    struct pool *pool = pools ? pools_find(pools, handle) : NULL;
    if (pool) {
        uint64_t kept = used < pool->charged ? used : pool->charged;
        account_release(pool->card, pool->charged - kept);
        pool->charged = kept;
        pool->destroyed = true;
    }
    if (pools)
        pools_unlock(pools);
}

CUresult fence_cuMemPoolDestroy(CUmemoryPool handle)
{
    if (!fence_enter())
        return fence_real.cuMemPoolDestroy(handle);
    uint64_t used = pools_attribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    CUresult result = fence_real.cuMemPoolDestroy(handle);
    if (result == CUDA_SUCCESS && fence_ready())
        mark_destroyed(handle, used);
    return fence_leave(result);
}

CUresult fence_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes)
{
    if (!fence_enter())
        return fence_real.cuMemPoolTrimTo(handle, keep_bytes);
    CUresult result = fence_real.cuMemPoolTrimTo(handle, keep_bytes);
    struct pools *pools = fence_ready() ? pools_lock(true) : NULL;
    struct pool *pool = pools ? pools_find(pools, handle) : NULL;
    if (pool)
        pools_settle_one(pool);
    if (pools)
        pools_unlock(pools);
    return fence_leave(result);
}

/* A pool gives memory up at the next wait of the host for a stream, an event or a context. */
static CUresult waited(CUresult result)
{
    if (!pools_unsettled() || !fence_enter())
        return result;
    pools_settle_all();
    return fence_leave(result);
}

/* Around the wait: what is open is measured to its end, or bounded by the wait. */
static uint64_t begins(const CUstream *stream)
{
    if (!fence_enter())
        return 0;
    uint64_t since = gate_wait_begins(stream);
    fence_leave(CUDA_SUCCESS);
    return since;
}

static CUresult ends(const CUstream *stream, uint64_t since, CUresult result)
{
    if (since && result == CUDA_SUCCESS && fence_enter()) {
        gate_wait_ends(stream, since);
        fence_leave(result);
    }
    return waited(result);
}

CUresult fence_cuCtxSynchronize(void)
{
    uint64_t since = begins(NULL);
    return ends(NULL, since, fence_real.cuCtxSynchronize());
}

CUresult fence_cuCtxSynchronize_v2(CUcontext context)
{
    begins(NULL);
    return waited(fence_real.cuCtxSynchronize_v2(context));
}

/* The call does not name a stream, so nothing is known to be over afterwards. */
CUresult fence_cuEventSynchronize(CUevent event)
{
    begins(NULL);
    return waited(fence_real.cuEventSynchronize(event));
}

CUresult fence_on_cuStreamSynchronize(fence_cuStreamSynchronize_function *real, CUstream stream)
{
    uint64_t since = begins(&stream);
    return ends(&stream, since, real(stream));
}
