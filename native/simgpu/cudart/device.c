/* Devices: how many, which one a thread means, their limits and preferences. */
#include "runtime.h"

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version)
        return cudart_result(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* 0, and no error, where there is no driver at all. */
cudaError_t cudaDriverGetVersion(int *version) {
    if (!version)
        return cudart_result(cudaErrorInvalidValue);
    *version = 0;
    return cudart_driver_loaded() ? cudaSuccess : cudart_result(DRIVER(cuDriverGetVersion)(version));
}

cudaError_t cudaGetDeviceCount(int *count) {
    if (!count)
        return cudart_result(cudaErrorInvalidValue);
    *count = 0;
    cudaError_t result = CALL_BARE(cuDeviceGetCount, count);
    return result == cudaSuccess && *count == 0 ? cudart_result(cudaErrorNoDevice) : result;
}

cudaError_t cudaGetDevice(int *device) {
    return cudart_result(device ? cudart_device(device) : (int)cudaErrorInvalidValue);
}

cudaError_t cudaSetDevice(int device) { return cudart_result(cudart_enter_device(device)); }

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
    int result = cudart_driver_ready();
    if (!result && (flags & cudaInitDeviceFlagsAreValid))
        result = DRIVER(cuDevicePrimaryCtxSetFlags)(device, device_flags);
    CUcontext context;
    return cudart_result(result ? result : cudart_primary(device, &context));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) { return cudart_result(cudart_set_flags(flags)); }

cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
    int device, active;
    int result = flags ? cudart_device(&device) : (int)cudaErrorInvalidValue;
    return cudart_result(result ? result : (int)DRIVER(cuDevicePrimaryCtxGetState)(device, flags, &active));
}

cudaError_t cudaDeviceSynchronize(void) { return CALL(cuCtxSynchronize); }

cudaError_t cudaDeviceReset(void) {
    int device;
    int result = cudart_device(&device);
    return cudart_result(result ? result : cudart_reset(device));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    return CALL_BARE(cuDeviceGetAttribute, value, (CUdevice_attribute)attribute, device);
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) { return CALL_BARE(cuDeviceGetPCIBusId, id, length, device); }

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) { return CALL_BARE(cuDeviceGetByPCIBusId, device, id); }

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) { return CALL(cuCtxGetLimit, value, (CUlimit)limit); }

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) { return CALL(cuCtxSetLimit, (CUlimit)limit, value); }

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config) { return CALL(cuCtxGetCacheConfig, (CUfunc_cache *)config); }

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) { return CALL(cuCtxSetCacheConfig, (CUfunc_cache)config); }

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    return CALL(cuCtxGetStreamPriorityRange, least, greatest);
}

cudaError_t cudaCtxResetPersistingL2Cache(void) { return CALL(cuCtxResetPersistingL2Cache); }

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                               enum cudaFlushGPUDirectRDMAWritesScope scope) {
    return CALL(cuFlushGPUDirectRDMAWrites, (CUflushGPUDirectRDMAWritesTarget)target, (CUflushGPUDirectRDMAWritesScope)scope);
}

cudaError_t cudaProfilerStart(void) { return CALL(cuProfilerStart); }

cudaError_t cudaProfilerStop(void) { return CALL(cuProfilerStop); }

#if CUDART_VERSION < 13000

/* Older names of the same. */
cudaError_t cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
cudaError_t cudaThreadExit(void) { return cudaDeviceReset(); }
cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit) { return cudaDeviceGetLimit(value, limit); }
cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value) { return cudaDeviceSetLimit(limit, value); }

#endif
