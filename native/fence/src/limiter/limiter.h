/* The limiter: admits and charges the work of one process on a shared card. Pure: no CUDA type, no clock, no system call;
   shared state is reached through the region's structs.

   Work is charged when it is submitted, by what it may take, and settled by what events measured. Measuring costs two event
   records, so launches are gathered in batches per stream: one pair around half a millisecond of launching, one pair for
   each long, unknown or uncertain kernel. What a batch used is the time between its events, less the gaps in which no stream
   of the process had anything to do, and less what other streams and processes of the allocation were charged for already
   (timeline.h). A gap is never concluded from a prediction alone where it matters: the driver is asked, at
   most every LIMITER_QUERY_NS, whether the stream is really idle. A thread that waits for the card, else the completion thread,
   closes a batch behind its last launch while that launch still runs; what was found idle already ran at most that long.
   Predictions (a mean, and how far off it was) decide what may be in flight and when to close, never what was used.

   Without a measurement everything is charged as predicted and an unknown launch as LIMITER_UNKNOWN_NS: too much
   rather than nothing. */
#ifndef GPUPOOL_LIMITER_H
#define GPUPOOL_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include "gpupool/region.h"

#define LIMITER_UNKNOWN_NS 2000000ull     /* charged for what was never measured; nothing else may be in flight then */
#define LIMITER_LONG_NS 500000ull         /* a launch predicted longer has a pair of events of its own */
#define LIMITER_BATCH_NS 2000000ull       /* predicted length at which a batch is closed */
#define LIMITER_BATCH_WALL_NS 500000ull   /* the same by the clock */
#define LIMITER_BATCH_LAUNCHES 1024u
#define LIMITER_SAMPLE_EVERY 16u          /* one batch in so many, drawn, is a single launch, to keep learning */
#define LIMITER_QUERY_NS 25000ull           /* a stream with uncertain work is asked whether it is busy no more often */
#define LIMITER_QUERY_CERTAIN_NS 50000ull     /* the same for one whose work always took as long */
#define LIMITER_AHEAD_NS 50000ull         /* charged at once for launches to come, of short certain work: two atomic additions fewer for each */
#define LIMITER_DOUBT_NS 100000ull        /* what may take longer and is uncertain has its own events if its stream was idle */
#define LIMITER_BESIDE_NS 2000000ull      /* what should be over so soon has its own events where several streams run side by side, */
#define LIMITER_BESIDE_LEAST_NS 10000ull  /* as soon as it is so long: two records cost a microsecond or two */
#define LIMITER_UNCERTAIN_NS 5000ull     /* what varies and may take as long is uncertain: a gap behind it cannot be told from its length */
#define LIMITER_WAKE_NS 50000ull          /* what a wait of the host may take beyond the work it waits for */
#define LIMITER_CONTENDED_NS 100000000ull /* since another process of the allocation had work in flight: it may have it again */
#define LIMITER_STALE_NS 100000ull        /* a batch that should be over so long, and got no launch, is closed */
#define LIMITER_STALE_DOUBT_NS 50000ull   /* the same, since its last launch, for one that is uncertain */
#define LIMITER_LONGEST_NS 60000000000ull /* a prediction is never longer */
#define LIMITER_LINGER_NS 200000ull       /* idle so long while others wait: say so */
#define LIMITER_RING_NS 500000ull         /* a process rings no more often: its threads may wait and go on many times between */
#define LIMITER_PERIOD_NS 100000000ull    /* of the static duty cycle */
#define LIMITER_STATIC_LEAST_MILLI 10u    /* what a share without a promise gets of it */

/* --- predictions: a set-associative table of single words, so that no lock is needed and a lost update costs one sample --- */

#define LIMITER_SETS 512u
#define LIMITER_WAYS 8u

struct limiter_predictions {
    _Alignas(64) _Atomic uint64_t entry[LIMITER_SETS][LIMITER_WAYS];
};

