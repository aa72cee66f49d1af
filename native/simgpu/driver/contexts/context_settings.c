/* Limits, cache preferences, priorities, peers and affinity of the current context. */
#include "context.h"

#include "devices/card.h"
#include "streams/stream.h"

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    LOCKED();
    REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    REQUIRE((unsigned)limit < CU_LIMIT_MAX && (unsigned)limit < CONTEXT_LIMITS, CUDA_ERROR_UNSUPPORTED_LIMIT);
    CURRENT(context);
    *value = context->limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    LOCKED();
    REQUIRE((unsigned)limit < CU_LIMIT_MAX && (unsigned)limit < CONTEXT_LIMITS, CUDA_ERROR_UNSUPPORTED_LIMIT);
    CURRENT(context);
    context->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    LOCKED();
    REQUIRE(config, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    *config = context->cache_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    LOCKED();
    REQUIRE((unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    context->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    LOCKED();
    REQUIRE(config, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    *config = context->shared_config ? context->shared_config : CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    LOCKED();
    REQUIRE((unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    context->shared_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    READY();
    CURRENT(context);
    if (least)
        *least = PRIORITY_LEAST;
    if (greatest)
        *greatest = PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    READY();
    CURRENT(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
    READY();
    REQUIRE(affinity, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    CURRENT(context);
    affinity->type = type;
    affinity->param.smCount.val = (unsigned)card_facts(context->device)->sm_count;
    return CUDA_SUCCESS;
}

static CUresult peer_of(CUcontext current, CUcontext peer, uint32_t *bit)
{
    REQUIRE(handle_is(peer, HANDLE_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    TRY(context_usable(peer));
    REQUIRE(peer->device != current->device, CUDA_ERROR_INVALID_CONTEXT);
    *bit = 1u << peer->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    uint32_t bit;

    LOCKED();
    REQUIRE(!flags, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    TRY(peer_of(context, peer, &bit));
    REQUIRE(!(context->peers & bit), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    context->peers |= bit;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    uint32_t bit;

    LOCKED();
    CURRENT(context);
    TRY(peer_of(context, peer, &bit));
    REQUIRE(context->peers & bit, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    context->peers &= ~bit;
    return CUDA_SUCCESS;
}
