/* The gate that work for a card goes through: it waits until the limiter admits it, gathers launches into batches and hands
   those to the completion thread. Everything of one process lies in memory that fork empties. */
#ifndef GPUPOOL_GATE_H
#define GPUPOOL_GATE_H

#include <gpupool/cuda_all.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "completion.h"
#include "gpupool/region.h"
#include "limiter/limiter.h"
#include "stream_lock.h"

#define GATE_STREAMS 1024u /* known at one time; further ones share an entry, where every launch has events of its own */

/* One stream of the program. Found by its handle; the default streams by their context and thread as well. */
struct gate_stream {
    _Atomic uint64_t key; /* 0: free */
    CUstream stream;
    CUcontext context;
    int card;
    struct stream_lock lock; /* the batch below, and the order of its events and launches in the stream */
    struct limiter_stream batches;
    bool is_shared; /* by all streams that found no entry: `stream` and `context` are those of the launch that holds the lock */
    bool is_origin; /* a capture began here and has not ended */
    const void *thread; /* whose default stream it is, of a per-thread default stream */
    CUevent start;        /* of the open batch; NULL: it could not be recorded */
    uint64_t launched_ns; /* when the launch that holds the lock was admitted */
};

struct gate {
    _Atomic uint32_t known_slot[FENCE_MAX_DEVICES]; /* slot + 1 that card[] points into */
    pthread_mutex_t lock; /* the tables' shape */
    struct limiter_card card[FENCE_MAX_DEVICES];
    struct gate_stream stream[GATE_STREAMS];
    struct gate_stream overflow[FENCE_MAX_DEVICES];
    pthread_mutex_t outside;    /* held while a stream is asked by a thread that does not launch into it */
    _Atomic uint64_t unseen_until_ns[FENCE_MAX_DEVICES]; /* when all that was closed unseen is expected to be done */
    _Atomic uint32_t captures; /* active in the process */
    _Atomic uint64_t taken[GATE_STREAMS / 64]; /* entries that are not free, a bit each */
    struct completion completion;
};

extern _Atomic(struct gate *) gate_made;
struct gate *gate_make(void);

/* NULL: no memory; then work is refused nothing and charged nothing, and CUDA itself was refused before. */
static inline struct gate *gate(void)
{
    struct gate *made = atomic_load_explicit(&gate_made, memory_order_acquire);
    return __builtin_expect(made != NULL, 1) ? made : gate_make();
}

/* The limiter's side of one card, for this process's slot. NULL: not of the share. */
struct limiter_card *gate_card(struct gate *g, int card);

/* The entry of a stream as the program names it (default streams of the current context); the shared one where none is free. NULL:
   not of the share, or no context. */
struct gate_stream *gate_find(struct gate *g, CUstream stream);
/* The same if it has an entry of its own. */
struct gate_stream *gate_known(struct gate *g, CUstream stream);
/* Its handle may be another stream's from now on. */
void gate_stream_ended(CUstream stream);
/* Before the driver destroys a context: its events and streams are not touched any more. Afterwards what ran there is settled: it is
   over (`is_over`), or the context lives on. */
void gate_context_ending(CUcontext context);
void gate_context_ended(CUcontext context, bool is_over);

/* Before and after the host waits for this stream, or (NULL) for whatever is in the current context. */
uint64_t gate_wait_begins(const CUstream *stream);
void gate_wait_ends(const CUstream *stream, uint64_t since);

/* Whether work that is given to the stream is captured rather than run. */
bool gate_is_captured(struct gate *g, CUstream stream);
/* Between these two a thread may ask about and record into streams that it does not launch into itself; false: a capture is active. */
bool gate_enter_outside(struct gate *g);
void gate_leave_outside(struct gate *g);
/* The entry's stream is destroyed: so is the capture that began there. */
void gate_origin_ended(struct gate *g, struct gate_stream *s);

/* The stream's lock is held for all of these. */
CUevent gate_record(struct gate *g, struct gate_stream *s);
bool gate_is_busy(struct gate *g, const struct gate_stream *s);
void gate_close(struct gate *g, struct gate_stream *s, enum limiter_close how, uint64_t now);
/* The same where nothing can be asked of the stream. */
void gate_close_unseen(struct gate *g, struct gate_stream *s, uint64_t now);
/* Hands a batch over to be seen finished, and starts the thread for that where there is none. */
void gate_push(struct gate *g, const struct submitted_batch *batch);
/* Closes the open batch behind its last launch, by a thread that may launch into the stream itself. */
void gate_flush(struct gate *g, struct gate_stream *s, uint64_t now);
/* The same by another thread; false: not now, a capture is active. */
bool gate_flush_from_outside(struct gate *g, struct gate_stream *s, uint64_t now);
/* The same by a thread without a context. Another thread's default stream has no name there: its batch is settled by its mean. */
bool gate_flush_stale(struct gate *g, struct gate_stream *s, uint64_t now);

/* Whether the next launch into `s`, whose lock is held, is admitted now. */
enum limiter_verdict gate_pass(const struct gate *g, struct gate_stream *s, const struct limiter_cost *cost, uint64_t now);

/* Blocks until `cost` is admitted, and returns when that was. `s` is the stream that will not go on meanwhile. */
uint64_t gate_wait(struct gate *g, struct limiter_card *card, struct gate_stream *s, int index, const struct limiter_cost *cost);
/* The same where it was refused just now. */
uint64_t gate_wait_in_line(struct gate *g, struct limiter_card *card, struct gate_stream *s, int index,
                           const struct limiter_cost *cost);

#endif