struct limiter_cost {
    uint64_t key;
    uint64_t predicted_ns; /* what it may take: charged until it was measured */
    uint64_t mean_ns;      /* what it takes on average */
    bool known, uncertain;
};

/* What a launch of `what` (a function, a graph, a kind of copy) with `size` blocks or bytes is remembered under: sizes within
   half an octave share a key. */
uint64_t limiter_key(uint64_t what, uint64_t size);
void limiter_predict(const struct limiter_predictions *predictions, uint64_t key, struct limiter_cost *cost);
void limiter_learn(struct limiter_predictions *predictions, uint64_t key, uint64_t measured_ns);
/* It took far longer than predicted and was not alone between its events: not its length is known, only that it is uncertain. */
void limiter_doubt(struct limiter_predictions *predictions, uint64_t key, uint64_t off_ns);
void limiter_forget(struct limiter_predictions *predictions, uint64_t key);

/* --- admission --- */

#define LIMITER_GAPS 16u       /* that a batch can name; it is closed before there are more */
#define LIMITER_KNOWN_GAPS 64u /* of a card; a power of two */

/* No stream of the process had anything to do, by the host's clock. */
struct limiter_gap {
    uint64_t from_ns, to_ns;
};

/* Written by launching threads without a lock: of two that write one entry at once, one loses its gap. */
struct limiter_known_gap {
    _Atomic uint64_t from_ns, to_ns;
};

/* Launches of one stream that are charged and settled together. */
struct limiter_batch {
    uint64_t predicted_ns, mean_ns, key, opened_ns;
    uint64_t due_ns;   /* when it is expected to be done */
    uint64_t idle_ns;  /* taken: the sum of its gaps */
    uint64_t used_ns;  /* closed without an end event: what it used, as far as can be told */
    uint64_t ahead_ns; /* charged for launches that are still to come */
    uint64_t first_gap; /* how many gaps its card had when it was opened */
    uint32_t launches, gaps;
    bool single, uncertain; /* single: learn its key */
    struct limiter_gap gap[LIMITER_GAPS]; /* taken: those between its opening and its closing, ascending */
};

struct limiter_card {
    const struct fence_device_limit *limit;
    const struct fence_grant *grant;
    struct fence_usage_device *usage; /* of the allocation */
    struct fence_slot_device *slot;   /* of this process */
    _Atomic uint64_t alone_since_ns;  /* 0: there is an arbiter; else the static duty cycle holds since then */
    _Atomic uint64_t alone_charged_ns;
    _Atomic uint64_t last_ring_ns; /* when the doorbell was last rung */
    /* When everything that this process launched is expected to be done; and the stream that launched all of it since the card was
       idle, NULL: several. Written without a lock: a lost update moves one gap. */
    _Atomic uint64_t busy_until_ns;
    _Atomic(const void *) busy_with;
    _Atomic uint64_t gaps; /* ever found */
    struct limiter_known_gap gap[LIMITER_KNOWN_GAPS];
    _Atomic uint64_t contended_ns; /* when another process of the allocation was last seen with work in flight */
    _Atomic uint64_t beside_ns; /* when several streams of this process last had work at once */
    uint64_t looked_ns; /* when the other processes were last looked at; used by the completion thread alone */
    struct fence_timeline *timeline; /* of the allocation, or of this process alone; NULL: no memory */
    struct limiter_predictions predictions;
};

enum limiter_verdict {
    LIMITER_GO,
    LIMITER_WAIT_OWN,  /* until something of this process is done */
    LIMITER_WAIT_GRANT /* until the grant's word changes; alone: until limiter_static_next() */
};

/* No throttle on this card: nothing is asked, all is counted. */
static inline bool limiter_is_free(const struct limiter_card *card)
{
    return card->limit->gpu_milli >= 1000 && card->limit->sharing == FENCE_FIXED;
}

