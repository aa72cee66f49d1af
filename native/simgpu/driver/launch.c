/* cuLaunchKernel and its kin. */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "card.h"
#include "jobs.h"

#define MAX_THREADS 1024u
#define DEFAULT_SHARED 49152u
#define PORTABLE_CLUSTER 8u
#define LARGEST_CLUSTER 16u

CUresult launch_check(const struct callee *callee, int device, const struct launch *launch)
{
    const unsigned *grid = launch->grid, *block = launch->block;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    unsigned allowed = callee->attributes->max_dynamic_shared ? (unsigned)callee->attributes->max_dynamic_shared
                                                              : DEFAULT_SHARED;

    REQUIRE(grid[0] && grid[1] && grid[2] && threads, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] <= 65535, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(block[0] <= 1024 && block[1] <= 1024 && block[2] <= 64, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(threads <= MAX_THREADS && launch->shared_bytes <= allowed, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(!(launch->params && launch->extra), CUDA_ERROR_INVALID_VALUE);
    REQUIRE(launch->params || launch->extra || callee->entry->params <= 0, CUDA_ERROR_INVALID_VALUE);
    if (!launch->cooperative)
        return CUDA_SUCCESS;
    uint64_t fit = (uint64_t)blocks_per_sm(device, (unsigned)threads, launch->shared_bytes) *
                   (uint64_t)card_facts(device)->sm_count;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    return blocks <= fit ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult kernel_submit(const struct target *target, const struct kernel_cost *cost)
{
    struct engine_work work = {
        .kind = ENGINE_KERNEL, .width_milli = cost->width_milli, .duration_ns = cost->ns, .event = ENGINE_NO_EVENT,
    };
    struct job fault = {.kind = JOB_FAULT, .target = *target};

    TRY(submit(target, &work, NULL));
    return cost->faults ? job_submit(&fault, NULL) : CUDA_SUCCESS;
}

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
