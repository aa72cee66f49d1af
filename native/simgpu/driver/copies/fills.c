/* cuMemset* : one value over a row, or over rows. */
#include "transfer.h"
#include "transfer_submit.h"

#include "graphs/capture.h"

static CUresult prepare(const struct fill *fill, CUstream handle, struct target *target, bool *captured)
{
    CUstream stream;

    LOCKED();
    TRY(stream_resolve(handle, &stream));
    TRY(capture_refuses_legacy(stream));
    TRY(fill_check(fill));
    *target = stream_target(stream);
    *captured = capture_is_active(stream);
    if (!*captured)
        return CUDA_SUCCESS;
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    node.memset.dst = (CUdeviceptr)fill->to;
    node.memset.pitch = fill->pitch;
    node.memset.value = fill->value;
    node.memset.elementSize = fill->element;
    node.memset.width = fill->width;
    node.memset.height = fill->height;
    node.memset.ctx = stream->context;
    return capture_node(stream, &node);
}

static CUresult fill_on(CUstream stream, CUdeviceptr to, size_t pitch, uint32_t value, uint32_t element, size_t width,
                        size_t height)
{
    struct fill fill = {
        .to = (char *)to, .pitch = pitch, .width = width, .height = height, .value = value, .element = element,
    };
    struct target target;
    bool captured = false;

    TRY(prepare(&fill, stream, &target, &captured));
    return captured ? CUDA_SUCCESS : fill_submit(&target, &fill);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
    return fill_on(NULL, to, 0, value, 1, count, 1);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
    return fill_on(NULL, to, 0, value, 2, count, 1);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
    return fill_on(NULL, to, 0, value, 4, count, 1);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return fill_on(NULL, to, pitch, value, 1, width, height);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height)
{
    return fill_on(NULL, to, pitch, value, 2, width, height);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height)
{
    return fill_on(NULL, to, pitch, value, 4, width, height);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
    return fill_on(stream, to, 0, value, 1, count, 1);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
    return fill_on(stream, to, 0, value, 2, count, 1);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
    return fill_on(stream, to, 0, value, 4, count, 1);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                           CUstream stream)
{
    return fill_on(stream, to, pitch, value, 1, width, height);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height,
                            CUstream stream)
{
    return fill_on(stream, to, pitch, value, 2, width, height);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                            CUstream stream)
{
    return fill_on(stream, to, pitch, value, 4, width, height);
}
