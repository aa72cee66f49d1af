/* Parameters of the rarer nodes, and kernel nodes' attributes. */
#include "graph.h"

static CUresult change(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    return exec ? cuGraphExecNodeSetParams(exec, node, params) : cuGraphNodeSetParams(node, params);
}

static CUresult read(CUgraphNode node, CUgraphNodeType type, CUgraphNodeParams *params)
{
    TRY(cuGraphNodeGetParams(node, params));
    return params->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define READ(kind, out)                                                                                            \
    CUgraphNodeParams params;                                                                                      \
    REQUIRE(out, CUDA_ERROR_INVALID_VALUE);                                                                        \
    TRY(read(node, CU_GRAPH_NODE_TYPE_##kind, &params))

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    READ(GRAPH, graph);
    *graph = params.graph.graph;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};

    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change(exec, node, &params);
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    READ(EVENT_RECORD, event);
    *event = params.eventRecord.event;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};

    return change(NULL, node, &params);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .eventRecord = {.event = event}};

    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change(exec, node, &params);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    READ(WAIT_EVENT, event);
    *event = params.eventWait.event;
    return CUDA_SUCCESS;
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};

    return change(NULL, node, &params);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .eventWait = {.event = event}};

    REQUIRE(exec, CUDA_ERROR_INVALID_VALUE);
    return change(exec, node, &params);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *memory)
{
    READ(MEM_ALLOC, memory);
    *memory = (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = params.alloc.poolProps, .bytesize = params.alloc.bytesize, .dptr = params.alloc.dptr,
    };
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer)
{
    READ(MEM_FREE, pointer);
    *pointer = params.free.dptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *batch)
{
    READ(BATCH_MEM_OP, batch);
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
    return change(exec, node, &params);
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

static CUresult attribute_place(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue **place)
{
    TRY(node_check(node));
    REQUIRE(node->params.type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
    switch ((int)attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        *place = &node->window;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        *place = &node->cooperative;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        *place = &node->priority;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue *value)
{
    CUkernelNodeAttrValue *place;

    LOCKED();
    REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    TRY(attribute_place(node, attribute, &place));
    *value = *place;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attribute,
                                       const CUkernelNodeAttrValue *value)
{
    CUkernelNodeAttrValue *place;

    LOCKED();
    REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    TRY(attribute_place(node, attribute, &place));
    *place = *value;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    LOCKED();
    TRY(node_check(to));
    TRY(node_check(from));
    REQUIRE(to->params.type == CU_GRAPH_NODE_TYPE_KERNEL && from->params.type == CU_GRAPH_NODE_TYPE_KERNEL,
            CUDA_ERROR_INVALID_VALUE);
    to->priority = from->priority;
    to->window = from->window;
    to->cooperative = from->cooperative;
    return CUDA_SUCCESS;
}
