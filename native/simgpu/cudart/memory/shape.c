#include "shape.h"

CUmemorytype cudart_source_type(enum cudaMemcpyKind kind) {
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    return kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUmemorytype cudart_target_type(enum cudaMemcpyKind kind) {
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    return kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

CUDA_MEMCPY2D cudart_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          enum cudaMemcpyKind kind) {
    return (CUDA_MEMCPY2D){.srcMemoryType = cudart_source_type(kind),
                           .srcHost = from,
                           .srcDevice = (CUdeviceptr)from,
                           .srcPitch = from_pitch,
                           .dstMemoryType = cudart_target_type(kind),
                           .dstHost = to,
                           .dstDevice = (CUdeviceptr)to,
                           .dstPitch = to_pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

static size_t format_bytes(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4;
    }
}

int cudart_element_bytes(CUarray array, size_t *bytes) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    int result = DRIVER(cuArray3DGetDescriptor)(&d, array);
    if (!result)
        *bytes = format_bytes(d.Format) * d.NumChannels;
    return result;
}

/* Each side is an array or pitched memory, never both and never neither. */
static int valid_sides(const struct cudaMemcpy3DParms *p) {
    return !p->srcArray == !!p->srcPtr.ptr && !p->dstArray == !!p->dstPtr.ptr && (unsigned)p->kind <= cudaMemcpyDefault;
}

static void describe_source(const struct cudaMemcpy3DParms *p, size_t element, CUDA_MEMCPY3D *out) {
    out->srcXInBytes = p->srcPos.x * (p->srcArray ? element : 1);
    out->srcY = p->srcPos.y;
    out->srcZ = p->srcPos.z;
    out->srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : cudart_source_type(p->kind);
    out->srcArray = (CUarray)p->srcArray;
    out->srcHost = p->srcPtr.ptr;
    out->srcDevice = (CUdeviceptr)p->srcPtr.ptr;
    out->srcPitch = p->srcPtr.pitch;
    out->srcHeight = p->srcPtr.ysize;
}

static void describe_target(const struct cudaMemcpy3DParms *p, size_t element, CUDA_MEMCPY3D *out) {
    out->dstXInBytes = p->dstPos.x * (p->dstArray ? element : 1);
    out->dstY = p->dstPos.y;
    out->dstZ = p->dstPos.z;
    out->dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : cudart_target_type(p->kind);
    out->dstArray = (CUarray)p->dstArray;
    out->dstHost = p->dstPtr.ptr;
    out->dstDevice = (CUdeviceptr)p->dstPtr.ptr;
    out->dstPitch = p->dstPtr.pitch;
    out->dstHeight = p->dstPtr.ysize;
}

int cudart_box(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out) {
    if (!p || !valid_sides(p))
        return cudaErrorInvalidValue;
    size_t element = 1;
    int result = 0;
    if (p->srcArray || p->dstArray)
        result = cudart_element_bytes((CUarray)(p->srcArray ? p->srcArray : p->dstArray), &element);
    *out = (CUDA_MEMCPY3D){.WidthInBytes = p->extent.width * element, .Height = p->extent.height, .Depth = p->extent.depth};
    describe_source(p, element, out);
    describe_target(p, element, out);
    return result;
}

static enum cudaMemcpyKind kind_of(const CUDA_MEMCPY3D *p) {
    if (p->srcMemoryType == CU_MEMORYTYPE_UNIFIED || p->dstMemoryType == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    int from_host = p->srcMemoryType == CU_MEMORYTYPE_HOST, to_host = p->dstMemoryType == CU_MEMORYTYPE_HOST;
    if (from_host)
        return to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

static void *pointer_of(CUmemorytype type, const void *host, CUdeviceptr device) {
    if (type == CU_MEMORYTYPE_ARRAY)
        return NULL;
    return type == CU_MEMORYTYPE_HOST ? (void *)host : (void *)device;
}

struct cudaMemcpy3DParms cudart_box_back(const CUDA_MEMCPY3D *p) {
    int arrays = p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY;
    size_t element = 1;
    if (arrays)
        (void)cudart_element_bytes(p->srcMemoryType == CU_MEMORYTYPE_ARRAY ? p->srcArray : p->dstArray, &element);
    void *from = pointer_of(p->srcMemoryType, p->srcHost, p->srcDevice), *to = pointer_of(p->dstMemoryType, p->dstHost, p->dstDevice);
    return (struct cudaMemcpy3DParms){.srcArray = from ? NULL : (cudaArray_t)p->srcArray,
                                      .srcPos = {p->srcXInBytes / (from ? 1 : element), p->srcY, p->srcZ},
                                      .srcPtr = {from, p->srcPitch, p->WidthInBytes, p->srcHeight},
                                      .dstArray = to ? NULL : (cudaArray_t)p->dstArray,
                                      .dstPos = {p->dstXInBytes / (to ? 1 : element), p->dstY, p->dstZ},
                                      .dstPtr = {to, p->dstPitch, p->WidthInBytes, p->dstHeight},
                                      .extent = {p->WidthInBytes / element, p->Height, p->Depth},
                                      .kind = kind_of(p)};
}
