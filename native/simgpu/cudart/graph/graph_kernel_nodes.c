/* Kernel nodes: the program names a kernel by its host address, the driver by its handle. */
#include "code/registry.h"
#include "runtime.h"

static int driver_params(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *out) {
    if (!p)
        return cudaErrorInvalidValue;
    CUkernel kernel;
    int result = cudart_kernel(p->func, &kernel);
    if (result)
        return result;
    *out = (CUDA_KERNEL_NODE_PARAMS){.kern = kernel,
                                     .gridDimX = p->gridDim.x,
                                     .gridDimY = p->gridDim.y,
                                     .gridDimZ = p->gridDim.z,
                                     .blockDimX = p->blockDim.x,
                                     .blockDimY = p->blockDim.y,
                                     .blockDimZ = p->blockDim.z,
                                     .sharedMemBytes = p->sharedMemBytes,
                                     .kernelParams = p->kernelParams,
                                     .extra = p->extra};
    return (int)DRIVER(cuCtxGetCurrent)(&out->ctx);
}

static int enter_params(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *out) {
    int result = cudart_enter();
    return result ? result : driver_params(p, out);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count,
                                   const struct cudaKernelNodeParams *p) {
    CUDA_KERNEL_NODE_PARAMS params;
    int result = enter_params(p, &params);
    return cudart_result(result ? result : (int)DRIVER(cuGraphAddKernelNode)(node, graph, dependencies, count, &params));
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *p) {
    CUDA_KERNEL_NODE_PARAMS params;
    int result = enter_params(p, &params);
    return cudart_result(result ? result : (int)DRIVER(cuGraphKernelNodeSetParams)(node, &params));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t instance, cudaGraphNode_t node, const struct cudaKernelNodeParams *p) {
    CUDA_KERNEL_NODE_PARAMS params;
    int result = enter_params(p, &params);
    return cudart_result(result ? result : (int)DRIVER(cuGraphExecKernelNodeSetParams)(instance, node, &params));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *p) {
    CUDA_KERNEL_NODE_PARAMS d = {0};
    cudaError_t result = p ? CALL_BARE(cuGraphKernelNodeGetParams, node, &d) : cudart_result(cudaErrorInvalidValue);
    if (result != cudaSuccess)
        return result;
    CUkernel kernel = d.kern ? d.kern : (CUkernel)d.func;
    *p = (struct cudaKernelNodeParams){.func = (void *)cudart_kernel_host(kernel),
                                       .gridDim = {d.gridDimX, d.gridDimY, d.gridDimZ},
                                       .blockDim = {d.blockDimX, d.blockDimY, d.blockDimZ},
                                       .sharedMemBytes = d.sharedMemBytes,
                                       .kernelParams = d.kernelParams,
                                       .extra = d.extra};
    return cudaSuccess;
}

SAME_LAYOUT(cudaLaunchAttributeValue, CUkernelNodeAttrValue);

/* The second is the source in both versions; version 12 only names them the other way round. */
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from) {
    return CALL_BARE(cuGraphKernelNodeCopyAttributes, to, from);
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue *value) {
    return CALL_BARE(cuGraphKernelNodeGetAttribute, node, (CUkernelNodeAttrID)attribute, (CUkernelNodeAttrValue *)value);
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                            const cudaLaunchAttributeValue *value) {
    return CALL_BARE(cuGraphKernelNodeSetAttribute, node, (CUkernelNodeAttrID)attribute, (const CUkernelNodeAttrValue *)value);
}
