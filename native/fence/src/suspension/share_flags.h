/* A share is closed while its memory is off the cards. The driver would block its calls then and report none, so they wait here,
   before they enter the driver, and the first one wakes the agent (docs/decisions/0068). */
#ifndef GPUPOOL_SHARE_FLAGS_H
#define GPUPOOL_SHARE_FLAGS_H

#include <stdatomic.h>
#include <stdint.h>

#include "gpupool/region.h"

/* The flags of this process's share; of no share before the files are mapped. */
extern const _Atomic uint32_t *_Atomic share_flags;

/* Blocks while the share is closed, and rings meanwhile; in closed_share.c, which knows this process's share. */
void share_await_open(void);

static inline void share_pass(void)
{
    const _Atomic uint32_t *flags = atomic_load_explicit(&share_flags, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(flags, memory_order_acquire) & FENCE_SHARE_CLOSED, 0))
        share_await_open();
}

#endif
