/* The calls that begin, end and look at captures. */
#include "capture_internal.h"

#include <stdlib.h>

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    READY();
    REQUIRE(mode && (unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode before = capture_thread_mode;
    capture_thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

static CUresult begin(CUstream handle, CUgraph into, const CUgraphNode *tips, size_t count, CUstreamCaptureMode mode)
{
    CUstream stream;

    LOCKED();
    REQUIRE((unsigned)mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    REQUIRE(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    REQUIRE(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
    if (into)
        TRY(graph_check(into));
    struct capture *capture = calloc(1, sizeof *capture);
    REQUIRE(capture, CUDA_ERROR_OUT_OF_MEMORY);
    CUgraph graph = into ? into : graph_new();
    if (!graph || capture_set_tips(stream, (CUgraphNode *)tips, count) != CUDA_SUCCESS) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct capture){
        .id = driver_next_id(), .graph = graph, .origin = stream, .mode = mode, .given = into != NULL,
        .thread = this_thread(), .next = captures,
    };
    captures = stream->capture = capture;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    return begin(stream, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture(CUstream stream)
{
    return begin(stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    (void)edges; /* only full dependencies begin a capture here */
    REQUIRE(graph && (!count || dependencies), CUDA_ERROR_INVALID_VALUE);
    return begin(stream, graph, dependencies, count, mode);
}

/* All that other streams recorded must lie before where the origin is now. A captured node depends on older ones only. */
static bool joined(struct capture *capture)
{
    bool all = true;

    for (CUgraphNode node = capture->graph->first; node; node = node->next)
        node->visit = 0;
    for (size_t at = 0; at < capture->origin->tip_count; ++at)
        capture->origin->tips[at]->visit = 1;
    for (CUgraphNode node = capture->graph->last; node; node = node->previous)
        for (size_t at = 0; node->visit && at < node->dependency_count; ++at)
            node->dependencies[at]->visit = 1;
    for (CUcontext context = all_contexts; context; context = context->next)
        for (CUstream stream = context->streams; stream; stream = stream->next)
            for (size_t at = 0; stream->capture == capture && at < stream->tip_count; ++at)
                all = all && stream->tips[at]->visit;
    return all;
}

static CUresult verdict(struct capture *capture)
{
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return joined(capture) ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    CUstream stream;

    LOCKED();
    REQUIRE(graph, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    struct capture *capture = stream->capture;
    REQUIRE(capture, CUDA_ERROR_ILLEGAL_STATE);
    REQUIRE(capture->origin == stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    REQUIRE(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == this_thread(),
            CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CUresult ended = verdict(capture);
    *graph = ended == CUDA_SUCCESS ? capture->graph : NULL;
    if (ended != CUDA_SUCCESS && !capture->given)
        graph_free(capture->graph);
    capture_end(capture);
    return ended;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream;

    LOCKED();
    REQUIRE(status, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    TRY(capture_refuses_legacy(stream));
    *status = !stream->capture          ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
    CUstream stream;

    TRY(cuStreamIsCapturing(handle, status));
    LOCKED();
    TRY(stream_resolve(handle, &stream));
    if (edges)
        *edges = NULL;
    if (!stream->capture || stream->capture->invalid)
        return CUDA_SUCCESS;
    if (id)
        *id = stream->capture->id;
    if (graph)
        *graph = stream->capture->graph;
    if (dependencies)
        *dependencies = stream->tips;
    if (count)
        *count = stream->tip_count;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **dependencies, size_t *count)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, NULL, count);
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream handle, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *edges, size_t count, unsigned int flags)
{
    CUstream stream;

    LOCKED();
    (void)edges;
    REQUIRE(!count || dependencies, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    REQUIRE(stream->capture && !stream->capture->invalid, CUDA_ERROR_ILLEGAL_STATE);
    for (size_t at = 0; at < count; ++at) {
        TRY(node_check(dependencies[at]));
        REQUIRE(dependencies[at]->graph == stream->capture->graph, CUDA_ERROR_INVALID_VALUE);
    }
    return flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES ? capture_set_tips(stream, dependencies, count)
                                                       : capture_add_tips(stream, dependencies, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count,
                                           unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, NULL, count, flags);
}
