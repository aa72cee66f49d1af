/* Copies of two and three dimensions, described the driver's way. */
#ifndef GPUPOOL_CUDART_SHAPE_H
#define GPUPOOL_CUDART_SHAPE_H

#include "runtime.h"

#pragma GCC visibility push(hidden)

/* What the driver is told of memory that a copy of KIND reads or writes. */
CUmemorytype cudart_source_type(enum cudaMemcpyKind kind);
CUmemorytype cudart_target_type(enum cudaMemcpyKind kind);

/* Rows of WIDTH bytes, HEIGHT of them, between pitched memory. */
CUDA_MEMCPY2D cudart_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          enum cudaMemcpyKind kind);

/* A box; offsets and extent of a side that is an array count elements. 0 or an error code. */
int cudart_box(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out);
/* The other way, for calls that read a graph's node; elements stay bytes where neither side is an array. */
struct cudaMemcpy3DParms cudart_box_back(const CUDA_MEMCPY3D *p);

/* Bytes of one element of ARRAY. 0 or an error code. */
int cudart_element_bytes(CUarray array, size_t *bytes);

#pragma GCC visibility pop
#endif
