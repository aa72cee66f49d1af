/* Finds, checks and maps the three files of the allocation. */
#ifndef GPUPOOL_REGION_MAP_H
#define GPUPOOL_REGION_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "gpupool/region.h"

struct fence_region {
    const struct fence_limits *limits;
    const struct fence_grants *grants;
    struct fence_usage *usage;
    struct fence_timelines *timelines; /* behind it; NULL: the file ends before */
    char base[512]; /* the directory they were found below */
};

/* Maps the files below `base`, else below `other` (may be NULL: not given; the job's base directory or its share/ directory).
   False: `why` says in one clause what is wrong, nothing stays mapped. A file that is cut short after it was mapped makes a bus
   error: limits and grants are out of the job's reach, and a job that cuts its own usage file short has only itself to end. */
bool region_map(struct fence_region *region, const char *base, const char *other, char *why, size_t size);

#endif
