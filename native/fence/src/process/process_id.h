/* The identity of a process as the region keeps it, and whether another process still lives. Knows /proc, not CUDA. */
#ifndef GPUPOOL_PROCESS_ID_H
#define GPUPOOL_PROCESS_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpupool/region.h"

struct process_id {
    uint64_t owner;         /* as in fence_slot.owner */
    uint64_t pid_namespace; /* 0: /proc does not tell */
    uint64_t image;
};

/* Reads /proc/self. Without it the pid alone is told, and no other process is ever taken for dead but by kill(2). */
struct process_id read_process_id(void);

static inline pid_t pid_of_owner(uint64_t owner)
{
    return (pid_t)(owner >> 32 & FENCE_OWNER_PID_MASK);
}

static inline uint64_t make_owner_word(pid_t pid, uint64_t start_ticks, uint64_t pid_namespace)
{
    return (pid_namespace & FENCE_OWNER_TAG_MASK) << FENCE_OWNER_TAG_SHIFT | ((uint64_t)pid & FENCE_OWNER_PID_MASK) << 32 |
           (uint32_t)start_ticks;
}

/* A `ledger_is_dead`; `context` is a struct process_id. In doubt a process lives. */
bool is_dead_process(const struct fence_slot *slot, uint64_t owner, void *context);

/* Another one: what this very process left before an exec. */
bool is_own_past(const struct fence_slot *slot, uint64_t owner, void *context);

#endif
