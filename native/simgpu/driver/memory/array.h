/* CUDA arrays: rows of plain memory, one slice after the other. */
#ifndef GPUPOOL_SIMGPU_ARRAY_H
#define GPUPOOL_SIMGPU_ARRAY_H

#include "process/driver.h"

struct CUarray_st {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    size_t element, row, rows, slices; /* bytes of an element and a row; rows of a slice; slices or layers */
    char *data;
    CUmipmappedArray part_of; /* a level: goes with the whole */
    CUcontext context;
    uint64_t context_id;
};

struct CUmipmappedArray_st {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    unsigned levels;
    CUarray level[32];
    char *data;
    CUcontext context;
};

/* Under the lock: a live array. */
bool array_is(CUarray array);

#endif
