/* Scores by rank, and the highest of each block of them. */
#ifndef GPUPOOL_SCHEDULER_SCORES_H
#define GPUPOOL_SCHEDULER_SCORES_H

#include "scheduler.h"

static inline void scores_set(const struct kernel_scores *scores, int64_t rank, int64_t score)
{
    int64_t *highest = &scores->highest[rank / KERNEL_BLOCK], before = scores->by_rank[rank];
    scores->by_rank[rank] = score;
    if (*highest == KERNEL_UNKNOWN)
        return;
    if (score >= *highest)
        *highest = score;
    else if (before == *highest)
        *highest = KERNEL_UNKNOWN;
}

#endif
