/* cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree and cuMemGetInfo. */
#include "contexts/context.h"

#include "devices/card.h"
#include "graphs/capture.h"
#include "memory.h"
#include "pool.h"
#include "streams/stream.h"

static CUresult allocate(void **out, size_t size, enum block_kind kind, unsigned flags)
{
    LOCKED();
    REQUIRE(out && size, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    TRY(capture_forbids_unsafe());
    REQUIRE(size <= MEMORY_MAX, CUDA_ERROR_OUT_OF_MEMORY);
    TRY(card_health(context->device));
    struct block like = {
        .size = size, .kind = kind, .device = context->device, .flags = flags, .context = context,
        .charged = block_charge_size(size), .preferred = CU_DEVICE_INVALID,
    };
    return block_allocate(out, &like, size < SMALL_BELOW ? 0 : GRANULE);
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    return allocate((void **)pointer, size, BLOCK_DEVICE, 0);
}

/* Rows begin at multiples of 512 bytes. */
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    size_t row, total;

    REQUIRE(pointer && pitch && width && height, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(element == 4 || element == 8 || element == 16, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(width < MEMORY_MAX, CUDA_ERROR_OUT_OF_MEMORY);
    row = (width + PITCH_ALIGNMENT - 1) & ~(PITCH_ALIGNMENT - 1);
    REQUIRE(!__builtin_mul_overflow(row, height, &total), CUDA_ERROR_OUT_OF_MEMORY);
    TRY(allocate((void **)pointer, total, BLOCK_DEVICE, 0));
    *pitch = row;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned int flags)
{
    REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
            CUDA_ERROR_INVALID_VALUE);
    REQUIRE(flags != CU_MEM_ATTACH_SINGLE, CUDA_ERROR_INVALID_VALUE);
    return allocate((void **)pointer, size, BLOCK_MANAGED, flags);
}

/* cuMemFree waits for the context's work, as on a card, and so never takes memory from under a copy. */
CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    CUcontext owner;

    READY();
    if (!pointer)
        return CUDA_SUCCESS;
    {
        LOCKED();
        struct block *block = block_exact((void *)pointer);
        REQUIRE(block && !block->freeing, CUDA_ERROR_INVALID_VALUE);
        REQUIRE(block->kind == BLOCK_DEVICE || block->kind == BLOCK_MANAGED || block->kind == BLOCK_POOLED,
                CUDA_ERROR_INVALID_VALUE);
        owner = block->context;
        block->freeing = true;
    }
    context_drain(owner);
    LOCKED();
    struct block *block = block_exact((void *)pointer);
    REQUIRE(block && block->freeing, CUDA_ERROR_INVALID_VALUE);
    if (block->kind == BLOCK_POOLED)
        pool_release(block);
    else
        block_remove(block);
    return owner ? (CUresult)owner->sticky : CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    LOCKED();
    REQUIRE(free && total, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    uint64_t shown;
    *free = card_free_bytes(context->device, &shown);
    *total = shown;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    LOCKED();
    CURRENT(context);
    struct block *block = block_at((void *)pointer);
    REQUIRE(block && block->kind != BLOCK_ARRAY, CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = (CUdeviceptr)block->start;
    if (size)
        *size = block->size;
    return CUDA_SUCCESS;
}
