/* GPU time of an allocation on one card: intervals of streams and processes overlap where their kernels ran side by side, and count
   once. Pure; the layout and its rules are in region.h. Many threads and processes may call at once. */
#ifndef GPUPOOL_TIMELINE_H
#define GPUPOOL_TIMELINE_H

#include <stdint.h>

#include "gpupool/region.h"
#include "limiter.h"

#define TIMELINE_FINE_SPAN_NS ((uint64_t)FENCE_FINE_NS * 32 * FENCE_FINE_WORDS)

/* Adds [from, to) and returns how many nanoseconds of it were not there yet. `now`: nothing has run after it. Of what is longer ago than
   the fine ring reaches, only the amounts are known: that overlaps as far as it can. */
uint64_t timeline_add(struct fence_timeline *timeline, uint64_t from, uint64_t to, uint64_t now);
/* The same without the gaps that the batch names. */
uint64_t timeline_use(struct fence_timeline *timeline, const struct limiter_batch *batch, uint64_t from, uint64_t to, uint64_t now);

#endif
