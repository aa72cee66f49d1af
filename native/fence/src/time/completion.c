#include "completion.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"

/* Asked rather than waited for inside the driver: a thread of ours in there could not be kept from a context that the program
   destroys. The first question comes when the batch is due, the next ones later the longer it takes. */
#define FIRST_AGAIN_NS 20000ull
#define LAST_AGAIN_NS 1000000ull
#define NEVER COMPLETION_NEVER

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- events --- */

static struct event_context *context_of(struct completion *h, CUcontext context)
{
    struct event_context *empty = NULL;
    for (uint32_t i = 0; i < COMPLETION_CONTEXTS; i++) {
        if (h->context[i].context == context)
            return &h->context[i];
        if (!h->context[i].context && !empty)
            empty = &h->context[i];
    }
    if (empty)
        *empty = (struct event_context){.context = context};
    return empty;
}

CUevent take_event(struct completion *h, CUcontext context)
{
    CUevent event = NULL;
    pthread_mutex_lock(&h->lock);
    bool ended = h->ended;
    struct event_context *c = ended ? NULL : context_of(h, context);
    if (c && c->spares)
        event = c->spare[--c->spares];
    pthread_mutex_unlock(&h->lock);
    if (!ended && !event && fence_real.cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return NULL;
    return event;
}

static void wake_waiters(struct limiter_card *card)
{
    if (atomic_load(&card->slot->waiters))
        syscall(SYS_futex, &card->grant->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void settle(struct completion *h, struct limiter_card *cards, const struct submitted_batch *batch)
{
    struct event_context *c = context_of(h, batch->context);
    struct limiter_card *card = &cards[batch->card];
    uint64_t used = measure_batch(c, card, batch, fence_now_ns());
    give_back_event(c, batch->start);
    give_back_event(c, batch->end);
    limiter_settle(card, &batch->it, used);
    wake_waiters(card);
}

/* --- batches --- */

/* When to ask for this batch (again); 0: it is over. */
static uint64_t ask(const struct submitted_batch *batch, uint64_t now)
{
    if (batch->is_ending)
        return NEVER;
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
static bool is_behind(const struct completion *h, uint32_t kept, uint64_t stream_key)
{
    for (uint32_t i = 0; i < kept; i++)
        if (stream_key && h->pending[i].stream_key == stream_key)
            return true;
    return false;
}

static uint64_t reap(struct completion *h, struct limiter_card *cards, uint64_t now)
{
    uint64_t next = NEVER;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        const struct submitted_batch *batch = &h->pending[i];
        uint64_t again = is_behind(h, kept, batch->stream_key) ? NEVER : ask(batch, now);
        if (again == 0) {
            settle(h, cards, batch);
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

/* The arbiter may wait to hear that nothing of this process runs. Adds to `idle` the cards whose moment has come. */
static uint64_t note_idle_cards(struct completion *h, const struct limiter_card *cards, uint64_t now, uint32_t *idle)
{
    uint64_t next = NEVER;
    for (uint32_t d = 0; d < FENCE_MAX_DEVICES; d++) {
        uint64_t since = h->idle_since[d], at = since ? limiter_notify_at(&cards[d], since) : 0;
        if (at > now) {
            next = sooner(next, at);
            continue;
        }
        h->idle_since[d] = 0;
        *idle |= at ? 1u << d : 0;
    }
    return next;
}

uint64_t completion_look(struct completion *h, struct limiter_card *cards, uint64_t now, uint32_t *idle)
{
    uint64_t next = NEVER;
    pthread_mutex_lock(&h->lock);
    if (!h->ended) {
        next = sooner(next, reap(h, cards, now));
        next = sooner(next, note_idle_cards(h, cards, fence_now_ns(), idle));
    }
    pthread_mutex_unlock(&h->lock);
    return next;
}

void completion_ring(struct completion *h)
{
    atomic_fetch_add(&h->bell, 1);
    if (atomic_load(&h->sleeping))
        syscall(SYS_futex, &h->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The completion thread may have been without a processor for long: then the launching thread settles batches itself
   before anything is given up. */
static bool keep(struct completion *h, struct limiter_card *cards, const struct submitted_batch *batch)
{
    if (!h->ended && h->count == COMPLETION_PENDING)
        reap(h, cards, fence_now_ns());
    h->idle_since[batch->card] = 0;
    if (h->ended || h->count == COMPLETION_PENDING)
        return false;
    h->pending[h->count] = *batch;
    atomic_store_explicit(&h->count, h->count + 1, memory_order_relaxed);
    return true;
}

/* Settled as predicted; an event may be recorded again before it has happened. */
static void give_up(struct completion *h, struct limiter_card *cards, const struct submitted_batch *batch)
{
    if (!h->ended) {
        struct event_context *c = context_of(h, batch->context);
        give_back_event(c, batch->start);
        give_back_event(c, batch->end);
    }
    limiter_settle(&cards[batch->card], &batch->it, batch->it.mean_ns);
}

void completion_push(struct completion *h, struct limiter_card *cards, const struct submitted_batch *batch)
{
    pthread_mutex_lock(&h->lock);
    if (!keep(h, cards, batch))
        give_up(h, cards, batch);
    pthread_mutex_unlock(&h->lock);
}

void completion_context_ending(struct completion *h, struct limiter_card *cards, CUcontext context)
{
    uint32_t kept = 0;
    pthread_mutex_lock(&h->lock);
    for (uint32_t i = 0; i < h->count; i++) {
        struct submitted_batch *batch = &h->pending[i];
        if (batch->context == context && batch->end && fence_real.cuEventQuery(batch->end) == CUDA_SUCCESS) {
            settle(h, cards, batch);
            continue;
        }
        if (batch->context == context) {
            batch->start = batch->end = NULL;
            batch->is_ending = true;
        }
        h->pending[kept++] = *batch;
    }
    h->count = kept;
    for (uint32_t i = 0; i < COMPLETION_CONTEXTS; i++)
        if (h->context[i].context == context)
            h->context[i].context = NULL; /* its events end with it */
    pthread_mutex_unlock(&h->lock);
}

static void settle_ended(struct limiter_card *card, struct submitted_batch *batch, bool is_over)
{
    struct limiter_batch *it = &batch->it;
    uint64_t now = fence_now_ns(), span = now - it->opened_ns;
    it->used_ns = span > it->idle_ns ? span - it->idle_ns : 0;
    limiter_settle(card, it, is_over ? measure_batch(NULL, card, batch, now) : it->mean_ns);
    wake_waiters(card);
}

void completion_context_ended(struct completion *h, struct limiter_card *cards, CUcontext context, bool is_over)
{
    uint32_t kept = 0;
    pthread_mutex_lock(&h->lock);
    for (uint32_t i = 0; i < h->count; i++) {
        struct submitted_batch *batch = &h->pending[i];
        if (batch->is_ending && batch->context == context)
            settle_ended(&cards[batch->card], batch, is_over);
        else
            h->pending[kept++] = *batch;
    }
    h->count = kept;
    pthread_mutex_unlock(&h->lock);
}

void completion_end(struct completion *h)
{
    struct timespec at_most;
    clock_gettime(CLOCK_REALTIME, &at_most);
    at_most.tv_nsec += 100000000;
    at_most.tv_sec += at_most.tv_nsec / 1000000000;
    at_most.tv_nsec %= 1000000000;
    bool locked = !pthread_mutex_timedlock(&h->lock, &at_most); /* the thread that called exit() may hold it */
    h->ended = true;
    if (locked)
        pthread_mutex_unlock(&h->lock);
}
