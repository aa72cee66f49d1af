/* A program of an image with an old glibc: finds driver, NVML and runtime by their public names, says in one line of JSON what it
   was given, and waits until its stdin ends.

     old_glibc_user MEBIBYTES_THAT_FIT MEBIBYTES_THAT_DO_NOT LAUNCHES */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct thing *Thing;
static void *driver, *nvml, *runtime;
static int failed;

static void *opened(const char *name)
{
    void *library = dlopen(name, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    return library;
}

#define FIND(library, name, ...) ((int (*)(__VA_ARGS__))dlsym(library, #name))
/* The first call that fails is told by its line. */
#define DO(call) (void)(failed = failed ? failed : (call) ? __LINE__ : 0)

static void launch(int count)
{
    static const char ptx[] = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry sleep_us_100()\n{\nret;\n}\n";
    Thing module, kernel;
    DO(FIND(driver, cuModuleLoadData, Thing *, const void *)(&module, ptx));
    DO(FIND(driver, cuModuleGetFunction, Thing *, Thing, const char *)(&kernel, module, "sleep_us_100"));
    for (int i = 0; i < count; i++)
        DO(FIND(driver, cuLaunchKernel, Thing, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Thing, void **,
                void **)(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    DO(FIND(driver, cuCtxSynchronize, void)());
}

static uint64_t nvml_total(void)
{
    uint64_t memory[3] = {0};
    Thing device;
    DO(FIND(nvml, nvmlInit_v2, void)());
    DO(FIND(nvml, nvmlDeviceGetHandleByIndex_v2, unsigned, Thing *)(0, &device));
    DO(FIND(nvml, nvmlDeviceGetMemoryInfo, Thing, uint64_t *)(device, memory));
    return memory[0];
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    driver = opened("libcuda.so.1"), nvml = opened("libnvidia-ml.so.1"), runtime = opened("libcudart.so.12");
    size_t fits = (size_t)atoi(argv[1]) << 20, too_much = (size_t)atoi(argv[2]) << 20;
    void *memory, *context;
    DO(FIND(driver, cuInit, unsigned)(0));
    DO(FIND(driver, cuCtxCreate_v2, void *, unsigned, int)(&context, 0, 0));
    DO(FIND(driver, cuMemAlloc_v2, void **, size_t)(&memory, fits));
    int driver_says = FIND(driver, cuMemAlloc_v2, void **, size_t)(&memory, too_much);
    int runtime_says = FIND(runtime, cudaMalloc, void **, size_t)(&memory, too_much);
    launch(atoi(argv[3]));
    unsigned long long total = nvml_total();
    printf("{\"failed\": %d, \"driver\": %d, \"runtime\": %d, \"total\": %llu}\n", failed, driver_says, runtime_says, total);
    fflush(stdout);
    getchar();
    return 0;
}
