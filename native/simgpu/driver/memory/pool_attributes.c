/* Attributes of pools, and the devices that may use them. */
#include "contexts/context.h"

#include "devices/card.h"
#include "pool.h"

static uint64_t *high_water(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    return attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ? &pool->reserved_high
           : attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH   ? &pool->used_high
                                                          : NULL;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    LOCKED();
    REQUIRE(value && handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->flags[attribute] = *(int *)value != 0;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        REQUIRE(*(cuuint64_t *)value == 0, CUDA_ERROR_INVALID_VALUE);
        *high_water(pool, attribute) = attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool->used : pool->reserved;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    LOCKED();
    REQUIRE(value && handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->flags[attribute];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = *high_water(pool, attribute);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    LOCKED();
    REQUIRE(access && count && handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    for (size_t at = 0; at < count; ++at) {
        REQUIRE(access[at].location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
        DEVICE(access[at].location.id);
        bool allowed = access[at].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        REQUIRE(allowed || access[at].location.id != pool->device, CUDA_ERROR_INVALID_VALUE);
        pool->access = allowed ? pool->access | 1u << access[at].location.id
                               : pool->access & ~(1u << access[at].location.id);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    LOCKED();
    REQUIRE(flags && location && handle_is(pool, HANDLE_POOL), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    DEVICE(location->id);
    bool allowed = location->id == pool->device || pool->access & 1u << location->id;
    *flags = allowed ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    LOCKED();
    REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    CUmemoryPool pool = pool_of_graphs(device);
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->reserved;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    LOCKED();
    REQUIRE(value && *(cuuint64_t *)value == 0, CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    CUmemoryPool pool = pool_of_graphs(device);
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        pool->used_high = pool->used;
    else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high = pool->reserved;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    LOCKED();
    DEVICE(device);
    pool_trim(pool_of_graphs(device), 0);
    return CUDA_SUCCESS;
}
