/* Converts a moment of a context's GPU time to the host's clock. Pure.

   An event happened after the call that recorded it and before an answer that says so: each batch gives a bound of either kind. What is
   recorded into an idle stream of an idle card happens at once, so the host's clock less GPU time is taken to be the largest lower
   bound: off by what a record takes to reach the card. Beside other processes all events of a context may wait long for the card. Then
   it is taken to be GPU_CLOCK_LATE_NS below the smallest upper bound, if that is more.

   Bounds of long ago still count, carried on by the rate at which both clocks go apart, which is learnt from bounds that lie far from
   each other. */
#ifndef GPUPOOL_GPU_CLOCK_H
#define GPUPOOL_GPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define GPU_CLOCK_LATE_NS 2000             /* after an event until it is seen, where many are looked for */
#define GPU_CLOCK_SPAN_NS 500000000ull     /* the best bounds of so long are kept */
#define GPU_CLOCK_MEMORY_NS 60000000000ull /* a rate is learnt over so long, twice at most: it changes with the temperature */
#define GPU_CLOCK_DRIFT_PPB 100000         /* two clocks go apart no faster */

/* The host's clock less GPU time at `at_ns` of the host's clock: no less, no more. */
struct gpu_clock_bounds {
    uint64_t at_ns;
    int64_t least_ns, most_ns;
};

struct gpu_clock {
    bool is_set;
    int64_t rate_ppb;
    struct gpu_clock_bounds now;         /* the tightest, carried on */
    int64_t below_ns, above_ns;        /* of the span since then: how far the nearest bounds are from those */
    struct gpu_clock_bounds first, next; /* of spans long ago; at_ns 0: none */
};

/* The event at `position` (GPU time) was recorded at `host` or later. */
void gpu_clock_recorded(struct gpu_clock *clock, int64_t position, uint64_t host);
/* The event at `position` had happened at `host`. */
void gpu_clock_seen(struct gpu_clock *clock, int64_t position, uint64_t host);
/* The moment on the host's clock; `clock` is set. */
uint64_t gpu_clock_host(const struct gpu_clock *clock, int64_t position, bool is_contended);

#endif
