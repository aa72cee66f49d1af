/* Lists of processes on a card, without those of other tenants. The driver fills the caller's array, which is then thinned out
   in place; an array that is too small for the card's whole list is answered as the driver does. */
#include <stddef.h>
#include <string.h>

#include "nvml_share.h"

/* An array of records that have a pid somewhere. */
struct records {
    void *first;
    size_t size, pid_at;
};

#define RECORDS(array) ((struct records){array, sizeof *(array), offsetof(__typeof__(*(array)), pid)})

static unsigned int keep_own(struct records records, unsigned int count)
{
    unsigned int kept = 0;
    for (unsigned int i = 0; records.first && i < count; i++) {
        char *record = (char *)records.first + i * records.size;
        if (nvml_is_own((unsigned int *)(record + records.pid_at)))
            memmove((char *)records.first + kept++ * records.size, record, records.size);
    }
    return kept;
}

/* `call` fills `array` of `*count` records. */
#define OWN_ONLY(call, array, count)                                                                                   \
    do {                                                                                                               \
        if (!nvml_share())                                                                                             \
            return NVML_ERROR_NO_PERMISSION;                                                                           \
        nvmlReturn_t result = call;                                                                                    \
        if (result == NVML_SUCCESS)                                                                                    \
            *(count) = keep_own(RECORDS(array), *(count));                                                             \
        return result;                                                                                                 \
    } while (0)

#define RUNNING(name, type)                                                                                            \
    nvmlReturn_t fence_##name(nvmlDevice_t device, unsigned int *count, type *infos)                                   \
    {                                                                                                                  \
        OWN_ONLY(fence_nvml_real.name(device, count, infos), infos, count);                                            \
    }

RUNNING(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

nvmlReturn_t fence_nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                                   unsigned int *count, unsigned long long since)
{
    OWN_ONLY(fence_nvml_real.nvmlDeviceGetProcessUtilization(device, samples, count, since), samples, count);
}

nvmlReturn_t fence_nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    OWN_ONLY(fence_nvml_real.nvmlDeviceGetProcessesUtilizationInfo(device, info), info->procUtilArray,
             &info->processSamplesCount);
}

nvmlReturn_t fence_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
    OWN_ONLY(fence_nvml_real.nvmlDeviceGetRunningProcessDetailList(device, list), list->procArray,
             &list->numProcArrayEntries);
}
