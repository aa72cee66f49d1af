// A CUDA runtime program of the ordinary kind, which looks at everything that is real on a simulated card: sizes, bytes that
// copies move, order, time, errors, sharing between processes. Results of kernels are never looked at.
//
//     features                 every step in turn, one JSON object per line; exit status 1 if one of them failed
//     features fill            allocates until refused, and says how much that was
//     features hold BYTES      allocates, says so, and waits for the end of its standard input
//     features peer HANDLE     the other process of the step "ipc"
#include <cuda_runtime.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

__constant__ float scale;
__device__ int counter;
__device__ int table[1024];
__managed__ int shared_number;

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = (a[i] + b[i]) * scale;
}
__global__ void bump(int n) { atomicAdd(&counter, n); }

static std::string failures;

static void complain(int line, const char *what, const char *why) {
    failures += std::string(failures.empty() ? "" : "; ") + "line " + std::to_string(line) + ": " + what + " " + why;
}
static void check(cudaError_t error, int line, const char *what) {
    if (error != cudaSuccess)
        complain(line, what, cudaGetErrorName(error));
}
#define OK(call) check((call), __LINE__, #call)
#define TRUE(condition) ((condition) ? (void)0 : complain(__LINE__, #condition, "is false"))
#define REFUSED(call, error)                                                       \
    do {                                                                           \
        cudaError_t got = (call);                                                  \
        if (got != (error) || cudaGetLastError() != (error))                       \
            complain(__LINE__, #call, cudaGetErrorName(got));                      \
    } while (0)

static std::vector<unsigned char> pattern(size_t bytes, int seed) {
    std::vector<unsigned char> p(bytes);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (unsigned char)(i * 31 + seed);
    return p;
}
static size_t free_bytes() {
    size_t free = 0, total = 0;
    OK(cudaMemGetInfo(&free, &total));
    return free;
}

static void step_memory() {
    const size_t bytes = 64 << 20;
    OK(cudaFree(nullptr));
    size_t before = free_bytes();
    unsigned char *a = nullptr, *b = nullptr;
    OK(cudaMalloc(&a, bytes));
    OK(cudaMalloc(&b, bytes));
    TRUE(before - free_bytes() == 2 * bytes);
    auto sent = pattern(bytes, 1);
    std::vector<unsigned char> got(bytes);
    OK(cudaMemcpy(a, sent.data(), bytes, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, a, bytes, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy(got.data(), b, bytes, cudaMemcpyDefault));
    TRUE(got == sent);
    OK(cudaMemset(b, 0x5a, bytes / 2));
    OK(cudaMemcpy(got.data(), b, bytes, cudaMemcpyDeviceToHost));
    TRUE(got[0] == 0x5a && got[bytes / 2 - 1] == 0x5a && got[bytes / 2] == sent[bytes / 2]);
    cudaPointerAttributes about;
    OK(cudaPointerGetAttributes(&about, a + 1000));
    TRUE(about.type == cudaMemoryTypeDevice && about.device == 0);
    OK(cudaPointerGetAttributes(&about, got.data()));
    TRUE(about.type == cudaMemoryTypeUnregistered);
    OK(cudaFree(a));
    OK(cudaFree(b));
    TRUE(free_bytes() == before);
    REFUSED(cudaFree(a), cudaErrorInvalidValue);
}

static void step_shapes() {
    const size_t width = 100, height = 30, depth = 5;
    auto sent = pattern(width * height * depth, 2);
    std::vector<unsigned char> got(sent.size());
    unsigned char *rows;
    size_t pitch;
    OK(cudaMallocPitch(&rows, &pitch, width, height));
    TRUE(pitch >= width && pitch % 32 == 0);
    OK(cudaMemcpy2D(rows, pitch, sent.data(), width, width, height, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(got.data(), width, rows, pitch, width, height, cudaMemcpyDeviceToHost));
    TRUE(!memcmp(got.data(), sent.data(), width * height));
    OK(cudaMemset2D(rows, pitch, 7, 10, height));
    OK(cudaMemcpy2D(got.data(), width, rows, pitch, width, height, cudaMemcpyDeviceToHost));
    TRUE(got[9] == 7 && got[10] == sent[10] && got[width] == 7);
    REFUSED(cudaMemcpy2D(rows, pitch, sent.data(), width - 1, width, height, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
    OK(cudaFree(rows));

    cudaPitchedPtr box;
    cudaExtent extent = make_cudaExtent(width, height, depth);
    OK(cudaMalloc3D(&box, extent));
    cudaMemcpy3DParms in = {}, out = {};
    in.srcPtr = make_cudaPitchedPtr(sent.data(), width, width, height);
    in.dstPtr = out.srcPtr = box;
    out.dstPtr = make_cudaPitchedPtr(got.data(), width, width, height);
    in.extent = out.extent = extent;
    in.kind = cudaMemcpyHostToDevice;
    out.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&in));
    OK(cudaMemcpy3D(&out));
    TRUE(got == sent);
    OK(cudaFree(box.ptr));

    cudaArray_t array;
    cudaChannelFormatDesc channel = cudaCreateChannelDesc<float>(), back;
    cudaExtent size;
    OK(cudaMallocArray(&array, &channel, 25, height));
    OK(cudaMemcpy2DToArray(array, 0, 0, sent.data(), width, width, height, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2DFromArray(got.data(), width, array, 0, 0, width, height, cudaMemcpyDeviceToHost));
    TRUE(!memcmp(got.data(), sent.data(), width * height));
    OK(cudaArrayGetInfo(&back, &size, nullptr, array));
    TRUE(back.x == 32 && back.y == 0 && back.f == cudaChannelFormatKindFloat && size.width == 25 && size.height == height);

    cudaResourceDesc resource = {}, resource_back = {};
    cudaTextureDesc texture = {}, texture_back = {};
    cudaTextureObject_t object = 0;
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    texture.addressMode[1] = cudaAddressModeMirror;
    texture.filterMode = cudaFilterModeLinear;
    texture.normalizedCoords = 1;
    texture.maxAnisotropy = 4;
    OK(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
    OK(cudaGetTextureObjectResourceDesc(&resource_back, object));
    OK(cudaGetTextureObjectTextureDesc(&texture_back, object));
    TRUE(object && resource_back.resType == cudaResourceTypeArray && resource_back.res.array.array == array);
    TRUE(texture_back.addressMode[1] == cudaAddressModeMirror && texture_back.filterMode == cudaFilterModeLinear);
    TRUE(texture_back.normalizedCoords == 1 && texture_back.maxAnisotropy == 4);
    OK(cudaDestroyTextureObject(object));
    OK(cudaFreeArray(array));
}

static void step_symbols() {
    float one = 1.5f, back = 0;
    OK(cudaMemcpyToSymbol(scale, &one, sizeof one));
    OK(cudaMemcpyFromSymbol(&back, scale, sizeof back));
    TRUE(back == 1.5f);
    std::vector<int> sent(1024), got(1024);
    for (int i = 0; i < 1024; i++)
        sent[i] = i;
    OK(cudaMemcpyToSymbol(table, sent.data(), 4000, 96));
    OK(cudaMemcpyFromSymbol(got.data(), table, 4096));
    TRUE(got[0] == 0 && got[24] == 0 && got[25] == 1 && got[1023] == 999);
    void *address = nullptr;
    size_t bytes = 0;
    OK(cudaGetSymbolAddress(&address, table));
    OK(cudaGetSymbolSize(&bytes, table));
    TRUE(address && bytes == 4096);
    OK(cudaMemcpy(got.data(), address, bytes, cudaMemcpyDeviceToHost));
    TRUE(got[1023] == 999);
    REFUSED(cudaMemcpyToSymbol(table, sent.data(), 4096, 4), cudaErrorInvalidValue);
    REFUSED(cudaMemcpyToSymbol(one, &one, 4), cudaErrorInvalidSymbol);
}

static void step_host_and_managed() {
    const size_t bytes = 1 << 20;
    auto sent = pattern(bytes, 3);
    unsigned char *pinned, *alias, *managed, *device;
    OK(cudaHostAlloc(&pinned, bytes, cudaHostAllocMapped));
    OK(cudaHostGetDevicePointer(&alias, pinned, 0));
    memcpy(pinned, sent.data(), bytes);
    OK(cudaMalloc(&device, bytes));
    OK(cudaMemcpy(device, alias, bytes, cudaMemcpyDefault));
    OK(cudaMallocManaged(&managed, bytes));
    OK(cudaMemcpy(managed, device, bytes, cudaMemcpyDeviceToDevice));
    OK(cudaDeviceSynchronize());
    TRUE(!memcmp(managed, sent.data(), bytes));
    cudaPointerAttributes about;
    OK(cudaPointerGetAttributes(&about, managed));
    TRUE(about.type == cudaMemoryTypeManaged);
    OK(cudaPointerGetAttributes(&about, pinned));
    TRUE(about.type == cudaMemoryTypeHost && about.devicePointer);
    std::vector<unsigned char> own(bytes);
    OK(cudaHostRegister(own.data(), bytes, cudaHostRegisterDefault));
    OK(cudaMemcpy(own.data(), managed, bytes, cudaMemcpyDefault));
    TRUE(own == sent);
    OK(cudaHostUnregister(own.data()));
    shared_number = 41;
    int number = 0;
    void *address;
    OK(cudaGetSymbolAddress(&address, shared_number));
    OK(cudaMemcpy(&number, address, sizeof number, cudaMemcpyDefault));
    TRUE(number == 41);
    OK(cudaFreeHost(pinned));
    OK(cudaFree(managed));
    OK(cudaFree(device));
}

static void step_launches() {
    int n = 1 << 16;
    float *a;
    OK(cudaMalloc(&a, n * sizeof *a));
    add<<<64, 256>>>(a, a, a, n);
    OK(cudaGetLastError());
    bump<<<1, 1>>>(3);
    OK(cudaGetLastError());
    void *arguments[] = {&a, &a, &a, &n};
    OK(cudaLaunchKernel((void *)add, dim3(4), dim3(64), arguments, 0, nullptr));
    OK(cudaLaunchCooperativeKernel((void *)add, dim3(4), dim3(64), arguments, 0, nullptr));
    cudaLaunchConfig_t config = {};
    config.gridDim = 4;
    config.blockDim = 64;
    OK(cudaLaunchKernelExC(&config, (void *)add, arguments));
    OK(cudaLaunchKernelEx(&config, add, (const float *)a, (const float *)a, a, n));
    cudaKernel_t kernel;
    cudaFunction_t function;
    OK(cudaGetKernel(&kernel, add));
    OK(cudaLaunchKernel((void *)kernel, dim3(4), dim3(64), arguments, 0, nullptr));
    OK(cudaGetFuncBySymbol(&function, (const void *)add));
    OK(cudaLaunchKernel((void *)function, dim3(4), dim3(64), arguments, 0, nullptr));
    OK(cudaDeviceSynchronize());
    cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, add));
    TRUE(attributes.maxThreadsPerBlock >= 256 && attributes.binaryVersion >= 70);
    int blocks = 0;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
    TRUE(blocks > 0);
    REFUSED(cudaLaunchKernel((void *)add, dim3(4), dim3(4096), arguments, 0, nullptr), cudaErrorInvalidConfiguration);
    bump<<<0, 1>>>(1);
    TRUE(cudaGetLastError() == cudaErrorInvalidConfiguration);
    REFUSED(cudaLaunchKernel((void *)&failures, dim3(1), dim3(1), arguments, 0, nullptr), cudaErrorInvalidDeviceFunction);
    OK(cudaFree(a));
}

static void CUDART_CB append(void *list) { ((std::vector<int> *)list)->push_back((int)((std::vector<int> *)list)->size()); }
static void CUDART_CB at_once(cudaStream_t, cudaError_t status, void *seen) { ((std::atomic<int> *)seen)->store(status + 1); }

static void step_streams_and_events() {
    cudaStream_t one, two;
    cudaEvent_t start, middle, end;
    int least, greatest, priority;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRUE(greatest <= least);
    OK(cudaStreamCreateWithPriority(&one, cudaStreamNonBlocking, greatest));
    OK(cudaStreamGetPriority(one, &priority));
    TRUE(priority == greatest);
    OK(cudaStreamCreate(&two));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&middle, cudaEventDisableTiming));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(start, one));
    for (int i = 0; i < 200; i++)
        add<<<64, 256, 0, one>>>(nullptr, nullptr, nullptr, 0);
    OK(cudaEventRecord(middle, one));
    OK(cudaStreamWaitEvent(two, middle, 0));
    std::vector<int> calls;
    for (int i = 0; i < 3; i++)
        OK(cudaLaunchHostFunc(two, append, &calls));
    OK(cudaEventRecord(end, two));
    OK(cudaEventSynchronize(end));
    TRUE(calls == (std::vector<int>{0, 1, 2}));
    OK(cudaEventQuery(middle));
    OK(cudaStreamQuery(one));
    float milliseconds = 0;
    OK(cudaEventElapsedTime(&milliseconds, start, end));
    TRUE(milliseconds > 0 && milliseconds < 10000);
    REFUSED(cudaEventElapsedTime(&milliseconds, start, middle), cudaErrorInvalidResourceHandle);
    std::atomic<int> seen(0);
    OK(cudaStreamAddCallback(two, at_once, &seen, 0));
    OK(cudaStreamSynchronize(two));
    TRUE(seen == cudaSuccess + 1);
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(middle));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(one));
    OK(cudaStreamDestroy(two));
}

