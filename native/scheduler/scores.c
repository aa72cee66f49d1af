#include "scores.h"

static int64_t end_of(const struct kernel_scores *scores, int64_t block)
{
    int64_t end = (block + 1) * KERNEL_BLOCK;
    return end < scores->nodes ? end : scores->nodes;
}

static int64_t highest_of(const struct kernel_scores *scores, int64_t block)
{
    int64_t highest = KERNEL_NOT_FEASIBLE;
    for (int64_t rank = block * KERNEL_BLOCK; rank < end_of(scores, block); rank++)
        if (scores->by_rank[rank] > highest)
            highest = scores->by_rank[rank];
    return highest;
}

int64_t scores_best(const struct kernel_scores *scores)
{
    int64_t best = KERNEL_NOT_FEASIBLE, found = -1;
    for (int64_t block = 0; block * KERNEL_BLOCK < scores->nodes; block++) {
        if (scores->highest[block] == KERNEL_UNKNOWN)
            scores->highest[block] = highest_of(scores, block);
        if (scores->highest[block] > best) {
            best = scores->highest[block];
            found = block;
        }
    }
    if (found < 0)
        return -1;
    int64_t rank = found * KERNEL_BLOCK;
    while (scores->by_rank[rank] != best)
        rank++;
    return rank;
}
