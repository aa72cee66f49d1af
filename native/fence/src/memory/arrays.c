/* CUDA arrays and mipmaps. The driver does not tell their layout, so the size of their rows is charged, rounded as memory is. */
#include "charge.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"

#define ROW_UNIT 64u

/* Bits of one element; of a format that packs several elements the mean, of one not known here the widest there is. */
static uint64_t element_bits(CUarray_format format, unsigned int channels)
{
    switch ((unsigned int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8: case CU_AD_FORMAT_SIGNED_INT8:
        return 8ull * channels;
    case CU_AD_FORMAT_UNSIGNED_INT16: case CU_AD_FORMAT_SIGNED_INT16: case CU_AD_FORMAT_HALF:
        return 16ull * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32: case CU_AD_FORMAT_SIGNED_INT32: case CU_AD_FORMAT_FLOAT:
        return 32ull * channels;
    case CU_AD_FORMAT_BC1_UNORM: case CU_AD_FORMAT_BC1_UNORM_SRGB: case CU_AD_FORMAT_BC4_UNORM: case CU_AD_FORMAT_BC4_SNORM:
        return 4;
    case CU_AD_FORMAT_UNORM_INT8X1: case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_BC2_UNORM: case CU_AD_FORMAT_BC2_UNORM_SRGB: case CU_AD_FORMAT_BC3_UNORM: case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM: case CU_AD_FORMAT_BC5_SNORM: case CU_AD_FORMAT_BC6H_UF16: case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM: case CU_AD_FORMAT_BC7_UNORM_SRGB:
        return 8;
    case CU_AD_FORMAT_NV12:
        return 12;
    case CU_AD_FORMAT_UNORM_INT8X2: case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1: case CU_AD_FORMAT_SNORM_INT16X1:
        return 16;
    case CU_AD_FORMAT_UNORM_INT8X4: case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2: case CU_AD_FORMAT_SNORM_INT16X2:
        return 32;
    default:
        return 64;
    }
}

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static uint64_t at_least_one(uint64_t extent)
{
    return extent ? extent : 1;
}

/* Bytes of one level; a height or depth of 0 means that there is no such dimension. Rows begin at multiples of a sector. */
static uint64_t level_bytes(uint64_t width, uint64_t height, uint64_t depth, uint64_t bits)
{
    uint64_t row = product(width, bits);
    row = row > UINT64_MAX - 8 * ROW_UNIT ? UINT64_MAX : (row + 8 * ROW_UNIT - 1) / (8 * ROW_UNIT) * ROW_UNIT;
    return product(product(row, at_least_one(height)), at_least_one(depth));
}

/* Sparse arrays and those that are mapped later have no memory of their own. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    if (!wanted || wanted->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    return level_bytes(wanted->Width, wanted->Height, wanted->Depth, element_bits(wanted->Format, wanted->NumChannels));
}

static uint64_t halved(uint64_t extent)
{
    return extent > 1 ? extent / 2 : extent;
}

static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned int levels)
{
    uint64_t all = 0;
    if (!wanted)
        return 0;
    CUDA_ARRAY3D_DESCRIPTOR level = *wanted;
    bool layers = level.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    for (unsigned int i = 0; i < levels && i < 64; i++) {
        uint64_t bytes = array_bytes(&level);
        all = bytes > UINT64_MAX - all ? UINT64_MAX : all + bytes;
        level.Width = halved(level.Width);
        level.Height = halved(level.Height);
        level.Depth = layers ? level.Depth : halved(level.Depth);
    }
    return all;
}

/* The ways to make an array differ in their descriptors alone. */
#define MAKE(array, bytes, call)                                                                                       \
    do {                                                                                                               \
        struct charge charge;                                                                                          \
        if (!fence_enter())                                                                                            \
            return call;                                                                                               \
        CUresult result = charge_begin(&charge, card_of_current(), bytes);                                             \
        if (result == CUDA_SUCCESS) {                                                                                  \
            result = call;                                                                                             \
            charge_end_in_context(&charge, result, HANDLE_ARRAY, result ? 0 : (uint64_t)(uintptr_t)*(array));          \
        }                                                                                                              \
        return fence_leave(result);                                                                                    \
    } while (0)

static uint64_t flat_bytes(uint64_t width, uint64_t height, CUarray_format format, unsigned int channels)
{
    return level_bytes(width, height, 0, element_bits(format, channels));
}

CUresult fence_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *wanted)
{
    MAKE(array, wanted ? flat_bytes(wanted->Width, wanted->Height, wanted->Format, wanted->NumChannels) : 0,
         fence_real.cuArrayCreate_v2(array, wanted));
}

CUresult fence_cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *wanted)
{
    MAKE(array, wanted ? flat_bytes(wanted->Width, wanted->Height, wanted->Format, wanted->NumChannels) : 0,
         fence_real.cuArrayCreate(array, wanted));
}

CUresult fence_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    MAKE(array, array_bytes(wanted), fence_real.cuArray3DCreate_v2(array, wanted));
}

static uint64_t old_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR_v1 *wanted)
{
    if (!wanted)
        return 0;
    return level_bytes(wanted->Width, wanted->Height, wanted->Depth, element_bits(wanted->Format, wanted->NumChannels));
}

CUresult fence_cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *wanted)
{
    MAKE(array, old_array_bytes(wanted), fence_real.cuArray3DCreate(array, wanted));
}

CUresult fence_cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned int levels)
{
    MAKE(array, mipmap_bytes(wanted, levels), fence_real.cuMipmappedArrayCreate(array, wanted, levels));
}

CUresult fence_cuArrayDestroy(CUarray array)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuArrayDestroy(array);
    bool known = charge_take(HANDLE_ARRAY, (uint64_t)(uintptr_t)array, &handle);
    return fence_leave(charge_freed(&handle, known, fence_real.cuArrayDestroy(array)));
}

CUresult fence_cuMipmappedArrayDestroy(CUmipmappedArray array)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuMipmappedArrayDestroy(array);
    bool known = charge_take(HANDLE_ARRAY, (uint64_t)(uintptr_t)array, &handle);
    return fence_leave(charge_freed(&handle, known, fence_real.cuMipmappedArrayDestroy(array)));
}
