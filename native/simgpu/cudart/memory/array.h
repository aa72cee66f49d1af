/* Channel formats in the runtime's and the driver's terms. */
#ifndef GPUPOOL_CUDART_ARRAY_H
#define GPUPOOL_CUDART_ARRAY_H

#include "runtime.h"

#pragma GCC visibility push(hidden)

/* 0, or cudaErrorInvalidChannelDescriptor: channels are of one width, 8, 16 or 32 bits, and without a gap. */
int cudart_driver_format(const struct cudaChannelFormatDesc *d, CUarray_format *format, unsigned int *channels);
struct cudaChannelFormatDesc cudart_runtime_format(CUarray_format format, unsigned int channels);

#pragma GCC visibility pop
#endif
