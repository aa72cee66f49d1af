/* cuGraphAdd*Node: one function per kind in the older forms, one for all in the newer. */
#include "graph.h"

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                    size_t count, CUgraphNodeParams *params)
{
    LOCKED();
    REQUIRE(out && params && (!count || dependencies), CUDA_ERROR_INVALID_VALUE);
    TRY(graph_check(graph));
    return graph_add(graph, dependencies, edges, count, params, out);
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    return add(node, graph, dependencies, edges, count, params);
}

CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
                           const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    return add(node, graph, dependencies, edges, count, params);
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                        CUgraphNodeParams *params)
{
    return add(node, graph, dependencies, NULL, count, params);
}

static CUDA_KERNEL_NODE_PARAMS_v3 from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
    return (CUDA_KERNEL_NODE_PARAMS_v3){
        .func = old->func, .gridDimX = old->gridDimX, .gridDimY = old->gridDimY, .gridDimZ = old->gridDimZ,
        .blockDimX = old->blockDimX, .blockDimY = old->blockDimY, .blockDimZ = old->blockDimZ,
        .sharedMemBytes = old->sharedMemBytes, .kernelParams = old->kernelParams, .extra = old->extra,
    };
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *kernel)
{
    REQUIRE(kernel, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = from_v1(kernel)};
    return add(node, graph, dependencies, NULL, count, &params);
}

static CUDA_KERNEL_NODE_PARAMS_v3 from_v2(const CUDA_KERNEL_NODE_PARAMS *two)
{
    return (CUDA_KERNEL_NODE_PARAMS_v3){
        .func = two->func, .gridDimX = two->gridDimX, .gridDimY = two->gridDimY, .gridDimZ = two->gridDimZ,
        .blockDimX = two->blockDimX, .blockDimY = two->blockDimY, .blockDimZ = two->blockDimZ,
        .sharedMemBytes = two->sharedMemBytes, .kernelParams = two->kernelParams, .extra = two->extra,
        .kern = two->kern, .ctx = two->ctx,
    };
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    REQUIRE(kernel, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = from_v2(kernel)};
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMCPY3D *copy, CUcontext context)
{
    REQUIRE(copy, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyCtx = context, .copyParams = *copy},
    };
    return add(node, graph, dependencies, NULL, count, &params);
}

static CUDA_MEMSET_NODE_PARAMS_v2 fill_of(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    return (CUDA_MEMSET_NODE_PARAMS_v2){
        .dst = fill->dst, .pitch = fill->pitch, .value = fill->value, .elementSize = fill->elementSize,
        .width = fill->width, .height = fill->height, .ctx = context,
    };
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context)
{
    REQUIRE(fill, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = fill_of(fill, context)};
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS *host)
{
    REQUIRE(host, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = host->fn, .userData = host->userData},
    };
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                  CUgraph child)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                   CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *memory)
{
    REQUIRE(memory, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    params.alloc.poolProps = memory->poolProps;
    params.alloc.bytesize = memory->bytesize;
    TRY(add(node, graph, dependencies, NULL, count, &params));
    memory->dptr = params.alloc.dptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                               CUdeviceptr pointer)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free = {.dptr = pointer}};
    return add(node, graph, dependencies, NULL, count, &params);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    REQUIRE(batch, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        .memOp = {batch->ctx, batch->count, batch->paramArray, batch->flags},
    };
    return add(node, graph, dependencies, NULL, count, &params);
}
