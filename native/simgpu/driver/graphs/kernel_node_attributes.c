/* Attributes of kernel nodes: access window, priority, cooperation. Kept and copied; nothing else reads them. */
#include "graph.h"

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
