#include "cuda_load.h"
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#define HOLD_BYTES (512ull << 20)
#define SPIN_ITERATIONS 200000ull /* some hundred microseconds on present cards */
#define PAGEABLE_MEMORY_ACCESS 88 /* CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS */

/* A loop whose result the compiler cannot know: an odd number times an odd number is never 0. */
static const char KERNEL[] =
    ".version 6.4\n.target sm_50\n.address_size 64\n"
    ".visible .entry spin(.param .u64 count)\n{\n"
    ".reg .pred %p<3>;\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n"
    "ld.param.u64 %rd1, [count];\nmov.u32 %r1, %tid.x;\nor.b32 %r1, %r1, 1;\n"
    "NEXT:\nmul.lo.u32 %r1, %r1, 1664525;\nsub.u64 %rd1, %rd1, 1;\nsetp.ne.u64 %p1, %rd1, 0;\n@%p1 bra NEXT;\n"
    "setp.eq.u32 %p2, %r1, 0;\n@%p2 trap;\nret;\n}\n";

static char text[160];
static void *library;

static void *look_up(const char *name)
{
    if (!library)
        library = dlopen("libcuda.so.1", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}

static const char *said(const char *function, int result)
{
    snprintf(text, sizeof text, "%s said %d", function, result);
    return text;
}

/* Calls a driver function of these types by name. */
#define CALL(types, name, ...)                                                                                         \
    do {                                                                                                               \
        int(*function) types = (int(*) types)look_up(name);                                                            \
        int result = function ? function(__VA_ARGS__) : -1;                                                            \
        if (result)                                                                                                    \
            return said(function ? name : "no libcuda.so.1 with " name, result);                                       \
    } while (0)

const char *cuda_start(struct cuda *cuda)
{
    void *module;
    int device;
    CALL((unsigned), "cuInit", 0);
    CALL((int *, int), "cuDeviceGet", &device, 0);
    CALL((void **, int), "cuDevicePrimaryCtxRetain", &cuda->context, device);
    CALL((void *), "cuCtxSetCurrent", cuda->context);
    CALL((void **, const void *), "cuModuleLoadData", &module, KERNEL);
    CALL((void **, void *, const char *), "cuModuleGetFunction", &cuda->kernel, module, "spin");
    CALL((void **, unsigned), "cuStreamCreate", &cuda->stream, 1);
    return NULL;
}

const char *cuda_hold(struct cuda *cuda, uint64_t *bytes)
{
    size_t free_bytes, total;
    CALL((size_t *, size_t *), "cuMemGetInfo_v2", &free_bytes, &total);
    *bytes = free_bytes / 4 < HOLD_BYTES ? free_bytes / 4 >> 21 << 21 : HOLD_BYTES;
    CALL((uint64_t *, size_t), "cuMemAlloc_v2", &cuda->held, *bytes);
    return NULL;
}

const char *cuda_release(struct cuda *cuda)
{
    CALL((uint64_t), "cuMemFree_v2", cuda->held);
    return NULL;
}

const char *cuda_spin(struct cuda *cuda)
{
    uint64_t count = SPIN_ITERATIONS;
    void *arguments[] = {&count};
    for (int n = 0; n < CUDA_SPIN_BATCH; n++)
        CALL((void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
             "cuLaunchKernel", cuda->kernel, 512, 1, 1, 256, 1, 1, 0, cuda->stream, arguments, NULL);
    CALL((void *), "cuStreamSynchronize", cuda->stream);
    return NULL;
}

const char *cuda_pageable(int *access)
{
    CALL((unsigned), "cuInit", 0);
    CALL((int *, int, int), "cuDeviceGetAttribute", access, PAGEABLE_MEMORY_ACCESS, 0);
    return NULL;
}
