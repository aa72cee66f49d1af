/* The first forms of the copies and fills: widened, and then as the later forms. */
#include "process/driver.h"

CUresult cuMemcpyHtoD(CUdeviceptr_v1 to, const void *from, unsigned int size)
{
    return cuMemcpyHtoD_v2(to, from, size);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr_v1 from, unsigned int size)
{
    return cuMemcpyDtoH_v2(to, from, size);
}

CUresult cuMemcpyDtoD(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int size)
{
    return cuMemcpyDtoD_v2(to, from, size);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 to, const void *from, unsigned int size, CUstream stream)
{
    return cuMemcpyHtoDAsync_v2(to, from, size, stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr_v1 from, unsigned int size, CUstream stream)
{
    return cuMemcpyDtoHAsync_v2(to, from, size, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int size, CUstream stream)
{
    return cuMemcpyDtoDAsync_v2(to, from, size, stream);
}

CUresult cuMemcpyDtoA(CUarray array, unsigned int offset, CUdeviceptr_v1 from, unsigned int size)
{
    return cuMemcpyDtoA_v2(array, offset, from, size);
}

CUresult cuMemcpyAtoD(CUdeviceptr_v1 to, CUarray array, unsigned int offset, unsigned int size)
{
    return cuMemcpyAtoD_v2(to, array, offset, size);
}

CUresult cuMemcpyHtoA(CUarray array, unsigned int offset, const void *from, unsigned int size)
{
    return cuMemcpyHtoA_v2(array, offset, from, size);
}

CUresult cuMemcpyAtoH(void *to, CUarray array, unsigned int offset, unsigned int size)
{
    return cuMemcpyAtoH_v2(to, array, offset, size);
}

CUresult cuMemcpyAtoA(CUarray to, unsigned int to_offset, CUarray from, unsigned int from_offset, unsigned int size)
{
    return cuMemcpyAtoA_v2(to, to_offset, from, from_offset, size);
}

CUresult cuMemcpyHtoAAsync(CUarray array, unsigned int offset, const void *from, unsigned int size, CUstream stream)
{
    return cuMemcpyHtoAAsync_v2(array, offset, from, size, stream);
}

CUresult cuMemcpyAtoHAsync(void *to, CUarray array, unsigned int offset, unsigned int size, CUstream stream)
{
    return cuMemcpyAtoHAsync_v2(to, array, offset, size, stream);
}

static CUDA_MEMCPY2D widen_2d(const CUDA_MEMCPY2D_v1 *old)
{
    return (CUDA_MEMCPY2D){
        .srcXInBytes = old->srcXInBytes, .srcY = old->srcY, .srcMemoryType = old->srcMemoryType,
        .srcHost = old->srcHost, .srcDevice = old->srcDevice, .srcArray = old->srcArray, .srcPitch = old->srcPitch,
        .dstXInBytes = old->dstXInBytes, .dstY = old->dstY, .dstMemoryType = old->dstMemoryType,
        .dstHost = old->dstHost, .dstDevice = old->dstDevice, .dstArray = old->dstArray, .dstPitch = old->dstPitch,
        .WidthInBytes = old->WidthInBytes, .Height = old->Height,
    };
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *old)
{
    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY2D copy = widen_2d(old);
    return cuMemcpy2D_v2(&copy);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *old)
{
    return cuMemcpy2D(old);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *old, CUstream stream)
{
    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY2D copy = widen_2d(old);
    return cuMemcpy2DAsync_v2(&copy, stream);
}

static CUDA_MEMCPY3D widen_3d(const CUDA_MEMCPY3D_v1 *old)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = old->srcXInBytes, .srcY = old->srcY, .srcZ = old->srcZ, .srcLOD = old->srcLOD,
        .srcMemoryType = old->srcMemoryType, .srcHost = old->srcHost, .srcDevice = old->srcDevice,
        .srcArray = old->srcArray, .srcPitch = old->srcPitch, .srcHeight = old->srcHeight,
        .dstXInBytes = old->dstXInBytes, .dstY = old->dstY, .dstZ = old->dstZ, .dstLOD = old->dstLOD,
        .dstMemoryType = old->dstMemoryType, .dstHost = old->dstHost, .dstDevice = old->dstDevice,
        .dstArray = old->dstArray, .dstPitch = old->dstPitch, .dstHeight = old->dstHeight,
        .WidthInBytes = old->WidthInBytes, .Height = old->Height, .Depth = old->Depth,
    };
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *old)
{
    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = widen_3d(old);
    return cuMemcpy3D_v2(&copy);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *old, CUstream stream)
{
    REQUIRE(old, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = widen_3d(old);
    return cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult cuMemsetD8(CUdeviceptr_v1 to, unsigned char value, unsigned int count)
{
    return cuMemsetD8_v2(to, value, count);
}

CUresult cuMemsetD16(CUdeviceptr_v1 to, unsigned short value, unsigned int count)
{
    return cuMemsetD16_v2(to, value, count);
}

CUresult cuMemsetD32(CUdeviceptr_v1 to, unsigned int value, unsigned int count)
{
    return cuMemsetD32_v2(to, value, count);
}

CUresult cuMemsetD2D8(CUdeviceptr_v1 to, unsigned int pitch, unsigned char value, unsigned int width,
                      unsigned int height)
{
    return cuMemsetD2D8_v2(to, pitch, value, width, height);
}

CUresult cuMemsetD2D16(CUdeviceptr_v1 to, unsigned int pitch, unsigned short value, unsigned int width,
                       unsigned int height)
{
    return cuMemsetD2D16_v2(to, pitch, value, width, height);
}

CUresult cuMemsetD2D32(CUdeviceptr_v1 to, unsigned int pitch, unsigned int value, unsigned int width,
                       unsigned int height)
{
    return cuMemsetD2D32_v2(to, pitch, value, width, height);
}
