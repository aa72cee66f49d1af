/* The gate that work for a card goes through: it waits until the limiter admits it, gathers launches into batches and hands
   those to the harvest thread. Everything of one process lies in memory that fork empties. */
#ifndef GPUPOOL_GATE_H
#define GPUPOOL_GATE_H

#include <gpupool/cuda_all.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpupool/region.h"
#include "harvest.h"
#include "limiter.h"

#define GATE_STREAMS 1024u /* known at one time; work in further ones is charged as predicted */

/* One stream of the program. Found by its handle; the default streams by their context and thread as well. */
struct gate_stream {
    _Atomic uint64_t key; /* 0: free */
    CUstream stream;
    CUcontext context;
    int card;
    pthread_mutex_t lock; /* the batch below, and the order of its events and launches in the stream */
    struct limiter_stream batches;
    CUevent start;        /* of the open batch; NULL: it could not be recorded */
    uint64_t launched_ns; /* when the launch that holds the lock was admitted */
};

struct gate {
    _Atomic uint32_t known_slot[FENCE_MAX_DEVICES]; /* slot + 1 that card[] points into */
    pthread_mutex_t lock; /* the tables' shape */
    struct limiter_card card[FENCE_MAX_DEVICES];
    struct gate_stream stream[GATE_STREAMS];
    _Atomic uint64_t taken[GATE_STREAMS / 64]; /* entries that are not free, a bit each */
    struct harvest harvest;
};

/* NULL: no memory; then work is refused nothing and charged nothing, and CUDA itself was refused before. */
struct gate *gate(void);

/* The limiter's side of one card, for this process's slot. NULL: not of the share. */
struct limiter_card *gate_card(struct gate *g, int card);

/* The entry of a stream as the program names it (default streams of the current context); NULL: none is free, or no
   context. */
struct gate_stream *gate_find(struct gate *g, CUstream stream);
/* Its handle may be another stream's from now on. */
void gate_stream_ended(CUstream stream);
/* Before the driver destroys a context: its events and streams are not touched any more. */
void gate_context_ending(CUcontext context);

/* Closes the open batch; the stream's lock is held. */
void gate_close(struct gate *g, struct gate_stream *s, enum limiter_close how);

/* Blocks until `cost` is admitted, and returns when that was. `s` is the stream that will not go on meanwhile. */
uint64_t gate_wait(struct gate *g, struct limiter_card *card, struct gate_stream *s, int index, const struct limiter_cost *cost);

#endif
