/* The first forms of the memory functions: addresses and sizes of 32 bits. What they allocate lies below 4 GiB. */
#include "array.h"
#include "contexts/context.h"
#include "graphs/capture.h"
#include "memory.h"

static CUresult narrow(uint64_t wide, unsigned *out)
{
    REQUIRE(wide <= UINT32_MAX, CUDA_ERROR_NOT_SUPPORTED);
    *out = (unsigned)wide;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int size)
{
    void *start;

    LOCKED();
    REQUIRE(pointer && size, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    TRY(capture_forbids_unsafe());
    struct block like = {
        .size = size, .kind = BLOCK_DEVICE, .device = context->device, .context = context,
        .charged = block_charge_size(size), .preferred = CU_DEVICE_INVALID, .low = true,
    };
    TRY(block_allocate(&start, &like, 0));
    return narrow((uintptr_t)start, pointer);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width, unsigned int height,
                         unsigned int element)
{
    uint64_t row = ((uint64_t)width + PITCH_ALIGNMENT - 1) & ~(uint64_t)(PITCH_ALIGNMENT - 1);

    REQUIRE(pointer && pitch && width && height, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(element == 4 || element == 8 || element == 16, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(row * height <= UINT32_MAX, CUDA_ERROR_OUT_OF_MEMORY);
    TRY(cuMemAlloc(pointer, (unsigned)(row * height)));
    *pitch = (unsigned)row;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr_v1 pointer)
{
    return cuMemFree_v2(pointer);
}

/* As much as 32 bits can say. */
CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    size_t wide_free, wide_total;

    REQUIRE(free && total, CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemGetInfo_v2(&wide_free, &wide_total));
    *free = wide_free > UINT32_MAX ? UINT32_MAX : (unsigned)wide_free;
    *total = wide_total > UINT32_MAX ? UINT32_MAX : (unsigned)wide_total;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 pointer)
{
    CUdeviceptr wide_base;
    size_t wide_size;

    TRY(cuMemGetAddressRange_v2(&wide_base, &wide_size, pointer));
    if (base)
        TRY(narrow(wide_base, base));
    return size ? narrow(wide_size, size) : CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *device, void *host, unsigned int flags)
{
    CUdeviceptr wide;

    REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    TRY(cuMemHostGetDevicePointer_v2(&wide, host, flags));
    return narrow(wide, device);
}

CUresult cuModuleGetGlobal(CUdeviceptr_v1 *pointer, unsigned int *size, CUmodule module, const char *name)
{
    CUdeviceptr wide;
    size_t wide_size;

    TRY(cuModuleGetGlobal_v2(&wide, &wide_size, module, name));
    if (pointer)
        TRY(narrow(wide, pointer));
    return size ? narrow(wide_size, size) : CUDA_SUCCESS;
}

static CUDA_ARRAY3D_DESCRIPTOR widen(const CUDA_ARRAY3D_DESCRIPTOR_v1 *old)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = old->Width, .Height = old->Height, .Depth = old->Depth, .Format = old->Format,
        .NumChannels = old->NumChannels, .Flags = old->Flags,
    };
}

CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *old)
{
    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR descriptor = widen(old);
    return cuArray3DCreate_v2(array, &descriptor);
}

CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *old)
{
    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY_DESCRIPTOR descriptor = {old->Width, old->Height, old->Format, old->NumChannels};
    return cuArrayCreate_v2(array, &descriptor);
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *old, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR wide;

    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    TRY(cuArray3DGetDescriptor_v2(&wide, array));
    *old = (CUDA_ARRAY3D_DESCRIPTOR_v1){
        .Width = (unsigned)wide.Width, .Height = (unsigned)wide.Height, .Depth = (unsigned)wide.Depth,
        .Format = wide.Format, .NumChannels = wide.NumChannels, .Flags = wide.Flags,
    };
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *old, CUarray array)
{
    CUDA_ARRAY_DESCRIPTOR wide;

    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    TRY(cuArrayGetDescriptor_v2(&wide, array));
    *old = (CUDA_ARRAY_DESCRIPTOR_v1){(unsigned)wide.Width, (unsigned)wide.Height, wide.Format, wide.NumChannels};
    return CUDA_SUCCESS;
}
