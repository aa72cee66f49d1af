/* The engine: when work on simulated cards starts and ends. Pure: no system call, no clock, no pointer in the state. Time is an
   argument in nanoseconds and the state lies in the caller's memory, so that it can be shared between processes
   or driven by a discrete-event program.

   A card runs contexts (one per process and card) whose streams are queues of work. Two modes:

   ENGINE_TIME_SLICE  the card's compute part belongs to one context at a time, for a slice; a context with nothing to run gives
                      it on at once. A kernel is preempted at the end of a slice and goes on in the next, so the time between
                      two events of one process contains its neighbours' slices, as on a real card.
   ENGINE_TOGETHER    all contexts at once, as under MPS.

   Whatever runs at one moment runs at full rate while the widths add up to the card; beyond, streams of higher priority get
   their width first, and those of one priority share what is left in proportion. Copies to and from the host do not take part in slices: each direction is a link that its copies share.
   Event records and waits take no time but need the context's turn, like the semaphores they are on a card; behind a copy
   they do not.

   State is only touched by one caller at a time (a lock is the caller's business) and may be left in the middle of any
   function by a caller that was killed: engine_repair() then makes it whole, losing at most the item being
   submitted, and counting at most one step of time twice. Every function that takes `now` first advances to it; a `now` in the past counts as the present. */
#ifndef GPUPOOL_SIM_ENGINE_H
#define GPUPOOL_SIM_ENGINE_H

#include <stdint.h>

#define ENGINE_CARDS 128u
#define ENGINE_CONTEXTS 1024u /* pairs of process and card at one time */
#define ENGINE_STREAMS 256u   /* per context; 0 is the legacy default stream and always there */
#define ENGINE_ITEMS 2048u    /* submitted and not done, per context */
#define ENGINE_QUEUE 1024u    /* of one stream; a real driver's launch blocks there */
#define ENGINE_EVENTS 16384u  /* per context */
#define ENGINE_WHOLE 1000u    /* width of a whole card */
#define ENGINE_NEVER UINT64_MAX
#define ENGINE_NO_EVENT UINT32_MAX
#define ENGINE_SAMPLES 32u
#define ENGINE_SAMPLE_NS 100000000ull /* one sample of the load: 100 ms, so 3.2 s are remembered */

enum engine_mode { ENGINE_TIME_SLICE = 0, ENGINE_TOGETHER = 1 };

enum engine_kind {
    ENGINE_KERNEL = 1,   /* the compute part, `width_milli` of it */
    ENGINE_GRAPH = 2,    /* a captured sequence as one piece of `duration_ns`, counted as `launches` launches */
    ENGINE_MEMSET = 3,   /* the compute part */
    ENGINE_COPY_DEVICE = 4, /* on the card: the compute part */
    ENGINE_COPY_IN = 5,  /* host to card, or from a peer: the inward link */
    ENGINE_COPY_OUT = 6, /* card to host: the outward link */
    ENGINE_RECORD = 7,   /* writes the moment into `event` */
    ENGINE_WAIT = 8,     /* until `after` is done, in any stream of any context of any card */
    ENGINE_HOST = 9,     /* until engine_release(): a host callback, a wait for a value in memory */
    ENGINE_NOTHING = 10, /* done when its turn comes: a marker to wait for */
};

enum engine_stream_flags {
    ENGINE_NON_BLOCKING = 1, /* takes no part in the legacy default stream's ordering */
};

/* What happened when: `seq` is the place in the stream, from 1. Stays meaningful after its stream or context is gone: it
   is then done. A zeroed ticket is done. */
struct engine_ticket {
    uint32_t context, generation, stream, unused;
    uint64_t seq;
};

