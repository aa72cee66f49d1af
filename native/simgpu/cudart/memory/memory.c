/* Memory of the device, of the host, and of both. */
#include "shape.h"

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) { return CALL(cuMemGetInfo, free_bytes, total_bytes); }

/* No bytes are no memory, and no error. */
cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    int result = pointer ? cudart_enter() : (int)cudaErrorInvalidValue;
    if (result)
        return cudart_result(result);
    *pointer = NULL;
    return cudart_result(bytes ? DRIVER(cuMemAlloc)((CUdeviceptr *)pointer, bytes) : 0);
}

enum { PITCH_ELEMENT_BYTES = 16 }; /* the widest element a pitch must suit */

static int malloc_pitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    int result = pointer && pitch ? cudart_enter() : (int)cudaErrorInvalidValue;
    if (result)
        return result;
    *pointer = NULL;
    *pitch = 0;
    if (!width || !height)
        return 0;
    return DRIVER(cuMemAllocPitch)((CUdeviceptr *)pointer, pitch, width, height, PITCH_ELEMENT_BYTES);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    return cudart_result(malloc_pitch(pointer, pitch, width, height));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *box, struct cudaExtent extent) {
    if (!box)
        return cudart_result(cudaErrorInvalidValue);
    int result = malloc_pitch(&box->ptr, &box->pitch, extent.width, extent.height * extent.depth);
    box->xsize = extent.width;
    box->ysize = extent.height;
    return cudart_result(result);
}

cudaError_t cudaFree(void *pointer) {
    int result = cudart_enter();
    return cudart_result(result || !pointer ? result : (int)DRIVER(cuMemFree)((CUdeviceptr)pointer));
}

cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags) {
    return CALL(cuMemAllocManaged, (CUdeviceptr *)pointer, bytes, flags);
}

cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return CALL(cuMemAllocHost, pointer, bytes); }

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags) { return CALL(cuMemHostAlloc, pointer, bytes, flags); }

cudaError_t cudaFreeHost(void *pointer) {
    int result = cudart_enter();
    return cudart_result(result || !pointer ? result : (int)DRIVER(cuMemFreeHost)(pointer));
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags) {
    return CALL(cuMemHostRegister, pointer, bytes, flags);
}

cudaError_t cudaHostUnregister(void *pointer) { return CALL(cuMemHostUnregister, pointer); }

cudaError_t cudaHostGetDevicePointer(void **device_pointer, void *pointer, unsigned int flags) {
    return CALL(cuMemHostGetDevicePointer, (CUdeviceptr *)device_pointer, pointer, flags);
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *pointer) { return CALL(cuMemHostGetFlags, flags, pointer); }

static int advise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location) {
    CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};
    int result = cudart_enter();
    return result ? result : (int)DRIVER(cuMemAdvise)((CUdeviceptr)pointer, bytes, (CUmem_advise)advice, where);
}

#if CUDART_VERSION >= 13000

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location) {
    return cudart_result(advise(pointer, bytes, advice, location));
}

#else

cudaError_t cudaMemAdvise(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, int device) {
    struct cudaMemLocation host = {.type = cudaMemLocationTypeHost}, card = {.type = cudaMemLocationTypeDevice, .id = device};
    return cudart_result(advise(pointer, bytes, advice, device == cudaCpuDeviceId ? host : card));
}

cudaError_t cudaMemAdvise_v2(const void *pointer, size_t bytes, enum cudaMemoryAdvise advice, struct cudaMemLocation location) {
    return cudart_result(advise(pointer, bytes, advice, location));
}

#endif

cudaError_t cudaMemRangeGetAttribute(void *data, size_t data_bytes, enum cudaMemRangeAttribute attribute, const void *pointer,
                                     size_t bytes) {
    return CALL(cuMemRangeGetAttribute, data, data_bytes, (CUmem_range_attribute)attribute, (CUdeviceptr)pointer, bytes);
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *data_bytes, enum cudaMemRangeAttribute *attributes, size_t count,
                                      const void *pointer, size_t bytes) {
    return CALL(cuMemRangeGetAttributes, data, data_bytes, (CUmem_range_attribute *)attributes, count, (CUdeviceptr)pointer, bytes);
}

static enum cudaMemoryType memory_type(unsigned int driver_type, unsigned int managed) {
    if (managed)
        return cudaMemoryTypeManaged;
    switch (driver_type) {
    case CU_MEMORYTYPE_HOST:
        return cudaMemoryTypeHost;
    case CU_MEMORYTYPE_DEVICE:
        return cudaMemoryTypeDevice;
    default:
        return cudaMemoryTypeUnregistered;
    }
}

/* Memory that the driver has never heard of is the program's own: unregistered, and no error. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer) {
    unsigned int type = 0, managed = 0;
    int device = cudaInvalidDeviceId;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                    CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *answers[] = {&type, &managed, &device, &on_device, &on_host};
    int result = out ? cudart_enter() : (int)cudaErrorInvalidValue;
    if (!result)
        result = DRIVER(cuPointerGetAttributes)(5, wanted, answers, (CUdeviceptr)pointer);
    if (result)
        return cudart_result(result);
    enum cudaMemoryType kind = memory_type(type, managed);
    int known = kind != cudaMemoryTypeUnregistered;
    *out = (struct cudaPointerAttributes){.type = kind,
                                          .device = known ? device : cudaInvalidDeviceId,
                                          .devicePointer = known ? (void *)on_device : NULL,
                                          .hostPointer = known ? on_host : (void *)pointer};
    return cudaSuccess;
}
