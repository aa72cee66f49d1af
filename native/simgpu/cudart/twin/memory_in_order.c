/* Memory that comes and goes in a stream's order. */
#include "../runtime.h"

cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
    if (!pointer)
        return cudart_result(cudaErrorInvalidValue);
    return CALL(cuMemAllocAsync, (CUdeviceptr *)pointer, bytes, stream);
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    if (!pointer)
        return cudart_result(cudaErrorInvalidValue);
    return CALL(cuMemAllocFromPoolAsync, (CUdeviceptr *)pointer, bytes, pool, stream);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) { return CALL(cuMemFreeAsync, (CUdeviceptr)pointer, stream); }

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes, unsigned int flags) {
    return CALL(cuStreamAttachMemAsync, stream, (CUdeviceptr)pointer, bytes, flags);
}

SAME_LAYOUT(struct cudaMemLocation, CUmemLocation);

static cudaError_t prefetch(const void *pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags,
                            cudaStream_t stream) {
    CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};
    return CALL(cuMemPrefetchAsync, (CUdeviceptr)pointer, bytes, where, flags, stream);
}

#if CUDART_VERSION >= 13000

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, stream);
}

#else

cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t bytes, int device, cudaStream_t stream) {
    struct cudaMemLocation host = {.type = cudaMemLocationTypeHost}, card = {.type = cudaMemLocationTypeDevice, .id = device};
    return prefetch(pointer, bytes, device == cudaCpuDeviceId ? host : card, 0, stream);
}

cudaError_t cudaMemPrefetchAsync_v2(const void *pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags,
                                    cudaStream_t stream) {
    return prefetch(pointer, bytes, location, flags, stream);
}

#endif