/* After LIMITER_GO the cost is charged and in flight, until limiter_settle() or limiter_withdraw(). */
enum limiter_verdict limiter_admit(struct limiter_card *card, const struct limiter_cost *cost, uint64_t now);
/* The launch failed: it never was. */
void limiter_withdraw(struct limiter_card *card, uint64_t predicted_ns);
/* The batch's work is done and used `used_ns` of the card. */
void limiter_settle(struct limiter_card *card, const struct limiter_batch *batch, uint64_t used_ns);

/* For a thread that waits for a grant. 0: ring now (one thread gets this answer), else when to ask again. */
uint64_t limiter_ring_at(struct limiter_card *card, uint64_t now);

/* Whether the arbiter waits to hear that nothing is in flight: 0 no, else the moment from which it is to be told (`idle_since`:
   when the last work was seen finished). */
uint64_t limiter_notify_at(const struct limiter_card *card, uint64_t idle_since);

/* Whether a thread that waits since `since` must take the arbiter for lost. */
bool limiter_arbiter_lost(const struct limiter_card *card, uint64_t since, uint64_t now);
void limiter_go_alone(struct limiter_card *card, uint64_t now);
void limiter_rejoin(struct limiter_card *card);
/* Alone: the next moment at which limiter_admit() may answer differently. */
uint64_t limiter_static_next(const struct limiter_card *card, uint64_t now);

/* --- batches: the caller serialises calls on one stream --- */

struct limiter_stream {
    struct limiter_card *card;
    uint64_t busy_until_ns, queried_ns, launched_ns;
    uint64_t wake_ns; /* what a wait of the host took beyond the work that it waited for, on average */
    uint32_t batches;
    bool alone; /* every launch has events of its own */
    struct limiter_batch open; /* launches == 0: none */
};

enum limiter_close {
    LIMITER_KEEP,
    LIMITER_CLOSE_TIMED,    /* record an end event now; it will be measured */
    LIMITER_CLOSE_IDLE      /* no event: all of it is over, settled by used_ns */
};

/* The same as limiter_admit, for the next launch into this stream. Short work whose length is certain is charged some launches ahead,
   which then ask for nothing but the time. */
enum limiter_verdict limiter_pass(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now);

/* Whether the driver is to be asked now if the stream is still busy; the answer goes to limiter_note_query(). */
bool limiter_needs_query(const struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now);
void limiter_note_query(struct limiter_stream *stream, bool busy, uint64_t now);

/* Before a launch: what to do with the batch that is open. Closing takes it by limiter_take(). */
enum limiter_close limiter_before(const struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now);
/* The launch was made. True before it, from limiter_opens(): a start event had to be recorded. */
bool limiter_opens(const struct limiter_stream *stream);
enum limiter_close limiter_after(struct limiter_stream *stream, const struct limiter_cost *cost, uint64_t now);
/* Nothing more is launched for now: the host waits, or nothing came for long. `busy`: the driver says so. */
enum limiter_close limiter_flush(struct limiter_stream *stream, bool busy, uint64_t now);
/* The host is about to wait for the stream: whether what is open is to be flushed. What is short and certain is left open, and
   the wait itself bounds it: limiter_note_wait() returns how far it was off. */
bool limiter_flushes_before_wait(const struct limiter_stream *stream, uint64_t now);
uint64_t limiter_note_wait(struct limiter_stream *stream, uint64_t since, uint64_t now);
/* Another process of the allocation has work on the card now and then. */
bool limiter_is_contended(const struct limiter_card *card, uint64_t now);
/* Nothing of this process is left to do on the card. */
void limiter_note_all_idle(struct limiter_card *card, uint64_t now);
/* When an open batch that gets no launch is to be flushed. */
uint64_t limiter_stale_at(const struct limiter_stream *stream);
struct limiter_batch limiter_take(struct limiter_stream *stream, uint64_t now);
/* Learns from a measured batch: `alone_ns` between its events, `used_ns` of the card beside what ran at the same time. */
void limiter_note_measurement(struct limiter_predictions *predictions, const struct limiter_batch *batch, uint64_t alone_ns,
                              uint64_t used_ns);

#endif
