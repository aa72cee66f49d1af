#include "contexts.h"

#include "memory/account.h"
#include "memory/charge.h"
#include "memory/reserve.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"
#include "time/gate.h"

static void give_back(const struct handle *handle)
{
    account_release(handle->card, handle->bytes);
}

void contexts_ended(void *context)
{
    handles_sweep(context, give_back);
}

/* The figure is exact as it is: no rounding. */
static CUresult begin(struct charge *charge, CUdevice device)
{
    CUresult result = charge_begin(charge, card_of_device(device), 0);
    if (result != CUDA_SUCCESS || charge->card < 0)
        return result;
    uint64_t cost = fence_state.region.limits->device[charge->card].context_bytes;
    if (!reserve_memory(charge->card, cost)) {
        charge->card = CARD_NONE;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    charge->bytes = cost;
    return CUDA_SUCCESS;
}

static CUresult end(const struct charge *charge, CUresult result, CUcontext *context)
{
    if (charge->card < 0)
        return result;
    if (result != CUDA_SUCCESS) {
        charge_cancel(charge);
        return result;
    }
    handles_add(&(struct handle){.key = (uint64_t)(uintptr_t)*context, .kind = HANDLE_CONTEXT, .card = charge->card,
                                 .bytes = charge->bytes, .count = 1});
    account_commit(charge->card, charge->bytes);
    account_contexts(charge->card, 1);
    return result;
}

/* The five ways to make a context differ in what they pass on. */
#define MAKE(context, device, ...)                                                                                     \
    do {                                                                                                               \
        struct charge charge;                                                                                          \
        if (!fence_enter())                                                                                            \
            return __VA_ARGS__;                                                                                        \
        CUresult result = begin(&charge, device);                                                                      \
        return fence_leave(result != CUDA_SUCCESS ? result : end(&charge, __VA_ARGS__, context));                      \
    } while (0)

CUresult fence_cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    MAKE(context, device, fence_real.cuCtxCreate(context, flags, device));
}

CUresult fence_cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    MAKE(context, device, fence_real.cuCtxCreate_v2(context, flags, device));
}

CUresult fence_cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *wanted, int count, unsigned int flags, CUdevice device)
{
    MAKE(context, device, fence_real.cuCtxCreate_v3(context, wanted, count, flags, device));
}

CUresult fence_cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *wanted, unsigned int flags, CUdevice device)
{
    MAKE(context, device, fence_real.cuCtxCreate_v4(context, wanted, flags, device));
}

CUresult fence_cuGLCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
    MAKE(context, device, fence_real.cuGLCtxCreate(context, flags, device));
}

CUresult fence_cuGLCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
    MAKE(context, device, fence_real.cuGLCtxCreate_v2(context, flags, device));
}

CUresult fence_cuVDPAUCtxCreate(CUcontext *context, unsigned int flags, CUdevice device, VdpDevice vdp, VdpGetProcAddress *get)
{
    MAKE(context, device, fence_real.cuVDPAUCtxCreate(context, flags, device, vdp, get));
}

CUresult fence_cuVDPAUCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device, VdpDevice vdp,
                                   VdpGetProcAddress *get)
{
    MAKE(context, device, fence_real.cuVDPAUCtxCreate_v2(context, flags, device, vdp, get));
}

/* What is known of the context goes with it; `known` says whether the fence saw it made. */
static CUresult destroyed(CUcontext context, const struct handle *handle, bool known, CUresult result)
{
    gate_context_ended(context, result == CUDA_SUCCESS);
    result = charge_freed(handle, known, result);
    if (result == CUDA_SUCCESS && known)
        account_contexts(handle->card, -1);
    if (result == CUDA_SUCCESS)
        contexts_ended(context);
    return result;
}

CUresult fence_cuCtxDestroy_v2(CUcontext context)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuCtxDestroy_v2(context);
    gate_context_ending(context);
    bool known = charge_take(HANDLE_CONTEXT, (uint64_t)(uintptr_t)context, &handle);
    return fence_leave(destroyed(context, &handle, known, fence_real.cuCtxDestroy_v2(context)));
}

CUresult fence_cuCtxDestroy(CUcontext context)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuCtxDestroy(context);
    gate_context_ending(context);
    bool known = charge_take(HANDLE_CONTEXT, (uint64_t)(uintptr_t)context, &handle);
    return fence_leave(destroyed(context, &handle, known, fence_real.cuCtxDestroy(context)));
}

CUresult fence_cuCtxAttach(CUcontext *context, unsigned int flags)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuCtxAttach(context, flags);
    CUresult result = fence_real.cuCtxAttach(context, flags);
    if (result == CUDA_SUCCESS && charge_take(HANDLE_CONTEXT, (uint64_t)(uintptr_t)*context, &handle)) {
        handle.count++;
        handles_add(&handle);
    }
    return fence_leave(result);
}

CUresult fence_cuCtxDetach(CUcontext context)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuCtxDetach(context);
    bool known = charge_take(HANDLE_CONTEXT, (uint64_t)(uintptr_t)context, &handle);
    if (!known || handle.count <= 1)
        gate_context_ending(context);
    CUresult result = fence_real.cuCtxDetach(context);
    if (!known)
        gate_context_ended(context, result == CUDA_SUCCESS);
    if (!known || result != CUDA_SUCCESS || handle.count <= 1)
        return fence_leave(known ? destroyed(context, &handle, known, result) : result);
    handle.count--;
    handles_add(&handle);
    return fence_leave(result);
}
