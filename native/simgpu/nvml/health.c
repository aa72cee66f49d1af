/* Errors, modes, and events. */
#include "nvml_sim.h"

#include <stdlib.h>
#include <string.h>

/* --- ECC --- */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    CARD(device, card);
    NEED(current && pending);
    *current = *pending = card->ecc_enabled ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long *errors)
{
    CARD(device, card);
    NEED(errors && (unsigned int)type < NVML_MEMORY_ERROR_TYPE_COUNT && (unsigned int)counter < NVML_ECC_COUNTER_TYPE_COUNT);
    if (!card->ecc_enabled)
        return NVML_ERROR_NOT_SUPPORTED;
    *errors = type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? card->ecc_corrected : card->ecc_uncorrected;
    return NVML_SUCCESS;
}

/* All of them are the memory's. */
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                             nvmlMemoryLocation_t location, unsigned long long *count)
{
    nvmlReturn_t answer = nvmlDeviceGetTotalEccErrors(device, type, counter, count);
    if (answer == NVML_SUCCESS && location != NVML_MEMORY_LOCATION_DEVICE_MEMORY)
        *count = 0;
    return answer;
}

/* A row is put aside for each uncorrected error, at the next reset. */
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                       unsigned int *pending, unsigned int *failed)
{
    CARD(device, card);
    NEED(corrected && uncorrected && pending && failed);
    *corrected = 0;
    *uncorrected = (unsigned int)card->ecc_uncorrected;
    *pending = card->ecc_uncorrected && card->needs_reset;
    *failed = card->last_xid == 64;
    return NVML_SUCCESS;
}

/* --- modes: what nothing here ever changes --- */

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    CARD(device, card);
    (void)card;
    NEED(mode);
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    CARD(device, card);
    (void)card;
    NEED(mode);
    *mode = NVML_COMPUTEMODE_DEFAULT;
    return NVML_SUCCESS;
}

static nvmlReturn_t disabled(nvmlDevice_t device, nvmlEnableState_t *state)
{
    CARD(device, card);
    (void)card;
    NEED(state);
    *state = NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *state)
{
    return disabled(device, state);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *state)
{
    return disabled(device, state);
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *state)
{
    return disabled(device, state);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is)
{
    CARD(device, card);
    (void)card;
    NEED(is);
    *is = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    CARD(device, card);
    (void)card;
    NEED(count);
    *count = 0;
    return NVML_SUCCESS;
}

/* --- events --- */

#define SUPPORTED \
    (nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError)
#define LONGEST_WAIT_NS 50000000ull /* faults injected by Python, which wakes no thread, are seen by then */

struct nvmlEventSet_st {
    uint64_t seen; /* faults of the machine up to which were told of */
    unsigned long long types[SIM_CARDS];
};

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    CARD(device, card);
    (void)card;
    NEED(types);
    *types = SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct sim *sim = nvml_sim();
    if (!sim)
        return NVML_ERROR_UNINITIALIZED;
    NEED(set);
    *set = calloc(1, sizeof **set);
    if (!*set)
        return NVML_ERROR_MEMORY;
    (*set)->seen = atomic_load(&sim->machine->header.faults);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    if (!nvml_sim())
        return NVML_ERROR_UNINITIALIZED;
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    CARD(device, card);
    NEED(set);
    if (types & ~(unsigned long long)SUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    set->types[nvml_index(card)] |= types;
    return NVML_SUCCESS;
}

/* What of those registered for a fault is; 0: nothing. */
static unsigned long long type_of(const struct sim_fault *fault, unsigned long long wanted)
{
    unsigned long long types = fault->xid ? nvmlEventTypeXidCriticalError : 0;
    if (fault->kind == SIM_FAULT_ECC_CORRECTED)
        types |= nvmlEventTypeSingleBitEccError;
    if (fault->kind == SIM_FAULT_ECC_UNCORRECTED)
        types |= nvmlEventTypeDoubleBitEccError;
    types &= wanted;
    return types & -types; /* one event a fault: the ECC error rather than its XID */
}

static bool next_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
    const struct sim *sim = nvml_sim();
    const struct sim_header *h = &sim->machine->header;
    uint64_t end = atomic_load(&h->faults);
    if (end - set->seen > SIM_FAULTS)
        set->seen = end - SIM_FAULTS;
    while (set->seen != end) {
        const struct sim_fault fault = h->fault[set->seen++ % SIM_FAULTS];
        unsigned long long type = fault.card < SIM_CARDS ? type_of(&fault, set->types[fault.card]) : 0;
        if (!type)
            continue;
        *data = (nvmlEventData_t){.device = nvml_handle_of(&sim->machine->card[fault.card]),
                                  .eventType = type,
                                  .eventData = type == nvmlEventTypeXidCriticalError ? fault.xid : 0,
                                  .gpuInstanceId = 0xffffffff,
                                  .computeInstanceId = 0xffffffff};
        return true;
    }
    return false;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    struct sim *sim = nvml_sim();
    if (!sim)
        return NVML_ERROR_UNINITIALIZED;
    NEED(set && data);
    uint64_t deadline = sim_monotonic_ns() + timeout_ms * 1000000ull;
    for (;;) {
        uint32_t word = atomic_load(&sim->machine->header.wake);
        if (next_event(set, data))
            return NVML_SUCCESS;
        uint64_t now = sim_monotonic_ns(), soon = now + LONGEST_WAIT_NS;
        if (now >= deadline)
            return NVML_ERROR_TIMEOUT;
        sim_sleep(sim, word, soon < deadline ? soon : deadline);
    }
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
