/* Moving bytes. A transfer is a box of rows, a fill a rectangle of elements; both are checked before they run. */
#ifndef GPUPOOL_SIMGPU_TRANSFER_H
#define GPUPOOL_SIMGPU_TRANSFER_H

#include "streams/stream.h"

struct transfer {
    char *to;
    const char *from;
    size_t width, height, depth; /* bytes, rows, slices */
    size_t to_pitch, to_slice, from_pitch, from_slice;
    uint32_t kind;  /* enum engine_kind of the copy, 0: between two places of the host */
};

struct fill {
    char *to;
    size_t pitch, width, height; /* bytes from row to row; elements, rows */
    uint32_t value, element;     /* element: 1, 2 or 4 bytes */
};

enum transfer_wait { TRANSFER_ASYNC, TRANSFER_WAIT };

/* Without the lock. CUDA_ERROR_INVALID_VALUE: the memory has gone since it was checked. */
CUresult transfer_run(const struct transfer *transfer);
CUresult fill_run(const struct fill *fill);
/* For what changes mappings under the feet of a transfer; with the driver's lock. */
void data_lock_exclusive(void);
void data_unlock(void);

/* Under the lock: addresses, sizes and room are right, and which way it goes. */
CUresult transfer_check(struct transfer *transfer);
CUresult fill_check(const struct fill *fill);
CUresult transfer_from(const CUDA_MEMCPY3D *copy, struct transfer *transfer);
uint64_t transfer_ns(int device, const struct transfer *transfer);
uint64_t fill_ns(int device, const struct fill *fill);

/* The way of every entry point: resolve the stream, record or do it. */
CUresult copy_on(CUstream stream, const CUDA_MEMCPY3D *copy, enum transfer_wait wait);
CUresult copy_linear(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream, unsigned known,
                     enum transfer_wait wait);
#define KNOWN_TO 1u   /* must be memory of the driver's */
#define KNOWN_FROM 2u

#endif
