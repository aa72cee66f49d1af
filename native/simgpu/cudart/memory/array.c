/* Arrays and mipmapped arrays; an array's handle is the driver's. */
#include "array.h"

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind) {
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}

static int format_of(int bits, enum cudaChannelFormatKind kind, CUarray_format *format) {
    static const CUarray_format of_signed[] = {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32};
    static const CUarray_format of_unsigned[] = {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16,
                                                 CU_AD_FORMAT_UNSIGNED_INT32};
    int width = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : -1;
    if (width < 0)
        return cudaErrorInvalidChannelDescriptor;
    if (kind == cudaChannelFormatKindSigned)
        *format = of_signed[width];
    else if (kind == cudaChannelFormatKindUnsigned)
        *format = of_unsigned[width];
    else if (kind == cudaChannelFormatKindFloat && width > 0)
        *format = width == 1 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
    else
        return cudaErrorInvalidChannelDescriptor;
    return 0;
}

static unsigned int channels_of(const struct cudaChannelFormatDesc *d) {
    int bits[] = {d->x, d->y, d->z, d->w}, count = 0;
    while (count < 4 && bits[count])
        count++;
    for (int i = 0; i < 4; i++)
        if (bits[i] != (i < count ? d->x : 0))
            return 0;
    return (unsigned)count;
}

int cudart_driver_format(const struct cudaChannelFormatDesc *d, CUarray_format *format, unsigned int *channels) {
    *channels = d ? channels_of(d) : 0;
    return *channels ? format_of(d->x, d->f, format) : (int)cudaErrorInvalidChannelDescriptor;
}

static int describe(const struct cudaChannelFormatDesc *d, struct cudaExtent extent, unsigned int flags,
                    CUDA_ARRAY3D_DESCRIPTOR *out) {
    *out = (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
    return cudart_driver_format(d, &out->Format, &out->NumChannels);
}

static cudaError_t create(cudaArray_t *array, const struct cudaChannelFormatDesc *d, struct cudaExtent extent, unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR description;
    int result = array ? describe(d, extent, flags, &description) : (int)cudaErrorInvalidValue;
    if (result)
        return cudart_result(result);
    return CALL(cuArray3DCreate, (CUarray *)array, &description);
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *d, size_t width, size_t height,
                            unsigned int flags) {
    return create(array, d, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *d, struct cudaExtent extent,
                              unsigned int flags) {
    return create(array, d, extent, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array) {
    int result = cudart_enter();
    return cudart_result(result || !array ? result : (int)DRIVER(cuArrayDestroy)((CUarray)array));
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *d, struct cudaExtent extent,
                                     unsigned int levels, unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR description;
    int result = array ? describe(d, extent, flags, &description) : (int)cudaErrorInvalidValue;
    if (result)
        return cudart_result(result);
    return CALL(cuMipmappedArrayCreate, (CUmipmappedArray *)array, &description, levels);
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *level_array, cudaMipmappedArray_const_t array, unsigned int level) {
    return CALL(cuMipmappedArrayGetLevel, (CUarray *)level_array, (CUmipmappedArray)array, level);
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
    int result = cudart_enter();
    return cudart_result(result || !array ? result : (int)DRIVER(cuMipmappedArrayDestroy)((CUmipmappedArray)array));
}

static enum cudaChannelFormatKind kind_of(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32:
        return cudaChannelFormatKindSigned;
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_FLOAT:
        return cudaChannelFormatKindFloat;
    default:
        return cudaChannelFormatKindUnsigned;
    }
}

static int bits_of(CUarray_format format) {
    switch (format) {
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNSIGNED_INT8:
        return 8;
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16;
    default:
        return 32;
    }
}

struct cudaChannelFormatDesc cudart_runtime_format(CUarray_format format, unsigned int channels) {
    int bits = bits_of(format);
    return (struct cudaChannelFormatDesc){bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0,
                                          kind_of(format)};
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *channel, struct cudaExtent *extent, unsigned int *flags,
                             cudaArray_t array) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t result = CALL(cuArray3DGetDescriptor, &d, (CUarray)array);
    if (result != cudaSuccess)
        return result;
    if (channel)
        *channel = cudart_runtime_format(d.Format, d.NumChannels);
    if (extent)
        *extent = (struct cudaExtent){d.Width, d.Height, d.Depth};
    if (flags)
        *flags = d.Flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *channel, cudaArray_const_t array) {
    return cudaArrayGetInfo(channel, NULL, NULL, (cudaArray_t)array);
}
