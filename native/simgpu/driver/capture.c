#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "graph.h"

struct capture {
    uint64_t id;
    CUgraph graph;
    CUstream origin;
    CUstreamCaptureMode mode;
    bool invalid, given; /* given: into a graph of the program's */
    const void *thread;  /* where it began */
    struct capture *next;
};

static struct capture *captures;
static __thread CUstreamCaptureMode thread_mode;

static const void *this_thread(void)
{
    return &thread_mode;
}

bool capture_is_active(CUstream stream)
{
    return stream->capture != NULL;
}

static struct capture *find(uint64_t id)
{
    struct capture *capture = captures;

    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

static CUresult set_tips(CUstream stream, CUgraphNode *tips, size_t count)
{
    CUgraphNode *copy = malloc((count ? count : 1) * sizeof *copy);

    REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    if (count)
        memcpy(copy, tips, count * sizeof *copy);
    free(stream->tips);
    stream->tips = copy;
    stream->tip_count = count;
    return CUDA_SUCCESS;
}

static CUresult add_tips(CUstream stream, CUgraphNode *tips, size_t count)
{
    CUgraphNode *more = realloc(stream->tips, (stream->tip_count + count + 1) * sizeof *more);

    REQUIRE(more, CUDA_ERROR_OUT_OF_MEMORY);
    stream->tips = more;
    for (size_t at = 0; at < count; ++at) {
        bool there = false;
        for (size_t has = 0; has < stream->tip_count; ++has)
            there = there || more[has] == tips[at];
        if (!there)
            more[stream->tip_count++] = tips[at];
    }
    return CUDA_SUCCESS;
}

static void leave(CUstream stream)
{
    stream->capture = NULL;
    stream->tip_count = 0;
}

CUresult capture_node(CUstream stream, CUgraphNodeParams *params)
{
    CUgraphNode node;

    REQUIRE(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    TRY(graph_add(stream->capture->graph, stream->tips, NULL, stream->tip_count, params, &node));
    return set_tips(stream, &node, 1);
}

CUresult capture_record(CUstream stream, CUevent event, unsigned flags)
{
    if (flags & CU_EVENT_RECORD_EXTERNAL) {
        CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
        return capture_node(stream, &node);
    }
    CUgraphNode *tips = malloc((stream->tip_count + 1) * sizeof *tips);
    REQUIRE(tips, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(tips, stream->tips, stream->tip_count * sizeof *tips);
    free(event->tips);
    event->tips = tips;
    event->tip_count = stream->tip_count;
    event->capture_id = stream->capture->id;
    event->recorded = true;
    return CUDA_SUCCESS;
}

CUresult capture_wait(CUstream stream, CUevent event, unsigned flags)
{
    struct capture *of_event = find(event->capture_id);

    if (flags & CU_EVENT_WAIT_EXTERNAL && stream->capture) {
        CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
        return capture_node(stream, &node);
    }
    if (!of_event) {
        REQUIRE(stream->capture, CUDA_SUCCESS); /* recorded in a capture that is over: nothing to wait for */
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!stream->capture) {
        if (stream->legacy) {
            of_event->invalid = true;
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
        stream->capture = of_event;
        return set_tips(stream, event->tips, event->tip_count);
    }
    if (stream->capture != of_event) {
        stream->capture->invalid = of_event->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    return add_tips(stream, event->tips, event->tip_count);
}

static void end(struct capture *capture)
{
    struct capture **link = &captures;

    for (CUcontext context = all_contexts; context; context = context->next)
        for (CUstream stream = context->streams; stream; stream = stream->next)
            if (stream->capture == capture)
                leave(stream);
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    free(capture);
}

/* A capture whose origin goes can never be ended: it goes, too. */
void capture_leave(CUstream stream)
{
    struct capture *capture = stream->capture;

    if (!capture)
        return;
    capture->invalid = true;
    leave(stream);
    if (capture->origin != stream)
        return;
    if (!capture->given)
        graph_free(capture->graph);
    end(capture);
}

CUresult capture_refuses_legacy(CUstream stream)
{
    if (!stream->legacy)
        return CUDA_SUCCESS;
    for (struct capture *capture = captures; capture; capture = capture->next) {
        if (capture->origin->context != stream->context || capture->origin->flags & CU_STREAM_NON_BLOCKING)
            continue;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return CUDA_SUCCESS;
}

CUresult capture_refuses_wait(CUstream stream)
{
    if (stream->capture) {
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return capture_refuses_legacy(stream);
}

CUresult capture_refuses_event(CUevent event)
{
    struct capture *capture = event->capture_id ? find(event->capture_id) : NULL;

    if (!capture)
        return CUDA_SUCCESS;
    capture->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult capture_forbids_wait(CUcontext context)
{
    for (struct capture *capture = captures; capture; capture = capture->next) {
        if (capture->origin->context != context)
            continue;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult capture_forbids_unsafe(void)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct capture *capture = captures; capture; capture = capture->next) {
        bool ours = capture->thread == this_thread();
        bool everybody = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || !(ours || everybody))
            continue;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    READY();
    REQUIRE(mode && (unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
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
    if (!graph || set_tips(stream, (CUgraphNode *)tips, count) != CUDA_SUCCESS) {
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
    end(capture);
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
    return flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES ? set_tips(stream, dependencies, count)
                                                       : add_tips(stream, dependencies, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dependencies, size_t count,
                                           unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(stream, dependencies, NULL, count, flags);
}

CUresult capture_allocate(CUstream stream, int device, size_t size, CUdeviceptr *pointer)
{
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};

    node.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    node.alloc.poolProps.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    node.alloc.bytesize = size;
    TRY(capture_node(stream, &node));
    *pointer = node.alloc.dptr;
    return CUDA_SUCCESS;
}

CUresult capture_free(CUstream stream, CUdeviceptr pointer)
{
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {.dptr = pointer}};

    return capture_node(stream, &node);
}
