/* Handlers that report the share's memory as the card's: cuMemGetInfo and cuDeviceTotalMem. */
#include "account.h"
#include "graph_memory.h"
#include "pools.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The share may have been made smaller than what is in use. */
static void show_share(int card, size_t *free, size_t *total)
{
    if (card < 0 || !fence_ready())
        return;
    uint64_t limit = account_limit(card);
    pools_settle(card);
    graph_memory_settle(card);
    uint64_t used = account_used(card);
    *total = least(*total, limit);
    *free = least(*free, limit > used ? limit - used : 0);
}

CUresult fence_cuMemGetInfo_v2(size_t *free, size_t *total)
{
    if (!fence_enter())
        return fence_real.cuMemGetInfo_v2(free, total);
    CUresult result = fence_real.cuMemGetInfo_v2(free, total);
    if (result == CUDA_SUCCESS && free && total)
        show_share(card_of_current(), free, total);
    return fence_leave(result);
}

/* The form of CUDA 2 counts in 32 bits. */
static unsigned int short_count(size_t bytes)
{
    return (unsigned int)least(bytes, UINT32_MAX);
}

CUresult fence_cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    if (!fence_enter())
        return fence_real.cuMemGetInfo(free, total);
    size_t long_free = 0, long_total = 0;
    CUresult result = fence_real.cuMemGetInfo(free, total);
    if (result == CUDA_SUCCESS && free && total && fence_real.cuMemGetInfo_v2(&long_free, &long_total) == CUDA_SUCCESS) {
        show_share(card_of_current(), &long_free, &long_total);
        *free = short_count(long_free);
        *total = short_count(long_total);
    }
    return fence_leave(result);
}

static size_t share_total(CUdevice device, size_t bytes)
{
    int card = fence_ready() ? card_of_device(device) : CARD_NONE;
    return card < 0 ? bytes : least(bytes, account_limit(card));
}

CUresult fence_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    if (!fence_enter())
        return fence_real.cuDeviceTotalMem_v2(bytes, device);
    CUresult result = fence_real.cuDeviceTotalMem_v2(bytes, device);
    if (result == CUDA_SUCCESS && bytes)
        *bytes = share_total(device, *bytes);
    return fence_leave(result);
}

CUresult fence_cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
    if (!fence_enter())
        return fence_real.cuDeviceTotalMem(bytes, device);
    size_t all = 0;
    CUresult result = fence_real.cuDeviceTotalMem(bytes, device);
    if (result == CUDA_SUCCESS && bytes && fence_real.cuDeviceTotalMem_v2(&all, device) == CUDA_SUCCESS)
        *bytes = short_count(share_total(device, all));
    return fence_leave(result);
}
