/* Arrays and mipmapped arrays; an array's handle is the driver's. */
#include "runtime.h"

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind kind) {
    return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}

static int driver_format(int bits, enum cudaChannelFormatKind kind, CUarray_format *format) {
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

/* Channels are of one width, without a gap. */
static int channels(const struct cudaChannelFormatDesc *d) {
    int bits[] = {d->x, d->y, d->z, d->w}, count = 0;
    while (count < 4 && bits[count])
        count++;
    for (int i = 0; i < 4; i++)
        if (bits[i] != (i < count ? d->x : 0))
            return 0;
    return count;
}

static int describe(const struct cudaChannelFormatDesc *d, struct cudaExtent extent, unsigned int flags,
                    CUDA_ARRAY3D_DESCRIPTOR *out) {
    if (!d || !channels(d))
        return cudaErrorInvalidChannelDescriptor;
    *out = (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent.width,
                                     .Height = extent.height,
                                     .Depth = extent.depth,
                                     .NumChannels = (unsigned)channels(d),
                                     .Flags = flags};
    return driver_format(d->x, d->f, &out->Format);
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

static struct cudaChannelFormatDesc channel_description(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    int bits = 32, count = (int)d->NumChannels;
    enum cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;
    switch (d->Format) {
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32:
        kind = cudaChannelFormatKindSigned;
        break;
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_FLOAT:
        kind = cudaChannelFormatKindFloat;
        break;
    default:
        break;
    }
    if (d->Format == CU_AD_FORMAT_SIGNED_INT8 || d->Format == CU_AD_FORMAT_UNSIGNED_INT8)
        bits = 8;
    if (d->Format == CU_AD_FORMAT_SIGNED_INT16 || d->Format == CU_AD_FORMAT_UNSIGNED_INT16 || d->Format == CU_AD_FORMAT_HALF)
        bits = 16;
    return (struct cudaChannelFormatDesc){bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0, kind};
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *channel, struct cudaExtent *extent, unsigned int *flags,
                             cudaArray_t array) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t result = CALL(cuArray3DGetDescriptor, &d, (CUarray)array);
    if (result != cudaSuccess)
        return result;
    if (channel)
        *channel = channel_description(&d);
    if (extent)
        *extent = (struct cudaExtent){d.Width, d.Height, d.Depth};
    if (flags)
        *flags = d.Flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *channel, cudaArray_const_t array) {
    return cudaArrayGetInfo(channel, NULL, NULL, (cudaArray_t)array);
}
