/* Texture and surface objects and tensor maps: descriptions that kernels would read. Kept, and given back when asked. */
#include "contexts/context.h"

#include <string.h>

struct texture {
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;
    bool has_view;
};

struct surface {
    CUDA_RESOURCE_DESC resource;
};

static CUresult resource_check(const CUDA_RESOURCE_DESC *resource)
{
    REQUIRE(resource, CUDA_ERROR_INVALID_VALUE);
    if (resource->resType == CU_RESOURCE_TYPE_ARRAY)
        REQUIRE(handle_is(resource->res.array.hArray, HANDLE_ARRAY), CUDA_ERROR_INVALID_VALUE);
    if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        REQUIRE(handle_is(resource->res.mipmap.hMipmappedArray, HANDLE_MIPMAP), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
                           const CUDA_RESOURCE_VIEW_DESC *view)
{
    LOCKED();
    REQUIRE(out && texture, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    TRY(resource_check(resource));
    struct texture *object = handle_new(sizeof *object, HANDLE_TEXOBJECT);
    REQUIRE(object, CUDA_ERROR_OUT_OF_MEMORY);
    object->resource = *resource;
    object->texture = *texture;
    object->has_view = view != NULL;
    if (view)
        object->view = *view;
    *out = (uintptr_t)object;
    return CUDA_SUCCESS;
}

#define OBJECT(type, kind)                                                                                         \
    struct type *object = (void *)(uintptr_t)handle;                                                               \
    LOCKED();                                                                                                      \
    REQUIRE(handle_is(object, kind), CUDA_ERROR_INVALID_VALUE)

CUresult cuTexObjectDestroy(CUtexObject handle)
{
    OBJECT(texture, HANDLE_TEXOBJECT);
    handle_free(object);
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject handle)
{
    OBJECT(texture, HANDLE_TEXOBJECT);
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    *out = object->resource;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject handle)
{
    OBJECT(texture, HANDLE_TEXOBJECT);
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    *out = object->texture;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject handle)
{
    OBJECT(texture, HANDLE_TEXOBJECT);
    REQUIRE(out && object->has_view, CUDA_ERROR_INVALID_VALUE);
    *out = object->view;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource)
{
    LOCKED();
    REQUIRE(out && resource && resource->resType == CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    TRY(resource_check(resource));
    struct surface *object = handle_new(sizeof *object, HANDLE_SURFOBJECT);
    REQUIRE(object, CUDA_ERROR_OUT_OF_MEMORY);
    object->resource = *resource;
    *out = (uintptr_t)object;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject handle)
{
    OBJECT(surface, HANDLE_SURFOBJECT);
    handle_free(object);
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject handle)
{
    OBJECT(surface, HANDLE_SURFOBJECT);
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);
    *out = object->resource;
    return CUDA_SUCCESS;
}

/* A tensor map is 128 bytes that only a kernel reads; ours begins with the address, the rest is zero. */
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dimensions, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill)
{
    (void)type, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    REQUIRE(map && address && rank >= 1 && rank <= 5, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(dimensions && box && element_strides && (rank == 1 || strides), CUDA_ERROR_INVALID_VALUE);
    REQUIRE((uintptr_t)map % 64 == 0 && (uintptr_t)address % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    for (cuuint32_t at = 0; at < rank; ++at)
        REQUIRE(dimensions[at] && box[at] && box[at] <= 256, CUDA_ERROR_INVALID_VALUE);
    memset(map, 0, sizeof *map);
    return cuTensorMapReplaceAddress(map, address);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    REQUIRE(map && address && (uintptr_t)address % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    memcpy(map, &address, sizeof address);
    return CUDA_SUCCESS;
}
