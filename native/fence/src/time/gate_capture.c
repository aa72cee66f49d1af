/* Captures of the process. While one is active no thread asks about or records into a stream that it does not launch into
   itself: the stream may join the capture at any moment, and a question or a foreign event would break the program's graph. */
#include "gate.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"

bool gate_enter_outside(struct gate *g)
{
    pthread_mutex_lock(&g->outside);
    if (atomic_load(&g->captures) == 0)
        return true;
    pthread_mutex_unlock(&g->outside);
    return false;
}

void gate_leave_outside(struct gate *g)
{
    pthread_mutex_unlock(&g->outside);
}

static bool is_capturing(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return fence_real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void raise_captures(struct gate *g)
{
    pthread_mutex_lock(&g->outside); /* waits until a thread that asks from outside has its answer */
    atomic_fetch_add(&g->captures, 1);
    pthread_mutex_unlock(&g->outside);
}

/* Batches that became stale meanwhile are looked at now. */
static void lower_captures(struct gate *g)
{
    atomic_fetch_sub(&g->captures, 1);
    completion_ring(&g->completion);
}

void gate_origin_ended(struct gate *g, struct gate_stream *s)
{
    if (s->is_origin)
        lower_captures(g);
    s->is_origin = false;
}

/* What is open in the stream cannot be measured while it is captured. */
static void close_before_capture(struct gate *g, CUstream stream)
{
    struct gate_stream *s = gate_known(g, stream);
    if (!s || !stream_lock_try(&s->lock))
        return;
    gate_flush(g, s, fence_now_ns());
    stream_lock_leave(&s->lock);
}

static struct gate *begins(CUstream stream)
{
    struct gate *g = gate();
    if (!g)
        return NULL;
    close_before_capture(g, stream);
    raise_captures(g);
    return g;
}

static CUresult began(struct gate *g, CUstream stream, CUresult result)
{
    if (g && result != CUDA_SUCCESS)
        lower_captures(g);
    struct gate_stream *s = g && result == CUDA_SUCCESS ? gate_known(g, stream) : NULL;
    if (s)
        s->is_origin = true;
    return fence_leave(result);
}

/* A failed end may or may not have ended the capture. */
static CUresult ended(CUstream stream, bool was_capturing, CUresult result)
{
    struct gate *g = gate();
    if (g && was_capturing && !is_capturing(stream)) {
        struct gate_stream *s = gate_known(g, stream);
        if (s)
            s->is_origin = false;
        lower_captures(g);
    }
    return fence_leave(result);
}

CUresult fence_on_cuStreamBeginCapture(fence_cuStreamBeginCapture_function *real, CUstream stream)
{
    if (!fence_enter())
        return real(stream);
    struct gate *g = begins(stream);
    return began(g, stream, real(stream));
}

CUresult fence_on_cuStreamBeginCapture_v2(fence_cuStreamBeginCapture_v2_function *real, CUstream stream,
                                          CUstreamCaptureMode mode)
{
    if (!fence_enter())
        return real(stream, mode);
    struct gate *g = begins(stream);
    return began(g, stream, real(stream, mode));
}

CUresult fence_on_cuStreamBeginCaptureToGraph(fence_cuStreamBeginCaptureToGraph_function *real, CUstream stream, CUgraph graph,
                                              const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
                                              CUstreamCaptureMode mode)
{
    if (!fence_enter())
        return real(stream, graph, dependencies, edges, count, mode);
    struct gate *g = begins(stream);
    return began(g, stream, real(stream, graph, dependencies, edges, count, mode));
}

CUresult fence_on_cuStreamEndCapture(fence_cuStreamEndCapture_function *real, CUstream stream, CUgraph *graph)
{
    if (!fence_enter())
        return real(stream, graph);
    bool was_capturing = is_capturing(stream);
    return ended(stream, was_capturing, real(stream, graph));
}

CUresult fence_on_cuStreamBeginCaptureToCig(fence_cuStreamBeginCaptureToCig_function *real, CUstream stream,
                                            CUstreamCigCaptureParams *parameters)
{
    if (!fence_enter())
        return real(stream, parameters);
    struct gate *g = begins(stream);
    return began(g, stream, real(stream, parameters));
}

CUresult fence_on_cuStreamEndCaptureToCig(fence_cuStreamEndCaptureToCig_function *real, CUstream stream)
{
    if (!fence_enter())
        return real(stream);
    bool was_capturing = is_capturing(stream);
    return ended(stream, was_capturing, real(stream));
}
