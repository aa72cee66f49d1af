/* Texture and surface objects: descriptions turned into the driver's, and back for calls that read them. */
#include "array.h"

SAME_LAYOUT(cudaTextureObject_t, CUtexObject);

static int driver_resource(const struct cudaResourceDesc *r, CUDA_RESOURCE_DESC *out) {
    if (!r)
        return cudaErrorInvalidValue;
    *out = (CUDA_RESOURCE_DESC){.resType = (CUresourcetype)r->resType};
    switch (r->resType) {
    case cudaResourceTypeArray:
        out->res.array.hArray = (CUarray)r->res.array.array;
        return 0;
    case cudaResourceTypeMipmappedArray:
        out->res.mipmap.hMipmappedArray = (CUmipmappedArray)r->res.mipmap.mipmap;
        return 0;
    case cudaResourceTypeLinear:
        out->res.linear.devPtr = (CUdeviceptr)r->res.linear.devPtr;
        out->res.linear.sizeInBytes = r->res.linear.sizeInBytes;
        return cudart_driver_format(&r->res.linear.desc, &out->res.linear.format, &out->res.linear.numChannels);
    case cudaResourceTypePitch2D:
        out->res.pitch2D.devPtr = (CUdeviceptr)r->res.pitch2D.devPtr;
        out->res.pitch2D.width = r->res.pitch2D.width;
        out->res.pitch2D.height = r->res.pitch2D.height;
        out->res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
        return cudart_driver_format(&r->res.pitch2D.desc, &out->res.pitch2D.format, &out->res.pitch2D.numChannels);
    default:
        return cudaErrorInvalidValue;
    }
}

static void runtime_resource(const CUDA_RESOURCE_DESC *d, struct cudaResourceDesc *out) {
    *out = (struct cudaResourceDesc){.resType = (enum cudaResourceType)d->resType};
    switch (d->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        out->res.array.array = (cudaArray_t)d->res.array.hArray;
        break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        out->res.mipmap.mipmap = (cudaMipmappedArray_t)d->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        out->res.linear.devPtr = (void *)d->res.linear.devPtr;
        out->res.linear.sizeInBytes = d->res.linear.sizeInBytes;
        out->res.linear.desc = cudart_runtime_format(d->res.linear.format, d->res.linear.numChannels);
        break;
    default:
        out->res.pitch2D.devPtr = (void *)d->res.pitch2D.devPtr;
        out->res.pitch2D.width = d->res.pitch2D.width;
        out->res.pitch2D.height = d->res.pitch2D.height;
        out->res.pitch2D.pitchInBytes = d->res.pitch2D.pitchInBytes;
        out->res.pitch2D.desc = cudart_runtime_format(d->res.pitch2D.format, d->res.pitch2D.numChannels);
    }
}

static unsigned int driver_flags(const struct cudaTextureDesc *t) {
    return (t->readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0) |
           (t->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0) | (t->sRGB ? CU_TRSF_SRGB : 0) |
           (t->disableTrilinearOptimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0) |
           (t->seamlessCubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0);
}

static CUDA_TEXTURE_DESC driver_texture(const struct cudaTextureDesc *t) {
    CUDA_TEXTURE_DESC d = {.filterMode = (CUfilter_mode)t->filterMode,
                           .flags = driver_flags(t),
                           .maxAnisotropy = t->maxAnisotropy,
                           .mipmapFilterMode = (CUfilter_mode)t->mipmapFilterMode,
                           .mipmapLevelBias = t->mipmapLevelBias,
                           .minMipmapLevelClamp = t->minMipmapLevelClamp,
                           .maxMipmapLevelClamp = t->maxMipmapLevelClamp};
    for (int i = 0; i < 3; i++)
        d.addressMode[i] = (CUaddress_mode)t->addressMode[i];
    for (int i = 0; i < 4; i++)
        d.borderColor[i] = t->borderColor[i];
    return d;
}

