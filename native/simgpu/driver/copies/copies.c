/* Copies between linear addresses, and the general form that every copy takes. */
#include "transfer.h"
#include "transfer_submit.h"

#include <string.h>

#include "graphs/capture.h"
#include "memory/array.h"
#include "memory/memory.h"

/* One side of a copy: where it begins, and the steps from row to row and slice to slice. */
struct side {
    char *start;
    size_t pitch, slice;
    bool known; /* must be the driver's memory */
};

static CUresult array_side(CUarray array, const size_t at[3], const CUDA_MEMCPY3D *copy, struct side *side)
{
    REQUIRE(array_is(array), CUDA_ERROR_INVALID_HANDLE);
    REQUIRE(at[0] + copy->WidthInBytes <= array->row && at[1] + copy->Height <= array->rows &&
            at[2] + copy->Depth <= array->slices, CUDA_ERROR_INVALID_VALUE);
    side->pitch = array->row;
    side->slice = array->row * array->rows;
    side->start = array->data + at[2] * side->slice + at[1] * side->pitch + at[0];
    return CUDA_SUCCESS;
}

static CUresult linear_side(char *base, size_t pitch, size_t height, const size_t at[3], const CUDA_MEMCPY3D *copy,
                            struct side *side)
{
    REQUIRE(base, CUDA_ERROR_INVALID_VALUE);
    side->pitch = pitch ? pitch : copy->WidthInBytes;
    REQUIRE(copy->Height <= 1 || side->pitch >= copy->WidthInBytes + at[0], CUDA_ERROR_INVALID_VALUE);
    size_t rows = height ? height : copy->Height;
    side->slice = side->pitch * rows;
    side->start = base + at[2] * side->slice + at[1] * side->pitch + at[0];
    return CUDA_SUCCESS;
}

static CUresult side_of(CUmemorytype type, char *host, CUdeviceptr device, CUarray array, size_t pitch, size_t height,
                        const size_t at[3], const CUDA_MEMCPY3D *copy, struct side *side)
{
    side->known = type == CU_MEMORYTYPE_DEVICE;
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return linear_side(host, pitch, height, at, copy, side);
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
        return linear_side((char *)device, pitch, height, at, copy, side);
    case CU_MEMORYTYPE_ARRAY:
        return array_side(array, at, copy, side);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult transfer_from(const CUDA_MEMCPY3D *copy, struct transfer *t)
{
    const size_t from_at[3] = {copy->srcXInBytes, copy->srcY, copy->srcZ};
    const size_t to_at[3] = {copy->dstXInBytes, copy->dstY, copy->dstZ};
    struct side from, to;

    if (!copy->WidthInBytes || !copy->Height || !copy->Depth) {
        *t = (struct transfer){0};
        return CUDA_SUCCESS;
    }
    TRY(side_of(copy->srcMemoryType, (char *)copy->srcHost, copy->srcDevice, copy->srcArray, copy->srcPitch,
                copy->srcHeight, from_at, copy, &from));
    TRY(side_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice, copy->dstArray, copy->dstPitch, copy->dstHeight,
                to_at, copy, &to));
    REQUIRE(!from.known || block_at(from.start), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!to.known || block_at(to.start), CUDA_ERROR_INVALID_VALUE);
    *t = (struct transfer){
        .to = to.start, .from = from.start, .width = copy->WidthInBytes, .height = copy->Height, .depth = copy->Depth,
        .to_pitch = to.pitch, .to_slice = to.slice, .from_pitch = from.pitch, .from_slice = from.slice,
    };
    return transfer_check(t);
}

static CUresult prepare(CUstream handle, const CUDA_MEMCPY3D *copy, enum transfer_wait wait, struct target *target,
                        struct transfer *transfer, bool *captured)
{
    CUstream stream;

    LOCKED();
    TRY(stream_resolve(handle, &stream));
    TRY(capture_refuses_legacy(stream));
    TRY(transfer_from(copy, transfer));
    *target = stream_target(stream);
    *captured = capture_is_active(stream);
    if (!*captured)
        return CUDA_SUCCESS;
    REQUIRE(wait == TRANSFER_ASYNC, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    node.memcpy.copyCtx = stream->context;
    node.memcpy.copyParams = *copy;
    return capture_node(stream, &node);
}

CUresult copy_on(CUstream stream, const CUDA_MEMCPY3D *copy, enum transfer_wait wait)
{
    struct target target;
    struct transfer transfer;
    bool captured = false;

    REQUIRE(copy, CUDA_ERROR_INVALID_VALUE);
    TRY(prepare(stream, copy, wait, &target, &transfer, &captured));
    return captured ? CUDA_SUCCESS : transfer_submit(&target, &transfer, wait);
}

CUresult copy_linear(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream, unsigned known,
                     enum transfer_wait wait)
{
    CUDA_MEMCPY3D copy = {
        .srcMemoryType = known & KNOWN_FROM ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED, .srcDevice = from,
        .dstMemoryType = known & KNOWN_TO ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED, .dstDevice = to,
        .WidthInBytes = size, .Height = 1, .Depth = 1,
    };
    return copy_on(stream, &copy, wait);
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return copy_linear(to, from, size, NULL, 0, TRANSFER_WAIT);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return copy_linear(to, from, size, stream, 0, TRANSFER_ASYNC);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
    return copy_linear(to, (CUdeviceptr)from, size, NULL, KNOWN_TO, TRANSFER_WAIT);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
    return copy_linear((CUdeviceptr)to, from, size, NULL, KNOWN_FROM, TRANSFER_WAIT);
}

/* Between two places of the card the call does not wait. */
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return copy_linear(to, from, size, NULL, KNOWN_TO | KNOWN_FROM, TRANSFER_ASYNC);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
    return copy_linear(to, (CUdeviceptr)from, size, stream, KNOWN_TO, TRANSFER_ASYNC);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    return copy_linear((CUdeviceptr)to, from, size, stream, KNOWN_FROM, TRANSFER_ASYNC);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    return copy_linear(to, from, size, stream, KNOWN_TO | KNOWN_FROM, TRANSFER_ASYNC);
}

static CUresult both_contexts(CUcontext to, CUcontext from)
{
    LOCKED();
    REQUIRE(handle_is(to, HANDLE_CONTEXT) && handle_is(from, HANDLE_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    TRY(context_usable(to));
    return context_usable(from);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,
                           CUstream stream)
{
    TRY(both_contexts(to_context, from_context));
    return copy_linear(to, from, size, stream, KNOWN_TO | KNOWN_FROM, TRANSFER_ASYNC);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size)
{
    return cuMemcpyPeerAsync(to, to_context, from, from_context, size, NULL);
}
