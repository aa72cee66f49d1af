/* The fence in this process: the mapped allocation, this process's slot, and whether CUDA may be used at all.

   Everything is lazy: nothing runs before the program's first call into a stand-in. What belongs to one process lies in pages that the
   kernel empties in a forked child (MADV_WIPEONFORK), so a child finds locks open, tables empty and no slot, and registers itself
   at its own first use; no handler runs at fork and none is needed at vfork or exec. */
#ifndef GPUPOOL_STATE_H
#define GPUPOOL_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "doorbell.h"
#include "gpupool/region.h"
#include "process_id.h"
#include "region.h"
#include "standin_path.h"

/* All zero in a new process. */
struct fence_process {
    _Atomic uint64_t owner; /* this process's owner word; 0: not registered */
    _Atomic uint32_t slot;
    struct process_id self;
    pthread_mutex_t lock; /* registering; only held for that */
    pthread_mutex_t bell_lock;
    struct doorbell bell;
    _Atomic uint64_t held[FENCE_MAX_DEVICES]; /* committed by this process: what a lost slot is filled with again */
};

struct fence_state {
    struct fence_region region;
    struct fence_process *_Atomic process; /* NULL: CUDA is refused. Written last, once */
    bool foreign_driver;           /* another driver was mapped before; told in the slot's flags */
    char why[768];
};

extern struct fence_state fence_state;

/* Zeroed memory that is all zero again in a forked child, for what belongs to one process; NULL: no memory. */
void *fence_process_memory(size_t bytes);

/* Slow path of fence_ready. */
struct fence_process *fence_register(void);

/* This process with a slot, or NULL: CUDA is refused here, and stderr was told why, once. */
static inline struct fence_process *fence_ready(void)
{
    struct fence_process *process = atomic_load_explicit(&fence_state.process, memory_order_acquire);
    if (__builtin_expect(process && atomic_load_explicit(&process->owner, memory_order_acquire), 1))
        return process;
    return fence_register();
}

/* Makes sure that the slot is still this process's; where it was cleared (by mistake of another, or a hostile one), takes a new one and
   charges what is held again. Returns the slot. */
uint32_t fence_slot(struct fence_process *process);

/* This process's part of one card in the region. `device` is an index into limits.device. */
static inline struct fence_slot_device *fence_slot_device(struct fence_process *process, uint32_t device)
{
    return &fence_state.region.usage->slot[atomic_load_explicit(&process->slot, memory_order_relaxed)].device[device];
}

/* Tells the arbiter, if it is there. */
bool fence_ring(enum fence_bell_kind kind, uint32_t device);

uint64_t fence_now_ns(void); /* CLOCK_MONOTONIC */

#endif
