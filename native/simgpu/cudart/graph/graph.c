/* Graphs as wholes: made, cloned, asked for their shape, instantiated, updated. */
#include "runtime.h"

SAME_LAYOUT(cudaGraphEdgeData, CUgraphEdgeData);
SAME_LAYOUT(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags) { return CALL_BARE(cuGraphCreate, graph, flags); }

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original) { return CALL_BARE(cuGraphClone, clone, original); }

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return CALL_BARE(cuGraphDestroy, graph); }

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) { return CALL_BARE(cuGraphDestroyNode, node); }

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return CALL_BARE(cuGraphGetNodes, graph, nodes, count);
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return CALL_BARE(cuGraphGetRootNodes, graph, nodes, count);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
    return CALL_BARE(cuGraphNodeGetType, node, (CUgraphNodeType *)type);
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone) {
    return CALL_BARE(cuGraphNodeFindInClone, node, original, clone);
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags) {
    return CALL_BARE(cuGraphDebugDotPrint, graph, path, flags);
}

static cudaError_t edges_of(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edges,
                            size_t *count) {
    return CALL_BARE(cuGraphGetEdges, graph, from, to, (CUgraphEdgeData *)edges, count);
}

static cudaError_t dependencies_of(cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count) {
    return CALL_BARE(cuGraphNodeGetDependencies, node, nodes, (CUgraphEdgeData *)edges, count);
}

static cudaError_t dependents_of(cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges, size_t *count) {
    return CALL_BARE(cuGraphNodeGetDependentNodes, node, nodes, (CUgraphEdgeData *)edges, count);
}

static cudaError_t join(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                        size_t count) {
    return CALL_BARE(cuGraphAddDependencies, graph, from, to, (const CUgraphEdgeData *)edges, count);
}

static cudaError_t part(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                        size_t count) {
    return CALL_BARE(cuGraphRemoveDependencies, graph, from, to, (const CUgraphEdgeData *)edges, count);
}

/* Version 13 has only the shapes with edge data; version 12 has them as _v2, beside those without. */
#if CUDART_VERSION >= 13000
#define WITH_EDGES(name) name
#else
#define WITH_EDGES(name) name##_v2
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
    return edges_of(graph, from, to, NULL, count);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
    return dependencies_of(node, nodes, NULL, count);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count) {
    return dependents_of(node, nodes, NULL, count);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return join(graph, from, to, NULL, count);
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count) {
    return part(graph, from, to, NULL, count);
}
#endif

cudaError_t WITH_EDGES(cudaGraphGetEdges)(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edges,
                                          size_t *count) {
    return edges_of(graph, from, to, edges, count);
}

cudaError_t WITH_EDGES(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges,
                                                     size_t *count) {
    return dependencies_of(node, nodes, edges, count);
}

cudaError_t WITH_EDGES(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t *nodes, cudaGraphEdgeData *edges,
                                                       size_t *count) {
    return dependents_of(node, nodes, edges, count);
}

cudaError_t WITH_EDGES(cudaGraphAddDependencies)(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                                 const cudaGraphEdgeData *edges, size_t count) {
    return join(graph, from, to, edges, count);
}

cudaError_t WITH_EDGES(cudaGraphRemoveDependencies)(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                                    const cudaGraphEdgeData *edges, size_t count) {
    return part(graph, from, to, edges, count);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph, unsigned long long flags) {
    return CALL(cuGraphInstantiateWithFlags, instance, graph, flags);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *instance, cudaGraph_t graph, unsigned long long flags) {
    return CALL(cuGraphInstantiateWithFlags, instance, graph, flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t instance, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info) {
    return CALL(cuGraphExecUpdate, instance, graph, (CUgraphExecUpdateResultInfo *)info);
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t instance, unsigned long long *flags) {
    cuuint64_t driver_flags = 0;
    cudaError_t result = CALL_BARE(cuGraphExecGetFlags, instance, &driver_flags);
    if (result == cudaSuccess && flags)
        *flags = driver_flags;
    return result;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) { return CALL_BARE(cuGraphExecDestroy, instance); }

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t instance, cudaGraphNode_t node, unsigned int *enabled) {
    return CALL_BARE(cuGraphNodeGetEnabled, instance, node, enabled);
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t instance, cudaGraphNode_t node, unsigned int enabled) {
    return CALL_BARE(cuGraphNodeSetEnabled, instance, node, enabled);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object, void *pointer, cudaHostFn_t destroy, unsigned int references,
                                 unsigned int flags) {
    return CALL_BARE(cuUserObjectCreate, object, pointer, destroy, references, flags);
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) { return CALL_BARE(cuUserObjectRetain, object, count); }

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
    return CALL_BARE(cuUserObjectRelease, object, count);
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags) {
    return CALL_BARE(cuGraphRetainUserObject, graph, object, count, flags);
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
    return CALL_BARE(cuGraphReleaseUserObject, graph, object, count);
}
