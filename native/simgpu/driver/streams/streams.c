/* Streams: made, found by handle, asked, destroyed. */
#include "stream.h"

#include <stdlib.h>

#include "devices/card.h"
#include "graphs/capture.h"
#include "machine/machine.h"

#define KNOWN_FLAGS CU_STREAM_NON_BLOCKING

__thread unsigned per_thread_default;

/* The thread's own default streams, one per context it used. Taken away with the thread. */
static __thread struct own {
    CUstream *streams;
    unsigned count;
} own;
/* Streams on each of the engine's, by device. */
static uint16_t users[CARD_LIMIT][ENGINE_STREAMS];
static pthread_key_t own_key;
static pthread_once_t own_once = PTHREAD_ONCE_INIT;

static CUstream stream_new(CUcontext context, unsigned flags, int priority)
{
    CUstream stream = handle_new(sizeof *stream, HANDLE_STREAM);

    if (!stream)
        return NULL;
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = driver_next_id();
    stream->next = context->streams;
    if (context->streams)
        context->streams->previous = stream;
    context->streams = stream;
    return stream;
}

/* When the engine has no stream left several share one: they are then ordered among each other, which is allowed. */
CUstream stream_open(CUcontext context, unsigned flags, int priority)
{
    CUstream stream = stream_new(context, flags, priority);

    if (!stream)
        return NULL;
    struct engine *engine = sim_lock(card_machine());
    int number = engine_stream_create(engine, context->engine,
                                      flags & CU_STREAM_NON_BLOCKING ? ENGINE_NON_BLOCKING : 0, priority);
    sim_unlock(card_machine());
    stream->engine = number > 0 ? (uint32_t)number : 1 + (uint32_t)(stream->id % (ENGINE_STREAMS - 1));
    ++users[context->device][stream->engine];
    return stream;
}

CUstream stream_open_legacy(CUcontext context)
{
    CUstream stream = stream_new(context, CU_STREAM_DEFAULT, 0);

    if (stream)
        stream->legacy = true;
    return stream;
}

static void unlink_stream(CUstream stream)
{
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        stream->context->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
}

/* What was submitted is still done; only the handle goes. */
void stream_close(CUstream stream)
{
    capture_leave(stream);
    if (stream->engine && !--users[stream->context->device][stream->engine]) {
        engine_stream_destroy(sim_lock(card_machine()), stream->context->engine, stream->engine);
        sim_unlock(card_machine());
    }
    unlink_stream(stream);
    free(stream->tips);
    handle_free(stream);
}

void streams_close(CUcontext context)
{
    while (context->streams)
        stream_close(context->streams);
    context->legacy = NULL;
}

/* Runs when a thread ends. */
static void close_own(void *streams)
{
    CUstream *list = streams;

    if (driver_state == DRIVER_READY) {
        driver_lock();
        for (size_t at = 0; list[at]; ++at)
            if (handle_is(list[at], HANDLE_STREAM) && list[at]->per_thread)
                stream_close(list[at]);
        driver_unlock();
    }
    free(list);
}

static void make_own_key(void)
{
    pthread_key_create(&own_key, close_own);
}

static CUstream own_stream(CUcontext context)
{
    for (unsigned at = 0; at < own.count; ++at)
        if (handle_is(own.streams[at], HANDLE_STREAM) && own.streams[at]->per_thread &&
            own.streams[at]->context == context)
            return own.streams[at];
    CUstream *more = realloc(own.streams, (own.count + 2) * sizeof *more);
    if (!more)
        return NULL;
    own.streams = more;
    more[own.count] = stream_open(context, CU_STREAM_DEFAULT, 0);
    more[own.count + 1] = NULL;
    pthread_once(&own_once, make_own_key);
    pthread_setspecific(own_key, more);
    if (more[own.count])
        more[own.count++]->per_thread = true;
    return own.count ? more[own.count - 1] : NULL;
}

CUresult stream_resolve(CUstream handle, CUstream *stream)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        CURRENT(context);
        bool mine = handle == CU_STREAM_PER_THREAD || (!handle && per_thread_default);
        *stream = mine ? own_stream(context) : context->legacy;
        return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    REQUIRE(handle_is(handle, HANDLE_STREAM), CUDA_ERROR_INVALID_HANDLE);
    *stream = handle;
    return context_usable(handle->context);
}

struct target stream_target(CUstream stream)
{
    CUcontext context = stream->context;

    return (struct target){context, context->id, context->device, context->engine, stream->engine};
}

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    LOCKED();
    REQUIRE(out && !(flags & ~(unsigned)KNOWN_FLAGS), CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    if (priority > PRIORITY_LEAST)
        priority = PRIORITY_LEAST;
    if (priority < PRIORITY_GREATEST)
        priority = PRIORITY_GREATEST;
    CUstream stream = stream_open(context, flags, priority);
    REQUIRE(stream, CUDA_ERROR_OUT_OF_MEMORY);
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return create(stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    return create(stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    LOCKED();
    REQUIRE(handle_is(stream, HANDLE_STREAM) && !stream->legacy && !stream->per_thread, CUDA_ERROR_INVALID_HANDLE);
    stream_close(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    return cuStreamDestroy_v2(stream);
}

/* A stream to wait for: what it is recording cannot be waited for. */
static CUresult waitable(CUstream handle, struct target *target)
{
    CUstream stream;

    LOCKED();
    TRY(stream_resolve(handle, &stream));
    TRY(capture_refuses_wait(stream));
    *target = stream_target(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    struct target target;

    TRY(waitable(handle, &target));
    /* The legacy stream's next work would wait for the blocking streams': so does a thread that waits for it. */
    if (!target.stream)
        TRY(submit_for(&target, ENGINE_NOTHING, 0, NULL));
    TRY(wait_for_stream(&target));
    return context_usable(target.context);
}

CUresult cuStreamQuery(CUstream handle)
{
    struct target target;

    TRY(waitable(handle, &target));
    struct engine_ticket last = engine_last(sim_lock(card_machine()), target.engine, target.stream);
    sim_unlock(card_machine());
    return is_done(&target, &last);
}
