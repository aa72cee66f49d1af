/* What the generated wrappers call around every piece of work for a card. */
#include "gate.h"

#include "cards.h"
#include "guard.h"
#include "real.h"
#include "state.h"
#include "work.h"

/* In the work's own words between begin and end. */
struct passage {
    struct gate_stream *stream; /* locked, if the work is not synchronous */
    struct limiter_cost cost;
    CUevent start;              /* of a synchronous piece that is measured */
};

#define ENTERED 5 /* the last word: this call came from the program */
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

/* What is captured is not run: its graph is charged when it is launched. In doubt it is captured, since an event in a capture
   would become part of the program's graph. */
static bool is_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return fence_real.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUevent record(struct gate *g, struct gate_stream *s)
{
    CUevent event = harvest_event(&g->harvest, s->context);
    if (event && fence_real.cuEventRecord(event, s->stream) == CUDA_SUCCESS)
        return event;
    return NULL; /* an event that cannot be recorded is of no use: it stays with its context */
}

void gate_close(struct gate *g, struct gate_stream *s, enum limiter_close how)
{
    if (how == LIMITER_KEEP)
        return;
    struct harvest_batch batch = {.start = s->start, .context = s->context, .card = s->card};
    batch.stream_key = atomic_load_explicit(&s->key, memory_order_relaxed);
    if (how == LIMITER_CLOSE_TIMED && s->start)
        batch.end = record(g, s);
    batch.it = limiter_take(&s->batches);
    s->start = NULL;
    harvest_push(g, &batch);
}

static void begin_launch(struct gate *g, struct passage *passage, uint64_t now)
{
    struct gate_stream *s = passage->stream;
    pthread_mutex_lock(&s->lock);
    s->launched_ns = now;
    gate_close(g, s, limiter_before(&s->batches, &passage->cost, now));
    if (limiter_opens(&s->batches))
        s->start = record(g, s);
}

/* The lock is not kept while the program waits for its copy; only one in so many is measured, and every unknown one. */
static void begin_synchronous(struct gate *g, struct passage *passage, uint64_t now)
{
    struct gate_stream *s = passage->stream;
    pthread_mutex_lock(&s->lock);
    gate_close(g, s, limiter_flush(&s->batches, now));
    if (!passage->cost.known || ++s->batches.batches % LIMITER_SAMPLE_EVERY == 0)
        passage->start = record(g, s);
    pthread_mutex_unlock(&s->lock);
}

static void pass(struct gate *g, struct fence_work *work)
{
    struct passage *passage = passage_of(work);
    struct gate_stream *s = is_captured(work->stream) ? NULL : gate_find(g, work->stream);
    struct limiter_card *card = s ? gate_card(g, s->card) : NULL;
    if (!card)
        return;
    passage->cost = limiter_predict(&card->predictions, key_of(work));
    uint64_t now = gate_wait(g, card, s, s->card, &passage->cost);
    passage->stream = s;
    if (work->synchronous)
        begin_synchronous(g, passage, now);
    else
        begin_launch(g, passage, now);
}

/* Which thread is inside: set in begin, taken back in end, so that the driver's own calls pass. */
void fence_work_begin(struct fence_work *work)
{
    if (!fence_enter())
        return;
    work->state[ENTERED] = 1;
    struct gate *g = fence_ready() ? gate() : NULL;
    if (g)
        pass(g, work);
}

static void end_launch(struct gate *g, struct passage *passage, bool made)
{
    struct gate_stream *s = passage->stream;
    if (made)
        gate_close(g, s, limiter_after(&s->batches, &passage->cost, s->launched_ns));
    else
        limiter_withdraw(&g->card[s->card], passage->cost.predicted_ns);
    bool opened = made && s->batches.open.launches == 1;
    pthread_mutex_unlock(&s->lock);
    if (opened)
        harvest_ring(&g->harvest);
}

/* It is done when the call returns; what it took is known only where events stand around it. */
static void end_synchronous(struct gate *g, struct passage *passage, bool made)
{
    struct gate_stream *s = passage->stream;
    struct limiter_card *card = &g->card[s->card];
    uint64_t predicted = passage->cost.predicted_ns;
    if (!made)
        limiter_withdraw(card, predicted);
    else if (!passage->start)
        limiter_settle(card, predicted, predicted);
    else {
        struct harvest_batch batch = {.start = passage->start, .end = record(g, s), .context = s->context, .card = s->card};
        batch.it = (struct limiter_batch){predicted, passage->cost.key, 0, fence_now_ns(), 1, true, false};
        harvest_push(g, &batch);
    }
}

CUresult fence_work_end(struct fence_work *work, CUresult outcome)
{
    struct passage *passage = passage_of(work);
    if (!work->state[ENTERED])
        return outcome;
    if (passage->stream && work->synchronous)
        end_synchronous(gate(), passage, outcome == CUDA_SUCCESS);
    else if (passage->stream)
        end_launch(gate(), passage, outcome == CUDA_SUCCESS);
    return fence_leave(outcome);
}
