/* Events: recorded by the engine, waited for by ticket. */
#include "stream.h"

#include <stdlib.h>

#include "devices/card.h"
#include "graphs/capture.h"
#include "machine/machine.h"

#define KNOWN_FLAGS                                                                                                \
    (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

CUevent event_open(CUcontext context, unsigned flags)
{
    CUevent event = handle_new(sizeof *event, HANDLE_EVENT);

    if (!event)
        return NULL;
    event->context = context;
    event->context_id = context->id;
    event->flags = flags;
    event->engine_event = ENGINE_NO_EVENT;
    if (flags & CU_EVENT_DISABLE_TIMING)
        return event;
    int number = engine_event_create(sim_lock(card_machine()), context->engine);
    sim_unlock(card_machine());
    if (number >= 0)
        event->engine_event = (uint32_t)number;
    return event;
}

CUresult event_resolve(CUevent event)
{
    REQUIRE(handle_is(event, HANDLE_EVENT), CUDA_ERROR_INVALID_HANDLE);
    TRY(context_usable(event->context));
    return event->context->id == event->context_id ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
    LOCKED();
    REQUIRE(out && !(flags & ~(unsigned)KNOWN_FLAGS), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(flags & CU_EVENT_INTERPROCESS) || flags & CU_EVENT_DISABLE_TIMING, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    CUevent event = event_open(context, flags);
    REQUIRE(event, CUDA_ERROR_OUT_OF_MEMORY);
    if (flags & CU_EVENT_INTERPROCESS && !shared_event_create(event)) {
        handle_free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    LOCKED();
    REQUIRE(handle_is(event, HANDLE_EVENT), CUDA_ERROR_INVALID_HANDLE);
    if (event->engine_event != ENGINE_NO_EVENT && event_resolve(event) == CUDA_SUCCESS) {
        engine_event_destroy(sim_lock(card_machine()), event->context->engine, event->engine_event);
        sim_unlock(card_machine());
    }
    shared_event_close(event);
    free(event->tips);
    handle_free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    return cuEventDestroy_v2(event);
}

static void note_ticket(CUevent event, const struct engine_ticket *ticket)
{
    driver_lock();
    if (handle_is(event, HANDLE_EVENT)) {
        event->ticket = *ticket;
        event->recorded = true;
        event->capture_id = 0;
        shared_event_publish(event);
    }
    driver_unlock();
}

CUresult event_record(CUevent event, const struct target *target)
{
    struct engine_ticket ticket;
    struct engine_work work = {.kind = ENGINE_RECORD, .event = event->engine_event};

    TRY(submit(target, &work, &ticket));
    note_ticket(event, &ticket);
    return CUDA_SUCCESS;
}

CUresult event_wait(CUevent event, const struct target *target)
{
    struct engine_work work = {.kind = ENGINE_WAIT, .event = ENGINE_NO_EVENT};

    driver_lock();
    bool there = handle_is(event, HANDLE_EVENT);
    if (there) {
        shared_event_read(event);
        work.after = event->ticket;
        there = event->recorded;
    }
    driver_unlock();
    return there ? submit(target, &work, NULL) : CUDA_SUCCESS;
}

/* Whether anything is left to do after the lock is given back: not when the stream is recording. */
static CUresult prepare_record(CUevent event, CUstream handle, unsigned flags, struct target *target, bool *captured)
{
    CUstream stream;

    LOCKED();
    REQUIRE(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    TRY(event_resolve(event));
    REQUIRE(event->context->device == stream->context->device, CUDA_ERROR_INVALID_HANDLE);
    *target = stream_target(stream);
    *captured = capture_is_active(stream);
    TRY(capture_refuses_legacy(stream));
    return *captured ? capture_record(stream, event, flags) : CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    struct target target;
    bool captured = false;

    TRY(prepare_record(event, stream, flags, &target, &captured));
    return captured ? CUDA_SUCCESS : event_record(event, &target);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return cuEventRecordWithFlags(event, stream, 0);
}

static CUresult prepare_wait(CUstream handle, CUevent event, unsigned flags, struct target *target, bool *captured)
{
    CUstream stream;

    LOCKED();
    REQUIRE(!(flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    TRY(event_resolve(event));
    *target = stream_target(stream);
    TRY(capture_refuses_legacy(stream));
    *captured = capture_is_active(stream) || event->capture_id;
    return *captured ? capture_wait(stream, event, flags) : CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    struct target target;
    bool captured = false;

    TRY(prepare_wait(stream, event, flags, &target, &captured));
    return captured ? CUDA_SUCCESS : event_wait(event, &target);
}

/* The ticket to ask about; CUDA_SUCCESS with *recorded false where there is none. */
static CUresult ticket_of(CUevent event, struct target *target, struct engine_ticket *ticket, bool *recorded)
{
    LOCKED();
    TRY(event_resolve(event));
    TRY(capture_refuses_event(event));
    shared_event_read(event);
    *target = (struct target){event->context, event->context_id, event->context->device, event->context->engine, 0};
    *ticket = event->ticket;
    *recorded = event->recorded;
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    struct target target;
    struct engine_ticket ticket;
    bool recorded;

    TRY(ticket_of(event, &target, &ticket, &recorded));
    return recorded ? is_done(&target, &ticket) : CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    struct target target;
    struct engine_ticket ticket;
    bool recorded;

    TRY(ticket_of(event, &target, &ticket, &recorded));
    return recorded ? wait_for(&target, &ticket) : CUDA_SUCCESS;
}

static CUresult moment(CUevent event, uint64_t *ns)
{
    struct target target;
    struct engine_ticket ticket;
    bool recorded;

    TRY(ticket_of(event, &target, &ticket, &recorded));
    REQUIRE(recorded && event->engine_event != ENGINE_NO_EVENT, CUDA_ERROR_INVALID_HANDLE);
    TRY(is_done(&target, &ticket));
    *ns = engine_event_ns(sim_lock(card_machine()), target.engine, event->engine_event);
    sim_unlock(card_machine());
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    uint64_t from, to;

    READY();
    REQUIRE(milliseconds, CUDA_ERROR_INVALID_VALUE);
    TRY(moment(start, &from));
    TRY(moment(end, &to));
    *milliseconds = (float)((double)(int64_t)(to - from) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
