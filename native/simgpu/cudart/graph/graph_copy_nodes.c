/* Copy nodes: boxes, plain bytes, and bytes of a variable. */
#include "code/registry.h"
#include "memory/shape.h"

/* What a node is made from: a box in the driver's terms, and the context it runs in. */
struct described {
    CUDA_MEMCPY3D box;
    CUcontext context;
};

static int describe(const struct cudaMemcpy3DParms *p, struct described *d) {
    int result = cudart_enter();
    if (!result)
        result = DRIVER(cuCtxGetCurrent)(&d->context);
    return result ? result : cudart_box(p, &d->box);
}

static struct cudaMemcpy3DParms line(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return (struct cudaMemcpy3DParms){.srcPtr = {(void *)from, bytes, bytes, 1},
                                      .dstPtr = {to, bytes, bytes, 1},
                                      .extent = {bytes, 1, 1},
                                      .kind = kind};
}

static int describe_line(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, struct described *d) {
    struct cudaMemcpy3DParms p = line(to, from, bytes, kind);
    return describe(&p, d);
}

/* The address of a part of a variable, as the copy's other end. */
static int part_of(const void *symbol, size_t bytes, size_t offset, void **address) {
    CUdeviceptr start;
    size_t size;
    int result = cudart_enter();
    if (!result)
        result = cudart_variable(symbol, &start, &size);
    if (!result && (offset > size || bytes > size - offset))
        result = cudaErrorInvalidValue;
    *address = result ? NULL : (char *)start + offset;
    return result;
}

static cudaError_t add(int result, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                       const struct described *d) {
    if (!result)
        result = DRIVER(cuGraphAddMemcpyNode)(node, graph, dependencies, count, &d->box, d->context);
    return cudart_result(result);
}

static cudaError_t set(int result, cudaGraphNode_t node, const struct described *d) {
    return cudart_result(result ? result : (int)DRIVER(cuGraphMemcpyNodeSetParams)(node, &d->box));
}

static cudaError_t set_in(int result, cudaGraphExec_t instance, cudaGraphNode_t node, const struct described *d) {
    return cudart_result(result ? result : (int)DRIVER(cuGraphExecMemcpyNodeSetParams)(instance, node, &d->box, d->context));
}

static int describe_to_symbol(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                              struct described *d) {
    void *to;
    int result = part_of(symbol, bytes, offset, &to);
    return result ? result : describe_line(to, from, bytes, kind, d);
}

static int describe_from_symbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                                struct described *d) {
    void *from;
    int result = part_of(symbol, bytes, offset, &from);
    return result ? result : describe_line(to, from, bytes, kind, d);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaMemcpy3DParms *p) {
    struct described d;
    return add(describe(p, &d), node, graph, dependencies, count, &d);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                     void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    struct described d;
    return add(describe_line(to, from, bytes, kind, &d), node, graph, dependencies, count, &d);
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                           size_t count, const void *symbol, const void *from, size_t bytes, size_t offset,
                                           enum cudaMemcpyKind kind) {
    struct described d;
    return add(describe_to_symbol(symbol, from, bytes, offset, kind, &d), node, graph, dependencies, count, &d);
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                             size_t count, void *to, const void *symbol, size_t bytes, size_t offset,
                                             enum cudaMemcpyKind kind) {
    struct described d;
    return add(describe_from_symbol(to, symbol, bytes, offset, kind, &d), node, graph, dependencies, count, &d);
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *p) {
    CUDA_MEMCPY3D box;
    cudaError_t result = p ? CALL(cuGraphMemcpyNodeGetParams, node, &box) : cudart_result(cudaErrorInvalidValue);
    if (result == cudaSuccess)
        *p = cudart_box_back(&box);
    return result;
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *p) {
    struct described d;
    return set(describe(p, &d), node, &d);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes,
                                           enum cudaMemcpyKind kind) {
    struct described d;
    return set(describe_line(to, from, bytes, kind, &d), node, &d);
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *from, size_t bytes,
                                                 size_t offset, enum cudaMemcpyKind kind) {
    struct described d;
    return set(describe_to_symbol(symbol, from, bytes, offset, kind, &d), node, &d);
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *to, const void *symbol, size_t bytes, size_t offset,
                                                   enum cudaMemcpyKind kind) {
    struct described d;
    return set(describe_from_symbol(to, symbol, bytes, offset, kind, &d), node, &d);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t instance, cudaGraphNode_t node, const struct cudaMemcpy3DParms *p) {
    struct described d;
    return set_in(describe(p, &d), instance, node, &d);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t instance, cudaGraphNode_t node, void *to, const void *from,
                                               size_t bytes, enum cudaMemcpyKind kind) {
    struct described d;
    return set_in(describe_line(to, from, bytes, kind, &d), instance, node, &d);
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t instance, cudaGraphNode_t node, const void *symbol,
                                                     const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    struct described d;
    return set_in(describe_to_symbol(symbol, from, bytes, offset, kind, &d), instance, node, &d);
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t instance, cudaGraphNode_t node, void *to, const void *symbol,
                                                       size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    struct described d;
    return set_in(describe_from_symbol(to, symbol, bytes, offset, kind, &d), instance, node, &d);
}
