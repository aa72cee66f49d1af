#include "cards.h"

#include <stdatomic.h>
#include <string.h>

#include "real.h"
#include "state.h"

/* A process never sees another order of devices once the driver is initialised. 0: not asked yet; else the answer + 3. */
#define REMEMBERED 128
static _Atomic signed char known[REMEMBERED];

static int card_of_uuid(const CUuuid *uuid)
{
    const struct fence_limits *limits = fence_state.region.limits;
    for (uint32_t i = 0; limits && i < limits->device_count && i < FENCE_MAX_DEVICES; i++)
        if (!memcmp(limits->device[i].uuid, uuid->bytes, sizeof limits->device[i].uuid))
            return (int)i;
    return CARD_FOREIGN;
}

static int ask_card(CUdevice device)
{
    CUuuid uuid;
    return fence_real.cuDeviceGetUuid(&uuid, device) == CUDA_SUCCESS ? card_of_uuid(&uuid) : CARD_NONE;
}

int card_of_device(CUdevice device)
{
    if (device < 0 || device >= REMEMBERED)
        return ask_card(device);
    int card = atomic_load_explicit(&known[device], memory_order_relaxed);
    if (card)
        return card - 3;
    card = ask_card(device);
    if (card != CARD_NONE)
        atomic_store_explicit(&known[device], (signed char)(card + 3), memory_order_relaxed);
    return card;
}

int card_of_current(void)
{
    CUdevice device;
    if (fence_real.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return CARD_NONE;
    return card_of_device(device);
}

int card_of_context(CUcontext context)
{
    CUcontext current = NULL, popped;
    fence_real.cuCtxGetCurrent(&current);
    if (!context || context == current)
        return card_of_current();
    if (fence_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return CARD_NONE;
    int card = card_of_current();
    fence_real.cuCtxPopCurrent_v2(&popped);
    return card;
}

int card_of_stream(CUstream stream)
{
    CUcontext context;
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return card_of_current();
    if (fence_real.cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
        return CARD_NONE;
    return card_of_context(context);
}

CUdevice card_device(int card)
{
    int count = 0;
    fence_real.cuDeviceGetCount(&count);
    for (CUdevice device = 0; device < count; device++)
        if (card_of_device(device) == card)
            return device;
    return -1;
}
