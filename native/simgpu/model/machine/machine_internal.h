/* Declarations for the machine's own files. */
#ifndef GPUPOOL_SIM_MODEL_INTERNAL_H
#define GPUPOOL_SIM_MODEL_INTERNAL_H

#include "machine.h"

#include <stdbool.h>
#include <sys/types.h>

/* process_identity.c. Processes are named as in struct sim_process, threads as in the lock. */
uint64_t sim_own_process(void);
uint64_t sim_own_thread(void);
uint64_t sim_own_namespace(void);
/* Gone, or another one under its number by now, or a zombie. A process that cannot be looked at, in another pid namespace say,
   counts as alive. */
bool sim_process_is_gone(const struct sim_process *process);
bool sim_thread_is_gone(uint64_t thread);
bool sim_thread_is_foreign(uint64_t thread); /* in another pid namespace */
/* None of its threads runs or is about to. */
bool sim_is_asleep(pid_t pid);

/* machine_lock.c: without looking at the clock or at faults. */
bool sim_acquire(struct sim_header *header); /* whether the last holder died inside */
void sim_release_lock(struct sim_header *header);
void sim_futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t until_ns);
void sim_futex_wake(const _Atomic uint32_t *word, int count);

/* machine_faults.c: what was injected and not yet done to contexts. Under the lock. */
void sim_handle_faults(struct sim *sim);

/* machine_limits.c: the limits of a process's cgroups on one card, the inner one first. */
struct sim_own_limits {
    uint64_t name[SIM_NESTED]; /* 0: none */
    uint64_t hard[SIM_NESTED];
};
/* Reads files: not under the lock. -errno where limits are there and cannot be read, as in a process that may open no more
   files: then nothing must be granted. */
int sim_find_limits(const struct sim *sim, uint32_t card, struct sim_own_limits *limits);
/* What is left to a process by these limits, SIM_UNLIMITED where there are none; the card may have less. */
uint64_t sim_left_of_limits(const struct sim *sim, uint32_t card, const struct sim_own_limits *limits);

/* machine_processes.c: under the lock. */
void sim_clear_process(struct sim *sim, struct sim_process *process);

#endif
