/* CLOCK_MONOTONIC for the launch path, by the processor's counter: half of what the system's clock costs.

   Each thread reads the system's clock once in FENCE_CLOCK_SPAN and counts on from there, at the rate that the process measured.
   Where the kernel does not trust the counter itself, or reading it is forbidden, every answer is the system's. Two threads may
   be a microsecond apart. */
#ifndef GPUPOOL_CLOCK_H
#define GPUPOOL_CLOCK_H

#include <stdint.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Where a thread counts on from. All zero: it asks. */
struct fence_clock {
    uint64_t ticks, ns; /* the same moment */
    uint64_t span;      /* ticks for which it may count on; 0: not at all */
    uint64_t rate;      /* nanoseconds of 2^32 ticks */
};

extern __thread struct fence_clock fence_clock __attribute__((tls_model("initial-exec")));

/* Asks the system, and lets this thread count on from its answer. */
uint64_t fence_clock_ask(void);

static inline uint64_t fence_clock_ns(void)
{
#if defined(__x86_64__)
    uint64_t since = __rdtsc() - fence_clock.ticks;
    if (__builtin_expect(since < fence_clock.span, 1))
        return fence_clock.ns + (since * fence_clock.rate >> 32);
#endif
    return fence_clock_ask();
}

#endif
