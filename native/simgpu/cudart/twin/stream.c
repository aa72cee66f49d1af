/* Calls on a stream, for the default stream of the process and, compiled again, for that of the thread. */
#include "../runtime.h"

cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return CALL(cuStreamSynchronize, stream); }

cudaError_t cudaStreamQuery(cudaStream_t stream) { return CALL(cuStreamQuery, stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
    return CALL(cuStreamWaitEvent, stream, event, flags);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags) {
    return CALL(cuStreamAddCallback, stream, (CUstreamCallback)(void *)callback, data, flags);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
    return CALL(cuLaunchHostFunc, stream, function, data);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) { return CALL(cuStreamGetPriority, stream, priority); }

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags) { return CALL(cuStreamGetFlags, stream, flags); }

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) { return CALL(cuStreamGetId, stream, id); }

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) { return CALL(cuStreamGetDevice, stream, device); }

SAME_LAYOUT(cudaLaunchAttributeValue, CUstreamAttrValue);

cudaError_t cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from) { return CALL(cuStreamCopyAttributes, to, from); }

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue *value) {
    return CALL(cuStreamGetAttribute, stream, (CUstreamAttrID)attribute, (CUstreamAttrValue *)value);
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute, const cudaLaunchAttributeValue *value) {
    return CALL(cuStreamSetAttribute, stream, (CUstreamAttrID)attribute, (const CUstreamAttrValue *)value);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return CALL(cuEventRecord, event, stream); }

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
    return CALL(cuEventRecordWithFlags, event, stream, flags);
}
