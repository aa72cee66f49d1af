/* Threads that use one simulated driver in every way at once, for the sanitizers. Links the driver's objects directly.

       simgpu-driver-storm ROUNDS THREADS

   Ends with 0 if the card has as much left afterwards as before. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpupool/cuda_all.h>

#define MUST(call) \
    do { \
        CUresult answered = (call); \
        if (answered != CUDA_SUCCESS) { \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, (int)answered); \
            abort(); \
        } \
    } while (0)

static const char ptx[] = ".version 8.0\n.visible .entry tick_us_5() { ret; }\n.global .align 4 .f32 table[8];\n";
static CUcontext context;
static CUmodule module;
static CUfunction tick;
static CUevent shared_event;
static CUstream shared_stream;
static int rounds;
static _Atomic int called;

static void count_call(void *data)
{
    (void)data;
    ++called;
}

static void memory_round(unsigned *seed)
{
    CUdeviceptr a, b, pooled;
    char out[256], in[256];

    memset(in, (int)(rand_r(seed) & 127), sizeof in);
    MUST(cuMemAlloc_v2(&a, 1 + rand_r(seed) % 5000000));
    MUST(cuMemAlloc_v2(&b, 4096));
    MUST(cuMemAllocAsync(&pooled, 300000, NULL));
    if (rand_r(seed) % 3 == 0) {
        CUipcMemHandle handle;
        MUST(cuIpcGetMemHandle(&handle, b));
    }
    MUST(cuMemcpyHtoD_v2(b, in, sizeof in));
    MUST(cuMemcpyDtoD_v2(pooled, b, sizeof in));
    MUST(cuMemcpyDtoH_v2(out, pooled, sizeof out));
    if (memcmp(in, out, sizeof in))
        abort();
    MUST(cuMemFreeAsync(pooled, NULL));
    MUST(cuMemFree_v2(a));
    MUST(cuMemFree_v2(b));
}

static void physical_round(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr range;

    MUST(cuMemCreate(&handle, 2 << 20, &prop, 0));
    MUST(cuMemAddressReserve(&range, 2 << 20, 0, 0, 0));
    MUST(cuMemMap(range, 2 << 20, 0, handle, 0));
    MUST(cuMemSetAccess(range, 2 << 20, &access, 1));
    MUST(cuMemsetD32_v2(range, 7, 100));
    MUST(cuMemRelease(handle));
    MUST(cuMemUnmap(range, 2 << 20));
    MUST(cuMemAddressFree(range, 2 << 20));
}

static void work_round(unsigned *seed)
{
    CUstream stream;
    CUevent event;

    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&event, 0));
    for (int launch = 0; launch < 5; ++launch)
        MUST(cuLaunchKernel(tick, 1, 1, 1, 1, 1, 1, 0, rand_r(seed) & 1 ? stream : shared_stream, NULL, NULL));
    MUST(cuEventRecord(event, stream));
    MUST(cuStreamWaitEvent(shared_stream, event, 0));
    MUST(cuEventRecord(shared_event, shared_stream));
    MUST(cuLaunchHostFunc(stream, count_call, NULL));
    MUST(cuLaunchKernel_ptsz(tick, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    MUST(cuStreamSynchronize(stream));
    CUresult asked = cuEventQuery(shared_event);
    if (asked != CUDA_SUCCESS && asked != CUDA_ERROR_NOT_READY)
        abort();
    MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    MUST(cuEventDestroy_v2(event));
    MUST(cuStreamDestroy_v2(stream));
}

static void graph_round(void)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr pointer;
    CUgraphExecUpdateResultInfo info;

    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuMemAllocAsync(&pointer, 100000, stream));
    MUST(cuMemsetD8Async(pointer, 1, 1000, stream));
    MUST(cuLaunchKernel(tick, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    MUST(cuMemFreeAsync(pointer, stream));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cuGraphLaunch(executable, stream));
    MUST(cuGraphExecUpdate_v2(executable, graph, &info));
    MUST(cuGraphLaunch(executable, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuGraphExecDestroy(executable));
    MUST(cuGraphDestroy(graph));
    MUST(cuStreamDestroy_v2(stream));
}

static void module_round(void)
{
    CUmodule own;
    CUfunction function;
    CUdeviceptr table;
    CUcontext made, popped;
    size_t size;

    MUST(cuModuleLoadData(&own, ptx));
    MUST(cuModuleGetFunction(&function, own, "tick_us_5"));
    MUST(cuModuleGetGlobal_v2(&table, &size, own, "table"));
    MUST(cuModuleUnload(own));
    MUST(cuCtxCreate_v2(&made, 0, 0));
    MUST(cuMemAlloc_v2(&table, 100));
    MUST(cuCtxPopCurrent_v2(&popped));
    MUST(cuCtxDestroy_v2(made));
}

static void *storm(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number;

    MUST(cuCtxSetCurrent(context));
    for (int round = 0; round < rounds; ++round) {
        memory_round(&seed);
        physical_round();
        work_round(&seed);
        graph_round();
        module_round();
    }
    return NULL;
}

static size_t left(void)
{
    size_t free_bytes, total;

    MUST(cuCtxSynchronize());
    MUST(cuDeviceGraphMemTrim(0));
    MUST(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

/* A child that was forked in the middle of it all is refused and ends, whatever locks were held. */
static void fork_once(void)
{
    int status;
    pid_t child = fork();

    if (!child)
        _exit(cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    if (waitpid(child, &status, 0) != child || status)
        abort();
}

int main(int count, char **words)
{
    pthread_t thread[64];
    int threads = count > 2 ? atoi(words[2]) : 4;

    rounds = count > 1 ? atoi(words[1]) : 10;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&tick, module, "tick_us_5"));
    MUST(cuEventCreate(&shared_event, 0));
    MUST(cuStreamCreate(&shared_stream, 0));
    size_t before = left();
    for (int at = 0; at < threads; ++at)
        pthread_create(&thread[at], NULL, storm, (void *)(uintptr_t)(at + 1));
    for (int at = 0; at < 3; ++at)
        fork_once();
    for (int at = 0; at < threads; ++at)
        pthread_join(thread[at], NULL);
    if (left() != before || called != threads * rounds) {
        fprintf(stderr, "left %zu of %zu, %d calls\n", left(), before, called);
        return 1;
    }
    return 0;
}
