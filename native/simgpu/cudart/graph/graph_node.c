/* Nodes described by the one structure for all types (cudaGraphAddNode): each type is added by its own function. */
#include "runtime.h"

typedef const cudaGraphNode_t *dependencies_t;

static cudaError_t add_kernel(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, size_t count,
                              const struct cudaKernelNodeParamsV2 *p) {
    struct cudaKernelNodeParams same = {.func = p->func,
                                        .gridDim = p->gridDim,
                                        .blockDim = p->blockDim,
                                        .sharedMemBytes = p->sharedMemBytes,
                                        .kernelParams = p->kernelParams,
                                        .extra = p->extra};
    return cudaGraphAddKernelNode(node, graph, before, count, &same);
}

static cudaError_t add_set(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, size_t count,
                           const struct cudaMemsetParamsV2 *p) {
    struct cudaMemsetParams same = {.dst = p->dst,
                                    .pitch = p->pitch,
                                    .value = p->value,
                                    .elementSize = p->elementSize,
                                    .width = p->width,
                                    .height = p->height};
    return cudaGraphAddMemsetNode(node, graph, before, count, &same);
}

static cudaError_t add_host(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, size_t count,
                            const struct cudaHostNodeParamsV2 *p) {
    struct cudaHostNodeParams same = {.fn = p->fn, .userData = p->userData};
    return cudaGraphAddHostNode(node, graph, before, count, &same);
}

static cudaError_t add_alloc(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, size_t count,
                             struct cudaMemAllocNodeParamsV2 *p) {
    struct cudaMemAllocNodeParams same = {.poolProps = p->poolProps,
                                          .accessDescs = p->accessDescs,
                                          .accessDescCount = p->accessDescCount,
                                          .bytesize = p->bytesize};
    cudaError_t result = cudaGraphAddMemAllocNode(node, graph, before, count, &same);
    p->dptr = same.dptr;
    return result;
}

static cudaError_t add_node(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, size_t count,
                            struct cudaGraphNodeParams *p) {
    switch (p->type) {
    case cudaGraphNodeTypeKernel:
        return add_kernel(node, graph, before, count, &p->kernel);
    case cudaGraphNodeTypeMemcpy:
        return cudaGraphAddMemcpyNode(node, graph, before, count, &p->memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
        return add_set(node, graph, before, count, &p->memset);
    case cudaGraphNodeTypeHost:
        return add_host(node, graph, before, count, &p->host);
    case cudaGraphNodeTypeGraph:
        return cudaGraphAddChildGraphNode(node, graph, before, count, p->graph.graph);
    case cudaGraphNodeTypeEmpty:
        return cudaGraphAddEmptyNode(node, graph, before, count);
    case cudaGraphNodeTypeWaitEvent:
        return cudaGraphAddEventWaitNode(node, graph, before, count, p->eventWait.event);
    case cudaGraphNodeTypeEventRecord:
        return cudaGraphAddEventRecordNode(node, graph, before, count, p->eventRecord.event);
    case cudaGraphNodeTypeMemAlloc:
        return add_alloc(node, graph, before, count, &p->alloc);
    case cudaGraphNodeTypeMemFree:
        return cudaGraphAddMemFreeNode(node, graph, before, count, p->free.dptr);
    default:
        return cudart_result(cudaErrorNotSupported);
    }
}

/* Edges that are not the plain kind would order kernels by their parts, which a simulated kernel does not have. */
static int plain(const cudaGraphEdgeData *edges, size_t count) {
    for (size_t i = 0; edges && i < count; i++)
        if (edges[i].type != cudaGraphDependencyTypeDefault)
            return 0;
    return 1;
}

#if CUDART_VERSION >= 13000

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, const cudaGraphEdgeData *edges,
                             size_t count, struct cudaGraphNodeParams *p) {
    if (!p)
        return cudart_result(cudaErrorInvalidValue);
    return plain(edges, count) ? add_node(node, graph, before, count, p) : cudart_result(cudaErrorNotSupported);
}

#else

cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, size_t count,
                             struct cudaGraphNodeParams *p) {
    return p ? add_node(node, graph, before, count, p) : cudart_result(cudaErrorInvalidValue);
}

cudaError_t cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, dependencies_t before, const cudaGraphEdgeData *edges,
                                size_t count, struct cudaGraphNodeParams *p) {
    if (!p)
        return cudart_result(cudaErrorInvalidValue);
    return plain(edges, count) ? add_node(node, graph, before, count, p) : cudart_result(cudaErrorNotSupported);
}

#endif
