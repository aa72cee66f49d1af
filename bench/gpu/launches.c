/* What a launch costs its caller: nanoseconds of cuLaunchKernel for an empty kernel, and of recording an event.
   Prints one JSON line. Takes the driver as a program finds it, so it measures the fence inside a share and nothing outside. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 200
#define EACH 256

static const char EMPTY[] = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

static void *driver;
static void *context, *module, *kernel, *stream, *event;

static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int (*record)(void *, void *);
static int (*synchronize)(void *);

static void must(int result, const char *what)
{
    if (result) {
        fprintf(stderr, "launches: %s said %d\n", what, result);
        exit(1);
    }
}

static void *named(const char *name)
{
    void *found = dlsym(driver, name);
    if (!found) {
        fprintf(stderr, "launches: no %s\n", name);
        exit(1);
    }
    return found;
}

static void begin(void)
{
    int device;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "launches: %s\n", dlerror());
        exit(2);
    }
    must(((int (*)(unsigned))named("cuInit"))(0), "cuInit");
    must(((int (*)(int *, int))named("cuDeviceGet"))(&device, 0), "cuDeviceGet");
    must(((int (*)(void **, int))named("cuDevicePrimaryCtxRetain"))(&context, device), "cuDevicePrimaryCtxRetain");
    must(((int (*)(void *))named("cuCtxSetCurrent"))(context), "cuCtxSetCurrent");
    must(((int (*)(void **, const void *))named("cuModuleLoadData"))(&module, EMPTY), "cuModuleLoadData");
    must(((int (*)(void **, void *, const char *))named("cuModuleGetFunction"))(&kernel, module, "nothing"), "cuModuleGetFunction");
    must(((int (*)(void **, unsigned))named("cuStreamCreate"))(&stream, 1), "cuStreamCreate");
    must(((int (*)(void **, unsigned))named("cuEventCreate"))(&event, 2), "cuEventCreate");
    *(void **)&launch = named("cuLaunchKernel");
    *(void **)&record = named("cuEventRecord");
    *(void **)&synchronize = named("cuStreamSynchronize");
}

static double now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int one_launch(void)
{
    return launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

static int one_record(void)
{
    return record(event, stream);
}

/* The median round, for each call of it; the queue is empty at the beginning of every round. */
static double median_ns(int (*call)(void))
{
    double round[ROUNDS];
    for (int n = 0; n < ROUNDS; n++) {
        double began = now_ns();
        for (int m = 0; m < EACH; m++)
            must(call(), "a call");
        round[n] = (now_ns() - began) / EACH;
        must(synchronize(stream), "cuStreamSynchronize");
    }
    qsort(round, ROUNDS, sizeof *round, by_size);
    return round[ROUNDS / 2];
}

int main(void)
{
    begin();
    median_ns(one_launch); /* once for nothing: clocks and caches */
    double launched = median_ns(one_launch), recorded = median_ns(one_record);
    printf("{\"launch_ns\": %.1f, \"event_ns\": %.1f}\n", launched, recorded);
    return 0;
}
