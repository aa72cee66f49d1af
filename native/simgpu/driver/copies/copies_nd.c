/* Copies of rectangles and boxes, and of arrays. */
#include "memory/array.h"
#include "transfer.h"

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *two)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = two->srcXInBytes, .srcY = two->srcY, .srcMemoryType = two->srcMemoryType,
        .srcHost = two->srcHost, .srcDevice = two->srcDevice, .srcArray = two->srcArray, .srcPitch = two->srcPitch,
        .dstXInBytes = two->dstXInBytes, .dstY = two->dstY, .dstMemoryType = two->dstMemoryType,
        .dstHost = two->dstHost, .dstDevice = two->dstDevice, .dstArray = two->dstArray, .dstPitch = two->dstPitch,
        .WidthInBytes = two->WidthInBytes, .Height = two->Height, .Depth = 1,
    };
}

static enum transfer_wait waits(const CUDA_MEMCPY3D *copy)
{
    bool host = copy->srcMemoryType == CU_MEMORYTYPE_HOST || copy->dstMemoryType == CU_MEMORYTYPE_HOST ||
                copy->srcMemoryType == CU_MEMORYTYPE_UNIFIED || copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED;

    return host ? TRANSFER_WAIT : TRANSFER_ASYNC;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *two)
{
    REQUIRE(two, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = from_2d(two);
    return copy_on(NULL, &copy, waits(&copy));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *two)
{
    return cuMemcpy2D_v2(two);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *two, CUstream stream)
{
    REQUIRE(two, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = from_2d(two);
    return copy_on(stream, &copy, TRANSFER_ASYNC);
}

static CUresult right_3d(const CUDA_MEMCPY3D *copy)
{
    REQUIRE(copy && !copy->srcLOD && !copy->dstLOD && !copy->reserved0 && !copy->reserved1, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy)
{
    TRY(right_3d(copy));
    return copy_on(NULL, copy, waits(copy));
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    TRY(right_3d(copy));
    return copy_on(stream, copy, TRANSFER_ASYNC);
}

/* The two contexts only say where the addresses are, which unified addressing knows. */
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *peer, CUstream stream)
{
    REQUIRE(peer, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = {
        .srcXInBytes = peer->srcXInBytes, .srcY = peer->srcY, .srcZ = peer->srcZ,
        .srcMemoryType = peer->srcMemoryType, .srcHost = peer->srcHost, .srcDevice = peer->srcDevice,
        .srcArray = peer->srcArray, .srcPitch = peer->srcPitch, .srcHeight = peer->srcHeight,
        .dstXInBytes = peer->dstXInBytes, .dstY = peer->dstY, .dstZ = peer->dstZ,
        .dstMemoryType = peer->dstMemoryType, .dstHost = peer->dstHost, .dstDevice = peer->dstDevice,
        .dstArray = peer->dstArray, .dstPitch = peer->dstPitch, .dstHeight = peer->dstHeight,
        .WidthInBytes = peer->WidthInBytes, .Height = peer->Height, .Depth = peer->Depth,
    };
    return copy_on(stream, &copy, TRANSFER_ASYNC);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *peer)
{
    return cuMemcpy3DPeerAsync(peer, NULL);
}

/* One-dimensional copies of arrays: an offset in bytes and a length. */
static CUDA_MEMCPY3D array_row(size_t size)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = size, .Height = 1, .Depth = 1};
}

static CUresult into_array(CUarray array, size_t offset, CUmemorytype type, const void *from, size_t size,
                           CUstream stream, enum transfer_wait wait)
{
    CUDA_MEMCPY3D copy = array_row(size);

    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.dstXInBytes = offset;
    copy.srcMemoryType = type;
    copy.srcHost = from;
    copy.srcDevice = (CUdeviceptr)from;
    return copy_on(stream, &copy, wait);
}

static CUresult out_of_array(CUarray array, size_t offset, CUmemorytype type, void *to, size_t size, CUstream stream,
                             enum transfer_wait wait)
{
    CUDA_MEMCPY3D copy = array_row(size);

    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.srcXInBytes = offset;
    copy.dstMemoryType = type;
    copy.dstHost = to;
    copy.dstDevice = (CUdeviceptr)to;
    return copy_on(stream, &copy, wait);
}

CUresult cuMemcpyHtoA_v2(CUarray array, size_t offset, const void *from, size_t size)
{
    return into_array(array, offset, CU_MEMORYTYPE_HOST, from, size, NULL, TRANSFER_WAIT);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray array, size_t offset, const void *from, size_t size, CUstream stream)
{
    return into_array(array, offset, CU_MEMORYTYPE_HOST, from, size, stream, TRANSFER_ASYNC);
}

CUresult cuMemcpyDtoA_v2(CUarray array, size_t offset, CUdeviceptr from, size_t size)
{
    return into_array(array, offset, CU_MEMORYTYPE_DEVICE, (void *)from, size, NULL, TRANSFER_ASYNC);
}

CUresult cuMemcpyAtoH_v2(void *to, CUarray array, size_t offset, size_t size)
{
    return out_of_array(array, offset, CU_MEMORYTYPE_HOST, to, size, NULL, TRANSFER_WAIT);
}

CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray array, size_t offset, size_t size, CUstream stream)
{
    return out_of_array(array, offset, CU_MEMORYTYPE_HOST, to, size, stream, TRANSFER_ASYNC);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray array, size_t offset, size_t size)
{
    return out_of_array(array, offset, CU_MEMORYTYPE_DEVICE, (void *)to, size, NULL, TRANSFER_ASYNC);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size)
{
    CUDA_MEMCPY3D copy = array_row(size);

    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to;
    copy.dstXInBytes = to_offset;
    copy.srcArray = from;
    copy.srcXInBytes = from_offset;
    return copy_on(NULL, &copy, TRANSFER_ASYNC);
}
