/* Physical allocations, between vmm.c (mapping) and vmm_share.c (handing over). Under the lock. */
#ifndef GPUPOOL_SIMGPU_VMM_H
#define GPUPOOL_SIMGPU_VMM_H

#include "contexts/context.h"

#include <sys/types.h>

struct physical {
    int file, device;
    size_t size;
    unsigned references; /* handles given out, and mappings */
    unsigned handles;
    bool imported;       /* another process is charged for it */
    CUmemAllocationProp properties;
    dev_t file_device;
    ino_t file_number;
    struct physical *next;
};

struct physical *physical_of(CUmemGenericAllocationHandle handle);       /* NULL: no such handle */
struct physical *physical_new(int file, size_t size, const CUmemAllocationProp *prop); /* NULL: no memory */
struct physical *physical_of_file(dev_t file_device, ino_t file_number);  /* known here already, or NULL */
struct physical *physical_at(const char *address);                        /* mapped there, or NULL */

#endif
