/* The time of a kernel. Code is not run, so it comes from, in this order:

   gpupool_spin_ns(u64 ns, ...)   exactly its first argument
   NAME_ns_N, NAME_us_N, NAME_ms_N   the number at the end of its name
   GPUPOOL_SIMGPU_KERNEL_US       the same for all others
   the launch                     the card's launch time, and WAVE_NS for each wave of blocks that the card can hold

   The first two take the whole card, so that a load of known size is really that. gpupool_fault touches an address
   that is not there: its context fails with CUDA_ERROR_ILLEGAL_ADDRESS, the card notes XID 31. */
#include "launch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "devices/card.h"

#define WAVE_NS 2000u
#define WHOLE ENGINE_WHOLE
#define LONGEST_NS 3600000000000ull /* an hour: a mistyped argument must not stop a card for good */

static bool first_argument(const struct launch *launch, uint64_t *value)
{
    if (launch->params && launch->params[0]) {
        memcpy(value, launch->params[0], sizeof *value);
        return true;
    }
    for (void **extra = launch->extra; extra && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER)
            continue;
        memcpy(value, extra[1], sizeof *value);
        return true;
    }
    return false;
}

/* The number that a name ends with, and its unit before: `step_us_250` is 250,000. */
static bool named_time(const char *name, uint64_t *ns)
{
    static const struct unit {
        char text[5];
        uint64_t ns;
    } units[] = {{"_ns_", 1}, {"_us_", 1000}, {"_ms_", 1000000}};
    const char *digits = name + strlen(name);

    while (digits > name && isdigit((unsigned char)digits[-1]))
        --digits;
    if (!*digits || digits - name < 4)
        return false;
    for (size_t at = 0; at < sizeof units / sizeof *units; ++at) {
        if (memcmp(digits - 4, units[at].text, 4))
            continue;
        *ns = strtoull(digits, NULL, 10) * units[at].ns;
        return true;
    }
    return false;
}

static struct kernel_cost from_launch(int device, const struct launch *launch)
{
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
    int per_sm = blocks_per_sm(device, threads, launch->shared_bytes);
    uint64_t at_once = (uint64_t)(per_sm > 0 ? per_sm : 1) * (uint64_t)card_facts(device)->sm_count;
    uint64_t waves = (blocks + at_once - 1) / at_once;
    uint64_t width = blocks >= at_once ? WHOLE : (blocks * WHOLE + at_once - 1) / at_once;

    return (struct kernel_cost){
        .ns = card_facts(device)->launch_ns + waves * WAVE_NS, .width_milli = (uint32_t)width,
    };
}

struct kernel_cost kernel_cost(const struct callee *callee, int device, const struct launch *launch)
{
    struct kernel_cost cost = {.width_milli = WHOLE};
    const char *name = callee->entry->name;

    if (!strcmp(name, "gpupool_spin_ns") && first_argument(launch, &cost.ns))
        ;
    else if (named_time(name, &cost.ns))
        ;
    else if (settings.kernel_ns >= 0)
        cost.ns = (uint64_t)settings.kernel_ns;
    else
        cost = from_launch(device, launch);
    if (cost.ns > LONGEST_NS)
        cost.ns = LONGEST_NS;
    cost.faults = !strcmp(name, "gpupool_fault");
    return cost;
}