struct engine_work {
    uint32_t kind;
    uint32_t width_milli;       /* 1..ENGINE_WHOLE; 0 means whole. Only for what uses the compute part */
    uint64_t duration_ns;       /* alone on the card */
    uint64_t cookie;            /* the caller's, for ENGINE_HOST */
    uint32_t launches;          /* for ENGINE_GRAPH; others count as one */
    uint32_t event;             /* for ENGINE_RECORD, else ignored; ENGINE_NO_EVENT: none */
    struct engine_ticket after; /* for ENGINE_WAIT */
};

struct engine_config {
    uint32_t mode;      /* enum engine_mode */
    uint32_t cards;
    uint64_t slice_ns;  /* 0: 2 ms */
    uint64_t switch_ns; /* the card idles so long when it passes from one context to another */
};

/* --- the state: sizes are frozen by assertions in machine.h, where others read it --- */

struct engine_sample {
    uint64_t number; /* of the 100 ms since time zero that this is about */
    uint64_t busy_ns;
};

struct engine_item {
    uint64_t left;  /* work to do, in 1/1024 ns */
    uint64_t seq, order; /* place in the stream, place in the context */
    uint64_t cookie; /* or, of a wait, the seq waited for */
    uint64_t unused;
    uint32_t wait_generation, launches, event;
    uint16_t wait_context, wait_stream;
    uint16_t width, stream, next; /* next: index + 1 */
    uint8_t kind, state;
};

struct engine_stream {
    uint64_t submitted, completed; /* seq of the last one; never start anew while the context lives */
    uint64_t done_ns;              /* when the last one was done */
    uint16_t head, tail;           /* index + 1 */
    uint16_t queued;
    uint8_t state, link; /* link: the last timed work was a copy, so records behind it need no turn */
    uint32_t flags;
    int32_t priority;
    uint64_t unused[3];
};

struct engine_event {
    uint64_t done_ns; /* of the last record that is done */
    uint64_t used;
};

struct engine_context {
    uint64_t owner; /* the caller's word; 0: free */
    uint32_t generation;
    uint16_t card, free; /* free: head of the list of free items, index + 1 */
    uint32_t error;      /* not 0: failed for good; what is submitted is refused with it */
    uint32_t queued;     /* items of all streams */
    uint32_t fresh;      /* items from here on were never used */
    uint32_t hosts;      /* ENGINE_HOST items among the queued */
    uint64_t order;
    uint64_t active[ENGINE_STREAMS / 64]; /* streams with work */
    uint64_t gpu_ns;    /* the compute part ran something of it */
    uint64_t work_ns;   /* the same by width: what it would have been alone on a card of its width */
    uint64_t copy_ns, wait_ns; /* wait_ns: it had something queued, the card was another's */
    uint64_t launches, copies;
    uint32_t event_hint, events_fresh; /* where to look for a free event; events from there on were never used */
    uint64_t linked[ENGINE_STREAMS / 64]; /* of `active`: those whose next work needs no turn */
    uint64_t unused[4];
    struct engine_sample sample[ENGINE_SAMPLES];
    struct engine_stream stream[ENGINE_STREAMS];
    struct engine_item item[ENGINE_ITEMS];
    struct engine_event event[ENGINE_EVENTS];
};

struct engine_card {
    uint32_t current;    /* context that has the compute part, index + 1 */
    uint32_t last;       /* the context that had it last, index + 1: coming back costs no switch */
    uint64_t slice_end_ns, ready_ns; /* ready_ns: the switch is over */
    uint64_t busy_ns, copy_ns, switches, launches;
    uint64_t waiting[ENGINE_CONTEXTS / 64]; /* contexts with work queued; turns go round by index */
    uint64_t spare;
    struct engine_sample sample[ENGINE_SAMPLES];
};

struct engine {
    uint64_t now_ns;
    struct engine_config config;
    uint32_t high_water; /* contexts below it may be in use */
    uint32_t ready;      /* engine_init() has been here */
    uint64_t active[ENGINE_CARDS / 64]; /* cards with work */
    uint64_t unused[24];
    struct engine_card card[ENGINE_CARDS];
    struct engine_context context[ENGINE_CONTEXTS];
};

