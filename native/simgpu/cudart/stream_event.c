/* Streams and events made, asked and ended; what is put into a stream is in twin/. */
#include "runtime.h"

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return CALL(cuStreamCreate, stream, CU_STREAM_DEFAULT); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) { return CALL(cuStreamCreate, stream, flags); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority) {
    return CALL(cuStreamCreateWithPriority, stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) { return CALL(cuStreamDestroy, stream); }

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    return CALL_BARE(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *)mode);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return CALL(cuEventCreate, event, CU_EVENT_DEFAULT); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) { return CALL(cuEventCreate, event, flags); }

cudaError_t cudaEventDestroy(cudaEvent_t event) { return CALL(cuEventDestroy, event); }

cudaError_t cudaEventQuery(cudaEvent_t event) { return CALL(cuEventQuery, event); }

cudaError_t cudaEventSynchronize(cudaEvent_t event) { return CALL(cuEventSynchronize, event); }

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return CALL(cuEventElapsedTime, milliseconds, start, end);
}

#if CUDART_VERSION < 13000
cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return CALL(cuEventElapsedTime, milliseconds, start, end);
}
#endif
