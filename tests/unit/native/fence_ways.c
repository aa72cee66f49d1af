/* Honest programs by the public driver API that are hard to measure. Kernels take the time that they are given as argument.

     fence_ways WAY SECONDS N
   streams   N streams, a short launch in each; then kernels of 500 us in the last 64
   contexts  N contexts, kernels of 2 ms in the last
   threads   N threads one after another, each a kernel of 1 ms in its own default stream; then kernels of 500 us in a stream
   capture   a thread captures graphs of N kernels all the time, another launches kernels of 20 us to 5 ms
   ended     threads one after another, N kernels of 200 us in the default stream of each, which ends while they run
   own       in the thread's default stream rows of N kernels of 20 or 180 us, and a pause before what runs is over
   destroyed streams one after another, N kernels of 200 us in each, destroyed while they run
   vary      kernels of 20 us, each tenth on average of 10 ms, waited for each N (0: each 64)
   Prints one line of JSON: the GPU time of what was launched meanwhile, how long it took until it was done, and graphs captured. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
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

static int (*cuInit)(unsigned), (*cuCtxCreate_v2)(Context *, unsigned, int), (*cuCtxSynchronize)(void), (*cuCtxSetCurrent)(Context);
static int (*cuModuleLoadData)(Module *, const void *), (*cuModuleGetFunction)(Function *, Module, const char *);
static int (*cuLaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **);
static int (*cuStreamCreate)(Stream *, unsigned), (*cuStreamSynchronize)(Stream), (*cuStreamDestroy_v2)(Stream);
static int (*cuStreamBeginCapture_v2)(Stream, int), (*cuStreamEndCapture)(Stream, Graph *), (*cuGraphGetNodes)(Graph, void *, size_t *);
static int (*cuGraphDestroy)(Graph);

#define LOAD(name) (*(void **)&name = dlsym(driver, #name))
#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        int failed = (call);                                                                                                   \
        if (failed) {                                                                                                          \
            fprintf(stderr, "%s: %d\n", #call, failed);                                                                        \
            exit(3);                                                                                                           \
        }                                                                                                                      \
    } while (0)

static const char PTX[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry gpupool_spin_ns(.param .u64 ns) { ret; }\n";
static Stream per_thread = (Stream)2;
static Context context;
static Function function;
static uint64_t used_ns, end_ns;
static _Atomic int over;
static unsigned captured;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        exit(3);
    LOAD(cuInit), LOAD(cuCtxCreate_v2), LOAD(cuCtxSynchronize), LOAD(cuCtxSetCurrent), LOAD(cuModuleLoadData);
    LOAD(cuModuleGetFunction), LOAD(cuLaunchKernel), LOAD(cuStreamCreate), LOAD(cuStreamSynchronize), LOAD(cuGraphDestroy);
    LOAD(cuStreamDestroy_v2);
    LOAD(cuStreamBeginCapture_v2), LOAD(cuStreamEndCapture), LOAD(cuGraphGetNodes);
}

static void start(void)
{
    Module module;
    TRY(cuCtxCreate_v2(&context, 0, 0));
    TRY(cuModuleLoadData(&module, PTX));
    TRY(cuModuleGetFunction(&function, module, "gpupool_spin_ns"));
}

static void launch(Stream stream, uint64_t ns)
{
    void *arguments[] = {&ns};
    TRY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    used_ns += ns;
}

static void streams(unsigned n)
{
    Stream *made = calloc(n, sizeof *made);
    for (unsigned i = 0; i < n; i++) {
        TRY(cuStreamCreate(&made[i], 1));
        launch(made[i], 1000);
    }
    while (now_ns() < end_ns) {
        for (unsigned i = 0; i < 64; i++)
            launch(made[n - 1 - i], 500000);
        TRY(cuCtxSynchronize());
    }
}

static void contexts(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        start();
    while (now_ns() < end_ns) {
        for (unsigned i = 0; i < 16; i++)
            launch(NULL, 2000000);
        TRY(cuCtxSynchronize());
    }
}

static void *one_launch(void *unused)
{
    TRY(cuCtxSetCurrent(context));
    launch(per_thread, 1000000);
    TRY(cuStreamSynchronize(per_thread));
    return unused;
}

static void threads(unsigned n)
{
    Stream stream;
    for (unsigned i = 0; i < n && now_ns() < end_ns; i++) {
        pthread_t thread;
        TRY(pthread_create(&thread, NULL, one_launch, NULL));
        TRY(pthread_join(thread, NULL));
    }
    TRY(cuStreamCreate(&stream, 1));
    while (now_ns() < end_ns) {
        launch(stream, 500000);
        TRY(cuStreamSynchronize(stream));
    }
}

static void *launch_some(void *count)
{
    TRY(cuCtxSetCurrent(context));
    for (uintptr_t i = 0; i < (uintptr_t)count; i++)
        launch(per_thread, 200000);
    return NULL;
}

static void ended(unsigned n)
{
    pthread_t thread;
    for (unsigned round = 1; now_ns() < end_ns; round++) {
        TRY(pthread_create(&thread, NULL, launch_some, (void *)(uintptr_t)n));
        TRY(pthread_join(thread, NULL));
        if (round % 8 == 0)
            TRY(cuCtxSynchronize());
    }
}

static void own(unsigned n)
{
    unsigned seed = 1;
    struct timespec pause = {0, 200000};
    for (unsigned round = 1; now_ns() < end_ns; round++) {
        for (unsigned i = 0; i < n; i++)
            launch(per_thread, rand_r(&seed) % 2 ? 20000 : 180000);
        nanosleep(&pause, NULL);
        if (round % 8 == 0)
            TRY(cuCtxSynchronize());
    }
}

static void *launch_meanwhile(void *unused)
{
    unsigned seed = 1;
    Stream stream;
    TRY(cuCtxSetCurrent(context));
    TRY(cuStreamCreate(&stream, 1));
    while (now_ns() < end_ns)
        launch(stream, rand_r(&seed) % 8 ? 20000 : 5000000);
    over = 1;
    return unused;
}

/* The kernels of a graph stand in a stream in which work was launched before: there a batch is open. */
static void capture(unsigned n)
{
    Stream stream;
    pthread_t thread;
    TRY(cuStreamCreate(&stream, 1));
    TRY(pthread_create(&thread, NULL, launch_meanwhile, NULL));
    while (!over) {
        uint64_t short_ns = 1000;
        void *arguments[] = {&short_ns};
        Graph graph;
        size_t nodes = 0;
        struct timespec pause = {0, 200000};
        TRY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
        TRY(cuStreamBeginCapture_v2(stream, 2));
        for (unsigned i = 0; i < n; i++) {
            TRY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
            nanosleep(&pause, NULL); /* a batch becomes stale meanwhile */
        }
        TRY(cuStreamEndCapture(stream, &graph));
        TRY(cuGraphGetNodes(graph, NULL, &nodes));
        if (nodes != n) {
            fprintf(stderr, "%zu nodes were captured instead of %u\n", nodes, n);
            exit(4);
        }
        TRY(cuGraphDestroy(graph));
        captured++;
    }
    TRY(pthread_join(thread, NULL));
}

