/* Handing work to the engine and waiting for it. No lock of the driver is held here. */
#include "stream.h"

#include "devices/card.h"
#include "graphs/capture.h"
#include "jobs.h"
#include "machine/machine.h"
#include "memory/pool.h"

/* Unless the context was made anew meanwhile: the error was the old one's. */
static void note_failure(const struct target *target, CUresult error)
{
    driver_lock();
    if (target->context->id == target->context_id) {
        context_fail(target->context, error);
        jobs_drop(target->engine);
    }
    driver_unlock();
}

static CUresult answered(const struct target *target, int answer)
{
    card_leave();
    if (answer > 0)
        note_failure(target, (CUresult)answer);
    return card_result(answer);
}

CUresult submit(const struct target *target, const struct engine_work *work, struct engine_ticket *ticket)
{
    card_enter();
    return answered(target, sim_submit(card_machine(), target->engine, target->stream, work, ticket));
}

CUresult submit_for(const struct target *target, uint32_t kind, uint64_t ns, struct engine_ticket *ticket)
{
    struct engine_work work = {.kind = kind, .duration_ns = ns, .event = ENGINE_NO_EVENT};

    return submit(target, &work, ticket);
}

/* A host function that waited for the card would wait for itself. */
static CUresult may_wait(void)
{
    return jobs_inside() ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult wait_for(const struct target *target, const struct engine_ticket *ticket)
{
    TRY(may_wait());
    card_enter();
    CUresult waited = answered(target, sim_wait(card_machine(), target->engine, ticket));
    pools_settle(target->device);
    return waited;
}

CUresult is_done(const struct target *target, const struct engine_ticket *ticket)
{
    int done = 0;

    card_enter();
    TRY(answered(target, sim_query(card_machine(), target->engine, ticket, &done)));
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult wait_for_stream(const struct target *target)
{
    TRY(may_wait());
    card_enter();
    CUresult waited = answered(target, sim_wait_stream(card_machine(), target->engine, target->stream));
    pools_settle(target->device);
    return waited;
}

CUresult context_wait(CUcontext context)
{
    TRY(may_wait());
    driver_lock();
    struct target target = {
        .context = context, .context_id = context->id, .device = context->device, .engine = context->engine,
    };
    driver_unlock();
    card_enter();
    CUresult waited = answered(&target, sim_wait_context(card_machine(), target.engine));
    pools_settle(target.device);
    return waited;
}

void context_drain(CUcontext context)
{
    if (context && context->alive && !context->sticky)
        context_wait(context);
}

uint64_t clock_now(void)
{
    return sim_now(card_machine());
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    READY();
    driver_lock();
    CUresult usable = context_or_current(&context);
    if (usable == CUDA_SUCCESS)
        usable = capture_forbids_wait(context);
    driver_unlock();
    TRY(usable);
    TRY(context_wait(context));
    return context_usable(context);
}

CUresult cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}
