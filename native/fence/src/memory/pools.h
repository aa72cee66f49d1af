/* Memory pools of this process. A pool keeps memory after it was freed into it, so what the driver says a pool has
   reserved is what is charged; calls that change it are followed by a look. */
#ifndef GPUPOOL_POOLS_H
#define GPUPOOL_POOLS_H

#include <gpupool/cuda_all.h>
#include <stdbool.h>

#include "handles.h"

/* Lets the pools of a card give up what they keep unused. True: something came back. */
bool pools_trim(int card);

/* Charges what the pools of a card have reserved now. */
void pools_settle(int card);

/* Whether something was freed in stream order since they were last looked at, and the look. */
bool pools_unsettled(void);
void pools_settle_all(void);

/* A pointer that came from a pool is about to be freed, and was. */
bool pools_take(CUdeviceptr pointer, struct handle *handle);
void pools_freed(const struct handle *handle, CUresult result);

#endif
