/* The one primary context that each device has in a process, shared by retaining it. */
#include "context.h"

#include "devices/card.h"
#include "process/export_tables.h"
#include "streams/stream.h"

#define FLAG_BITS 0xffu

static struct CUctx_st primaries[CARD_LIMIT];

CUcontext primary_context(int device)
{
    return &primaries[device];
}

CUresult primary_retain(CUcontext *out, int device)
{
    CUcontext context = &primaries[device];

    if (!context->id) {
        context->device = device;
        context->primary = true;
        REQUIRE(handle_add(context, HANDLE_CONTEXT), CUDA_ERROR_OUT_OF_MEMORY);
        context->next = all_contexts;
        all_contexts = context;
        context->id = driver_next_id();
    }
    if (!context->alive)
        TRY(context_open(context));
    else
        TRY((CUresult)context->sticky);
    ++context->retained;
    *out = context;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    LOCKED();
    REQUIRE(context, CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    return primary_retain(context, device);
}

/* Waits for its work without the lock, then closes it, unless another thread retained it meanwhile. */
static CUresult close_if(int device, bool even_retained)
{
    CUcontext context = &primaries[device];

    context_drain(context);
    context_values_release(context);
    LOCKED();
    if (context->alive && (even_retained || !context->retained))
        context_close(context);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    READY();
    {
        LOCKED();
        DEVICE(device);
        REQUIRE(primaries[device].retained, CUDA_ERROR_INVALID_CONTEXT);
        if (--primaries[device].retained)
            return CUDA_SUCCESS;
    }
    return close_if(device, false);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    READY();
    DEVICE(device);
    return close_if(device, true);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return cuDevicePrimaryCtxReset_v2(device);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    LOCKED();
    DEVICE(device);
    REQUIRE(flags && active, CUDA_ERROR_INVALID_VALUE);
    *flags = primaries[device].flags;
    *active = primaries[device].alive;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    LOCKED();
    DEVICE(device);
    REQUIRE(!(flags & ~FLAG_BITS), CUDA_ERROR_INVALID_VALUE);
    primaries[device].flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    LOCKED();
    DEVICE(device);
    REQUIRE(!primaries[device].alive, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
    REQUIRE(!(flags & ~FLAG_BITS), CUDA_ERROR_INVALID_VALUE);
    primaries[device].flags = flags;
    return CUDA_SUCCESS;
}
