/* Arrays and mipmapped arrays. */
#include "contexts/context.h"

#include <stdlib.h>

#include "array.h"
#include "memory.h"

#define ROW_ALIGNMENT 64u
#define LARGEST_EXTENT ((size_t)1 << 28)
#define KNOWN_FLAGS                                                                                                \
    (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |        \
     CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT)

bool array_is(CUarray array)
{
    return handle_is(array, HANDLE_ARRAY);
}

/* Bytes of one channel; 0: a format that has no plain layout. */
static size_t channel_bytes(CUarray_format format)
{
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static CUresult describe(struct CUarray_st *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    size_t channel = channel_bytes(descriptor->Format);
    unsigned channels = descriptor->NumChannels;

    REQUIRE(descriptor->Width && descriptor->Width <= LARGEST_EXTENT && descriptor->Height <= LARGEST_EXTENT &&
            descriptor->Depth <= LARGEST_EXTENT, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(channels == 1 || channels == 2 || channels == 4, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(descriptor->Flags & ~(unsigned)KNOWN_FLAGS), CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE(channel, CUDA_ERROR_NOT_SUPPORTED);
    array->descriptor = *descriptor;
    array->element = channel * channels;
    array->row = (descriptor->Width * array->element + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    array->rows = descriptor->Height ? descriptor->Height : 1;
    array->slices = descriptor->Depth ? descriptor->Depth : 1;
    return CUDA_SUCCESS;
}

static CUresult bytes_of(const struct CUarray_st *array, size_t *bytes)
{
    bool over = __builtin_mul_overflow(array->row, array->rows, bytes) ||
                __builtin_mul_overflow(*bytes, array->slices, bytes);

    return over || *bytes > MEMORY_MAX ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult back(CUcontext context, size_t bytes, char **data)
{
    struct block like = {
        .size = bytes, .kind = BLOCK_ARRAY, .device = context->device, .context = context,
        .charged = block_charge_size(bytes),
    };

    return block_allocate((void **)data, &like, 0);
}

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    size_t bytes;

    CURRENT(context);
    CUarray array = handle_new(sizeof *array, HANDLE_ARRAY);
    REQUIRE(array, CUDA_ERROR_OUT_OF_MEMORY);
    array->context = context;
    array->context_id = context->id;
    CUresult made = describe(array, descriptor);
    if (made == CUDA_SUCCESS)
        made = bytes_of(array, &bytes);
    if (made == CUDA_SUCCESS)
        made = back(context, bytes, &array->data);
    if (made != CUDA_SUCCESS) {
        handle_free(array);
        return made;
    }
    *out = array;
    return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    LOCKED();
    REQUIRE(array && descriptor, CUDA_ERROR_INVALID_VALUE);
    return create(array, descriptor);
}

CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *flat)
{
    LOCKED();
    REQUIRE(array && flat, CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {
        .Width = flat->Width, .Height = flat->Height, .Format = flat->Format, .NumChannels = flat->NumChannels,
    };
    return create(array, &descriptor);
}

static void release(char *data)
{
    struct block *block = block_exact(data);

    if (block && block->kind == BLOCK_ARRAY)
        block_remove(block);
}

CUresult cuArrayDestroy(CUarray array)
{
    LOCKED();
    REQUIRE(array_is(array), CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(!array->part_of, CUDA_ERROR_INVALID_HANDLE);
    if (array->context->alive && array->context->id == array->context_id)
        release(array->data);
    handle_free(array);
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array)
{
    LOCKED();
    REQUIRE(descriptor, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(array_is(array), CUDA_ERROR_INVALID_HANDLE);
    *descriptor = array->descriptor;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray array)
{
    LOCKED();
    REQUIRE(descriptor, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(array_is(array), CUDA_ERROR_INVALID_HANDLE);
    *descriptor = (CUDA_ARRAY_DESCRIPTOR){
        array->descriptor.Width, array->descriptor.Height, array->descriptor.Format, array->descriptor.NumChannels,
    };
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUarray array, CUdevice device)
{
    LOCKED();
    REQUIRE(requirements && device >= 0, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(array_is(array), CUDA_ERROR_INVALID_HANDLE);
    requirements->size = block_charge_size(array->row * array->rows * array->slices);
    requirements->alignment = GRANULE;
    return CUDA_SUCCESS;
}

/* Levels halve in every direction; all of them lie in one allocation. */
static CUresult lay_out(CUmipmappedArray mipmap, unsigned levels, size_t *total)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor = mipmap->descriptor;
    bool layered = descriptor.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    size_t bytes;

    *total = 0;
    for (unsigned at = 0; at < levels; ++at) {
        CUarray level = handle_new(sizeof *level, HANDLE_ARRAY);
        REQUIRE(level, CUDA_ERROR_OUT_OF_MEMORY);
        mipmap->level[mipmap->levels++] = level;
        level->part_of = mipmap;
        level->context = mipmap->context;
        TRY(describe(level, &descriptor));
        TRY(bytes_of(level, &bytes));
        level->data = (char *)*total;
        *total += bytes;
        descriptor.Width = descriptor.Width > 1 ? descriptor.Width / 2 : 1;
        descriptor.Height = descriptor.Height > 1 ? descriptor.Height / 2 : descriptor.Height;
        if (!layered)
            descriptor.Depth = descriptor.Depth > 1 ? descriptor.Depth / 2 : descriptor.Depth;
    }
    return CUDA_SUCCESS;
}

static void free_mipmap(CUmipmappedArray mipmap)
{
    for (unsigned at = 0; at < mipmap->levels; ++at)
        handle_free(mipmap->level[at]);
    handle_free(mipmap);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels)
{
    size_t total, largest;
    unsigned possible = 1;

    LOCKED();
    REQUIRE(out && descriptor && levels, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    largest = descriptor->Width > descriptor->Height ? descriptor->Width : descriptor->Height;
    while (possible < 31 && largest >> possible)
        ++possible;
    CUmipmappedArray mipmap = handle_new(sizeof *mipmap, HANDLE_MIPMAP);
    REQUIRE(mipmap, CUDA_ERROR_OUT_OF_MEMORY);
    mipmap->descriptor = *descriptor;
    mipmap->context = context;
    CUresult made = lay_out(mipmap, levels < possible ? levels : possible, &total);
    if (made == CUDA_SUCCESS)
        made = back(context, total, &mipmap->data);
    if (made != CUDA_SUCCESS) {
        free_mipmap(mipmap);
        return made;
    }
    for (unsigned at = 0; at < mipmap->levels; ++at)
        mipmap->level[at]->data = mipmap->data + (size_t)mipmap->level[at]->data;
    *out = mipmap;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap, unsigned int level)
{
    LOCKED();
    REQUIRE(array, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(mipmap, HANDLE_MIPMAP), CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(level < mipmap->levels, CUDA_ERROR_INVALID_VALUE);
    *array = mipmap->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
    LOCKED();
    REQUIRE(handle_is(mipmap, HANDLE_MIPMAP), CUDA_ERROR_INVALID_HANDLE);
    release(mipmap->data);
    free_mipmap(mipmap);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *requirements, CUmipmappedArray mipmap,
                                               CUdevice device)
{
    LOCKED();
    REQUIRE(requirements && device >= 0, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(handle_is(mipmap, HANDLE_MIPMAP), CUDA_ERROR_INVALID_HANDLE);
    struct block *block = block_exact(mipmap->data);
    requirements->size = block ? block->charged : 0;
    requirements->alignment = GRANULE;
    return CUDA_SUCCESS;
}