static struct cudaTextureDesc runtime_texture(const CUDA_TEXTURE_DESC *d) {
    struct cudaTextureDesc t = {
        .filterMode = (enum cudaTextureFilterMode)d->filterMode,
        .readMode = d->flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat,
        .sRGB = !!(d->flags & CU_TRSF_SRGB),
        .normalizedCoords = !!(d->flags & CU_TRSF_NORMALIZED_COORDINATES),
        .maxAnisotropy = d->maxAnisotropy,
        .mipmapFilterMode = (enum cudaTextureFilterMode)d->mipmapFilterMode,
        .mipmapLevelBias = d->mipmapLevelBias,
        .minMipmapLevelClamp = d->minMipmapLevelClamp,
        .maxMipmapLevelClamp = d->maxMipmapLevelClamp,
        .disableTrilinearOptimization = !!(d->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION),
        .seamlessCubemap = !!(d->flags & CU_TRSF_SEAMLESS_CUBEMAP),
    };
    for (int i = 0; i < 3; i++)
        t.addressMode[i] = (enum cudaTextureAddressMode)d->addressMode[i];
    for (int i = 0; i < 4; i++)
        t.borderColor[i] = d->borderColor[i];
    return t;
}

static CUDA_RESOURCE_VIEW_DESC driver_view(const struct cudaResourceViewDesc *v) {
    return (CUDA_RESOURCE_VIEW_DESC){.format = (CUresourceViewFormat)v->format,
                                     .width = v->width,
                                     .height = v->height,
                                     .depth = v->depth,
                                     .firstMipmapLevel = v->firstMipmapLevel,
                                     .lastMipmapLevel = v->lastMipmapLevel,
                                     .firstLayer = v->firstLayer,
                                     .lastLayer = v->lastLayer};
}

static struct cudaResourceViewDesc runtime_view(const CUDA_RESOURCE_VIEW_DESC *d) {
    return (struct cudaResourceViewDesc){.format = (enum cudaResourceViewFormat)d->format,
                                         .width = d->width,
                                         .height = d->height,
                                         .depth = d->depth,
                                         .firstMipmapLevel = d->firstMipmapLevel,
                                         .lastMipmapLevel = d->lastMipmapLevel,
                                         .firstLayer = d->firstLayer,
                                         .lastLayer = d->lastLayer};
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const struct cudaResourceDesc *resource,
                                    const struct cudaTextureDesc *texture, const struct cudaResourceViewDesc *view) {
    CUDA_RESOURCE_DESC r;
    int result = object && texture ? driver_resource(resource, &r) : (int)cudaErrorInvalidValue;
    if (result)
        return cudart_result(result);
    CUDA_TEXTURE_DESC t = driver_texture(texture);
    CUDA_RESOURCE_VIEW_DESC v;
    if (view)
        v = driver_view(view);
    return CALL(cuTexObjectCreate, object, &r, &t, view ? &v : NULL);
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) { return CALL(cuTexObjectDestroy, object); }

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *resource, cudaTextureObject_t object) {
    CUDA_RESOURCE_DESC r;
    cudaError_t result = resource ? CALL(cuTexObjectGetResourceDesc, &r, object) : cudart_result(cudaErrorInvalidValue);
    if (result == cudaSuccess)
        runtime_resource(&r, resource);
    return result;
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *texture, cudaTextureObject_t object) {
    CUDA_TEXTURE_DESC t;
    cudaError_t result = texture ? CALL(cuTexObjectGetTextureDesc, &t, object) : cudart_result(cudaErrorInvalidValue);
    if (result == cudaSuccess)
        *texture = runtime_texture(&t);
    return result;
}

cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *view, cudaTextureObject_t object) {
    CUDA_RESOURCE_VIEW_DESC v;
    cudaError_t result = view ? CALL(cuTexObjectGetResourceViewDesc, &v, object) : cudart_result(cudaErrorInvalidValue);
    if (result == cudaSuccess)
        *view = runtime_view(&v);
    return result;
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const struct cudaResourceDesc *resource) {
    CUDA_RESOURCE_DESC r;
    int result = object ? driver_resource(resource, &r) : (int)cudaErrorInvalidValue;
    return result ? cudart_result(result) : CALL(cuSurfObjectCreate, object, &r);
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { return CALL(cuSurfObjectDestroy, object); }

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *resource, cudaSurfaceObject_t object) {
    CUDA_RESOURCE_DESC r;
    cudaError_t result = resource ? CALL(cuSurfObjectGetResourceDesc, &r, object) : cudart_result(cudaErrorInvalidValue);
    if (result == cudaSuccess)
        runtime_resource(&r, resource);
    return result;
}
