/* The share as the NVML stand-in needs it. This side only reads: it takes no slot and charges nothing. */
#ifndef GPUPOOL_NVML_SHARE_H
#define GPUPOOL_NVML_SHARE_H

#include "fence_nvml_handlers.h"
#include "fence_nvml_real.h"
#include "process/region.h"

/* The job's region, or NULL: stderr was told why, once, and what this library virtualizes is refused. */
const struct fence_region *nvml_share(void);

/* Index into limits.device of a card; -1: not in the share, or not told. */
int nvml_card(nvmlDevice_t device);

/* Whether a process, as NVML numbers it, is of this allocation; `*pid` becomes its number inside of the job. */
bool nvml_is_own(unsigned int *pid);

#endif
