/* The primary context of each card: made at its first use and by several ways, so the driver is asked whether it is
   there, before and after each call that may change it. */
#include <pthread.h>

#include "contexts.h"
#include "memory/account.h"
#include "memory/charge.h"
#include "memory/reserve.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"
#include "time/gate.h"

struct primary {
    bool charged;
    uint64_t bytes;
    CUcontext context; /* as a retain gave it */
    uint32_t retained;  /* retains that were seen, less releases */
};

/* What a call does with a primary context. */
enum effect {
    MAKES,
    RELEASES, /* ends it if it is the last that the context waits for */
    ENDS
};

struct primaries {
    pthread_mutex_t lock; /* held over the driver's call: it makes one context at a time anyway */
    struct primary card[FENCE_MAX_DEVICES];
};

static _Atomic(struct primaries *) own_primaries;

static struct primaries *lock_primaries(void)
{
    struct primaries *found = atomic_load(&own_primaries);
    if (!found) {
        struct primaries *made = fence_process_memory(sizeof *made);
        if (!made)
            return NULL;
        found = atomic_compare_exchange_strong(&own_primaries, &found, made) ? made : found;
    }
    pthread_mutex_lock(&found->lock);
    return found;
}

static bool is_active(CUdevice device)
{
    unsigned int flags;
    int active = 0;
    return fence_real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

/* One call on the primary context of one device. */
struct change {
    struct primaries *all;
    struct primary *primary; /* NULL: not one of the share's cards */
    int card;
    CUdevice device;
    bool reserved;
    CUcontext ending; /* gate_context_ending was called with it; NULL: it was not */
};

/* A release while others hold the context leaves it as it is: its work runs on and is measured. */
static bool may_end(const struct primary *primary, enum effect effect)
{
    return primary->context && (effect == ENDS || (effect == RELEASES && primary->retained <= 1));
}

/* Reserves the cost where the context is not charged yet and the call may make it. */
static CUresult begin(struct change *change, CUdevice device, enum effect effect)
{
    *change = (struct change){.card = CARD_NONE, .device = device};
    if (!fence_ready())
        return CUDA_ERROR_SYSTEM_NOT_READY;
    change->card = card_of_device(device);
    if (change->card == CARD_FOREIGN && effect == MAKES)
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (change->card < 0)
        return CUDA_SUCCESS;
    if (!(change->all = lock_primaries()))
        return CUDA_ERROR_OUT_OF_MEMORY;
    change->primary = &change->all->card[change->card];
    if (may_end(change->primary, effect)) {
        change->ending = change->primary->context;
        gate_context_ending(change->ending);
    }
    if (change->primary->charged || effect != MAKES)
        return CUDA_SUCCESS;
    change->primary->bytes = fence_state.region.limits->device[change->card].context_bytes;
    change->reserved = reserve_memory(change->card, change->primary->bytes);
    return change->reserved ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void charge_new(struct change *change)
{
    if (change->reserved)
        account_commit(change->card, change->primary->bytes);
    else
        account_charge(change->card, change->primary->bytes);
    change->primary->charged = true;
    account_contexts(change->card, 1);
}

static void release_gone(struct change *change)
{
    account_release(change->card, change->primary->bytes);
    account_contexts(change->card, -1);
    contexts_ended(change->primary->context);
    *change->primary = (struct primary){0};
}

/* `ended`: what was in the context is gone, even if another thread has made it anew. */
static CUresult end(struct change *change, CUresult result, bool ended)
{
    if (!change->all)
        return result;
    bool active = is_active(change->device);
    if (change->ending)
        gate_context_ended(change->ending, !active || (ended && result == CUDA_SUCCESS));
    if (active && !change->primary->charged && change->reserved)
        charge_new(change);
    else if (change->reserved)
        account_cancel(change->card, change->primary->bytes);
    if (change->primary->charged && result == CUDA_SUCCESS && ended)
        contexts_ended(change->primary->context);
    if (change->primary->charged && !active)
        release_gone(change);
    pthread_mutex_unlock(&change->all->lock);
    return result;
}

CUresult fence_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    struct change change;
    if (!fence_enter())
        return fence_real.cuDevicePrimaryCtxRetain(context, device);
    CUresult result = begin(&change, device, MAKES);
    if (result == CUDA_SUCCESS)
        result = fence_real.cuDevicePrimaryCtxRetain(context, device);
    if (result == CUDA_SUCCESS && change.primary) {
        change.primary->context = *context;
        change.primary->retained++;
    }
    return fence_leave(end(&change, result, false));
}

static CUresult released(struct change *change, CUresult result)
{
    if (result == CUDA_SUCCESS && change->primary && change->primary->retained)
        change->primary->retained--;
    return end(change, result, false);
}

CUresult fence_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct change change;
    if (!fence_enter())
        return fence_real.cuDevicePrimaryCtxRelease_v2(device);
    CUresult result = begin(&change, device, RELEASES);
    if (result == CUDA_SUCCESS)
        result = fence_real.cuDevicePrimaryCtxRelease_v2(device);
    return fence_leave(released(&change, result));
}

CUresult fence_cuDevicePrimaryCtxRelease(CUdevice device)
{
    struct change change;
    if (!fence_enter())
        return fence_real.cuDevicePrimaryCtxRelease(device);
    CUresult result = begin(&change, device, RELEASES);
    if (result == CUDA_SUCCESS)
        result = fence_real.cuDevicePrimaryCtxRelease(device);
    return fence_leave(released(&change, result));
}

CUresult fence_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    struct change change;
    if (!fence_enter())
        return fence_real.cuDevicePrimaryCtxReset_v2(device);
    CUresult result = begin(&change, device, ENDS);
    if (result == CUDA_SUCCESS)
        result = fence_real.cuDevicePrimaryCtxReset_v2(device);
    return fence_leave(end(&change, result, true));
}

CUresult fence_cuDevicePrimaryCtxReset(CUdevice device)
{
    struct change change;
    if (!fence_enter())
        return fence_real.cuDevicePrimaryCtxReset(device);
    CUresult result = begin(&change, device, ENDS);
    if (result == CUDA_SUCCESS)
        result = fence_real.cuDevicePrimaryCtxReset(device);
    return fence_leave(end(&change, result, true));
}

CUresult fence_cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc wanted, CUdevice device, unsigned int flags)
{
    struct change change;
    if (!fence_enter())
        return fence_real.cuGreenCtxCreate(green, wanted, device, flags);
    CUresult result = begin(&change, device, MAKES);
    if (result == CUDA_SUCCESS)
        result = fence_real.cuGreenCtxCreate(green, wanted, device, flags);
    return fence_leave(end(&change, result, false));
}

/* A green context keeps its device to itself: after it all cards' primaries are looked at. One that lives is not touched. */
static void settle_all(void)
{
    struct change change;
    int count = 0;
    fence_real.cuDeviceGetCount(&count);
    for (CUdevice device = 0; device < count; device++)
        if (!is_active(device) && begin(&change, device, ENDS) == CUDA_SUCCESS)
            end(&change, CUDA_SUCCESS, false);
}

CUresult fence_cuGreenCtxDestroy(CUgreenCtx green)
{
    if (!fence_enter())
        return fence_real.cuGreenCtxDestroy(green);
    CUresult result = fence_real.cuGreenCtxDestroy(green);
    if (result == CUDA_SUCCESS && fence_ready())
        settle_all();
    return fence_leave(result);
}
