/* Checks a launch, says how long its kernel takes and how much of the card, and submits it. */
#ifndef GPUPOOL_SIMGPU_LAUNCH_H
#define GPUPOOL_SIMGPU_LAUNCH_H

#include "module.h"
#include "streams/stream.h"

struct launch {
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    bool cooperative;
};

struct kernel_cost {
    uint64_t ns;
    uint32_t width_milli;
    bool faults; /* touches an address that is not there */
};

/* Under the lock. CUDA_ERROR_INVALID_VALUE and its kin where a card would refuse the launch. */
CUresult launch_check(const struct callee *callee, int device, const struct launch *launch);
struct kernel_cost kernel_cost(const struct callee *callee, int device, const struct launch *launch);
/* Without the lock. */
CUresult kernel_submit(const struct target *target, const struct kernel_cost *cost);

#endif
