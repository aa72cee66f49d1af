/* The memory of one allocation, kept without a lock by all its processes in the usage region.

   Nothing here knows CUDA, a process or the time. What a process holds is in its slot; the sum over the slots is the
   ledger. A reservation is put into the own `pending_bytes` before the sum is made, so of two that race the later one in the order of all
   reservations has seen the other: no interleaving grants more than the limit. A kill at any instruction leaves either too much
   charged to a slot that will be cleared, or nothing. */
#ifndef GPUPOOL_LEDGER_H
#define GPUPOOL_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "gpupool/region.h"

enum ledger_answer {
    LEDGER_GRANTED, /* the bytes are pending: commit or cancel them */
    LEDGER_RACING,  /* would fit but for another's pending bytes, which go first: withdrawn; try again in a moment */
    LEDGER_WAITING, /* would fit but for another's pending bytes, and goes first: still pending; decide in a moment, or cancel */
    LEDGER_REFUSED  /* does not fit: withdrawn */
};

/* Which owner words stand for dead processes. Must not call back into the ledger. */
typedef bool ledger_is_dead(const struct fence_slot *slot, uint64_t owner, void *context);

/* Takes a free slot below `slots` for `owner`; -1 when all are taken. The slot's counters are zero. `pid_namespace` and
   `image` are the owner's, in the slot before anybody believes them. */
int ledger_take_slot(struct fence_usage *usage, uint32_t slots, uint64_t owner, uint64_t pid_namespace, uint64_t image);

/* Gives back a slot whose process holds nothing any more, counters zeroed as in a reaping. False: not the owner's. */
bool ledger_clear_slot(struct fence_usage *usage, uint32_t slot, uint64_t seen, uint64_t reaper);

/* Clears every slot that `is_dead` says is dead; `reaper` is the caller's own owner word. How many were cleared. */
uint32_t ledger_clear_dead(struct fence_usage *usage, uint64_t reaper, ledger_is_dead *is_dead, void *context);

/* Reserves `bytes` of `device` under `limit`. Counts no refusal: the caller decides when it is final. */
enum ledger_answer ledger_reserve(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes, uint64_t limit);
enum ledger_answer ledger_decide(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes, uint64_t limit);
void ledger_commit(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes);
void ledger_cancel(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes);

/* Bytes of `slot` that others may keep alive: they count for the allocation as long as another process has imports. */
void ledger_orphan(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes);

/* Committed bytes that the driver was seen to hold already, or holds no more. Releasing stops at zero. */
void ledger_charge(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes);
void ledger_release(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes);

/* Bytes charged to all processes of the allocation, pending ones included; saturates, since the region is a claim. */
uint64_t ledger_used(struct fence_usage *usage, uint32_t device);

/* Slots that may be in use, whatever the region says. */
uint32_t ledger_high_water(const struct fence_usage *usage);

/* `bytes` rounded up to a multiple of `granule` (0: as it is); saturates at the largest multiple. */
uint64_t ledger_round(uint64_t bytes, uint32_t granule);

/* Takes `bytes` from `counter` and never below zero. */
void ledger_lower(_Atomic uint64_t *counter, uint64_t bytes);

#endif
