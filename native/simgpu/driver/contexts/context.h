/* Contexts of this process. A context is never freed, only marked destroyed, so that a thread that still has it current
   gets CUDA_ERROR_CONTEXT_IS_DESTROYED; they are few. */
#ifndef GPUPOOL_SIMGPU_CONTEXT_H
#define GPUPOOL_SIMGPU_CONTEXT_H

#include "process/driver.h"

#define CONTEXT_LIMITS 16

struct CUctx_st {
    int device;
    unsigned flags, api_version;
    bool primary;
    _Atomic bool alive;
    unsigned retained;      /* of a primary context: retains not yet released */
    unsigned attached;      /* cuCtxAttach */
    uint64_t id;
    uint32_t engine;        /* the engine's context that all of this process on the card share */
    _Atomic int sticky;     /* a CUresult that every later call answers until the context is gone */
    uint32_t peers;         /* bit per device whose memory was enabled by cuCtxEnablePeerAccess */
    size_t limits[CONTEXT_LIMITS];
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    CUstream legacy;        /* the default stream that synchronises with the blocking ones */
    CUstream streams;       /* list of all, by `next` */
    struct context_value *values; /* context local storage of the export table */
    CUcontext next;
};

extern CUcontext all_contexts;

/* The context current to this thread if it may be used; else the reason why not. Under the lock or not. */
CUresult context_current(CUcontext *context);
CUresult context_usable(CUcontext context);   /* NULL: the current one is meant and there is none */
CUresult context_or_current(CUcontext *context); /* in place: NULL becomes the current one */
CUcontext context_top(void);
CUresult context_push(CUcontext context);
CUresult context_pop(CUcontext *context);
void context_replace_top(CUcontext context);

/* contexts.c, under the lock */
CUresult context_open(CUcontext context);
void context_close(CUcontext context);
CUcontext primary_context(int device);
CUresult primary_retain(CUcontext *context, int device);
void context_fail(CUcontext context, CUresult error);

#define DEVICE(ordinal) REQUIRE((ordinal) >= 0 && (ordinal) < card_count(), CUDA_ERROR_INVALID_DEVICE)
#define CURRENT(name) \
    CUcontext name; \
    TRY(context_current(&name))

#endif
