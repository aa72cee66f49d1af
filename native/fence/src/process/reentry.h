/* Marks a thread that is inside the fence: the driver's own calls through its PLT come back to the stand-in's
   names and must go straight through, or they would be charged twice. */
#ifndef GPUPOOL_REENTRY_H
#define GPUPOOL_REENTRY_H

#include <gpupool/cuda_all.h>
#include <stdbool.h>

#include "suspension/share_flags.h"

/* initial-exec: one load in every call. A few bytes fit the loader's reserve for libraries that come by dlopen. */
extern __thread int fence_inside __attribute__((tls_model("initial-exec")));

/* False: the driver calls; hand the call on as it is. True: fence_leave() must follow. */
static inline bool fence_enter(void)
{
    if (fence_inside)
        return false;
    fence_inside = 1;
    share_pass();
    return true;
}

static inline CUresult fence_leave(CUresult result)
{
    fence_inside = 0;
    return result;
}

#endif
