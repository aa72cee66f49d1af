/* Shows only the share's cards, numbered in NVML's order, as if a device cgroup closed the others. */
#include "nvml_share.h"

/* A card that may not be opened counts as not there. */
static bool real_card(unsigned int index, nvmlDevice_t *device)
{
    return fence_nvml_real.nvmlDeviceGetHandleByIndex_v2(index, device) == NVML_SUCCESS && nvml_card(*device) >= 0;
}

/* The card at `place` among the share's; how many there are before the end where that is not one. */
static unsigned int find(unsigned int place, nvmlDevice_t *device)
{
    unsigned int count = 0, seen = 0;
    nvmlDevice_t one;
    fence_nvml_real.nvmlDeviceGetCount_v2(&count);
    for (unsigned int i = 0; i < count && seen <= place; i++)
        if (real_card(i, &one) && seen++ == place)
            *device = one;
    return seen;
}

static nvmlReturn_t shown_count(nvmlReturn_t result, unsigned int *count)
{
    nvmlDevice_t none;
    if (result == NVML_SUCCESS)
        *count = find(*count, &none);
    return result;
}

nvmlReturn_t fence_nvmlDeviceGetCount_v2(unsigned int *count)
{
    return nvml_share() ? shown_count(fence_nvml_real.nvmlDeviceGetCount_v2(count), count) : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t fence_nvmlDeviceGetCount(unsigned int *count)
{
    return nvml_share() ? shown_count(fence_nvml_real.nvmlDeviceGetCount(count), count) : NVML_ERROR_NO_PERMISSION;
}

static nvmlReturn_t by_index(unsigned int index, nvmlDevice_t *device)
{
    unsigned int count;
    nvmlReturn_t ready = fence_nvml_real.nvmlDeviceGetCount_v2(&count);
    if (!nvml_share() || ready != NVML_SUCCESS)
        return ready != NVML_SUCCESS ? ready : NVML_ERROR_NO_PERMISSION;
    return device && index < count && find(index, device) > index ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t fence_nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    return by_index(index, device);
}

nvmlReturn_t fence_nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return by_index(index, device);
}

nvmlReturn_t fence_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    nvmlDevice_t one;
    unsigned int place = 0;
    nvmlReturn_t result = fence_nvml_real.nvmlDeviceGetIndex(device, index);
    if (result != NVML_SUCCESS || nvml_card(device) < 0)
        return result;
    for (unsigned int i = 0; i < *index; i++)
        place += real_card(i, &one);
    *index = place;
    return result;
}

static nvmlReturn_t if_shown(nvmlReturn_t result, const nvmlDevice_t *device)
{
    if (!nvml_share())
        return NVML_ERROR_NO_PERMISSION;
    return result == NVML_SUCCESS && nvml_card(*device) < 0 ? NVML_ERROR_NOT_FOUND : result;
}

nvmlReturn_t fence_nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    return if_shown(fence_nvml_real.nvmlDeviceGetHandleBySerial(serial, device), device);
}

nvmlReturn_t fence_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return if_shown(fence_nvml_real.nvmlDeviceGetHandleByUUID(uuid, device), device);
}

nvmlReturn_t fence_nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    return if_shown(fence_nvml_real.nvmlDeviceGetHandleByUUIDV(uuid, device), device);
}

nvmlReturn_t fence_nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device)
{
    return if_shown(fence_nvml_real.nvmlDeviceGetHandleByPciBusId_v2(bus, device), device);
}

nvmlReturn_t fence_nvmlDeviceGetHandleByPciBusId(const char *bus, nvmlDevice_t *device)
{
    return if_shown(fence_nvml_real.nvmlDeviceGetHandleByPciBusId(bus, device), device);
}
