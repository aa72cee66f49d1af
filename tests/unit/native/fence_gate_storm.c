/* Many threads launch into streams of their own and into the default stream, make and destroy streams and a context, while the
   completion thread looks: for the sanitizers, and for the count at the end.

     fence_gate_storm ROUNDS [STAY]    prints how many launches were made; with STAY it waits for its stdin then */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct context *Context;
typedef struct module *Module;
typedef struct function *Function;
typedef struct stream *Stream;

static int (*cuInit)(unsigned), (*cuDeviceGet)(int *, int), (*cuCtxCreate_v2)(Context *, unsigned, int), (*cuCtxSetCurrent)(Context);
static int (*cuModuleLoadData)(Module *, const void *), (*cuModuleGetFunction)(Function *, Module, const char *);
static int (*cuLaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **);
static int (*cuStreamCreate)(Stream *, unsigned), (*cuStreamSynchronize)(Stream), (*cuCtxDestroy_v2)(Context), (*cuStreamDestroy_v2)(Stream);

#define LOAD(name) (*(void **)&name = dlsym(driver, #name))
#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        int failed = (call);                                                                                                   \
        if (failed) {                                                                                                          \
            fprintf(stderr, "%s: %d\n", #call, failed);                                                                        \
            exit(3);                                                                                                           \
        }                                                                                                                      \
    } while (0)

enum { THREADS = 4, STREAMS = 6, LAUNCHES = 60 };

static const char ptx[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry step_us_5()\n{\nret;\n}\n";
static Context context;
static Function function;
static atomic_ulong launches;

static void launch(Stream stream, unsigned blocks)
{
    TRY(cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    launches++;
}

static void *work(void *unused)
{
    TRY(cuCtxSetCurrent(context));
    for (int round = 0; round < STREAMS; round++) {
        Stream stream;
        TRY(cuStreamCreate(&stream, 1));
        for (unsigned i = 0; i < LAUNCHES; i++)
            launch(i % 7 ? stream : NULL, 1 + i % 3);
        if (round % 2)
            TRY(cuStreamSynchronize(stream));
        TRY(cuStreamDestroy_v2(stream));
    }
    return unused;
}

static void one_context(int device)
{
    pthread_t thread[THREADS];
    Module module;
    TRY(cuCtxCreate_v2(&context, 0, device));
    TRY(cuModuleLoadData(&module, ptx));
    TRY(cuModuleGetFunction(&function, module, "step_us_5"));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    TRY(cuCtxDestroy_v2(context));
}

int main(int argc, char **argv)
{
    int device, rounds = argc > 1 ? atoi(argv[1]) : 1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 4;
    LOAD(cuInit), LOAD(cuDeviceGet), LOAD(cuCtxCreate_v2), LOAD(cuCtxSetCurrent), LOAD(cuModuleLoadData), LOAD(cuModuleGetFunction);
    LOAD(cuLaunchKernel), LOAD(cuStreamCreate), LOAD(cuStreamSynchronize), LOAD(cuCtxDestroy_v2), LOAD(cuStreamDestroy_v2);
    TRY(cuInit(0));
    TRY(cuDeviceGet(&device, 0));
    for (int i = 0; i < rounds; i++)
        one_context(device);
    printf("%lu\n", (unsigned long)launches);
    fflush(stdout);
    if (argc > 2)
        getchar();
    return 0;
}
