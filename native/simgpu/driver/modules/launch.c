#include "launch.h"

#include "devices/card.h"
#include "streams/jobs.h"

#define MAX_THREADS 1024u
#define DEFAULT_SHARED 49152u

CUresult launch_check(const struct callee *callee, int device, const struct launch *launch)
{
    const unsigned *grid = launch->grid, *block = launch->block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    unsigned allowed = callee->attributes->max_dynamic_shared ? (unsigned)callee->attributes->max_dynamic_shared
                                                              : DEFAULT_SHARED;

    REQUIRE(grid[0] && grid[1] && grid[2] && threads, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] <= 65535, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(threads <= MAX_THREADS && launch->shared_bytes <= allowed, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(launch->params && launch->extra), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(launch->params || launch->extra || callee->entry->params <= 0, CUDA_ERROR_INVALID_VALUE);
    if (!launch->cooperative)
        return CUDA_SUCCESS;
    uint64_t fit = (uint64_t)blocks_per_sm(device, (unsigned)threads, launch->shared_bytes) *
                   (uint64_t)card_facts(device)->sm_count;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    return blocks <= fit ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult kernel_submit(const struct target *target, const struct kernel_cost *cost)
{
    struct engine_work work = {
        .kind = ENGINE_KERNEL, .width_milli = cost->width_milli, .duration_ns = cost->ns, .event = ENGINE_NO_EVENT,
    };
    struct job fault = {.kind = JOB_FAULT, .target = *target};

    TRY(submit(target, &work, NULL));
    return cost->faults ? job_submit(&fault, NULL) : CUDA_SUCCESS;
}