/* --- functions: 0 or an index when it worked, else -errno; a failed context answers with its error, which is > 0 --- */

/* `engine` is zeroed memory; nothing else of it is touched, so it may be sparse. */
void engine_init(struct engine *engine, const struct engine_config *config, uint64_t now);

/* A context for `owner` (not 0) on `card`; its index, or -ENOSPC, -EINVAL. */
int engine_context_create(struct engine *engine, uint32_t card, uint64_t owner, uint64_t now);
/* Its work is taken away as if the process had been killed; waits for it are over. */
void engine_context_destroy(struct engine *engine, uint32_t context, uint64_t now);
/* As an illegal address does: everything queued is dropped and counts as done, the context answers `error` from now on. */
void engine_context_fail(struct engine *engine, uint32_t context, uint32_t error, uint64_t now);

/* Index 1..255, or -ENOSPC: then several of the caller's streams must share one. */
int engine_stream_create(struct engine *engine, uint32_t context, uint32_t flags, int32_t priority);
/* What is queued is still done. */
void engine_stream_destroy(struct engine *engine, uint32_t context, uint32_t stream);
int engine_event_create(struct engine *engine, uint32_t context);
void engine_event_destroy(struct engine *engine, uint32_t context, uint32_t event);

/* 0 and a ticket (may be NULL); -EAGAIN: the queue is full, see engine_bound(engine_oldest()); -EINVAL; > 0: the context's error. */
int engine_submit(struct engine *engine, uint32_t context, uint32_t stream, const struct engine_work *work,
                  uint64_t now, struct engine_ticket *ticket);

/* Let everything happen that happens up to `now`. */
void engine_advance(struct engine *engine, uint64_t now);
/* The next moment at which something completes or the card changes hands, if nothing new comes; ENGINE_NEVER: nothing will. */
uint64_t engine_next_event(const struct engine *engine);

/* Whether it is done as of the engine's time. */
int engine_done(const struct engine *engine, const struct engine_ticket *ticket);
/* A moment before which it cannot be done, however lucky: worth sleeping until. Never in the past unless done;
   ENGINE_NEVER when only the host can make it go on. */
uint64_t engine_bound(const struct engine *engine, const struct engine_ticket *ticket);
/* The last one submitted to the stream (done at once if none was); the one that is done next. */
struct engine_ticket engine_last(const struct engine *engine, uint32_t context, uint32_t stream);
struct engine_ticket engine_oldest(const struct engine *engine, uint32_t context, uint32_t stream);
/* Nothing queued in any stream. */
int engine_idle(const struct engine *engine, uint32_t context);
/* When the last record into `event` was done; 0: never. */
uint64_t engine_event_ns(const struct engine *engine, uint32_t context, uint32_t event);

/* Returns 1 with cookie and ticket of an ENGINE_HOST item of the context whose turn has come and that was not returned yet; 0: none. */
int engine_host_ready(struct engine *engine, uint32_t context, uint64_t *cookie, struct engine_ticket *ticket);
/* When one may be ready at the earliest; ENGINE_NEVER: none is queued. */
uint64_t engine_host_bound(const struct engine *engine, uint32_t context);
/* The host has done its part. */
void engine_release(struct engine *engine, const struct engine_ticket *ticket, uint64_t now);

/* Nanoseconds of [from, to) in which a kernel ran on the card / of the context, by samples of 100 ms that are remembered. */
uint64_t engine_card_busy(const struct engine *engine, uint32_t card, uint64_t from, uint64_t to);
uint64_t engine_context_busy(const struct engine *engine, uint32_t context, uint64_t from, uint64_t to);

/* Repairs the state after a process was killed inside one of these functions. Takes some milliseconds. */
void engine_repair(struct engine *engine);
/* NULL, or what is wrong with the state. For tests. */
const char *engine_check(const struct engine *engine);

#endif
