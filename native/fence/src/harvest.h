/* Work that was submitted and must be seen finished: batches with their pair of events, and the thread that asks for them. */
#ifndef GPUPOOL_HARVEST_H
#define GPUPOOL_HARVEST_H

#include <gpupool/cuda_all.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpupool/region.h"
#include "harvest_clock.h"
#include "limiter.h"

#define HARVEST_PENDING 1024u
#define HARVEST_BACKLOG 256u /* batches that wait to be measured so many before the last: nothing more is admitted to a limited card */
#define HARVEST_EVENTS 512u
#define HARVEST_CONTEXTS 32u

struct gate;

struct harvest_batch {
    struct limiter_batch it;
    CUevent start, end; /* NULL: not measured */
    CUcontext context;
    uint64_t stream_key;
    uint64_t recorded_ns; /* the start event was recorded then or later; 0: not known */
    int card;
};

/* Events to use again, and where the context's GPU time is on the host's clock. */
struct harvest_context {
    CUcontext context; /* NULL: free */
    CUevent spare[HARVEST_EVENTS];
    uint32_t spares;
    CUevent anchor; /* NULL: none yet. GPU time is counted from it */
    int64_t anchor_ns;
    struct harvest_clock clock;
};

struct harvest {
    pthread_mutex_t lock; /* all below; the driver is asked about events only under it */
    _Atomic uint32_t bell; /* the thread sleeps on it */
    _Atomic uint32_t sleeping;
    _Atomic bool started;
    _Atomic bool ended;
    struct harvest_context context[HARVEST_CONTEXTS];
    struct harvest_batch pending[HARVEST_PENDING];
    _Atomic uint32_t count; /* written with the lock */
    uint64_t idle_since[FENCE_MAX_DEVICES]; /* 0: work in flight, or told already */
};

/* An event of the current context, or NULL. Given back by the harvest. */
CUevent harvest_event(struct harvest *h, CUcontext context);

/* What the batch, which is over, used of the card beside all that the allocation was charged for already. `c` NULL: a context beyond
   those that are remembered, whose events are not kept. */
uint64_t harvest_measure(struct harvest_context *c, struct limiter_card *card, const struct harvest_batch *batch, uint64_t now);
void harvest_give_back(struct harvest_context *c, CUevent event);

/* Takes over a batch; starts the thread where there is none. Where nothing can be measured it is settled when it is due. */
void harvest_push(struct gate *g, const struct harvest_batch *batch);
/* So much waits to be measured that what is launched now might not be. */
static inline bool harvest_is_behind(const struct harvest *h)
{
    return atomic_load_explicit(&h->count, memory_order_relaxed) >= HARVEST_PENDING - HARVEST_BACKLOG;
}

/* There is something new to look at. */
void harvest_ring(struct harvest *h);
void harvest_context_ending(struct gate *g, CUcontext context);
/* The process ends: the driver must not be asked any more. */
void harvest_end(struct harvest *h);

#endif
