/* Submitted batches until they are seen finished: their pairs of events, what they used, and what is settled then. */
#ifndef GPUPOOL_COMPLETION_H
#define GPUPOOL_COMPLETION_H

#include <gpupool/cuda_all.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpupool/region.h"
#include "limiter/gpu_clock.h"
#include "limiter/limiter.h"

#define COMPLETION_PENDING 1024u
#define COMPLETION_BACKLOG 256u /* batches that wait to be measured so many before the last: nothing more is admitted to a limited card */
#define COMPLETION_EVENTS 512u
#define COMPLETION_CONTEXTS 32u
#define COMPLETION_NEVER UINT64_MAX

struct submitted_batch {
    struct limiter_batch it;
    CUevent start, end; /* NULL: not measured */
    CUcontext context;
    uint64_t stream_key;
    uint64_t recorded_ns; /* the start event was recorded then or later; 0: not known */
    int card;
    bool is_ending; /* its context is being destroyed, with its events */
};

/* Events to use again, and where the context's GPU time is on the host's clock. */
struct event_context {
    CUcontext context; /* NULL: free */
    CUevent spare[COMPLETION_EVENTS];
    uint32_t spares;
    CUevent anchor; /* NULL: none yet. GPU time is counted from it */
    int64_t anchor_ns;
    struct gpu_clock clock;
};

struct completion {
    pthread_mutex_t lock; /* all below; the driver is asked about events only under it */
    _Atomic uint32_t bell; /* the thread sleeps on it */
    _Atomic uint32_t sleeping;
    _Atomic bool started;
    _Atomic bool ended;
    struct event_context context[COMPLETION_CONTEXTS];
    struct submitted_batch pending[COMPLETION_PENDING];
    _Atomic uint32_t count; /* written with the lock */
    uint64_t idle_since[FENCE_MAX_DEVICES]; /* 0: work in flight, or told already */
};

/* An event of the current context, or NULL. completion.c takes it back when its batch is settled. */
CUevent take_event(struct completion *h, CUcontext context);

/* What the batch, which is over, used of the card beside all that the allocation was charged for already. `c` NULL: a context beyond
   those that are remembered, whose events are not kept. */
uint64_t measure_batch(struct event_context *c, struct limiter_card *card, const struct submitted_batch *batch, uint64_t now);
void give_back_event(struct event_context *c, CUevent event);

/* Takes over a batch. Where nothing can be measured it is settled when it is due. `cards`: the limiter's side of each. */
void completion_push(struct completion *h, struct limiter_card *cards, const struct submitted_batch *batch);

/* Settles what is over and returns when to look again; COMPLETION_NEVER: not before the bell rings. Adds to `idle`, a bit each,
   the cards on which nothing of this process is left and whose arbiter is to be told. */
uint64_t completion_look(struct completion *h, struct limiter_card *cards, uint64_t now, uint32_t *idle);

/* So much waits to be measured that what is launched now might not be. */
static inline bool completion_is_behind(const struct completion *h)
{
    return atomic_load_explicit(&h->count, memory_order_relaxed) >= COMPLETION_PENDING - COMPLETION_BACKLOG;
}

/* There is something new to look at. */
void completion_ring(struct completion *h);
/* Before a context is destroyed: settles what is over there, and keeps the rest without its events until the driver's call has
   returned. Then that is settled by the clock, since the driver waits for it or ends it (`is_over`), or by its mean. */
void completion_context_ending(struct completion *h, struct limiter_card *cards, CUcontext context);
void completion_context_ended(struct completion *h, struct limiter_card *cards, CUcontext context, bool is_over);
/* The process ends: the driver must not be asked any more. */
void completion_end(struct completion *h);

#endif