static void step_memory_in_order() {
    cudaStream_t stream;
    cudaMemPool_t pool;
    unsigned char *a, *b;
    const size_t bytes = 32 << 20;
    unsigned long long used = 0, kept = 0, all = ~0ull;
    auto sent = pattern(bytes, 4);
    std::vector<unsigned char> got(bytes);
    OK(cudaStreamCreate(&stream));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    OK(cudaMallocAsync(&a, bytes, stream));
    OK(cudaMemcpyAsync(a, sent.data(), bytes, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(got.data(), a, bytes, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    TRUE(got == sent);
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    TRUE(used >= bytes);
    OK(cudaFreeAsync(a, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &kept));
    TRUE(used == 0 && kept >= bytes);
    size_t before = free_bytes();
    OK(cudaMemPoolTrimTo(pool, 0));
    TRUE(free_bytes() >= before + bytes);
    OK(cudaMallocFromPoolAsync(&b, bytes, pool, stream));
    OK(cudaMemsetAsync(b, 9, bytes, stream));
    OK(cudaFreeAsync(b, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaStreamDestroy(stream));
}

static void captured_graph(cudaStream_t stream) {
    const size_t bytes = 4096;
    auto sent = pattern(bytes, 5);
    std::vector<unsigned char> got(bytes);
    unsigned char *a;
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    cudaStreamCaptureStatus status;
    size_t nodes = 0;
    OK(cudaMalloc(&a, bytes));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpyAsync(a, sent.data(), bytes, cudaMemcpyHostToDevice, stream));
    add<<<4, 64, 0, stream>>>(nullptr, nullptr, nullptr, 0);
    OK(cudaMemcpyAsync(got.data(), a, bytes, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamIsCapturing(stream, &status));
    TRUE(status == cudaStreamCaptureStatusActive && got[1] == 0);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    TRUE(nodes == 3);
    OK(cudaGraphInstantiate(&instance, graph, 0));
    OK(cudaStreamSynchronize(stream));
    TRUE(got[1] == 0);
    for (int i = 0; i < 5; i++)
        OK(cudaGraphLaunch(instance, stream));
    OK(cudaStreamSynchronize(stream));
    TRUE(got == sent);
    OK(cudaGraphExecDestroy(instance));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(a));
}

static cudaKernelNodeParams kernel_node(void **arguments, unsigned grid) {
    cudaKernelNodeParams p = {};
    p.func = (void *)add;
    p.gridDim = dim3(grid);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    return p;
}

static void built_graph(cudaStream_t stream) {
    const size_t bytes = 1024;
    auto first = pattern(bytes, 6), second = pattern(bytes, 7);
    std::vector<unsigned char> got(bytes);
    unsigned char *a;
    int n = 0;
    void *nothing = nullptr, *arguments[] = {&nothing, &nothing, &nothing, &n};
    cudaGraph_t graph, other;
    cudaGraphNode_t in, kernel, out, set;
    cudaGraphExec_t instance;
    OK(cudaMalloc(&a, bytes));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, a, first.data(), bytes, cudaMemcpyHostToDevice));
    cudaKernelNodeParams p = kernel_node(arguments, 3), back;
    OK(cudaGraphAddKernelNode(&kernel, graph, &in, 1, &p));
    OK(cudaGraphAddMemcpyNode1D(&out, graph, &kernel, 1, got.data(), a, bytes, cudaMemcpyDeviceToHost));
    OK(cudaGraphKernelNodeGetParams(kernel, &back));
    TRUE(back.func == (void *)add && back.gridDim.x == 3 && back.blockDim.x == 64);
    OK(cudaGraphInstantiate(&instance, graph, 0));
    OK(cudaGraphLaunch(instance, stream));
    OK(cudaStreamSynchronize(stream));
    TRUE(got == first);
    OK(cudaGraphExecMemcpyNodeSetParams1D(instance, in, a, second.data(), bytes, cudaMemcpyHostToDevice));
    p = kernel_node(arguments, 5);
    OK(cudaGraphExecKernelNodeSetParams(instance, kernel, &p));
    OK(cudaGraphLaunch(instance, stream));
    OK(cudaStreamSynchronize(stream));
    TRUE(got == second);

    OK(cudaGraphClone(&other, graph));
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphExecUpdate(instance, other, &info));
    TRUE(info.result == cudaGraphExecUpdateSuccess);
    OK(cudaGraphLaunch(instance, stream));
    OK(cudaStreamSynchronize(stream));
    TRUE(got == first);
    cudaMemsetParams zero = {};
    zero.dst = a;
    zero.elementSize = 1;
    zero.width = bytes;
    zero.height = 1;
    OK(cudaGraphAddMemsetNode(&set, other, nullptr, 0, &zero));
    REFUSED(cudaGraphExecUpdate(instance, other, &info), cudaErrorGraphExecUpdateFailure);
    OK(cudaGraphExecDestroy(instance));
    OK(cudaGraphDestroy(other));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(a));
}

