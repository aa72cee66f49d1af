#include "nvml_share.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/driver.h"
#include "process/ledger.h"
#include "process/process_id.h"
#include "process/standin_path.h"
#include "table.h"

static struct fence_region region;
static pthread_once_t started = PTHREAD_ONCE_INIT;

/* Only looks up names in a library that the loader has mapped already; as in init.c. */
__attribute__((constructor)) static void fill_table(void)
{
    void *handle = driver_handle();
    if (handle)
        fence_table_fill(&fence_nvml_table, handle);
}

static void start(void)
{
    char why[768], line[sizeof why + 64];
    if (region_map(&region, standin_base(), getenv("GPUPOOL_SHARE"), why, sizeof why))
        return;
    snprintf(line, sizeof line, "the fence shows no card's memory in this process: %s", why);
    print_message(line);
}

const struct fence_region *nvml_share(void)
{
    pthread_once(&started, start);
    return region.usage ? &region : NULL;
}

static int hex_digit(char sign)
{
    const char *digits = "0123456789abcdef";
    const char *found = sign ? strchr(digits, sign | 0x20) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* "GPU-xxxxxxxx-xxxx-..." or "MIG-...": two digits a byte, dashes anywhere between bytes. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    text += strncmp(text, "GPU-", 4) && strncmp(text, "MIG-", 4) ? 0 : 4;
    for (int i = 0; i < 16; i++) {
        text += *text == '-';
        int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);
        if (low < 0)
            return false;
        uuid[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    return true;
}

int nvml_card(nvmlDevice_t device)
{
    char text[96];
    uint8_t uuid[16];
    const struct fence_region *share = nvml_share();
    if (!share || fence_nvml_real.nvmlDeviceGetUUID(device, text, sizeof text) != NVML_SUCCESS || !parse_uuid(text, uuid))
        return -1;
    for (uint32_t i = 0; i < share->limits->device_count && i < FENCE_MAX_DEVICES; i++)
        if (!memcmp(share->limits->device[i].uuid, uuid, sizeof uuid))
            return (int)i;
    return -1;
}

bool nvml_is_own(unsigned int *pid)
{
    const struct fence_region *share = nvml_share();
    uint32_t high = share ? ledger_high_water(share->usage) : 0;
    for (uint32_t i = 0; i < high; i++) {
        const struct fence_slot *slot = &share->usage->slot[i];
        uint64_t owner = atomic_load(&slot->owner);
        uint32_t inside = (uint32_t)pid_of_owner(owner), outside = atomic_load(&slot->pid_outside);
        if (!fence_owner_is_process(owner) || (*pid != inside && *pid != outside))
            continue;
        *pid = inside;
        return true;
    }
    return false;
}
