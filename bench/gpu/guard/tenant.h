/* The program that is watched: an ordinary CUDA program in a process of its own, with a page on which it says how far it is. */
#ifndef GUARD_TENANT_H
#define GUARD_TENANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum tenant_step { STEP_STARTING, STEP_CONTEXT, STEP_HOLDS, STEP_FREED, STEP_SPINS, STEP_ENDED, STEP_FAILED };

struct tenant_page {
    _Atomic int step;          /* enum tenant_step */
    _Atomic int wanted;        /* the step it may go on to */
    _Atomic uint64_t kernels;  /* finished */
    _Atomic uint64_t start_ns; /* what cuInit and a context took */
    uint64_t held_bytes;       /* what it allocated between CONTEXT and FREED */
    char error[160];
};

struct tenant {
    pid_t pid;
    int channel; /* the listener came over it */
    struct tenant_page *page;
};

/* A new process; `watched` installs the filter first. `pretend` does no CUDA and asks the driver's numbers of that file. */
int tenant_start(struct tenant *tenant, bool watched, const char *pretend);
/* Let it go on, and wait until it is there. False when it failed or took longer than `seconds`. */
bool tenant_until(struct tenant *tenant, enum tenant_step step, int seconds);
int tenant_end(struct tenant *tenant); /* its wait status */
double tenant_rate(struct tenant *tenant, double seconds); /* kernels a second, now */

#endif
