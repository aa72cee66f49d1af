/* cuStreamWriteValue, cuStreamWaitValue and batches of them. */
#include "jobs.h"
#include "memory/memory.h"

#define BATCH_LIMIT 256u

static CUresult resolve(CUstream handle, struct job *job)
{
    size_t size = job->value.wide ? 8 : 4;
    CUstream stream;

    LOCKED();
    REQUIRE(job->value.address && (uintptr_t)job->value.address % size == 0, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    REQUIRE(!stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    TRY(range_check(job->value.address, size, true, true));
    job->target = stream_target(stream);
    return CUDA_SUCCESS;
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, bool wide)
{
    struct job job = {.kind = JOB_WAIT_VALUE, .value = {(void *)address, value, flags, wide}};

    READY();
    REQUIRE(!(flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)), CUDA_ERROR_INVALID_VALUE);
    TRY(resolve(stream, &job));
    return jobs_none() && value_reached(&job.value) ? CUDA_SUCCESS : job_submit(&job, NULL);
}

/* Behind what the stream has to do: another may be waiting for the value to know that it is done. */
static CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags, bool wide)
{
    struct job job = {.kind = JOB_WRITE_VALUE, .value = {(void *)address, value, flags, wide}};

    READY();
    REQUIRE(!(flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER), CUDA_ERROR_INVALID_VALUE);
    TRY(resolve(stream, &job));
    return job_submit(&job, NULL);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return wait_value(stream, address, value, flags, false);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return wait_value(stream, address, value, flags, false);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return wait_value(stream, address, value, flags, true);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return wait_value(stream, address, value, flags, true);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return write_value(stream, address, value, flags, false);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return write_value(stream, address, value, flags, false);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return write_value(stream, address, value, flags, true);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
    return write_value(stream, address, value, flags, true);
}

static CUresult one_operation(CUstream stream, const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_value(stream, op->waitValue.address, op->waitValue.value, op->waitValue.flags, false);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_value(stream, op->waitValue.address, op->waitValue.value64, op->waitValue.flags, true);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_value(stream, op->writeValue.address, op->writeValue.value, op->writeValue.flags, false);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_value(stream, op->writeValue.address, op->writeValue.value64, op->writeValue.flags, true);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
                               unsigned int flags)
{
    READY();
    REQUIRE(operations && count && count <= BATCH_LIMIT && !flags, CUDA_ERROR_INVALID_VALUE);
    for (unsigned at = 0; at < count; ++at)
        TRY(one_operation(stream, &operations[at]));
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
                            unsigned int flags)
{
    return cuStreamBatchMemOp_v2(stream, count, operations, flags);
}
