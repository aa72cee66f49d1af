/* Bytes that a copy moves, from arguments that may be anything a program passes, null pointers included. */
#ifndef GPUPOOL_FENCE_SIZES_H
#define GPUPOOL_FENCE_SIZES_H

#include <gpupool/cuda_all.h>
#include <stdint.h>

#include "work.h"

#define FENCE_BYTES_2D(copy) ((copy) ? (uint64_t)(copy)->WidthInBytes * (copy)->Height : 0)
#define FENCE_BYTES_3D(copy) ((copy) ? (uint64_t)(copy)->WidthInBytes * (copy)->Height * (copy)->Depth : 0)
#define FENCE_BLOCKS(config) \
    ((config) ? (uint64_t)(config)->gridDimX * (config)->gridDimY * (config)->gridDimZ : 0)
#define FENCE_DIRECTION(copy) \
    ((copy) ? fence_direction((copy)->srcMemoryType, (copy)->dstMemoryType) : FENCE_COPY_ANY)

static inline enum fence_copy fence_direction(CUmemorytype from, CUmemorytype to)
{
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
        return FENCE_COPY_ANY;
    if (from == CU_MEMORYTYPE_HOST)
        return FENCE_COPY_TO_DEVICE;
    return to == CU_MEMORYTYPE_HOST ? FENCE_COPY_TO_HOST : FENCE_COPY_ON_DEVICE;
}

static inline uint64_t fence_sum(const size_t *sizes, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; sizes && i < count; i++)
        sum += sizes[i];
    return sum;
}

/* Extents are in elements where an operand is an array: then this is a lower bound, which measuring corrects. */
static inline uint64_t fence_sum_3d(const CUDA_MEMCPY3D_BATCH_OP *operations, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; operations && i < count; i++) {
        const CUextent3D *extent = &operations[i].extent;
        sum += (uint64_t)extent->width * extent->height * extent->depth;
    }
    return sum;
}

static inline uint64_t fence_sum_decompressed(const CUmemDecompressParams *operations, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; operations && i < count; i++)
        sum += operations[i].dstNumBytes;
    return sum;
}

static inline uint64_t fence_sum_fabric(const CUDA_FABRIC_COPY_BATCH_OP *operations, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; operations && i < count; i++)
        sum += operations[i].size;
    return sum;
}

/* One cooperative kernel on several cards, from a time before groups spanned launches: described as work of the first. */
static inline uint64_t fence_sum_blocks(const CUDA_LAUNCH_PARAMS *launches, unsigned int count)
{
    uint64_t sum = 0;
    for (unsigned int i = 0; launches && i < count; i++)
        sum += FENCE_BLOCKS(&launches[i]);
    return sum;
}

#endif
