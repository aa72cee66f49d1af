#include "transfer_submit.h"

CUresult data_move(const struct job *job)
{
    if (!jobs_none())
        return job_submit(job, NULL);
    return job->kind == JOB_TRANSFER ? transfer_run(&job->transfer) : fill_run(&job->fill);
}

CUresult transfer_submit(const struct target *target, const struct transfer *transfer, enum transfer_wait wait)
{
    struct job job = {.kind = JOB_TRANSFER, .target = *target, .transfer = *transfer};

    if (!transfer->width || !transfer->height || !transfer->depth)
        return CUDA_SUCCESS;
    TRY(submit_for(target, transfer->kind ? transfer->kind : (uint32_t)ENGINE_COPY_OUT,
                   transfer_ns(target->device, transfer), NULL));
    TRY(data_move(&job));
    return wait == TRANSFER_WAIT ? wait_for_stream(target) : CUDA_SUCCESS;
}

CUresult fill_submit(const struct target *target, const struct fill *fill)
{
    struct job job = {.kind = JOB_FILL, .target = *target, .fill = *fill};

    if (!fill->width || !fill->height)
        return CUDA_SUCCESS;
    TRY(submit_for(target, ENGINE_MEMSET, fill_ns(target->device, fill), NULL));
    return data_move(&job);
}
