/* A launch's configuration in the driver's terms. */
#ifndef GPUPOOL_CUDART_LAUNCH_CONFIG_H
#define GPUPOOL_CUDART_LAUNCH_CONFIG_H

#include "runtime.h"

SAME_LAYOUT(cudaLaunchAttribute, CUlaunchAttribute);

static inline CUlaunchConfig cudart_launch_config(const cudaLaunchConfig_t *c) {
    return (CUlaunchConfig){.gridDimX = c->gridDim.x,
                            .gridDimY = c->gridDim.y,
                            .gridDimZ = c->gridDim.z,
                            .blockDimX = c->blockDim.x,
                            .blockDimY = c->blockDim.y,
                            .blockDimZ = c->blockDim.z,
                            .sharedMemBytes = (unsigned)c->dynamicSmemBytes,
                            .hStream = c->stream,
                            .attrs = (CUlaunchAttribute *)c->attrs,
                            .numAttrs = c->numAttrs};
}

#endif
