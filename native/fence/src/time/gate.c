/* fence_work_begin and fence_work_end, which the generated wrappers call around every piece of work for a card. */
#include "gate.h"

#include "clock.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"
#include "work.h"

/* In the work's own words between begin and end. */
struct passage {
    struct gate_stream *stream; /* locked, if the work is not synchronous */
    struct limiter_cost cost;
    CUevent start;              /* of a synchronous piece that is measured */
};

#define ENTERED 6 /* the last word: this call came from the program */
_Static_assert(sizeof(struct passage) <= ENTERED * sizeof(uint64_t), "the state is too small");

static struct passage *passage_of(struct fence_work *work)
{
    return (struct passage *)work->state;
}

static uint64_t key_of(const struct fence_work *work)
{
    uint64_t what = (uint64_t)(uintptr_t)work->key + (uint64_t)work->kind * 8 + (uint64_t)work->copy;
    return limiter_key(what, work->units);
}

/* The shared entry stands for the stream of the thread that holds its lock. */
static void stand_for(struct gate_stream *s, CUstream stream)
{
    if (!s->is_shared)
        return;
    s->stream = stream;
    fence_real.cuStreamGetCtx(stream, &s->context);
}

static void lock_stream(struct gate_stream *s, CUstream stream)
{
    stream_lock_take(&s->lock);
    stand_for(s, stream);
}

/* Admits the launch, which came at `now`, and returns when that was, with the stream's lock. */
static uint64_t lock_and_pass(struct gate *g, struct passage *passage, CUstream stream, uint64_t now)
{
    struct gate_stream *s = passage->stream;
    if (__builtin_expect(!stream_lock_try(&s->lock), 0)) {
        stream_lock_wait(&s->lock);
        now = fence_clock_ns();
    }
    stand_for(s, stream);
    if (__builtin_expect(gate_pass(g, s, &passage->cost, now) == LIMITER_GO, 1))
        return now;
    stream_lock_leave(&s->lock);
    now = gate_wait_in_line(g, &g->card[s->card], s, s->card, &passage->cost);
    lock_stream(s, stream);
    return now;
}

static void begin_launch(struct gate *g, struct passage *passage, CUstream stream, uint64_t came)
{
    struct gate_stream *s = passage->stream;
    uint64_t now = lock_and_pass(g, passage, stream, came);
    s->launched_ns = now;
    if (!limiter_is_free(&g->card[s->card]) && limiter_needs_query(&s->batches, &passage->cost, now))
        limiter_note_query(&s->batches, gate_is_busy(g, s), now);
    gate_close(g, s, limiter_before(&s->batches, &passage->cost, now), now);
    if (limiter_opens(&s->batches))
        s->start = gate_record(g, s);
}

/* The lock is not kept while the program waits for its copy; only one in so many is measured, and every uncertain one. */
static void begin_synchronous(struct gate *g, struct passage *passage, CUstream stream, uint64_t now)
{
    struct gate_stream *s = passage->stream;
    lock_stream(s, stream);
    gate_flush(g, s, now);
    if (!passage->cost.known || passage->cost.uncertain || ++s->batches.batches % LIMITER_SAMPLE_EVERY == 0)
        passage->start = gate_record(g, s);
    stream_lock_leave(&s->lock);
}

static void pass(struct gate *g, struct fence_work *work)
{
    uint64_t now = fence_clock_ns(); /* first: the processor goes on meanwhile */
    struct passage *passage = passage_of(work);
    struct gate_stream *s = gate_is_captured(g, work->stream) ? NULL : gate_find(g, work->stream);
    struct limiter_card *card = s ? gate_card(g, s->card) : NULL;
    if (!card)
        return;
    limiter_predict(&card->predictions, key_of(work), &passage->cost);
    passage->stream = s;
    passage->start = NULL;
    if (work->synchronous)
        begin_synchronous(g, passage, work->stream, gate_wait(g, card, s, s->card, &passage->cost));
    else
        begin_launch(g, passage, work->stream, now);
}

/* Which thread is inside: set in begin, taken back in end, so that the driver's own calls pass. */
void fence_work_begin(struct fence_work *work)
{
    work->state[ENTERED] = fence_enter();
    if (!work->state[ENTERED])
        return;
    passage_of(work)->stream = NULL;
    struct gate *g = fence_ready() ? gate() : NULL;
    if (g)
        pass(g, work);
}

static void end_launch(struct gate *g, struct passage *passage, bool made)
{
    struct gate_stream *s = passage->stream;
    if (made)
        gate_close(g, s, limiter_after(&s->batches, &passage->cost, s->launched_ns), s->launched_ns);
    else
        limiter_withdraw(&g->card[s->card], passage->cost.predicted_ns);
    bool opened = made && s->batches.open.launches == 1;
    stream_lock_leave(&s->lock);
    if (opened)
        completion_ring(&g->completion);
}

/* It is done when the call returns; what it took is known only where events stand around it. */
static void end_synchronous(struct gate *g, struct passage *passage, CUstream stream, bool made)
{
    struct gate_stream *s = passage->stream;
    struct limiter_card *card = &g->card[s->card];
    const struct limiter_cost *cost = &passage->cost;
    if (!made) {
        limiter_withdraw(card, cost->predicted_ns);
        return;
    }
    uint64_t now = fence_now_ns();
    struct limiter_batch it = {.predicted_ns = cost->predicted_ns, .mean_ns = cost->mean_ns, .used_ns = cost->mean_ns,
                               .opened_ns = now > cost->mean_ns ? now - cost->mean_ns : 0,
                               .key = cost->key, .due_ns = now, .launches = 1, .single = true};
    if (!passage->start) {
        limiter_settle(card, &it, it.mean_ns);
        return;
    }
    struct submitted_batch batch = {.it = it, .start = passage->start, .card = s->card};
    lock_stream(s, stream);
    batch.end = gate_record(g, s);
    batch.context = s->context;
    stream_lock_leave(&s->lock);
    gate_push(g, &batch);
}

CUresult fence_work_end(struct fence_work *work, CUresult outcome)
{
    struct passage *passage = passage_of(work);
    if (!work->state[ENTERED])
        return outcome;
    if (passage->stream && work->synchronous)
        end_synchronous(gate(), passage, work->stream, outcome == CUDA_SUCCESS);
    else if (passage->stream)
        end_launch(gate(), passage, outcome == CUDA_SUCCESS);
    return fence_leave(outcome);
}
