/* Reports the share's memory as the card's. */
#include "nvml_share.h"
#include "process/ledger.h"

struct shown {
    unsigned long long total, used;
};

/* A share that was made smaller than what is in use is full, not less than empty. */
static struct shown shown(int card, unsigned long long card_total)
{
    const struct fence_region *share = nvml_share();
    uint64_t limit = __atomic_load_n(&share->limits->device[card].memory_bytes, __ATOMIC_RELAXED);
    uint64_t used = ledger_used(share->usage, (uint32_t)card);
    used += atomic_load_explicit(&share->limits->device[card].overhead_bytes, memory_order_relaxed);
    struct shown now = {limit < card_total ? limit : card_total, used};
    now.used = now.used < now.total ? now.used : now.total;
    return now;
}

nvmlReturn_t fence_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    if (!nvml_share())
        return NVML_ERROR_NO_PERMISSION;
    nvmlReturn_t result = fence_nvml_real.nvmlDeviceGetMemoryInfo(device, memory);
    int card = result == NVML_SUCCESS ? nvml_card(device) : -1;
    if (card < 0)
        return result;
    struct shown now = shown(card, memory->total);
    *memory = (nvmlMemory_t){.total = now.total, .free = now.total - now.used, .used = now.used};
    return result;
}

/* What the driver keeps for itself is the card's, not the share's. */
nvmlReturn_t fence_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    if (!nvml_share())
        return NVML_ERROR_NO_PERMISSION;
    nvmlReturn_t result = fence_nvml_real.nvmlDeviceGetMemoryInfo_v2(device, memory);
    int card = result == NVML_SUCCESS ? nvml_card(device) : -1;
    if (card < 0)
        return result;
    struct shown now = shown(card, memory->total);
    memory->total = now.total;
    memory->reserved = 0;
    memory->used = now.used;
    memory->free = now.total - now.used;
    return result;
}
