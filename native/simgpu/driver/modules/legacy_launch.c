/* Launching as before CUDA 4: the function carries its block shape and arguments. And several launches in one call. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#define PARAMETER_BYTES 4096u

#define FUNCTION()                                                                                                 \
    LOCKED();                                                                                                      \
    REQUIRE(handle_is(function, HANDLE_FUNCTION), CUDA_ERROR_INVALID_HANDLE)

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
    FUNCTION();
    REQUIRE(x > 0 && y > 0 && z > 0, CUDA_ERROR_INVALID_VALUE);
    function->block[0] = x;
    function->block[1] = y;
    function->block[2] = z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned int bytes)
{
    FUNCTION();
    function->shared_bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction function, unsigned int bytes)
{
    FUNCTION();
    REQUIRE(bytes <= PARAMETER_BYTES, CUDA_ERROR_INVALID_VALUE);
    function->param_bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction function, int offset, void *value, unsigned int bytes)
{
    FUNCTION();
    REQUIRE(value && offset >= 0 && (unsigned)offset + (uint64_t)bytes <= PARAMETER_BYTES, CUDA_ERROR_INVALID_VALUE);
    if (!function->params)
        function->params = calloc(1, PARAMETER_BYTES);
    REQUIRE(function->params, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(function->params + offset, value, bytes);
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned int value)
{
    return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction function, int offset, float value)
{
    return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    unsigned char bytes[PARAMETER_BYTES] = {0};
    size_t size;
    int block[3];
    unsigned shared;

    {
        FUNCTION();
        REQUIRE(width > 0 && height > 0 && function->block[0], CUDA_ERROR_INVALID_VALUE);
        memcpy(block, function->block, sizeof block);
        shared = function->shared_bytes;
        size = function->param_bytes;
        if (function->params)
            memcpy(bytes, function->params, sizeof bytes);
    }
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, (unsigned)block[0], (unsigned)block[1],
                          (unsigned)block[2], shared, stream, NULL, extra);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
    return cuLaunchGridAsync(function, width, height, NULL);
}

CUresult cuLaunch(CUfunction function)
{
    return cuLaunchGrid(function, 1, 1);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
    (void)flags;
    READY();
    REQUIRE(list && count, CUDA_ERROR_INVALID_VALUE);
    for (unsigned at = 0; at < count; ++at)
        TRY(cuLaunchCooperativeKernel(list[at].function, list[at].gridDimX, list[at].gridDimY, list[at].gridDimZ,
                                      list[at].blockDimX, list[at].blockDimY, list[at].blockDimZ,
                                      list[at].sharedMemBytes, list[at].hStream, list[at].kernelParams));
    return CUDA_SUCCESS;
}
