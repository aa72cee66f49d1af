/* Waits until a card has time for a launch, and finds out when the arbiter is gone. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "gate.h"
#include "process/state.h"

#define OWN_WAIT_NS 2000000ull    /* work of this process ends in between: the completion thread wakes the waiting ones */
#define GRANT_WAIT_NS 20000000ull /* longest between two looks at whether the arbiter lives */

static void sleep_on(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    struct timespec at_most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &at_most, NULL, 0);
}

/* The batch that is open would be measured only when it is full: nothing more comes for now. */
static void close_open(struct gate *g, struct gate_stream *s)
{
    if (!stream_lock_try(&s->lock))
        return;
    if (!s->is_shared)
        gate_flush(g, s, fence_now_ns());
    stream_lock_leave(&s->lock);
}

static uint64_t until(uint64_t at, uint64_t now, uint64_t most)
{
    return at <= now ? 1000 : at - now < most ? at - now : most;
}

/* Alone it tries the doorbell now and then; a beat that is younger than the loneliness ends it. */
static uint64_t alone_for(struct limiter_card *card, int index, uint64_t now)
{
    if (limiter_ring_at(card, now) == 0)
        fence_ring(FENCE_BELL_RING, (uint32_t)index);
    return until(limiter_static_next(card, now), now, GRANT_WAIT_NS);
}

static uint64_t wait_for(struct limiter_card *card, int index, enum limiter_verdict verdict, uint64_t since, uint64_t now)
{
    if (atomic_load_explicit(&card->alone_since_ns, memory_order_relaxed))
        return alone_for(card, index, now);
    if (verdict == LIMITER_WAIT_OWN)
        return OWN_WAIT_NS;
    if (limiter_arbiter_lost(card, since, now))
        limiter_go_alone(card, now);
    uint64_t again = limiter_ring_at(card, now);
    if (again)
        return until(again, now, GRANT_WAIT_NS);
    fence_ring(FENCE_BELL_RING, (uint32_t)index);
    return GRANT_WAIT_NS;
}

/* Whether the card must not get work now. Ends the mode without an arbiter once its beat is back. */
static bool is_held(const struct gate *g, struct limiter_card *card)
{
    if (__builtin_expect(completion_is_behind(&g->completion) && !limiter_is_free(card), 0))
        return true;
    uint64_t alone = atomic_load_explicit(&card->alone_since_ns, memory_order_relaxed);
    if (alone && atomic_load(&card->grant->beat_ns) > alone)
        limiter_rejoin(card);
    return false;
}

static enum limiter_verdict ask(const struct gate *g, struct limiter_card *card, const struct limiter_cost *cost, uint64_t now)
{
    return is_held(g, card) ? LIMITER_WAIT_OWN : limiter_admit(card, cost, now);
}

enum limiter_verdict gate_pass(const struct gate *g, struct gate_stream *s, const struct limiter_cost *cost, uint64_t now)
{
    return is_held(g, s->batches.card) ? LIMITER_WAIT_OWN : limiter_pass(&s->batches, cost, now);
}

/* Whether only its own share holds it back: no other allocation has the card. */
static bool is_used_up(const struct limiter_card *card, enum limiter_verdict verdict)
{
    uint32_t holder = atomic_load(&card->grant->holder);
    return holder == FENCE_USED_UP || (holder == FENCE_HOLDING && verdict == LIMITER_WAIT_GRANT);
}

static void count_wait(struct limiter_card *card, uint64_t waited, bool used_up)
{
    atomic_fetch_add(&card->slot->wait_ns, waited);
    if (used_up)
        atomic_fetch_add(&card->slot->throttled_ns, waited);
}

uint64_t gate_wait_in_line(struct gate *g, struct limiter_card *card, struct gate_stream *s, int index,
                           const struct limiter_cost *cost)
{
    uint64_t since = fence_now_ns(), now = since;
    bool used_up = false, rung = false;
    atomic_fetch_add(&card->slot->waiters, 1);
    close_open(g, s);
    for (;; now = fence_now_ns()) {
        uint32_t word = atomic_load(&card->grant->word);
        enum limiter_verdict verdict = ask(g, card, cost, now);
        if (verdict == LIMITER_GO)
            break;
        used_up |= is_used_up(card, verdict);
        uint64_t ns = wait_for(card, index, verdict, since, now);
        if (!rung)
            completion_ring(&g->completion);
        rung = true;
        sleep_on(&card->grant->word, word, ns);
    }
    atomic_fetch_sub(&card->slot->waiters, 1);
    count_wait(card, now - since, used_up);
    return now;
}

uint64_t gate_wait(struct gate *g, struct limiter_card *card, struct gate_stream *s, int index, const struct limiter_cost *cost)
{
    uint64_t now = fence_clock_ns();
    if (__builtin_expect(ask(g, card, cost, now) == LIMITER_GO, 1))
        return now;
    return gate_wait_in_line(g, card, s, index, cost);
}
