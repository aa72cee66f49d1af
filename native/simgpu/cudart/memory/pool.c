/* Memory pools: the device they belong to, what they keep, which devices may reach them. */
#include "runtime.h"

SAME_LAYOUT(struct cudaMemPoolProps, CUmemPoolProps);
SAME_LAYOUT(struct cudaMemAccessDesc, CUmemAccessDesc);
SAME_LAYOUT(struct cudaMemLocation, CUmemLocation);
SAME_LAYOUT(struct cudaMemPoolPtrExportData, CUmemPoolPtrExportData);

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) { return CALL_BARE(cuDeviceGetDefaultMemPool, pool, device); }

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) { return CALL_BARE(cuDeviceGetMemPool, pool, device); }

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) { return CALL_BARE(cuDeviceSetMemPool, device, pool); }

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
    return CALL(cuMemPoolCreate, pool, (const CUmemPoolProps *)properties);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return CALL_BARE(cuMemPoolDestroy, pool); }

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) { return CALL_BARE(cuMemPoolTrimTo, pool, bytes); }

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    return CALL_BARE(cuMemPoolSetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    return CALL_BARE(cuMemPoolGetAttribute, pool, (CUmemPool_attribute)attribute, value);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *descriptions, size_t count) {
    return CALL_BARE(cuMemPoolSetAccess, pool, (const CUmemAccessDesc *)descriptions, count);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *location) {
    return CALL_BARE(cuMemPoolGetAccess, (CUmemAccess_flags *)flags, pool, (CUmemLocation *)location);
}

cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool, enum cudaMemAllocationHandleType type,
                                               unsigned int flags) {
    return CALL_BARE(cuMemPoolExportToShareableHandle, handle, pool, (CUmemAllocationHandleType)type, flags);
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle, enum cudaMemAllocationHandleType type,
                                                 unsigned int flags) {
    return CALL(cuMemPoolImportFromShareableHandle, pool, handle, (CUmemAllocationHandleType)type, flags);
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *pointer) {
    return CALL(cuMemPoolExportPointer, (CUmemPoolPtrExportData *)data, (CUdeviceptr)pointer);
}

cudaError_t cudaMemPoolImportPointer(void **pointer, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data) {
    return CALL(cuMemPoolImportPointer, (CUdeviceptr *)pointer, pool, (CUmemPoolPtrExportData *)data);
}

cudaError_t cudaDeviceGraphMemTrim(int device) { return CALL_BARE(cuDeviceGraphMemTrim, device); }

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value) {
    return CALL_BARE(cuDeviceGetGraphMemAttribute, device, (CUgraphMem_attribute)attribute, value);
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void *value) {
    return CALL_BARE(cuDeviceSetGraphMemAttribute, device, (CUgraphMem_attribute)attribute, value);
}
