/* Memory and events shared with other processes, and memory reached from other devices. */
#include <string.h>

#include "runtime.h"

SAME_LAYOUT(cudaIpcMemHandle_t, CUipcMemHandle);
SAME_LAYOUT(cudaIpcEventHandle_t, CUipcEventHandle);

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
    return CALL(cuIpcGetMemHandle, (CUipcMemHandle *)handle, (CUdeviceptr)pointer);
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    return CALL(cuIpcOpenMemHandle, (CUdeviceptr *)pointer, same, flags);
}

cudaError_t cudaIpcCloseMemHandle(void *pointer) { return CALL(cuIpcCloseMemHandle, (CUdeviceptr)pointer); }

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event) {
    return CALL(cuIpcGetEventHandle, (CUipcEventHandle *)handle, event);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    CUipcEventHandle same;
    memcpy(&same, &handle, sizeof same);
    return CALL(cuIpcOpenEventHandle, event, same);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) { return CALL_BARE(cuDeviceCanAccessPeer, can, device, peer); }

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int device, int peer) {
    return CALL_BARE(cuDeviceGetP2PAttribute, value, (CUdevice_P2PAttribute)attribute, device, peer);
}

static int peer_context(int peer, CUcontext *context) {
    int result = cudart_enter();
    return result ? result : cudart_primary(peer, context);
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
    CUcontext context;
    int result = peer_context(peer, &context);
    return cudart_result(result ? result : (int)DRIVER(cuCtxEnablePeerAccess)(context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
    CUcontext context;
    int result = peer_context(peer, &context);
    return cudart_result(result ? result : (int)DRIVER(cuCtxDisablePeerAccess)(context));
}

static int peers(int to_device, int from_device, CUcontext *to, CUcontext *from) {
    int result = cudart_enter();
    if (!result)
        result = cudart_primary(to_device, to);
    return result ? result : cudart_primary(from_device, from);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes) {
    CUcontext there, here;
    int result = peers(to_device, from_device, &there, &here);
    if (!result && bytes)
        result = DRIVER(cuMemcpyPeer)((CUdeviceptr)to, there, (CUdeviceptr)from, here, bytes);
    return cudart_result(result);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream) {
    CUcontext there, here;
    int result = peers(to_device, from_device, &there, &here);
    if (!result && bytes)
        result = DRIVER(cuMemcpyPeerAsync)((CUdeviceptr)to, there, (CUdeviceptr)from, here, bytes, stream);
    return cudart_result(result);
}
