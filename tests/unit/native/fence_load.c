/* A program of a tenant, by the driver API alone: launches kernels whose time is in their name and says what it had.

     fence_load KERNEL SECONDS LAUNCHES SYNC_EVERY WAY [BLOCKS]
   ends after SECONDS or LAUNCHES, whichever is first (0: no such limit); waits for its stream every SYNC_EVERY launches (0: never);
   WAY is kernel, graph, copy or stop (stops itself, as SIGSTOP does, with work in flight);
   a kernel has BLOCKS blocks (1), which does not change its time. Prints one line of JSON. */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct context *Context;
typedef struct module *Module;
typedef struct function *Function;
typedef struct stream *Stream;
typedef struct graph *Graph;
typedef struct graph_exec *GraphExec;

static int (*cuInit)(unsigned), (*cuDeviceGet)(int *, int), (*cuCtxCreate_v2)(Context *, unsigned, int), (*cuCtxSynchronize)(void);
static int (*cuModuleLoadData)(Module *, const void *), (*cuModuleGetFunction)(Function *, Module, const char *);
static int (*cuLaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **);
static int (*cuStreamCreate)(Stream *, unsigned), (*cuStreamSynchronize)(Stream), (*cuCtxDestroy_v2)(Context);
static int (*cuStreamBeginCapture_v2)(Stream, int), (*cuStreamEndCapture)(Stream, Graph *), (*cuGraphLaunch)(GraphExec, Stream);
static int (*cuGraphInstantiateWithFlags)(GraphExec *, Graph, unsigned long long);
static int (*cuMemAlloc_v2)(uint64_t *, size_t), (*cuMemcpyHtoDAsync_v2)(uint64_t, const void *, size_t, Stream);

#define LOAD(name) (*(void **)&name = dlsym(driver, #name))
#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        int failed = (call);                                                                                                   \
        if (failed) {                                                                                                          \
            fprintf(stderr, "%s: %d\n", #call, failed);                                                                        \
            exit(3);                                                                                                           \
        }                                                                                                                      \
    } while (0)

static Function function;
static Stream stream;
static GraphExec graph;
static uint64_t memory;
static char host[1 << 20];
static unsigned blocks = 1;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    LOAD(cuInit), LOAD(cuDeviceGet), LOAD(cuCtxCreate_v2), LOAD(cuCtxSynchronize), LOAD(cuModuleLoadData);
    LOAD(cuModuleGetFunction), LOAD(cuLaunchKernel), LOAD(cuStreamCreate), LOAD(cuStreamSynchronize), LOAD(cuCtxDestroy_v2);
    LOAD(cuStreamBeginCapture_v2), LOAD(cuStreamEndCapture), LOAD(cuGraphLaunch), LOAD(cuGraphInstantiateWithFlags);
    LOAD(cuMemAlloc_v2), LOAD(cuMemcpyHtoDAsync_v2);
}

static void launch_kernel(void)
{
    TRY(cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void launch_graph(void)
{
    TRY(cuGraphLaunch(graph, stream));
}

static void launch_copy(void)
{
    TRY(cuMemcpyHtoDAsync_v2(memory, host, sizeof host, stream));
}

static void capture(void)
{
    Graph captured;
    TRY(cuStreamBeginCapture_v2(stream, 0));
    for (int i = 0; i < 10; i++)
        launch_kernel();
    TRY(cuStreamEndCapture(stream, &captured));
    TRY(cuGraphInstantiateWithFlags(&graph, captured, 0));
}

static Context start(const char *kernel)
{
    char ptx[256];
    Context context;
    Module module;
    int device;
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    TRY(cuCtxCreate_v2(&context, 0, device));
    TRY(cuStreamCreate(&stream, 1));
    snprintf(ptx, sizeof ptx, ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry %s()\n{\nret;\n}\n", kernel);
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&function, module, kernel));
    TRY(cuMemAlloc_v2(&memory, sizeof host));
    return context;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static uint64_t took[1 << 20];
    if (argc != 6 && argc != 7)
        return 2;
    blocks = argc == 7 ? (unsigned)strtoul(argv[6], NULL, 10) : 1;
    uint64_t seconds_ns = (uint64_t)(strtod(argv[2], NULL) * 1e9), most = strtoull(argv[3], NULL, 10);
    uint64_t every = strtoull(argv[4], NULL, 10), count = 0;
    void (*launch)(void) = !strcmp(argv[5], "graph") ? launch_graph : !strcmp(argv[5], "copy") ? launch_copy : launch_kernel;
    load();
    Context context = start(argv[1]);
    if (launch == launch_graph)
        capture();
    uint64_t begin = now_ns(), end = seconds_ns ? begin + seconds_ns : UINT64_MAX, at = begin;
    while (at < end && (!most || count < most)) {
        launch();
        uint64_t after = now_ns();
        took[count % (sizeof took / sizeof *took)] = after - at;
        count++;
        at = after;
        if (every && count % every == 0) {
            TRY(cuStreamSynchronize(stream));
            at = now_ns();
        }
    }
    uint64_t submitted = now_ns();
    if (!strcmp(argv[5], "stop"))
        raise(SIGSTOP); /* here and not from outside: the simulated machine's lock is not held */
    TRY(cuStreamSynchronize(stream));
    uint64_t kept = count < sizeof took / sizeof *took ? count : sizeof took / sizeof *took;
    qsort(took, kept, sizeof *took, compare);
    printf("{\"launches\": %llu, \"submitted_ns\": %llu, \"done_ns\": %llu, \"median_ns\": %llu, \"p90_ns\": %llu}\n",
           (unsigned long long)count, (unsigned long long)(submitted - begin), (unsigned long long)(now_ns() - begin),
           (unsigned long long)(kept ? took[kept / 2] : 0), (unsigned long long)(kept ? took[kept * 9 / 10] : 0));
    TRY(cuCtxDestroy_v2(context));
    return 0;
}
