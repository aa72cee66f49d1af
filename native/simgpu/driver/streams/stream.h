/* Streams, events and what is submitted to them. */
#ifndef GPUPOOL_SIMGPU_STREAM_H
#define GPUPOOL_SIMGPU_STREAM_H

#include "contexts/context.h"
#include "engine/engine.h"

#define PRIORITY_LEAST 0
#define PRIORITY_GREATEST (-5)

struct capture; /* capture.h */

struct CUstream_st {
    CUcontext context;
    unsigned flags;
    int priority;
    uint32_t engine;       /* its number in the engine's context; 0: the legacy default stream */
    bool legacy, per_thread;
    uint64_t id;
    struct capture *capture; /* NULL: work is done, not recorded */
    struct CUgraphNode_st **tips; /* of the capture: what the next node depends on */
    size_t tip_count;
    CUstreamAttrValue synchronization, window;
    CUstream next, previous; /* of the context */
};

struct CUevent_st {
    CUcontext context;
    uint64_t context_id;   /* the context's when it was made: a reset primary context is another */
    unsigned flags;
    uint32_t engine_event; /* ENGINE_NO_EVENT: no time is kept */
    bool recorded;
    struct engine_ticket ticket;
    uint64_t capture_id;          /* recorded in a capture, at these nodes; 0: not */
    struct CUgraphNode_st **tips;
    size_t tip_count;
    struct shared_event *shared;  /* of an interprocess event */
};

/* Where a piece of work goes: everything that submitting needs without the lock. */
struct target {
    CUcontext context;
    uint64_t context_id;
    int device;
    uint32_t engine, stream;
};

/* streams.c; under the lock unless said otherwise */
CUstream stream_open(CUcontext context, unsigned flags, int priority);
CUstream stream_open_legacy(CUcontext context);
void stream_close(CUstream stream);
void streams_close(CUcontext context);
/* The stream that a handle means for the calling thread: NULL is the legacy or, within a per-thread entry point, the
   thread's own default stream. */
CUresult stream_resolve(CUstream handle, CUstream *stream);
struct target stream_target(CUstream stream);

/* Twins (_ptsz, _ptds) say so while they call the plain function; see gen/generate.py. */
extern __thread unsigned per_thread_default __attribute__((tls_model("initial-exec")));

/* submit.c; without the lock */
CUresult submit(const struct target *target, const struct engine_work *work, struct engine_ticket *ticket);
CUresult submit_for(const struct target *target, uint32_t kind, uint64_t ns, struct engine_ticket *ticket);
CUresult wait_for(const struct target *target, const struct engine_ticket *ticket);
CUresult is_done(const struct target *target, const struct engine_ticket *ticket); /* CUDA_ERROR_NOT_READY if not */
CUresult wait_for_stream(const struct target *target);
void context_drain(CUcontext context); /* waits for its work; errors are the context's */
CUresult context_wait(CUcontext context);
uint64_t clock_now(void);

/* events.c, under the lock */
CUresult event_resolve(CUevent event);
CUevent event_open(CUcontext context, unsigned flags);
CUresult event_record(CUevent event, const struct target *target); /* without the lock */
CUresult event_wait(CUevent event, const struct target *target);   /* without the lock */

/* shared_events.c, under the lock: events that other processes have opened, or that are theirs */
bool shared_event_create(CUevent event);
void shared_event_publish(CUevent event);
void shared_event_read(CUevent event);
void shared_event_close(CUevent event);

#endif
