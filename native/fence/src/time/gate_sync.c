/* Calls in which the host waits: the open batch is closed and measured, or bounded by the wait itself. */
#include "gate.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/state.h"

static void before_wait(struct gate *g, struct gate_stream *s, uint64_t now)
{
    if (limiter_flushes_before_wait(&s->batches, now))
        gate_flush_from_outside(g, s, now);
}

static void after_wait(struct gate *g, struct gate_stream *s, uint64_t since)
{
    uint64_t off = limiter_note_wait(&s->batches, since, fence_now_ns());
    if (off)
        limiter_doubt(&g->card[s->card].predictions, s->batches.open.key, off);
}

/* Never waits for a stream that is being launched into. `since`: 0 before the wait. The entry may have been given to a stream
   of another context meanwhile. */
static void at_wait(struct gate *g, struct gate_stream *s, CUcontext context, uint64_t since, uint64_t now)
{
    if (!stream_lock_try(&s->lock))
        return;
    if (!context || s->context == context) {
        if (since)
            after_wait(g, s, since);
        else
            before_wait(g, s, now);
    }
    stream_lock_leave(&s->lock);
}

static void at_wait_for_all(struct gate *g, uint64_t since, uint64_t now)
{
    CUcontext context = NULL;
    if (fence_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return;
    for (uint32_t word = 0; word < GATE_STREAMS / 64; word++)
        for (uint64_t left = atomic_load_explicit(&g->taken[word], memory_order_relaxed); left; left &= left - 1) {
            struct gate_stream *s = &g->stream[word * 64 + (uint32_t)__builtin_ctzll(left)];
            if (s->context == context && s->stream != CU_STREAM_PER_THREAD)
                at_wait(g, s, context, since, now);
        }
}

/* All of a context is over, and the process has one context on a card as a rule. */
static void note_all_idle(struct gate *g, uint64_t now)
{
    int card = card_of_current();
    if (card >= 0)
        limiter_note_all_idle(&g->card[card], now);
}

static void wait_of_host(const CUstream *stream, uint64_t since, uint64_t now)
{
    struct gate *g = fence_ready() ? gate() : NULL;
    struct gate_stream *s = g && stream ? gate_known(g, *stream ? *stream : CU_STREAM_LEGACY) : NULL;
    if (s)
        at_wait(g, s, NULL, since, now);
    else if (g && !stream)
        at_wait_for_all(g, since, now);
    if (g && !stream && since)
        note_all_idle(g, fence_now_ns());
}

uint64_t gate_wait_begins(const CUstream *stream)
{
    uint64_t now = fence_now_ns();
    wait_of_host(stream, 0, now);
    return now;
}

void gate_wait_ends(const CUstream *stream, uint64_t since)
{
    wait_of_host(stream, since, 0);
}
