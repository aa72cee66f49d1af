/* From a stream into a graph, and a graph into a stream. */
#include "../runtime.h"

SAME_LAYOUT(cudaGraphEdgeData, CUgraphEdgeData);
SAME_LAYOUT(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
    return CALL(cuStreamBeginCapture, stream, (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode) {
    return CALL(cuStreamBeginCaptureToGraph, stream, graph, dependencies, (const CUgraphEdgeData *)edges, count,
                (CUstreamCaptureMode)mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) { return CALL(cuStreamEndCapture, stream, graph); }

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    return CALL(cuStreamIsCapturing, stream, (CUstreamCaptureStatus *)status);
}

static cudaError_t capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                size_t *count) {
    cuuint64_t driver_id = 0;
    cudaError_t result = CALL(cuStreamGetCaptureInfo, stream, (CUstreamCaptureStatus *)status, &driver_id, graph, dependencies,
                              (const CUgraphEdgeData **)edges, count);
    if (result == cudaSuccess && id)
        *id = driver_id;
    return result;
}

static cudaError_t update_dependencies(cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
                                       size_t count, unsigned int flags) {
    return CALL(cuStreamUpdateCaptureDependencies, stream, dependencies, (const CUgraphEdgeData *)edges, count, flags);
}

#if CUDART_VERSION >= 13000

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                     size_t *count) {
    return capture_info(stream, status, id, graph, dependencies, edges, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
                                                size_t count, unsigned int flags) {
    return update_dependencies(stream, dependencies, edges, count, flags);
}

#else

/* Version 12 keeps the older shapes beside the present one; the header renames only some of their twins, so this does. */
#undef cudaStreamGetCaptureInfo
#undef cudaStreamGetCaptureInfo_v2
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define FIRST_CAPTURE_INFO cudaStreamGetCaptureInfo_ptsz
#define cudaStreamGetCaptureInfo_v2 cudaStreamGetCaptureInfo_v2_ptsz
#else
#define FIRST_CAPTURE_INFO cudaStreamGetCaptureInfo
#endif
cudaError_t FIRST_CAPTURE_INFO(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id);
cudaError_t FIRST_CAPTURE_INFO(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id) {
    return capture_info(stream, status, id, NULL, NULL, NULL, NULL);
}

cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count) {
    return capture_info(stream, status, id, graph, dependencies, NULL, count);
}

cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
                                        cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
                                        size_t *count) {
    return capture_info(stream, status, id, graph, dependencies, edges, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies, size_t count,
                                                unsigned int flags) {
    return update_dependencies(stream, dependencies, NULL, count, flags);
}

cudaError_t cudaStreamUpdateCaptureDependencies_v2(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                   const cudaGraphEdgeData *edges, size_t count, unsigned int flags) {
    return update_dependencies(stream, dependencies, edges, count, flags);
}

#endif

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *instance, cudaGraph_t graph, cudaGraphInstantiateParams *parameters) {
    return CALL(cuGraphInstantiateWithParams, instance, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)parameters);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t instance, cudaStream_t stream) { return CALL(cuGraphUpload, instance, stream); }

cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) { return CALL(cuGraphLaunch, instance, stream); }
