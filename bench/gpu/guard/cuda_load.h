/* As little of the CUDA driver as the tenant needs, found by dlopen as any program finds it. Not thread-safe.
   Every function returns NULL, or what went wrong. */
#ifndef GUARD_CUDA_LOAD_H
#define GUARD_CUDA_LOAD_H

#include <stdint.h>

#define CUDA_SPIN_BATCH 16

struct cuda {
    void *context, *kernel, *stream;
    uint64_t held; /* a device pointer */
};

const char *cuda_start(struct cuda *cuda);                 /* cuInit and a context on the first card */
const char *cuda_hold(struct cuda *cuda, uint64_t *bytes); /* 512 MiB, or a quarter of what is free if that is less */
const char *cuda_release(struct cuda *cuda);
const char *cuda_spin(struct cuda *cuda);                  /* CUDA_SPIN_BATCH kernels, to their end */
const char *cuda_pageable(int *access);                    /* whether kernels reach malloc's memory: HMM or ATS */

#endif
