/* cuGraphExecUpdate: the parameters of a graph of the same shape into an executable one, all or nothing.

   Nodes correspond by the order in which they were made. */
#include "graph.h"

static CUresult refuse(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult result, CUgraphNode node,
                       CUgraphNode from)
{
    info->result = result;
    info->errorNode = node;
    info->errorFromNode = from;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static void number(CUgraph graph)
{
    unsigned place = 0;

    for (CUgraphNode node = graph->first; node; node = node->next)
        node->visit = place++;
}

static CUresult same_dependencies(CUgraphNode own, CUgraphNode node, CUgraphExecUpdateResultInfo *info)
{
    if (own->dependency_count != node->dependency_count)
        return refuse(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, NULL);
    for (size_t at = 0; at < node->dependency_count; ++at)
        if (own->dependencies[at]->visit != node->dependencies[at]->visit)
            return refuse(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, node->dependencies[at]);
    return CUDA_SUCCESS;
}

static CUresult same_node(CUgraphNode own, CUgraphNode node, CUgraphExecUpdateResultInfo *info);

static CUresult same_shape(CUgraph own, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphNode theirs = graph->first;

    if (own->count != graph->count)
        return refuse(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
    number(own);
    number(graph);
    for (CUgraphNode node = own->first; node; node = node->next, theirs = theirs->next) {
        TRY(same_dependencies(node, theirs, info));
        TRY(same_node(node, theirs, info));
    }
    return CUDA_SUCCESS;
}

static CUresult same_node(CUgraphNode own, CUgraphNode node, CUgraphExecUpdateResultInfo *info)
{
    const CUgraphNodeParams *before = &own->params, *after = &node->params;

    if (before->type != after->type)
        return refuse(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node, NULL);
    switch (after->type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return same_shape(own->child, node->child, info);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        if (before->alloc.dptr != after->alloc.dptr)
            return refuse(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node, NULL);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        if (before->free.dptr != after->free.dptr)
            return refuse(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node, NULL);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

static CUresult take_params(CUgraph own, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphNode theirs = graph->first;

    for (CUgraphNode node = own->first; node; node = node->next, theirs = theirs->next) {
        CUresult set = node_set(node, &theirs->params);
        if (set != CUDA_SUCCESS)
            return refuse(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, theirs, NULL);
        if (theirs->params.type == CU_GRAPH_NODE_TYPE_KERNEL)
            node->cost = theirs->cost;
        node->original = theirs;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    LOCKED();
    REQUIRE(info, CUDA_ERROR_INVALID_VALUE);
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    TRY(exec_check(exec));
    TRY(graph_check(graph));
    TRY(same_shape(exec->graph, graph, info));
    TRY(take_params(exec->graph, graph, info));
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                           CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info;

    REQUIRE(error_node && result, CUDA_ERROR_INVALID_VALUE);
    CUresult updated = cuGraphExecUpdate_v2(exec, graph, &info);
    *result = info.result;
    *error_node = info.errorNode;
    return updated;
}
