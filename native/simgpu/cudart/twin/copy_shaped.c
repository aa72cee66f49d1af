/* Copies of two and three dimensions, between pitched memory and arrays. */
#include "memory/shape.h"

static int valid_kind(enum cudaMemcpyKind kind) { return (unsigned)kind <= cudaMemcpyDefault; }

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                     enum cudaMemcpyKind kind, cudaStream_t stream, int async) {
    if (!valid_kind(kind))
        return cudaErrorInvalidMemcpyDirection;
    if (width > to_pitch || width > from_pitch)
        return cudaErrorInvalidPitchValue;
    int result = cudart_enter();
    if (result || !width || !height)
        return result;
    CUDA_MEMCPY2D c = cudart_rows(to, to_pitch, from, from_pitch, width, height, kind);
    return async ? DRIVER(cuMemcpy2DAsync)(&c, stream) : DRIVER(cuMemcpy2DUnaligned)(&c);
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind) {
    return cudart_result(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, NULL, 0));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
    return cudart_result(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, 1));
}

static int copy_box(const struct cudaMemcpy3DParms *p, cudaStream_t stream, int async) {
    CUDA_MEMCPY3D c;
    int result = cudart_enter();
    if (!result)
        result = cudart_box(p, &c);
    if (result || !c.WidthInBytes || !c.Height || !c.Depth)
        return result;
    return async ? DRIVER(cuMemcpy3DAsync)(&c, stream) : DRIVER(cuMemcpy3D)(&c);
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p) { return cudart_result(copy_box(p, NULL, 0)); }

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream) {
    return cudart_result(copy_box(p, stream, 1));
}

/* For arrays, widths and horizontal offsets count bytes here. */
static int to_array(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
                    enum cudaMemcpyKind kind, cudaStream_t stream, int async) {
    int result = valid_kind(kind) ? cudart_enter() : (int)cudaErrorInvalidMemcpyDirection;
    if (result || !width || !height)
        return result;
    CUDA_MEMCPY2D c = cudart_rows(NULL, 0, from, pitch, width, height, kind);
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = (CUarray)to;
    c.dstXInBytes = x;
    c.dstY = y;
    return async ? DRIVER(cuMemcpy2DAsync)(&c, stream) : DRIVER(cuMemcpy2DUnaligned)(&c);
}

static int from_array(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                      enum cudaMemcpyKind kind, cudaStream_t stream, int async) {
    int result = valid_kind(kind) ? cudart_enter() : (int)cudaErrorInvalidMemcpyDirection;
    if (result || !width || !height)
        return result;
    CUDA_MEMCPY2D c = cudart_rows(to, pitch, NULL, 0, width, height, kind);
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = (CUarray)from;
    c.srcXInBytes = x;
    c.srcY = y;
    return async ? DRIVER(cuMemcpy2DAsync)(&c, stream) : DRIVER(cuMemcpy2DUnaligned)(&c);
}

cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
                                enum cudaMemcpyKind kind) {
    return cudart_result(to_array(to, x, y, from, pitch, width, height, kind, NULL, 0));
}

cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                                     size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return cudart_result(to_array(to, x, y, from, pitch, width, height, kind, stream, 1));
}

cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t height,
                                  enum cudaMemcpyKind kind) {
    return cudart_result(from_array(to, pitch, from, x, y, width, height, kind, NULL, 0));
}

cudaError_t cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width,
                                       size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return cudart_result(from_array(to, pitch, from, x, y, width, height, kind, stream, 1));
}

cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_x, size_t to_y, cudaArray_const_t from, size_t from_x, size_t from_y,
                                     size_t width, size_t height, enum cudaMemcpyKind kind) {
    int result = valid_kind(kind) ? cudart_enter() : (int)cudaErrorInvalidMemcpyDirection;
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                       .srcArray = (CUarray)from,
                       .srcXInBytes = from_x,
                       .srcY = from_y,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = (CUarray)to,
                       .dstXInBytes = to_x,
                       .dstY = to_y,
                       .WidthInBytes = width,
                       .Height = height};
    if (!result && width && height)
        result = DRIVER(cuMemcpy2DUnaligned)(&c);
    return cudart_result(result);
}
