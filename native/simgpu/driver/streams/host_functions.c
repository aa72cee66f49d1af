/* cuLaunchHostFunc, cuStreamAddCallback: functions of the program in a stream's order. */
#include "graphs/capture.h"
#include "jobs.h"

static CUresult prepare(CUstream handle, CUhostFn function, void *data, struct target *target, bool *captured)
{
    CUstream stream;

    LOCKED();
    REQUIRE(function, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_resolve(handle, &stream));
    TRY(capture_refuses_legacy(stream));
    *target = stream_target(stream);
    *captured = capture_is_active(stream);
    if (!*captured)
        return CUDA_SUCCESS;
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_HOST};
    node.host.fn = function;
    node.host.userData = data;
    return capture_node(stream, &node);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    struct job job = {.kind = JOB_FUNCTION, .call = {.function = function, .data = data}};
    bool captured = false;

    TRY(prepare(stream, function, data, &job.target, &captured));
    return captured ? CUDA_SUCCESS : job_submit(&job, NULL);
}

CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned int mode)
{
    (void)mode; /* how the driver waits for it: here by its one thread always */
    return cuLaunchHostFunc(stream, function, data);
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *data, unsigned int flags)
{
    struct job job = {.kind = JOB_CALLBACK, .call = {.callback = callback, .stream = handle, .data = data}};
    CUstream stream;

    READY();
    REQUIRE(callback && !flags, CUDA_ERROR_INVALID_VALUE);
    {
        LOCKED();
        TRY(stream_resolve(handle, &stream));
        REQUIRE(!capture_is_active(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        TRY(capture_refuses_legacy(stream));
        job.target = stream_target(stream);
    }
    return job_submit(&job, NULL);
}
