/* cuLaunchKernel and its kin: a launch into a captured stream becomes a node, any other is submitted. */
#include "graphs/capture.h"
#include "launch.h"

#define LARGEST_CLUSTER 16u

static void node_of(CUgraphNodeParams *node, CUfunction function, const struct launch *launch)
{
    *node = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_KERNEL};
    node->kernel.gridDimX = launch->grid[0];
    node->kernel.gridDimY = launch->grid[1];
    node->kernel.gridDimZ = launch->grid[2];
    node->kernel.blockDimX = launch->block[0];
    node->kernel.blockDimY = launch->block[1];
    node->kernel.blockDimZ = launch->block[2];
    node->kernel.sharedMemBytes = launch->shared_bytes;
    node->kernel.kernelParams = launch->params;
    node->kernel.extra = launch->extra;
    if (handle_is(function, HANDLE_FUNCTION))
        node->kernel.func = function;
    else
        node->kernel.kern = (CUkernel)function;
}

static CUresult prepare(CUfunction function, CUstream handle, const struct launch *launch, struct target *target,
                        struct kernel_cost *cost, bool *captured)
{
    struct callee callee;
    CUstream stream;

    LOCKED();
    TRY(callee_of(function, &callee));
    TRY(stream_resolve(handle, &stream));
    REQUIRE(!callee.context || callee.context == stream->context, CUDA_ERROR_INVALID_HANDLE);
    TRY(launch_check(&callee, stream->context->device, launch));
    TRY(capture_refuses_legacy(stream));
    *target = stream_target(stream);
    *captured = capture_is_active(stream);
    if (*captured) {
        CUgraphNodeParams node;
        node_of(&node, function, launch);
        return capture_node(stream, &node);
    }
    *cost = kernel_cost(&callee, target->device, launch);
    return CUDA_SUCCESS;
}

static CUresult launch_on(CUfunction function, CUstream stream, const struct launch *launch)
{
    struct target target;
    struct kernel_cost cost;
    bool captured = false;

    TRY(prepare(function, stream, launch, &target, &cost, &captured));
    return captured ? CUDA_SUCCESS : kernel_submit(&target, &cost);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,
                        CUstream stream, void **params, void **extra)
{
    struct launch launch = {
        .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .shared_bytes = shared_bytes,
        .params = params, .extra = extra,
    };

    return launch_on(function, stream, &launch);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **params)
{
    struct launch launch = {
        .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z}, .shared_bytes = shared_bytes,
        .params = params, .cooperative = true,
    };

    return launch_on(function, stream, &launch);
}

static CUresult cluster_check(const CUlaunchConfig *config, const CUlaunchAttributeValue *value)
{
    unsigned x = value->clusterDim.x, y = value->clusterDim.y, z = value->clusterDim.z;

    REQUIRE(x && y && z && (uint64_t)x * y * z <= LARGEST_CLUSTER, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    REQUIRE(config->gridDimX % x == 0 && config->gridDimY % y == 0 && config->gridDimZ % z == 0,
            CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult record_of(const CUlaunchConfig *config, const CUlaunchAttribute *attribute)
{
    CUevent event = attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
                        ? attribute->value.programmaticEvent.event
                        : attribute->value.launchCompletionEvent.event;

    return event ? cuEventRecord(event, config->hStream) : CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
    READY();
    REQUIRE(config && (!config->numAttrs || config->attrs), CUDA_ERROR_INVALID_VALUE);
    struct launch launch = {
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .shared_bytes = config->sharedMemBytes, .params = params, .extra = extra,
    };
    for (unsigned at = 0; at < config->numAttrs; ++at) {
        if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            launch.cooperative = config->attrs[at].value.cooperative != 0;
        if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            TRY(cluster_check(config, &config->attrs[at].value));
    }
    TRY(launch_on(function, config->hStream, &launch));
    for (unsigned at = 0; at < config->numAttrs; ++at)
        if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
            config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            TRY(record_of(config, &config->attrs[at]));
    return CUDA_SUCCESS;
}
