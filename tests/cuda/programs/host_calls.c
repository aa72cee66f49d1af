/*
 * The runtime as C code sees it, without kernels: compiled against the headers of 12 and of 13, it must say the same. Prints one
 * JSON object; exit status 1 and a line on stderr at the first call that fails.
 */
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)                                                                                       \
    do {                                                                                               \
        cudaError_t error = (call);                                                                    \
        if (error != cudaSuccess) {                                                                    \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error));            \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)
#define BYTES 4096

static void print_properties(void) {
    struct cudaDeviceProp p;
    memset(&p, 0x5a, sizeof p);
    OK(cudaGetDeviceProperties(&p, 1));
    printf("\"name\": \"%s\", \"memory\": %zu, \"major\": %d, \"minor\": %d, \"bus\": %d, \"processors\": %d, ", p.name,
           p.totalGlobalMem, p.major, p.minor, p.pciBusID, p.multiProcessorCount);
    printf("\"warp\": %d, \"threads\": [%d, %d, %d], \"grid\": %d, \"bus_bits\": %d, \"l2\": %d, \"pools\": %d, ", p.warpSize,
           p.maxThreadsDim[0], p.maxThreadsDim[1], p.maxThreadsDim[2], p.maxGridSize[0], p.memoryBusWidth, p.l2CacheSize,
           p.memoryPoolsSupported);
    printf("\"shared\": %zu, \"optin\": %zu, \"constant\": %zu, \"cluster\": %d, \"uuid\": \"", p.sharedMemPerBlock,
           p.sharedMemPerBlockOptin, p.totalConstMem, p.clusterLaunch);
    for (int i = 0; i < 16; i++)
        printf("%02x", (unsigned char)p.uuid.bytes[i]);
    printf("\", ");
}

static int nodes_while_capturing(cudaStream_t stream) {
    enum cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    cudaGraph_t graph;
    const cudaGraphNode_t *last;
    size_t count = 0;
#if CUDART_VERSION >= 13000
    OK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &last, NULL, &count));
#else
    OK(cudaStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &last, &count));
#endif
    return status == cudaStreamCaptureStatusActive && id ? (int)count : -1;
}

static int graph_edges(cudaGraph_t graph) {
    size_t count = 0;
#if CUDART_VERSION >= 13000
    OK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &count));
#else
    OK(cudaGraphGetEdges(graph, NULL, NULL, &count));
#endif
    return (int)count;
}

static void advise(void *managed, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
    struct cudaMemLocation card = {.type = cudaMemLocationTypeDevice, .id = 0};
    OK(cudaMemAdvise(managed, BYTES, cudaMemAdviseSetPreferredLocation, card));
    OK(cudaMemPrefetchAsync(managed, BYTES, card, 0, stream));
#else
    OK(cudaMemAdvise(managed, BYTES, cudaMemAdviseSetPreferredLocation, 0));
    OK(cudaMemPrefetchAsync(managed, BYTES, 0, stream));
#endif
}

int main(void) {
    int version, runtime;
    unsigned char sent[BYTES], got[BYTES] = {0}, *device, *managed;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    cudaEvent_t start, end;
    float milliseconds = -1;
    OK(cudaDriverGetVersion(&version));
    OK(cudaRuntimeGetVersion(&runtime));
    printf("{\"runtime\": %d, \"driver\": %d, ", runtime, version);
    print_properties();
    for (int i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)(i * 7);
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    advise(managed, stream);
    OK(cudaStreamSynchronize(stream));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(start, stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemcpyAsync(device, sent, BYTES, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(managed, device, BYTES, cudaMemcpyDefault, stream));
    printf("\"capturing\": %d, ", nodes_while_capturing(stream));
    OK(cudaStreamEndCapture(stream, &graph));
    printf("\"edges\": %d, ", graph_edges(graph));
    OK(cudaGraphInstantiate(&instance, graph, 0));
    OK(cudaGraphLaunch(instance, stream));
    OK(cudaMemcpyAsync(got, managed, BYTES, cudaMemcpyDefault, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    printf("\"moved\": %s, \"timed\": %s}\n", memcmp(sent, got, BYTES) ? "false" : "true", milliseconds > 0 ? "true" : "false");
    return 0;
}
