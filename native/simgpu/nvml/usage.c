/* How busy a card is and what it holds. Load and memory are the model's; power, temperature and clocks are modelled on
   the load and stand for nothing that was ever measured. */
#include "nvml_sim.h"

#include <string.h>

#define WINDOW_NS 1000000000ull
#define RENEWED_NS 200000000ull
#define AMBIENT_CELSIUS 30u
#define SPAN_CELSIUS 45u
#define SLOWDOWN_CELSIUS 90u
#define IDLE_SM_MHZ 345u

unsigned int nvml_percent(uint32_t card, uint32_t context)
{
    struct sim *sim = nvml_sim();
    struct engine *engine = sim_lock(sim);
    uint64_t end = engine->now_ns / RENEWED_NS * RENEWED_NS;
    end = end > RENEWED_NS ? end - RENEWED_NS : 0;
    uint64_t from = end > WINDOW_NS ? end - WINDOW_NS : 0;
    uint64_t busy = context < ENGINE_CONTEXTS ? engine_context_busy(engine, context, from, end)
                                              : engine_card_busy(engine, card, from, end);
    sim_unlock(sim);
    return (unsigned int)(busy * 100 / WINDOW_NS > 100 ? 100 : busy * 100 / WINDOW_NS);
}

static unsigned int load(const struct sim_card *card)
{
    return nvml_percent(nvml_index(card), ENGINE_CONTEXTS);
}

/* That memory was read or written in half of the time is as good a guess as any. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    CARD(device, card);
    NEED(rates);
    rates->gpu = load(card);
    rates->memory = rates->gpu / 2;
    return NVML_SUCCESS;
}

static nvmlReturn_t idle_engine(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    CARD(device, card);
    (void)card;
    NEED(percent && period_us);
    *percent = 0;
    *period_us = WINDOW_NS / 1000;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    return idle_engine(device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    return idle_engine(device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    return idle_engine(device, percent, period_us);
}

nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period_us)
{
    return idle_engine(device, percent, period_us);
}

/* --- memory --- */

static uint64_t used_by_all(const struct sim_card *card)
{
    struct sim *sim = nvml_sim();
    sim_reap(sim);
    return sim_used(sim, nvml_index(card));
}

/* The first form counts what the driver keeps as used, the second tells it apart. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    CARD(device, card);
    NEED(memory);
    memory->total = card->memory_bytes;
    memory->used = used_by_all(card) + card->reserved_bytes;
    memory->free = memory->total > memory->used ? memory->total - memory->used : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    CARD(device, card);
    NEED_VERSION(memory, nvmlMemory_v2);
    uint64_t used = used_by_all(card), usable = card->memory_bytes - card->reserved_bytes;
    memory->total = card->memory_bytes;
    memory->reserved = card->reserved_bytes;
    memory->used = used;
    memory->free = usable > used ? usable - used : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *bits)
{
    CARD(device, card);
    NEED(bits);
    *bits = card->memory_bus_bits;
    return NVML_SUCCESS;
}

/* --- power, temperature, clocks: modelled --- */

static unsigned int power_mw(const struct sim_card *card)
{
    return card->power_idle_mw + (card->power_limit_mw - card->power_idle_mw) / 100 * load(card);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
    CARD(device, card);
    NEED(milliwatts);
    *milliwatts = power_mw(card);
    return NVML_SUCCESS;
}

static nvmlReturn_t power_limit(nvmlDevice_t device, unsigned int *milliwatts)
{
    CARD(device, card);
    NEED(milliwatts);
    *milliwatts = card->power_limit_mw;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    return power_limit(device, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    return power_limit(device, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
    return power_limit(device, milliwatts);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least, unsigned int *most)
{
    CARD(device, card);
    NEED(least && most);
    *least = card->power_limit_mw / 2;
    *most = card->power_limit_mw;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    CARD(device, card);
    (void)card;
    NEED(mode);
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

/* Idle power since the clock's zero, and the rest for as long as something ran. */
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules)
{
    CARD(device, card);
    NEED(millijoules);
    struct engine *engine = sim_lock(nvml_sim());
    uint64_t busy_us = engine->card[nvml_index(card)].busy_ns / 1000, all_us = engine->now_ns / 1000;
    sim_unlock(nvml_sim());
    *millijoules = all_us / 1000000 * card->power_idle_mw + busy_us * (card->power_limit_mw - card->power_idle_mw) / 1000000;
    return NVML_SUCCESS;
}

static unsigned int celsius(const struct sim_card *card)
{
    return AMBIENT_CELSIUS + SPAN_CELSIUS * load(card) / 100;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *degrees)
{
    CARD(device, card);
    NEED(degrees && sensor == NVML_TEMPERATURE_GPU);
    *degrees = celsius(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    CARD(device, card);
    NEED_VERSION(temperature, nvmlTemperature_v1);
    NEED(temperature->sensorType == NVML_TEMPERATURE_GPU);
    temperature->temperature = (int)celsius(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t which, unsigned int *degrees)
{
    CARD(device, card);
    (void)card;
    NEED(degrees);
    if (which != NVML_TEMPERATURE_THRESHOLD_SHUTDOWN && which != NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
        return NVML_ERROR_NOT_SUPPORTED;
    *degrees = SLOWDOWN_CELSIUS + (which == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? 3 : 0);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    CARD(device, card);
    NEED(mhz && (unsigned int)type < NVML_CLOCK_COUNT);
    *mhz = type == NVML_CLOCK_MEM ? card->memory_clock_mhz : card->sm_clock_mhz;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    CARD(device, card);
    if (type != NVML_CLOCK_MEM && mhz && !load(card)) {
        *mhz = IDLE_SM_MHZ;
        return NVML_SUCCESS;
    }
    return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *state)
{
    CARD(device, card);
    (void)card;
    NEED(state);
    *state = NVML_PSTATE_0;
    return NVML_SUCCESS;
}
