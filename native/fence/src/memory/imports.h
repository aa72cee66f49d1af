/* Counts the memory of other processes that is open here. */
#ifndef GPUPOOL_IMPORTS_H
#define GPUPOOL_IMPORTS_H

#include <gpupool/cuda_all.h>

/* After a free of a pointer that was not charged here: it may have come from another process's pool. */
void imports_freed(CUdeviceptr pointer, CUresult result);

#endif
