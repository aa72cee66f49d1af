/* Filling memory with a byte. */
#include "../runtime.h"

cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
    int result = cudart_enter();
    if (!result && bytes)
        result = DRIVER(cuMemsetD8)((CUdeviceptr)pointer, (unsigned char)value, bytes);
    return cudart_result(result);
}

cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream) {
    int result = cudart_enter();
    if (!result && bytes)
        result = DRIVER(cuMemsetD8Async)((CUdeviceptr)pointer, (unsigned char)value, bytes, stream);
    return cudart_result(result);
}

cudaError_t cudaMemset2D(void *pointer, size_t pitch, int value, size_t width, size_t height) {
    int result = cudart_enter();
    if (!result && width && height)
        result = DRIVER(cuMemsetD2D8)((CUdeviceptr)pointer, pitch, (unsigned char)value, width, height);
    return cudart_result(result);
}

cudaError_t cudaMemset2DAsync(void *pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    int result = cudart_enter();
    if (!result && width && height)
        result = DRIVER(cuMemsetD2D8Async)((CUdeviceptr)pointer, pitch, (unsigned char)value, width, height, stream);
    return cudart_result(result);
}

/* Slice by slice: the rows between a slice's height and the next slice are not ours to fill. */
cudaError_t cudaMemset3D(struct cudaPitchedPtr box, int value, struct cudaExtent extent) {
    int result = cudart_enter();
    for (size_t z = 0; !result && extent.width && extent.height && z < extent.depth; z++) {
        CUdeviceptr slice = (CUdeviceptr)box.ptr + z * box.pitch * box.ysize;
        result = DRIVER(cuMemsetD2D8)(slice, box.pitch, (unsigned char)value, extent.width, extent.height);
    }
    return cudart_result(result);
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr box, int value, struct cudaExtent extent, cudaStream_t stream) {
    int result = cudart_enter();
    for (size_t z = 0; !result && extent.width && extent.height && z < extent.depth; z++) {
        CUdeviceptr slice = (CUdeviceptr)box.ptr + z * box.pitch * box.ysize;
        result = DRIVER(cuMemsetD2D8Async)(slice, box.pitch, (unsigned char)value, extent.width, extent.height, stream);
    }
    return cudart_result(result);
}
