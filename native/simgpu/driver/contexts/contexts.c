/* Created contexts: their life, and what can be asked of one. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "devices/card.h"
#include "memory/memory.h"
#include "modules/module.h"
#include "process/export_tables.h"
#include "streams/jobs.h"
#include "streams/stream.h"

#define FLAG_BITS 0xffu /* scheduling, map host, local memory, coredump, user coredump, sync memops */
#define API_VERSION_OLD 3010u
#define API_VERSION 3020u

CUcontext all_contexts;

static const size_t limit_defaults[CONTEXT_LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 7u << 20,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8u << 20,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

CUresult context_open(CUcontext context)
{
    TRY(card_health(context->device));
    TRY(card_context_open(context->device, &context->engine));
    context->legacy = stream_open_legacy(context);
    if (!context->legacy) {
        card_context_close(context->device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->id = driver_next_id();
    context->api_version = API_VERSION;
    context->sticky = CUDA_SUCCESS;
    context->peers = 0;
    memcpy(context->limits, limit_defaults, sizeof context->limits);
    context->alive = true;
    return CUDA_SUCCESS;
}

/* Everything that lives in a context goes with it, whether the program freed it or not. */
void context_close(CUcontext context)
{
    context->alive = false;
    streams_close(context);
    modules_close(context);
    blocks_close(context);
    if (card_context_close(context->device))
        jobs_drop(context->engine);
    context->retained = 0;
}

void context_fail(CUcontext context, CUresult error)
{
    int healthy = CUDA_SUCCESS;

    atomic_compare_exchange_strong(&context->sticky, &healthy, (int)error);
}

static CUresult create(CUcontext *out, unsigned flags, CUdevice device, unsigned api_version)
{
    LOCKED();
    REQUIRE(out && !(flags & ~FLAG_BITS), CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    CUcontext context = handle_new(sizeof *context, HANDLE_CONTEXT);
    REQUIRE(context, CUDA_ERROR_OUT_OF_MEMORY);
    context->device = device;
    context->flags = flags;
    CUresult opened = context_open(context);
    if (opened == CUDA_SUCCESS)
        opened = context_push(context);
    if (opened != CUDA_SUCCESS) {
        if (context->alive)
            context_close(context);
        handle_free(context);
        return opened;
    }
    context->api_version = api_version;
    context->next = all_contexts;
    all_contexts = context;
    *out = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    return create(context, flags, device, API_VERSION_OLD);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    return create(context, flags, device, API_VERSION);
}

/* Execution affinity needs an MPS server, which this machine has not. */
CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice device)
{
    (void)params;
    if (count != 0)
        return count < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(context, flags, device, API_VERSION);
}

CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    if (params && params->numExecAffinityParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    if (params && params->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    return create(context, flags, device, API_VERSION);
}

static CUresult destroy_locked(CUcontext context)
{
    CUcontext popped;

    context_close(context);
    if (context_top() == context)
        context_pop(&popped);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    READY();
    driver_lock();
    bool known = handle_is(context, HANDLE_CONTEXT);
    bool ours = known && !context->primary && context->alive;
    driver_unlock();
    REQUIRE(known, CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(ours, context->primary ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED);
    context_drain(context);
    context_values_release(context);
    LOCKED();
    REQUIRE(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return destroy_locked(context);
}

CUresult cuCtxDestroy(CUcontext context)
{
    return cuCtxDestroy_v2(context);
}

CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
    LOCKED();
    REQUIRE(context && !flags, CUDA_ERROR_INVALID_VALUE);
    CURRENT(current);
    ++current->attached;
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context)
{
    READY();
    {
        LOCKED();
        REQUIRE(handle_is(context, HANDLE_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
        REQUIRE(context->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
        if (context->attached) {
            --context->attached;
            return CUDA_SUCCESS;
        }
    }
    return cuCtxDestroy_v2(context);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    LOCKED();
    REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    TRY(context_or_current(&context));
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    READY();
    REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    CUcontext context = context_top();
    REQUIRE(context, CUDA_ERROR_INVALID_CONTEXT);
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    LOCKED();
    REQUIRE(flags, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    LOCKED();
    REQUIRE(!(flags & ~FLAG_BITS), CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    context->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    LOCKED();
    REQUIRE(id, CUDA_ERROR_INVALID_VALUE);
    TRY(context_or_current(&context));
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    LOCKED();
    REQUIRE(version, CUDA_ERROR_INVALID_VALUE);
    TRY(context_or_current(&context));
    *version = context->api_version;
    return CUDA_SUCCESS;
}
