/* Stream capture: while a stream records, what it is given becomes nodes of a graph. Everything here under the lock. */
#ifndef GPUPOOL_SIMGPU_CAPTURE_H
#define GPUPOOL_SIMGPU_CAPTURE_H

#include "streams/stream.h"

struct block;

bool capture_is_active(CUstream stream);
CUresult capture_node(CUstream stream, CUgraphNodeParams *node);
CUresult capture_record(CUstream stream, CUevent event, unsigned flags);
CUresult capture_wait(CUstream stream, CUevent event, unsigned flags);
CUresult capture_allocate(CUstream stream, int device, size_t size, CUdeviceptr *pointer);
CUresult capture_free(CUstream stream, CUdeviceptr pointer);
void capture_leave(CUstream stream);                       /* the stream goes */

/* What a capture forbids; each spoils the capture that it disturbs. */
CUresult capture_refuses_legacy(CUstream stream);          /* work on the default stream would have to wait for it */
CUresult capture_refuses_wait(CUstream stream);
CUresult capture_refuses_event(CUevent event);
CUresult capture_forbids_wait(CUcontext context);
CUresult capture_forbids_unsafe(void);                     /* calls that may wait or allocate */

CUresult graph_memory_free_by_stream(struct block *block); /* graph_memory.c */

#endif
