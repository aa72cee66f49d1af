/* GPU time of several streams: their intervals overlap where kernels ran side by side, and count once. Pure. */
#ifndef GPUPOOL_HARVEST_UNION_H
#define GPUPOOL_HARVEST_UNION_H

#include <stdint.h>

#define HARVEST_SPANS 16u /* disjoint spans remembered; older ones are over, since streams run at most a window apart */

struct harvest_union {
    uint32_t count;
    struct {
        uint64_t from, to;
    } span[HARVEST_SPANS]; /* disjoint, ascending */
    uint64_t idle_ns; /* gaps inside of what was added, not subtracted yet */
};

/* Adds [from, to) and returns how much of it was not there yet. */
uint64_t harvest_union_add(struct harvest_union *all, uint64_t from, uint64_t to);
/* The same less `idle_ns` of gaps inside. A gap that lies in what another interval added before is subtracted from later ones. */
uint64_t harvest_union_use(struct harvest_union *all, uint64_t from, uint64_t to, uint64_t idle_ns);

#endif