static void memory_graph(cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    cudaGraphNode_t make, set, end;
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = 16 << 20;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemAllocNode(&make, graph, nullptr, 0, &p));
    TRUE(p.dptr != nullptr);
    cudaMemsetParams fill = {};
    fill.dst = p.dptr;
    fill.value = 1;
    fill.elementSize = 1;
    fill.width = p.bytesize;
    fill.height = 1;
    OK(cudaGraphAddMemsetNode(&set, graph, &make, 1, &fill));
    OK(cudaGraphAddMemFreeNode(&end, graph, &set, 1, p.dptr));
    OK(cudaGraphInstantiate(&instance, graph, 0));
    OK(cudaGraphLaunch(instance, stream));
    OK(cudaStreamSynchronize(stream));
    unsigned long long reserved = 0;
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
    TRUE(reserved >= p.bytesize);
    OK(cudaGraphExecDestroy(instance));
    OK(cudaGraphDestroy(graph));
    OK(cudaDeviceGraphMemTrim(0));
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
    TRUE(reserved == 0);
}

static void step_graphs() {
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    captured_graph(stream);
    built_graph(stream);
    memory_graph(stream);
    OK(cudaStreamDestroy(stream));
}

static void step_threads() {
    std::vector<std::thread> threads;
    std::atomic<int> good(0);
    for (int t = 0; t < 8; t++)
        threads.emplace_back([t, &good] {
            auto sent = pattern(100000, t);
            std::vector<unsigned char> got(sent.size());
            unsigned char *a;
            bool ok = cudaMalloc(&a, sent.size()) == cudaSuccess;
            ok = ok && cudaMemcpy(a, sent.data(), sent.size(), cudaMemcpyHostToDevice) == cudaSuccess;
            ok = ok && cudaMemcpy(got.data(), a, sent.size(), cudaMemcpyDeviceToHost) == cudaSuccess;
            ok = ok && got == sent && cudaFree(a) == cudaSuccess;
            if (t % 2)
                ok = ok && cudaSetDevice(99) == cudaErrorInvalidDevice;
            ok = ok && cudaGetLastError() == (t % 2 ? cudaErrorInvalidDevice : cudaSuccess);
            good += ok;
        });
    for (auto &thread : threads)
        thread.join();
    TRUE(good == 8);
}

