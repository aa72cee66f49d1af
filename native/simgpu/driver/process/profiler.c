/* Calls that say something to a profiler, and notifications that never come. */
#include "contexts/context.h"

#include "devices/card.h"

CUresult cuProfilerInitialize(const char *config, const char *output, CUoutput_mode mode)
{
    (void)config, (void)output, (void)mode;
    return CUDA_ERROR_NOT_SUPPORTED; /* so since CUDA 11 */
}

CUresult cuProfilerStart(void)
{
    READY();
    CURRENT(context);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    READY();
    CURRENT(context);
    return CUDA_SUCCESS;
}

struct notification {
    CUasyncCallback function;
    void *data;
};

CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback function, void *data,
                                           CUasyncCallbackHandle *out)
{
    LOCKED();
    DEVICE(device);
    REQUIRE(function && out, CUDA_ERROR_INVALID_VALUE);
    struct notification *notification = handle_new(sizeof *notification, HANDLE_NOTIFICATION);
    REQUIRE(notification, CUDA_ERROR_OUT_OF_MEMORY);
    *notification = (struct notification){function, data};
    *out = (CUasyncCallbackHandle)notification;
    return CUDA_SUCCESS;
}

CUresult cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle handle)
{
    LOCKED();
    DEVICE(device);
    REQUIRE(handle_is(handle, HANDLE_NOTIFICATION), CUDA_ERROR_INVALID_VALUE);
    handle_free(handle);
    return CUDA_SUCCESS;
}
