#include "harvest.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gate.h"
#include "guard.h"
#include "real.h"
#include "state.h"

/* Asked rather than waited for inside the driver: a thread of ours in there could not be kept from a context that the program
   destroys. The first question comes when the batch is due, the next ones later the longer it takes. */
#define FIRST_AGAIN_NS 20000ull
#define LAST_AGAIN_NS 1000000ull
#define NEVER UINT64_MAX
#define STACK_BYTES (256u << 10)

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- events --- */

static struct harvest_context *context_of(struct harvest *h, CUcontext context)
{
    struct harvest_context *empty = NULL;
    for (uint32_t i = 0; i < HARVEST_CONTEXTS; i++) {
        if (h->context[i].context == context)
            return &h->context[i];
        if (!h->context[i].context && !empty)
            empty = &h->context[i];
    }
    if (empty)
        *empty = (struct harvest_context){.context = context};
    return empty;
}

CUevent harvest_event(struct harvest *h, CUcontext context)
{
    CUevent event = NULL;
    pthread_mutex_lock(&h->lock);
    bool ended = h->ended;
    struct harvest_context *c = ended ? NULL : context_of(h, context);
    if (c && c->spares)
        event = c->spare[--c->spares];
    pthread_mutex_unlock(&h->lock);
    if (!ended && !event && fence_real.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return NULL;
    return event;
}

static void settle(struct gate *g, const struct harvest_batch *batch)
{
    struct harvest_context *c = context_of(&g->harvest, batch->context);
    struct limiter_card *card = &g->card[batch->card];
    uint64_t used = harvest_measure(c, card, batch, fence_now_ns());
    harvest_give_back(c, batch->start);
    harvest_give_back(c, batch->end);
    limiter_settle(card, &batch->it, used);
    if (atomic_load(&card->slot->waiters))
        syscall(SYS_futex, &card->grant->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --- the thread --- */

/* When to ask for this batch (again); 0: it is over. */
static uint64_t ask(const struct harvest_batch *batch, uint64_t now)
{
    if (now < batch->it.due_ns && !batch->end)
        return batch->it.due_ns;
    if (!batch->end || fence_real.cuEventQuery(batch->end) != CUDA_ERROR_NOT_READY)
        return 0;
    if (now < batch->it.due_ns)
        return batch->it.due_ns;
    uint64_t late = (now - batch->it.due_ns) / 8;
    return now + (late < FIRST_AGAIN_NS ? FIRST_AGAIN_NS : sooner(late, LAST_AGAIN_NS));
}

/* Batches of one stream end in order: behind one that is not over nothing is asked. */
static bool is_behind(const struct harvest *h, uint32_t kept, uint64_t stream_key)
{
    for (uint32_t i = 0; i < kept; i++)
        if (stream_key && h->pending[i].stream_key == stream_key)
            return true;
    return false;
}

static uint64_t reap(struct gate *g, uint64_t now)
{
    struct harvest *h = &g->harvest;
    uint64_t next = NEVER;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct harvest_batch *batch = &h->pending[i];
        uint64_t again = is_behind(h, kept, batch->stream_key) ? NEVER : ask(batch, now);
        if (again == 0) {
            settle(g, batch);
            h->idle_since[batch->card] = now;
            continue;
        }
        next = sooner(next, again);
        if (kept != i)
            h->pending[kept] = *batch;
        kept++;
    }
    h->count = kept;
    return next;
}

/* When the open batch of a stream would be stale; closes it if it is. Never waits for a stream that is being launched into. */
static uint64_t close_if_stale(struct gate *g, struct gate_stream *s, uint64_t now)
{
    uint64_t due = NEVER;
    if (!stream_lock_try(&s->lock))
        return now + LIMITER_STALE_NS;
    if (!limiter_opens(&s->batches))
        due = limiter_stale_at(&s->batches);
    if (due <= now) {
        gate_flush_stale(g, s, now); /* while a capture is active it is not: the end of the capture rings */
        due = NEVER;
    }
    stream_lock_leave(&s->lock);
    return due;
}

/* Open batches that nobody goes on with are settled as predicted. */
static uint64_t close_stale(struct gate *g, uint64_t now)
{
    uint64_t next = NEVER;
    for (uint32_t word = 0; word < GATE_STREAMS / 64; word++)
        for (uint64_t left = atomic_load(&g->taken[word]); left; left &= left - 1)
            next = sooner(next, close_if_stale(g, &g->stream[word * 64 + (uint32_t)__builtin_ctzll(left)], now));
    return next;
}

/* The arbiter may wait to hear that nothing of this process runs. Adds to `cards` whose moment has come. */
static uint64_t to_tell(struct gate *g, uint64_t now, uint32_t *cards)
{
    uint64_t next = NEVER;
    for (uint32_t d = 0; d < FENCE_MAX_DEVICES; d++) {
        uint64_t since = g->harvest.idle_since[d], at = since ? limiter_tell_at(&g->card[d], since) : 0;
        if (at > now) {
            next = sooner(next, at);
            continue;
        }
        g->harvest.idle_since[d] = 0;
        *cards |= at ? 1u << d : 0;
    }
    return next;
}

static void tell(uint32_t cards)
{
    for (uint32_t d = 0; d < FENCE_MAX_DEVICES; d++)
        if (cards & 1u << d)
            fence_ring(FENCE_BELL_DRAINED, d);
}

static uint64_t look(struct gate *g, uint32_t *cards)
{
    struct harvest *h = &g->harvest;
    uint64_t now = fence_now_ns(), next = close_stale(g, now);
    pthread_mutex_lock(&h->lock);
    if (!h->ended) {
        next = sooner(next, reap(g, now));
        next = sooner(next, to_tell(g, fence_now_ns(), cards));
    }
    pthread_mutex_unlock(&h->lock);
    return next;
}

static void sleep_until(struct harvest *h, uint32_t seen, uint64_t at, uint64_t now)
{
    uint64_t ns = at > now ? at - now : 0;
    struct timespec wait = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    atomic_store(&h->sleeping, 1);
    syscall(SYS_futex, &h->bell, FUTEX_WAIT_PRIVATE, seen, at == NEVER ? NULL : &wait, NULL, 0);
    atomic_store(&h->sleeping, 0);
}

static void *work(void *context)
{
    struct gate *g = context;
    struct harvest *h = &g->harvest;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* else a capture in global mode forbids us to ask for events */
    fence_inside = 1;
    fence_real.cuThreadExchangeStreamCaptureMode(&mode);
    prctl(PR_SET_NAME, "gpupool-harvest");
    prctl(PR_SET_TIMERSLACK, 1000ul);
    while (!h->ended) {
        uint32_t seen = atomic_load(&h->bell), cards = 0;
        uint64_t next = look(g, &cards);
        tell(cards);
        sleep_until(h, seen, next, fence_now_ns());
    }
    return NULL;
}

static void start(struct gate *g)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (atomic_exchange(&g->harvest.started, true))
        return;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attributes, work, g))
        atomic_store(&g->harvest.started, false); /* tried again with the next batch */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void harvest_ring(struct harvest *h)
{
    atomic_fetch_add(&h->bell, 1);
    if (atomic_load(&h->sleeping))
        syscall(SYS_futex, &h->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The thread may not have had a processor for long: then whoever launches looks himself before anything is given up. */
static bool keep(struct gate *g, const struct harvest_batch *batch)
{
    struct harvest *h = &g->harvest;
    if (!h->ended && h->count == HARVEST_PENDING)
        reap(g, fence_now_ns());
    h->idle_since[batch->card] = 0;
    if (h->ended || h->count == HARVEST_PENDING)
        return false;
    h->pending[h->count] = *batch;
    atomic_store_explicit(&h->count, h->count + 1, memory_order_relaxed);
    return true;
}

/* Settled as predicted; an event may be recorded again before it has happened. */
static void give_up(struct gate *g, const struct harvest_batch *batch)
{
    if (!g->harvest.ended) {
        struct harvest_context *c = context_of(&g->harvest, batch->context);
        harvest_give_back(c, batch->start);
        harvest_give_back(c, batch->end);
    }
    limiter_settle(&g->card[batch->card], &batch->it, batch->it.mean_ns);
}

void harvest_push(struct gate *g, const struct harvest_batch *batch)
{
    struct harvest *h = &g->harvest;
    pthread_mutex_lock(&h->lock);
    if (!keep(g, batch))
        give_up(g, batch);
    pthread_mutex_unlock(&h->lock);
    start(g);
    harvest_ring(h);
}

void harvest_context_ending(struct gate *g, CUcontext context)
{
    struct harvest *h = &g->harvest;
    uint32_t kept = 0;
    pthread_mutex_lock(&h->lock);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct harvest_batch *batch = &h->pending[i];
        if (batch->context != context)
            h->pending[kept++] = *batch;
        else if (batch->end && fence_real.cuEventQuery(batch->end) == CUDA_SUCCESS)
            settle(g, batch);
        else
            limiter_settle(&g->card[batch->card], &batch->it, batch->it.mean_ns);
    }
    h->count = kept;
    for (uint32_t i = 0; i < HARVEST_CONTEXTS; i++)
        if (h->context[i].context == context)
            h->context[i].context = NULL; /* its events end with it */
    pthread_mutex_unlock(&h->lock);
}

void harvest_end(struct harvest *h)
{
    struct timespec at_most;
    clock_gettime(CLOCK_REALTIME, &at_most);
    at_most.tv_nsec += 100000000;
    at_most.tv_sec += at_most.tv_nsec / 1000000000;
    at_most.tv_nsec %= 1000000000;
    bool locked = !pthread_mutex_timedlock(&h->lock, &at_most); /* exit() may have been called by whoever holds it */
    h->ended = true;
    if (locked)
        pthread_mutex_unlock(&h->lock);
}
