/* Opening and closing the batches of a stream: the gate's calls to the driver on behalf of limiter_batch.c. */
#include "gate.h"
#include "process/real.h"

/* What is captured is not run: its graph is charged when it is launched. In doubt it is captured, since an event in a capture
   would become part of the program's graph. Asked only while some capture is active: the question costs 20 to 40 ns. */
bool gate_is_captured(struct gate *g, CUstream stream)
{
    if (__builtin_expect(atomic_load_explicit(&g->captures, memory_order_relaxed) == 0, 1))
        return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return fence_real.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUevent gate_record(struct gate *g, struct gate_stream *s)
{
    CUevent event = take_event(&g->completion, s->context);
    if (event && fence_real.cuEventRecord(event, s->stream) == CUDA_SUCCESS)
        return event;
    return NULL; /* an event that cannot be recorded is of no use: it stays with its context */
}

/* Without both events the batch is settled by its mean when it is due. */
void gate_close(struct gate *g, struct gate_stream *s, enum limiter_close how, uint64_t now)
{
    if (how == LIMITER_KEEP)
        return;
    struct submitted_batch batch = {.start = s->start, .context = s->context, .card = s->card};
    batch.stream_key = atomic_load_explicit(&s->key, memory_order_relaxed);
    if (how == LIMITER_CLOSE_TIMED && s->start)
        batch.end = gate_record(g, s);
    batch.it = limiter_take(&s->batches, now);
    batch.recorded_ns = batch.it.opened_ns;
    if (how == LIMITER_CLOSE_IDLE)
        batch.it.due_ns = now;
    else if (!batch.end)
        batch.it.used_ns = batch.it.mean_ns;
    s->start = NULL;
    gate_push(g, &batch);
}

/* Such work is taken to run one after the other, since several threads that end have as many streams with work that waits. */
static uint64_t line_up(_Atomic uint64_t *until, uint64_t opened, uint64_t mean)
{
    uint64_t seen = atomic_load(until), from;
    do
        from = seen > opened ? seen : opened;
    while (!atomic_compare_exchange_weak(until, &seen, from + mean));
    return from;
}

/* By a thread that cannot ask about the stream, or when the stream cannot take an event any more. What is expected to run still is
   settled by its mean when it is due, however long ago it was launched. */
void gate_close_unseen(struct gate *g, struct gate_stream *s, uint64_t now)
{
    if (limiter_opens(&s->batches) || now >= s->batches.busy_until_ns) {
        gate_close(g, s, limiter_flush(&s->batches, false, now), now);
        return;
    }
    struct submitted_batch batch = {.start = s->start, .context = s->context, .card = s->card};
    struct limiter_batch *it = &batch.it;
    batch.it = limiter_take(&s->batches, now);
    it->opened_ns = line_up(&g->unseen_until_ns[s->card], it->opened_ns, it->mean_ns);
    it->due_ns = it->opened_ns + it->mean_ns;
    it->used_ns = it->mean_ns;
    it->idle_ns = it->gaps = 0;
    s->start = NULL;
    gate_push(g, &batch);
}

/* A capture in global mode forbids the question to every thread that does not say RELAXED. */
bool gate_is_busy(struct gate *g, const struct gate_stream *s)
{
    if (__builtin_expect(atomic_load_explicit(&g->captures, memory_order_relaxed) == 0, 1))
        return fence_real.cuStreamQuery(s->stream) == CUDA_ERROR_NOT_READY;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool changed = fence_real.cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS;
    bool busy = fence_real.cuStreamQuery(s->stream) == CUDA_ERROR_NOT_READY;
    if (changed)
        fence_real.cuThreadExchangeStreamCaptureMode(&mode);
    return busy;
}

void gate_flush(struct gate *g, struct gate_stream *s, uint64_t now)
{
    if (!limiter_opens(&s->batches) && !gate_is_captured(g, s->stream))
        gate_close(g, s, limiter_flush(&s->batches, gate_is_busy(g, s), now), now);
}

bool gate_flush_from_outside(struct gate *g, struct gate_stream *s, uint64_t now)
{
    if (!gate_enter_outside(g))
        return false;
    gate_flush(g, s, now);
    gate_leave_outside(g);
    return true;
}

bool gate_flush_stale(struct gate *g, struct gate_stream *s, uint64_t now)
{
    CUcontext before;
    bool is_nameless = s->stream == CU_STREAM_PER_THREAD;
    if (is_nameless || fence_real.cuCtxPushCurrent_v2(s->context) != CUDA_SUCCESS) {
        gate_close_unseen(g, s, now);
        return true;
    }
    bool flushed = gate_flush_from_outside(g, s, now);
    fence_real.cuCtxPopCurrent_v2(&before);
    return flushed;
}
