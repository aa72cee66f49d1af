/* Nodes whose description the driver takes as it is: empty, host, child graph, event, set, memory. */
#include "runtime.h"

SAME_LAYOUT(struct cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
SAME_LAYOUT(struct cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS);
SAME_LAYOUT(struct cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);

typedef const cudaGraphNode_t *dependencies_t;

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count) {
    return CALL_BARE(cuGraphAddEmptyNode, node, graph, dependencies, count);
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count,
                                 const struct cudaHostNodeParams *p) {
    return CALL(cuGraphAddHostNode, node, graph, dependencies, count, (const CUDA_HOST_NODE_PARAMS *)p);
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *p) {
    return CALL_BARE(cuGraphHostNodeGetParams, node, (CUDA_HOST_NODE_PARAMS *)p);
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *p) {
    return CALL_BARE(cuGraphHostNodeSetParams, node, (const CUDA_HOST_NODE_PARAMS *)p);
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t instance, cudaGraphNode_t node, const struct cudaHostNodeParams *p) {
    return CALL(cuGraphExecHostNodeSetParams, instance, node, (const CUDA_HOST_NODE_PARAMS *)p);
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count,
                                       cudaGraph_t child) {
    return CALL(cuGraphAddChildGraphNode, node, graph, dependencies, count, child);
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *graph) {
    return CALL_BARE(cuGraphChildGraphNodeGetGraph, node, graph);
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t instance, cudaGraphNode_t node, cudaGraph_t child) {
    return CALL(cuGraphExecChildGraphNodeSetParams, instance, node, child);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count,
                                        cudaEvent_t event) {
    return CALL(cuGraphAddEventRecordNode, node, graph, dependencies, count, event);
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event) {
    return CALL_BARE(cuGraphEventRecordNodeGetEvent, node, event);
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
    return CALL_BARE(cuGraphEventRecordNodeSetEvent, node, event);
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t instance, cudaGraphNode_t node, cudaEvent_t event) {
    return CALL_BARE(cuGraphExecEventRecordNodeSetEvent, instance, node, event);
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count,
                                      cudaEvent_t event) {
    return CALL(cuGraphAddEventWaitNode, node, graph, dependencies, count, event);
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event) {
    return CALL_BARE(cuGraphEventWaitNodeGetEvent, node, event);
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {
    return CALL_BARE(cuGraphEventWaitNodeSetEvent, node, event);
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t instance, cudaGraphNode_t node, cudaEvent_t event) {
    return CALL_BARE(cuGraphExecEventWaitNodeSetEvent, instance, node, event);
}

/* A node without a context of its own runs in that of the thread which adds it. */
static int enter_current(CUcontext *context) {
    int result = cudart_enter();
    return result ? result : (int)DRIVER(cuCtxGetCurrent)(context);
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count,
                                   const struct cudaMemsetParams *p) {
    CUcontext context;
    int result = enter_current(&context);
    if (!result)
        result = DRIVER(cuGraphAddMemsetNode)(node, graph, dependencies, count, (const CUDA_MEMSET_NODE_PARAMS *)p, context);
    return cudart_result(result);
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *p) {
    return CALL_BARE(cuGraphMemsetNodeGetParams, node, (CUDA_MEMSET_NODE_PARAMS *)p);
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *p) {
    return CALL_BARE(cuGraphMemsetNodeSetParams, node, (const CUDA_MEMSET_NODE_PARAMS *)p);
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t instance, cudaGraphNode_t node, const struct cudaMemsetParams *p) {
    CUcontext context;
    int result = enter_current(&context);
    if (!result)
        result = DRIVER(cuGraphExecMemsetNodeSetParams)(instance, node, (const CUDA_MEMSET_NODE_PARAMS *)p, context);
    return cudart_result(result);
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count,
                                     struct cudaMemAllocNodeParams *p) {
    return CALL(cuGraphAddMemAllocNode, node, graph, dependencies, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)p);
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *p) {
    return CALL_BARE(cuGraphMemAllocNodeGetParams, node, (CUDA_MEM_ALLOC_NODE_PARAMS *)p);
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t dependencies, size_t count,
                                    void *pointer) {
    return CALL(cuGraphAddMemFreeNode, node, graph, dependencies, count, (CUdeviceptr)pointer);
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *pointer) {
    return CALL_BARE(cuGraphMemFreeNodeGetParams, node, (CUdeviceptr *)pointer);
}
