/* What a capture records, and what it forbids meanwhile. */
#include "capture_internal.h"

#include <stdlib.h>
#include <string.h>

struct capture *captures;
__thread CUstreamCaptureMode capture_thread_mode;

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

CUresult capture_set_tips(CUstream stream, CUgraphNode *tips, size_t count)
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

CUresult capture_add_tips(CUstream stream, CUgraphNode *tips, size_t count)
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
    return capture_set_tips(stream, &node, 1);
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
        return capture_set_tips(stream, event->tips, event->tip_count);
    }
    if (stream->capture != of_event) {
        stream->capture->invalid = of_event->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    return capture_add_tips(stream, event->tips, event->tip_count);
}

void capture_end(struct capture *capture)
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
    capture_end(capture);
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
    if (capture_thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (struct capture *capture = captures; capture; capture = capture->next) {
        bool ours = capture->thread == this_thread();
        bool everybody = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture_thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || !(ours || everybody))
            continue;
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return CUDA_SUCCESS;
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
