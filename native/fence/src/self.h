/* Who a process is in the region's words, and whether another one still lives. Knows /proc, nothing of CUDA. */
#ifndef GPUPOOL_SELF_H
#define GPUPOOL_SELF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpupool/region.h"

struct self {
    uint64_t owner;         /* as in fence_slot.owner */
    uint64_t pid_namespace; /* 0: /proc does not tell */
    uint64_t image;
};

/* Reads /proc/self. Without it the pid alone is told, and no other process is ever taken for dead but by kill(2). */
struct self self_read(void);

static inline pid_t self_pid(uint64_t owner)
{
    return (pid_t)(owner >> 32 & FENCE_OWNER_PID_MASK);
}

static inline uint64_t self_word(pid_t pid, uint64_t start_ticks, uint64_t pid_namespace)
{
    return (pid_namespace & FENCE_OWNER_TAG_MASK) << FENCE_OWNER_TAG_SHIFT | ((uint64_t)pid & FENCE_OWNER_PID_MASK) << 32 |
           (uint32_t)start_ticks;
}

/* A `ledger_is_dead`; `context` is a struct self. In doubt a process lives. */
bool self_finds_dead(const struct fence_slot *slot, uint64_t owner, void *context);

/* Another one: what this very process left before an exec. */
bool self_finds_own_past(const struct fence_slot *slot, uint64_t owner, void *context);

/* What /proc/PID/stat says, for tests as well. */
struct stat_line {
    pid_t pid;
    char state;
    long threads;
    uint64_t start_ticks, stack_start;
};

/* `line`: the text of the file; the name in it may hold any sign. False: not such a line. */
bool stat_parse(const char *line, struct stat_line *out);

#endif
