/* cuGraph*NodeGetParams and SetParams, and the same for the node's copy in an executable graph. */
#include "graph_params.h"

CUresult graph_change_params(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
    LOCKED();
    REQUIRE(params, CUDA_ERROR_INVALID_VALUE);
    TRY(node_check(node));
    if (exec) {
        TRY(exec_check(exec));
        node = exec_node_of(exec, node);
        REQUIRE(node, CUDA_ERROR_INVALID_VALUE);
    }
    return node_set(node, params);
}

CUresult graph_read_params(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *params)
{
    LOCKED();
    TRY(node_check(node));
    REQUIRE(node->params.type == type, CUDA_ERROR_INVALID_VALUE);
    *params = node->params;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    return graph_change_params(NULL, node, params);
}

CUresult cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params)
{
    return graph_change_params(NULL, node, params);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return graph_change_params(exec, node, params);
}

CUresult cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    LOCKED();
    REQUIRE(params, CUDA_ERROR_INVALID_VALUE);
    TRY(node_check(node));
    *params = node->params;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *kernel)
{
    READ_PARAMS(KERNEL, kernel);
    *kernel = (CUDA_KERNEL_NODE_PARAMS){
        .func = params.kernel.func, .gridDimX = params.kernel.gridDimX, .gridDimY = params.kernel.gridDimY,
        .gridDimZ = params.kernel.gridDimZ, .blockDimX = params.kernel.blockDimX,
        .blockDimY = params.kernel.blockDimY, .blockDimZ = params.kernel.blockDimZ,
        .sharedMemBytes = params.kernel.sharedMemBytes, .kernelParams = params.kernel.kernelParams,
        .kern = params.kernel.kern, .ctx = params.kernel.ctx,
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    READ_PARAMS(KERNEL, kernel);
    *kernel = (CUDA_KERNEL_NODE_PARAMS_v1){
        params.kernel.func, params.kernel.gridDimX, params.kernel.gridDimY, params.kernel.gridDimZ,
        params.kernel.blockDimX, params.kernel.blockDimY, params.kernel.blockDimZ, params.kernel.sharedMemBytes,
        params.kernel.kernelParams, NULL,
    };
    return CUDA_SUCCESS;
}

static CUresult change_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    REQUIRE(kernel, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_KERNEL,
        .kernel = {
            .func = kernel->func, .gridDimX = kernel->gridDimX, .gridDimY = kernel->gridDimY,
            .gridDimZ = kernel->gridDimZ, .blockDimX = kernel->blockDimX, .blockDimY = kernel->blockDimY,
            .blockDimZ = kernel->blockDimZ, .sharedMemBytes = kernel->sharedMemBytes,
            .kernelParams = kernel->kernelParams, .extra = kernel->extra, .kern = kernel->kern, .ctx = kernel->ctx,
        },
    };
    return graph_change_params(exec, node, &params);
}

static CUDA_KERNEL_NODE_PARAMS newer(const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    return (CUDA_KERNEL_NODE_PARAMS){
        .func = old->func, .gridDimX = old->gridDimX, .gridDimY = old->gridDimY, .gridDimZ = old->gridDimZ,
        .blockDimX = old->blockDimX, .blockDimY = old->blockDimY, .blockDimZ = old->blockDimZ,
        .sharedMemBytes = old->sharedMemBytes, .kernelParams = old->kernelParams, .extra = old->extra,
    };
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    return change_kernel(NULL, node, kernel);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    REQUIRE(kernel, CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS same = newer(kernel);
    return change_kernel(NULL, node, &same);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change_kernel(exec, node, kernel);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    REQUIRE(exec && kernel, CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS same = newer(kernel);
    return change_kernel(exec, node, &same);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *copy)
{
    READ_PARAMS(MEMCPY, copy);
    *copy = params.memcpy.copyParams;
    return CUDA_SUCCESS;
}

static CUresult change_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    REQUIRE(copy, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyCtx = context, .copyParams = *copy},
    };
    return graph_change_params(exec, node, &params);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
    return change_copy(NULL, node, copy, NULL);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy,
                                        CUcontext context)
{
    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change_copy(exec, node, copy, context);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *fill)
{
    READ_PARAMS(MEMSET, fill);
    *fill = (CUDA_MEMSET_NODE_PARAMS){
        params.memset.dst, params.memset.pitch, params.memset.value, params.memset.elementSize, params.memset.width,
        params.memset.height,
    };
    return CUDA_SUCCESS;
}

static CUresult change_fill(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    REQUIRE(fill, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_MEMSET,
        .memset = {fill->dst, fill->pitch, fill->value, fill->elementSize, fill->width, fill->height, context},
    };
    return graph_change_params(exec, node, &params);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill)
{
    return change_fill(NULL, node, fill, NULL);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *fill,
                                        CUcontext context)
{
    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change_fill(exec, node, fill, context);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *host)
{
    READ_PARAMS(HOST, host);
    *host = (CUDA_HOST_NODE_PARAMS){params.host.fn, params.host.userData};
    return CUDA_SUCCESS;
}

static CUresult change_host(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host)
{
    REQUIRE(host, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = host->fn, .userData = host->userData},
    };
    return graph_change_params(exec, node, &params);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host)
{
    return change_host(NULL, node, host);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *host)
{
    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change_host(exec, node, host);
}