static std::string hexadecimal(const void *data, size_t bytes) {
    std::string text;
    char two[3];
    for (size_t i = 0; i < bytes; i++)
        snprintf(two, sizeof two, "%02x", ((const unsigned char *)data)[i]), text += two;
    return text;
}

static const size_t shared_bytes = 8 << 20;

// Reads what the parent wrote, and writes what the parent will read.
static int peer(const char *text) {
    cudaIpcMemHandle_t handle;
    for (size_t i = 0; i < sizeof handle; i++)
        sscanf(text + 2 * i, "%2hhx", (unsigned char *)&handle + i);
    unsigned char *a;
    std::vector<unsigned char> got(shared_bytes);
    auto reply = pattern(shared_bytes, 9);
    OK(cudaIpcOpenMemHandle((void **)&a, handle, cudaIpcMemLazyEnablePeerAccess));
    OK(cudaMemcpy(got.data(), a, shared_bytes, cudaMemcpyDeviceToHost));
    TRUE(got == pattern(shared_bytes, 8));
    OK(cudaMemcpy(a, reply.data(), shared_bytes, cudaMemcpyHostToDevice));
    OK(cudaIpcCloseMemHandle(a));
    if (!failures.empty())
        fprintf(stderr, "peer: %s\n", failures.c_str());
    return failures.empty() ? 0 : 1;
}

