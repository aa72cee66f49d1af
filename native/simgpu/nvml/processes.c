/* The processes on a card. The forms differ in the size of an entry: 16 bytes in the first, 24 since. */
#include "nvml_sim.h"

#include <string.h>
#include <time.h>

struct entry {
    uint32_t pid, context; /* ENGINE_CONTEXTS: none */
    uint64_t bytes;
};

static bool look(const struct sim_process *process, uint32_t card, struct entry *entry)
{
    uint64_t owner = atomic_load(&process->owner);
    entry->pid = (uint32_t)(owner >> 32);
    entry->bytes = sim_process_used(process, card);
    entry->context = process->context[card] ? process->context[card] - 1u : ENGINE_CONTEXTS;
    if (atomic_load(&process->suspension) == SIM_SUSPENDED)
        return false; /* its memory lies on the host: it has nothing on the card */
    return owner && (entry->bytes || entry->context < ENGINE_CONTEXTS);
}

/* The processes on a card, at most `room` of them into `entries`; how many there are. The dead are cleared away first. */
static unsigned int list(const struct sim_card *card, struct entry *entries, unsigned int room)
{
    struct sim *sim = nvml_sim();
    unsigned int count = 0;
    sim_reap(sim);
    for (uint32_t i = 0; i < atomic_load(&sim->machine->header.high_water); i++) {
        struct entry entry;
        if (!look(&sim->machine->process[i], nvml_index(card), &entry))
            continue;
        if (count < room)
            entries[count] = entry;
        count++;
    }
    return count;
}

static void fill_v1(void *infos, unsigned int i, const struct entry *entry)
{
    ((nvmlProcessInfo_v1_t *)infos)[i] = (nvmlProcessInfo_v1_t){.pid = entry->pid, .usedGpuMemory = entry->bytes};
}

static void fill_v2(void *infos, unsigned int i, const struct entry *entry)
{
    ((nvmlProcessInfo_v2_t *)infos)[i] = (nvmlProcessInfo_v2_t){
        .pid = entry->pid, .usedGpuMemory = entry->bytes, .gpuInstanceId = 0xffffffff, .computeInstanceId = 0xffffffff};
}

/* `count` is the room, and then how many there are; too little room is an error that says how much is needed. */
static nvmlReturn_t running(nvmlDevice_t device, unsigned int *count, void *infos,
                            void (*fill)(void *, unsigned int, const struct entry *))
{
    static __thread struct entry entries[SIM_PROCESSES];
    CARD(device, card);
    NEED(count && (infos || !*count));
    unsigned int room = *count, there = list(card, entries, SIM_PROCESSES);
    *count = there;
    if (there > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < there; i++)
        fill(infos, i, &entries[i]);
    return NVML_SUCCESS;
}

static nvmlReturn_t nobody(nvmlDevice_t device, unsigned int *count)
{
    CARD(device, card);
    (void)card;
    NEED(count);
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
    return running(device, count, infos, fill_v1);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos)
{
    return running(device, count, infos, fill_v2);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    return running(device, count, infos, fill_v2);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
    (void)infos;
    return nobody(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos)
{
    (void)infos;
    return nobody(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    (void)infos;
    return nobody(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    const struct sim *sim = nvml_sim();
    if (sim && sim->machine->header.mode == ENGINE_TOGETHER)
        return running(device, count, infos, fill_v2);
    return nobody(device, count);
}

/* --- the load of each --- */

static unsigned long long microseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

struct load {
    unsigned int pid, percent;
};

/* The processes that ran something in the second that is reported. */
static unsigned int loads(const struct sim_card *card, struct load *found)
{
    static __thread struct entry entries[SIM_PROCESSES];
    unsigned int there = list(card, entries, SIM_PROCESSES), count = 0;
    for (unsigned int i = 0; i < there; i++) {
        unsigned int percent = entries[i].context < ENGINE_CONTEXTS ? nvml_percent(nvml_index(card), entries[i].context) : 0;
        if (percent)
            found[count++] = (struct load){entries[i].pid, percent};
    }
    return count;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long last_seen)
{
    static __thread struct load found[SIM_PROCESSES];
    CARD(device, card);
    NEED(count);
    unsigned long long now = microseconds();
    unsigned int room = *count, there = last_seen < now ? loads(card, found) : 0;
    *count = there;
    if (!there)
        return NVML_ERROR_NOT_FOUND;
    if (!samples || there > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < there; i++)
        samples[i] = (nvmlProcessUtilizationSample_t){
            .pid = found[i].pid, .timeStamp = now, .smUtil = found[i].percent, .memUtil = found[i].percent / 2};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    static __thread struct load found[SIM_PROCESSES];
    CARD(device, card);
    NEED_VERSION(info, nvmlProcessesUtilizationInfo_v1);
    unsigned long long now = microseconds();
    unsigned int room = info->processSamplesCount, there = info->lastSeenTimeStamp < now ? loads(card, found) : 0;
    info->processSamplesCount = there;
    if (!there)
        return NVML_ERROR_NOT_FOUND;
    if (!info->procUtilArray || there > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < there; i++)
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
            .pid = found[i].pid, .timeStamp = now, .smUtil = found[i].percent, .memUtil = found[i].percent / 2};
    return NVML_SUCCESS;
}