/* No more than a few streams are unfinished at one time: the last launch of each is waited for later. */
static void destroyed(unsigned n)
{
    Stream stream;
    for (unsigned round = 1; now_ns() < end_ns; round++) {
        TRY(cuStreamCreate(&stream, 1));
        for (unsigned i = 0; i < n; i++)
            launch(stream, 200000);
        TRY(cuStreamDestroy_v2(stream));
        if (round % 8 == 0)
            TRY(cuCtxSynchronize());
    }
}

static void vary(unsigned n)
{
    unsigned seed = 1;
    Stream stream;
    TRY(cuStreamCreate(&stream, 1));
    for (unsigned i = 1; now_ns() < end_ns; i++) {
        launch(stream, rand_r(&seed) % 10 ? 20000 : 10000000);
        if (i % (n ? n : 64) == 0)
            TRY(cuStreamSynchronize(stream));
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(unsigned);
    } way[] = {{"streams", streams}, {"contexts", contexts}, {"threads", threads}, {"capture", capture}, {"destroyed", destroyed}, {"ended", ended},
             {"own", own}, {"vary", vary}};
    if (argc != 4)
        return 2;
    load();
    TRY(cuInit(0));
    start();
    uint64_t begin = now_ns();
    end_ns = begin + (uint64_t)(strtod(argv[2], NULL) * 1e9);
    for (unsigned i = 0; i < sizeof way / sizeof *way; i++)
        if (!strcmp(way[i].name, argv[1]))
            way[i].run((unsigned)strtoul(argv[3], NULL, 10));
    TRY(cuCtxSynchronize());
    printf("{\"used_ns\": %llu, \"done_ns\": %llu, \"captured\": %u}\n", (unsigned long long)used_ns,
           (unsigned long long)(now_ns() - begin), captured);
    return 0;
}
