/* Many copies in one call. Each is checked and done in order; the first that fails stops the batch. */
#include "memory/array.h"
#include "transfer.h"

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUmemcpyAttributes *attributes,
                                     CUstream stream)
{
    REQUIRE(attributes, CUDA_ERROR_INVALID_VALUE);
    return copy_linear(to, from, size, stream, 0, TRANSFER_ASYNC);
}

static CUresult copy_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, const size_t *starts,
                           size_t attributes, size_t *failed, CUstream stream)
{
    REQUIRE(to && from && sizes && count && stream, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(attributes && attributes <= count && starts && starts[0] == 0, CUDA_ERROR_INVALID_VALUE);
    for (size_t at = 0; at < count; ++at) {
        CUresult copied = copy_linear(to[at], from[at], sizes[at], stream, 0, TRANSFER_ASYNC);
        if (copied != CUDA_SUCCESS) {
            if (failed)
                *failed = at;
            return copied;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *starts, size_t attribute_count, size_t *failed,
                            CUstream stream)
{
    REQUIRE(attributes, CUDA_ERROR_INVALID_VALUE);
    if (failed)
        *failed = SIZE_MAX;
    return copy_batch(to, from, sizes, count, starts, attribute_count, failed, stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attributes, size_t *starts, size_t attribute_count,
                               CUstream stream)
{
    REQUIRE(attributes, CUDA_ERROR_INVALID_VALUE);
    return copy_batch(to, from, sizes, count, starts, attribute_count, NULL, stream);
}

static size_t element_of(const CUmemcpy3DOperand *operand)
{
    size_t element = 1;

    driver_lock();
    if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY && array_is(operand->op.array.array))
        element = operand->op.array.array->element;
    driver_unlock();
    return element;
}

/* Extents are in elements of the array, or in bytes where no array takes part. */
static CUDA_MEMCPY3D from_operands(const CUDA_MEMCPY3D_BATCH_OP *op)
{
    size_t from_element = element_of(&op->src), to_element = element_of(&op->dst);
    size_t element = from_element > to_element ? from_element : to_element;
    CUDA_MEMCPY3D copy = {
        .WidthInBytes = op->extent.width * element, .Height = op->extent.height, .Depth = op->extent.depth,
    };

    if (op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.srcArray = op->src.op.array.array;
        copy.srcXInBytes = op->src.op.array.offset.x * element;
        copy.srcY = op->src.op.array.offset.y;
        copy.srcZ = op->src.op.array.offset.z;
    } else {
        copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
        copy.srcDevice = op->src.op.ptr.ptr;
        copy.srcPitch = op->src.op.ptr.rowLength * element;
        copy.srcHeight = op->src.op.ptr.layerHeight;
    }
    if (op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.dstArray = op->dst.op.array.array;
        copy.dstXInBytes = op->dst.op.array.offset.x * element;
        copy.dstY = op->dst.op.array.offset.y;
        copy.dstZ = op->dst.op.array.offset.z;
    } else {
        copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
        copy.dstDevice = op->dst.op.ptr.ptr;
        copy.dstPitch = op->dst.op.ptr.rowLength * element;
        copy.dstHeight = op->dst.op.ptr.layerHeight;
    }
    return copy;
}

CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream)
{
    READY();
    REQUIRE(op && !flags && op->extent.width && op->extent.height && op->extent.depth, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = from_operands(op);
    return copy_on(stream, &copy, TRANSFER_ASYNC);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream)
{
    READY();
    REQUIRE(count && ops && !flags && stream, CUDA_ERROR_INVALID_VALUE);
    for (size_t at = 0; at < count; ++at)
        TRY(cuMemcpy3DWithAttributesAsync(&ops[at], 0, stream));
    return CUDA_SUCCESS;
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed, unsigned long long flags,
                              CUstream stream)
{
    if (failed)
        *failed = SIZE_MAX;
    return cuMemcpy3DBatchAsync_v2(count, ops, flags, stream);
}
