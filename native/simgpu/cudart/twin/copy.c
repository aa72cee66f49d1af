/* Copies of one dimension. Each direction is its own driver function, as compiled programs make the driver see them. */
#include "../runtime.h"
#include "code/registry.h"

static int valid_kind(enum cudaMemcpyKind kind) { return (unsigned)kind <= cudaMemcpyDefault; }

static int copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRIVER(cuMemcpyHtoD)((CUdeviceptr)to, from, bytes);
    case cudaMemcpyDeviceToHost:
        return DRIVER(cuMemcpyDtoH)(to, (CUdeviceptr)from, bytes);
    case cudaMemcpyDeviceToDevice:
        return DRIVER(cuMemcpyDtoD)((CUdeviceptr)to, (CUdeviceptr)from, bytes);
    default:
        return DRIVER(cuMemcpy)((CUdeviceptr)to, (CUdeviceptr)from, bytes);
    }
}

static int copy_async(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return DRIVER(cuMemcpyHtoDAsync)((CUdeviceptr)to, from, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return DRIVER(cuMemcpyDtoHAsync)(to, (CUdeviceptr)from, bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return DRIVER(cuMemcpyDtoDAsync)((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream);
    default:
        return DRIVER(cuMemcpyAsync)((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream);
    }
}

static int enter_for(enum cudaMemcpyKind kind) { return valid_kind(kind) ? cudart_enter() : (int)cudaErrorInvalidMemcpyDirection; }

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    int result = enter_for(kind);
    return cudart_result(result || !bytes ? result : copy(to, from, bytes, kind));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    int result = enter_for(kind);
    return cudart_result(result || !bytes ? result : copy_async(to, from, bytes, kind, stream));
}

/* The part of a variable from OFFSET on, BYTES long, if it has that. */
static int part_of(const void *symbol, size_t bytes, size_t offset, char **address) {
    CUdeviceptr start;
    size_t size;
    int result = cudart_enter();
    if (!result)
        result = cudart_variable(symbol, &start, &size);
    if (result)
        return result;
    *address = (char *)start + offset;
    return offset <= size && bytes <= size - offset ? 0 : (int)cudaErrorInvalidValue;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    char *to;
    int result = part_of(symbol, bytes, offset, &to);
    return cudart_result(result || !bytes ? result : copy(to, from, bytes, kind));
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    char *from;
    int result = part_of(symbol, bytes, offset, &from);
    return cudart_result(result || !bytes ? result : copy(to, from, bytes, kind));
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                    cudaStream_t stream) {
    char *to;
    int result = part_of(symbol, bytes, offset, &to);
    return cudart_result(result || !bytes ? result : copy_async(to, from, bytes, kind, stream));
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                      cudaStream_t stream) {
    char *from;
    int result = part_of(symbol, bytes, offset, &from);
    return cudart_result(result || !bytes ? result : copy_async(to, from, bytes, kind, stream));
}
