/* Work that is handed to a card, as the generated wrappers describe it to the throttle.

   Every symbol of class throttle with a handler launch, graph, copy or memset gets a wrapper that fills one of these from
   its arguments and calls fence_work_begin, the driver, fence_work_end. Both are the throttle's. */
#ifndef GPUPOOL_FENCE_WORK_H
#define GPUPOOL_FENCE_WORK_H

#include <gpupool/cuda_all.h>
#include <stdbool.h>
#include <stdint.h>

enum fence_work_kind { FENCE_WORK_KERNEL, FENCE_WORK_GRAPH, FENCE_WORK_COPY, FENCE_WORK_MEMSET };

enum fence_copy { FENCE_COPY_ANY, FENCE_COPY_TO_DEVICE, FENCE_COPY_TO_HOST, FENCE_COPY_ON_DEVICE, FENCE_COPY_PEER };

struct fence_work {
    enum fence_work_kind kind;
    enum fence_copy copy; /* of kind copy */
    bool synchronous;     /* the call may return only when the work is done */
    CUstream stream;      /* never 0: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD where the caller gave the default stream */
    const void *key;      /* function or executable graph, NULL for copies and memsets */
    uint64_t units;       /* blocks of a kernel, bytes of a copy or memset, 1 for a graph */
    uint64_t state[7];    /* the throttle's own, anything before begin */
};

/* Returns when the work may be submitted. Never fails: what is wrong with the arguments is the driver's to say. */
void fence_work_begin(struct fence_work *work);

/* `outcome` is what the driver answered; returns what the caller shall see, which is `outcome` unless the share is gone. */
CUresult fence_work_end(struct fence_work *work, CUresult outcome);

/* Around every function of class wait: blocks while the share is closed. False: the driver itself calls, nothing was begun. */
bool fence_wait_begin(void);
CUresult fence_wait_end(bool begun, CUresult outcome);

#endif
