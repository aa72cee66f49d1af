/* Submitting a transfer or a fill: the data moves now, or by a job where an earlier one has not run; the engine takes its time. */
#ifndef GPUPOOL_SIMGPU_TRANSFER_SUBMIT_H
#define GPUPOOL_SIMGPU_TRANSFER_SUBMIT_H

#include "streams/jobs.h"
#include "transfer.h"

/* Without the lock. Runs the job's transfer or fill at once, or submits the job behind those that have not run. */
CUresult data_move(const struct job *job);

/* Without the lock. */
CUresult transfer_submit(const struct target *target, const struct transfer *transfer, enum transfer_wait wait);
CUresult fill_submit(const struct target *target, const struct fill *fill);

#endif