static void step_ipc() {
    unsigned char *a;
    auto sent = pattern(shared_bytes, 8);
    std::vector<unsigned char> got(shared_bytes);
    cudaIpcMemHandle_t handle;
    OK(cudaMalloc(&a, shared_bytes));
    OK(cudaMemcpy(a, sent.data(), shared_bytes, cudaMemcpyHostToDevice));
    OK(cudaIpcGetMemHandle(&handle, a));
    OK(cudaDeviceSynchronize());
    std::string text = hexadecimal(&handle, sizeof handle);
    pid_t child = vfork();
    if (child == 0) {
        execl("/proc/self/exe", "features", "peer", text.c_str(), (char *)nullptr);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    TRUE(status == 0);
    OK(cudaMemcpy(got.data(), a, shared_bytes, cudaMemcpyDeviceToHost));
    TRUE(got == pattern(shared_bytes, 9));
    OK(cudaFree(a));
}

// A child that did not begin CUDA by itself cannot use what its parent began.
static void step_fork() {
    OK(cudaFree(nullptr));
    size_t before = free_bytes();
    pid_t child = fork();
    if (child == 0) {
        void *p = nullptr;
        _exit(cudaMalloc(&p, 1 << 20));
    }
    int status = -1;
    waitpid(child, &status, 0);
    TRUE(WIFEXITED(status) && WEXITSTATUS(status) == cudaErrorInitializationError);
    TRUE(free_bytes() == before);
}

// With one card there is nothing to do.
static void step_devices() {
    int count = 0, device = -1, number = 7, other = 0;
    OK(cudaGetDeviceCount(&count));
    REFUSED(cudaSetDevice(count), cudaErrorInvalidDevice);
    if (count < 2)
        return;
    auto sent = pattern(1 << 20, 10);
    std::vector<unsigned char> got(sent.size());
    unsigned char *here, *there;
    OK(cudaMalloc(&here, sent.size()));
    OK(cudaMemcpy(here, sent.data(), sent.size(), cudaMemcpyHostToDevice));
    OK(cudaMemcpyToSymbol(counter, &number, sizeof number));
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&device));
    TRUE(device == 1);
    size_t before = free_bytes();
    OK(cudaMalloc(&there, sent.size()));
    TRUE(free_bytes() < before);
    OK(cudaMemcpyPeer(there, 1, here, 0, sent.size()));
    OK(cudaMemcpy(got.data(), there, sent.size(), cudaMemcpyDeviceToHost));
    TRUE(got == sent);
    OK(cudaMemcpyFromSymbol(&other, counter, sizeof other));
    TRUE(other == 0);
    bump<<<1, 1>>>(1);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    cudaPointerAttributes about;
    OK(cudaPointerGetAttributes(&about, there));
    TRUE(about.device == 1);
    OK(cudaFree(there));
    OK(cudaSetDevice(0));
    OK(cudaMemcpyFromSymbol(&other, counter, sizeof other));
    TRUE(other == 7);
    OK(cudaFree(here));
}

