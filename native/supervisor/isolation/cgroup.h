/* The job's control groups: made, entered, emptied and removed. Never touches one it was not given. */
#ifndef GPUPOOL_CGROUP_H
#define GPUPOOL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec.h"

struct cgroups {
    int directories[SPEC_MAX_CGROUPS]; /* of the job's cgroup in each hierarchy */
    int members[SPEC_MAX_CGROUPS];     /* its cgroup.procs, opened before privileges go */
    char *const *paths;
    size_t count;
};

/* Makes them, with their parent. False: `why` tells which could not be made. */
bool cgroups_create(struct cgroups *groups, const struct spec *spec, char *why, size_t size);

/* The calling process enters all of them. */
bool cgroups_enter(const struct cgroups *groups);

/* Sends a signal to every member once; the number of members seen. Freezes them around a SIGKILL where that is possible. */
size_t cgroups_signal(const struct cgroups *groups, int number, size_t *denied);

/* The highest memory use the kernel has recorded, in bytes. */
bool cgroups_memory_peak(const struct cgroups *groups, uint64_t *bytes);

/* Whether the kernel ended a process of theirs for want of memory; `limit` bytes is what they may use, 0 unknown. */
bool cgroups_out_of_memory(const struct cgroups *groups, uint64_t *limit);

void cgroups_remove(struct cgroups *groups);

#endif
