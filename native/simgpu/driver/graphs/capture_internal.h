/* What the rules of captures (capture.c) and the calls that begin and end them (capture_calls.c) share. Under the lock. */
#ifndef GPUPOOL_SIMGPU_CAPTURE_INTERNAL_H
#define GPUPOOL_SIMGPU_CAPTURE_INTERNAL_H

#include "capture.h"
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

extern struct capture *captures;
extern __thread CUstreamCaptureMode capture_thread_mode;

/* Its address stands for the calling thread. */
static inline const void *this_thread(void)
{
    return &capture_thread_mode;
}

CUresult capture_set_tips(CUstream stream, CUgraphNode *tips, size_t count);
CUresult capture_add_tips(CUstream stream, CUgraphNode *tips, size_t count);
void capture_end(struct capture *capture);

#endif
