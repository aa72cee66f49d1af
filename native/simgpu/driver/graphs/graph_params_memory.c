/* Parameters of memory nodes and of batches of memory operations. */
#include "graph_params.h"

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *memory)
{
    READ_PARAMS(MEM_ALLOC, memory);
    *memory = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = params.alloc.poolProps, .bytesize = params.alloc.bytesize, .dptr = params.alloc.dptr,
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer)
{
    READ_PARAMS(MEM_FREE, pointer);
    *pointer = params.free.dptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    READ_PARAMS(BATCH_MEM_OP, batch);
    *batch = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
        params.memOp.ctx, params.memOp.count, params.memOp.paramArray, params.memOp.flags,
    };
    return CUDA_SUCCESS;
}

static CUresult change_batch(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    REQUIRE(batch, CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeParams params = {
        .type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        .memOp = {batch->ctx, batch->count, batch->paramArray, batch->flags},
    };
    return graph_change_params(exec, node, &params);
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    return change_batch(NULL, node, batch);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change_batch(exec, node, batch);
}
