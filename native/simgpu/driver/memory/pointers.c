/* What an address is: cuPointerGetAttribute and its kin, and advice about managed memory. */
#include "contexts/context.h"

#include <string.h>

#include "devices/card.h"
#include "memory.h"
#include "pool.h"
#include "streams/stream.h"

/* No allocation, and so the values for pageable memory of the program. */
static const struct block nothing = {.device = CU_DEVICE_INVALID};

static bool is_host(const struct block *block)
{
    return block->kind == BLOCK_HOST || block->kind == BLOCK_REGISTERED;
}

static unsigned memory_type(const struct block *block)
{
    return block == &nothing ? 0 : is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static int device_at(const struct block *block, const char *address)
{
    return block->kind == BLOCK_RESERVED && block != &nothing ? vmm_device_at(block, address) : block->device;
}

#define AS(type, value) (*(type *)out = (type)(value), CUDA_SUCCESS)

static CUresult read(void *out, CUpointer_attribute attribute, const struct block *block, char *address)
{
    bool known = block != &nothing, host = known && is_host(block), managed = known && block->kind == BLOCK_MANAGED;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return AS(CUcontext, block->context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        return AS(unsigned, memory_type(block));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        return AS(void *, known ? address : NULL);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        return AS(void *, host || managed ? address : NULL);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        return AS(unsigned, block->flags >> 31);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return AS(unsigned long long, block->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        return AS(unsigned, managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        return AS(int, device_at(block, address));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        return AS(unsigned, known && block->kind == BLOCK_DEVICE);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return AS(void *, block->start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        return AS(size_t, block->size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        return AS(unsigned, known);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        return AS(unsigned, CU_MEM_HANDLE_TYPE_NONE);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        return AS(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return AS(unsigned, known ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : 0);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return AS(CUmemoryPool, known && block->kind == BLOCK_POOLED ? block->pool : NULL);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return AS(size_t, block->size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        return AS(void *, block->start);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        return AS(unsigned long long, block->id);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static const struct block *block_for(CUdeviceptr pointer)
{
    struct block *block = block_at((void *)pointer);

    return block && block->kind != BLOCK_ARRAY ? block : &nothing;
}

CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    LOCKED();
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    const struct block *block = block_for(pointer);
    REQUIRE(block != &nothing, CUDA_ERROR_INVALID_VALUE);
    return read(out, attribute, block, (char *)pointer);
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **out, CUdeviceptr pointer)
{
    LOCKED();
    REQUIRE(count && attributes && out, CUDA_ERROR_INVALID_VALUE);
    const struct block *block = block_for(pointer);
    for (unsigned at = 0; at < count; ++at)
        TRY(read(out[at], attributes[at], block, (char *)pointer));
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    LOCKED();
    REQUIRE(value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
    struct block *block = block_at((void *)pointer);
    REQUIRE(block && block->kind == BLOCK_DEVICE, CUDA_ERROR_INVALID_VALUE);
    block->flags = *(const unsigned *)value ? 1u << 31 : 0;
    return CUDA_SUCCESS;
}

static CUresult managed_range(CUdeviceptr pointer, size_t size, struct block **block)
{
    *block = block_at((void *)pointer);
    REQUIRE(*block && (*block)->kind == BLOCK_MANAGED && size, CUDA_ERROR_INVALID_VALUE);
    return range_check((void *)pointer, size, true, false);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t size, CUmem_advise advice, CUmemLocation location)
{
    struct block *block;

    LOCKED();
    TRY(managed_range(pointer, size, &block));
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        block->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        block->preferred = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        block->preferred = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUmemLocation location_of(CUdevice device)
{
    return (CUmemLocation){
        .type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE,
        .id = device == CU_DEVICE_CPU ? 0 : device,
    };
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t size, CUmem_advise advice, CUdevice device)
{
    return cuMemAdvise_v2(pointer, size, advice, location_of(device));
}

/* The pages are the host's in any case; prefetching takes the time of a copy over the link. */
CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t size, CUmemLocation location, unsigned int flags,
                               CUstream handle)
{
    struct target target;
    struct block *block;
    CUstream stream;

    READY();
    {
        LOCKED();
        REQUIRE(!flags, CUDA_ERROR_INVALID_VALUE);
        TRY(managed_range(pointer, size, &block));
        if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            DEVICE(location.id);
        TRY(stream_resolve(handle, &stream));
        REQUIRE(!stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        target = stream_target(stream);
    }
    bool in = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    uint64_t rate = card_facts(target.device)->link_bandwidth;
    return submit_for(&target, in ? ENGINE_COPY_IN : ENGINE_COPY_OUT,
                      (uint64_t)((double)size * 1e9 / (double)(rate ? rate : 1)), NULL);
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t size, CUdevice device, CUstream stream)
{
    return cuMemPrefetchAsync_v2(pointer, size, location_of(device), 0, stream);
}

CUresult cuMemRangeGetAttribute(void *out, size_t out_size, CUmem_range_attribute attribute, CUdeviceptr pointer,
                                size_t size)
{
    struct block *block;

    LOCKED();
    REQUIRE(out && out_size >= sizeof(int), CUDA_ERROR_INVALID_VALUE);
    TRY(managed_range(pointer, size, &block));
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *(int *)out = block->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *(int *)out = block->preferred;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (size_t at = 0; at < out_size / sizeof(int); ++at)
            ((int *)out)[at] = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemRangeGetAttributes(void **out, size_t *sizes, CUmem_range_attribute *attributes, size_t count,
                                 CUdeviceptr pointer, size_t size)
{
    REQUIRE(out && sizes && attributes && count, CUDA_ERROR_INVALID_VALUE);
    for (size_t at = 0; at < count; ++at)
        TRY(cuMemRangeGetAttribute(out[at], sizes[at], attributes[at], pointer, size));
    return CUDA_SUCCESS;
}