static void step_reset() {
    void *a;
    OK(cudaMalloc(&a, 1 << 20));
    OK(cudaDeviceReset());
    OK(cudaMalloc(&a, 1 << 20));
    bump<<<1, 1>>>(1);
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
    int number = 5;
    OK(cudaMemcpyToSymbol(counter, &number, sizeof number));
    OK(cudaFree(a));
}

static void fill() {
    const size_t chunk = 64 << 20;
    size_t count = 0, free = 0, total = 0;
    void *p, *first = nullptr;
    OK(cudaFree(nullptr));
    OK(cudaMemGetInfo(&free, &total));
    cudaError_t error;
    while ((error = cudaMalloc(&p, chunk)) == cudaSuccess && count < 100000) {
        first = first ? first : p;
        count++;
    }
    cudaGetLastError();
    cudaDeviceProp properties;
    OK(cudaGetDeviceProperties(&properties, 0));
    OK(cudaFree(first));
    OK(cudaMalloc(&p, chunk));
    printf("{\"total\": %zu, \"free\": %zu, \"got\": %zu, \"property\": %zu, \"error\": \"%s\", \"failures\": \"%s\"}\n", total,
           free, count * chunk, properties.totalGlobalMem, cudaGetErrorName(error), failures.c_str());
}

static void hold(const char *bytes) {
    void *p;
    cudaError_t error = cudaMalloc(&p, strtoull(bytes, nullptr, 10));
    printf("{\"pid\": %d, \"error\": \"%s\"}\n", getpid(), cudaGetErrorName(error));
    fflush(stdout);
    char c;
    while (read(0, &c, 1) > 0) {
    }
}

static int all_steps() {
    static const struct {
        const char *name;
        void (*run)();
    } steps[] = {{"memory", step_memory},
                 {"shapes", step_shapes},
                 {"symbols", step_symbols},
                 {"host and managed memory", step_host_and_managed},
                 {"launches", step_launches},
                 {"streams and events", step_streams_and_events},
                 {"memory in order", step_memory_in_order},
                 {"graphs", step_graphs},
                 {"threads", step_threads},
                 {"ipc", step_ipc},
                 {"fork", step_fork},
                 {"devices", step_devices},
                 {"reset", step_reset}};
    int failed = 0;
    for (const auto &step : steps) {
        failures.clear();
        cudaGetLastError();
        step.run();
        printf("{\"step\": \"%s\", \"failures\": \"%s\"}\n", step.name, failures.c_str());
        fflush(stdout);
        failed += !failures.empty();
    }
    return failed != 0;
}

int main(int count, char **words) {
    std::string what = count > 1 ? words[1] : "";
    if (what == "peer" && count > 2)
        return peer(words[2]);
    if (what == "hold" && count > 2)
        hold(words[2]);
    else if (what == "fill")
        fill();
    else
        return all_steps();
    return failures.empty() ? 0 : 1;
}
