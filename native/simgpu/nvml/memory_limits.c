/* Memory limits by cgroup, new in R615. The answers are those that nvml.h and NVIDIA's page on MPS memory partitioning list. */
#include "nvml_sim.h"

#include <errno.h>

static nvmlReturn_t limit_result(int problem)
{
    switch (problem) {
    case 0: return NVML_SUCCESS;
    case -EACCES: case -EPERM: case -EROFS: return NVML_ERROR_NO_PERMISSION;
    case -ENOTSUP: return NVML_ERROR_NOT_SUPPORTED; /* the root cgroup */
    case -ENOENT: case -ENOTDIR: case -ENAMETOOLONG: return NVML_ERROR_OPERATING_SYSTEM;
    default: return NVML_ERROR_UNKNOWN;
    }
}

static bool is_limit(const struct sim_card *card, unsigned long long bytes)
{
    return bytes == NVML_DEVICE_MEMORY_LIMIT_MAX || bytes <= card->memory_bytes;
}

nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits)
{
    CARD(device, card);
    NEED(limits && limits->nameSpace && limits->softLimit <= limits->hardLimit);
    NEED(is_limit(card, limits->softLimit) && is_limit(card, limits->hardLimit));
    return limit_result(sim_limit_set(nvml_sim(), nvml_index(card), limits->nameSpace, limits->softLimit, limits->hardLimit));
}

nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits)
{
    struct sim_limit limit;
    CARD(device, card);
    NEED(limits && limits->nameSpace);
    nvmlReturn_t answer = limit_result(sim_limit_get(nvml_sim(), nvml_index(card), limits->nameSpace, &limit));
    if (answer != NVML_SUCCESS)
        return answer;
    limits->softLimit = limit.soft;
    limits->hardLimit = limit.hard;
    limits->currentUsed = limit.used;
    return NVML_SUCCESS;
}
