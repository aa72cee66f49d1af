/* Memory this process knows: a block per allocation, found by any address in it.

   The rule for charging a card: an allocation below 1 MiB counts in units of 512 bytes, a larger one in units of 2 MiB.
   The pages behind it are lazily backed host memory (MAP_NORESERVE), zero at first. */
#ifndef GPUPOOL_SIMGPU_MEMORY_H
#define GPUPOOL_SIMGPU_MEMORY_H

#include "process/driver.h"

#define GRANULE ((size_t)2 << 20)
#define SMALL_GRANULE ((size_t)512)
#define SMALL_BELOW ((size_t)1 << 20)
#define PITCH_ALIGNMENT ((size_t)512)
#define MEMORY_MAX ((size_t)1 << 47)

enum block_kind {
    BLOCK_DEVICE,     /* cuMemAlloc and its kin */
    BLOCK_MANAGED,
    BLOCK_HOST,       /* cuMemHostAlloc */
    BLOCK_REGISTERED, /* the tenant's own pages, cuMemHostRegister */
    BLOCK_RESERVED,   /* cuMemAddressReserve; its mappings are in vmm.c */
    BLOCK_POOLED,     /* cuMemAllocAsync; charged to its pool */
    BLOCK_IMPORTED,   /* another process's, opened by cuIpcOpenMemHandle; charged there */
    BLOCK_GLOBAL,     /* a module's variable; goes with the module */
    BLOCK_ARRAY,      /* behind a CUarray; no tenant address */
    BLOCK_GRAPH,      /* a graph's memory node; charged to the device's graph pool */
};

struct block {
    char *start;
    size_t size, mapped;  /* asked for; really mapped */
    enum block_kind kind;
    int device;
    unsigned flags;       /* of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged */
    CUcontext context;
    uint64_t id, charged;
    CUmemoryPool pool;
    int shared_file;      /* the memfd behind it once it was exported, else -1 */
    unsigned opened;      /* BLOCK_IMPORTED: opens not yet closed; BLOCK_GRAPH: nodes that name it */
    bool active;          /* BLOCK_GRAPH: allocated by a launch and not freed */
    uint64_t origin[2];   /* BLOCK_IMPORTED: which file */
    int preferred;        /* BLOCK_MANAGED: cuMemAdvise's preferred location */
    bool read_mostly, freeing;
    bool low;             /* must lie below 4 GiB: for callers whose addresses have 32 bits */
};

/* pages.c: address space, without the lock */
void *pages_map(size_t size, size_t alignment, int flags);
void pages_unmap(void *start, size_t size);
size_t pages_round(size_t size);
/* Whether the host has the memory that writing [start, start + size) would need; false where the kernel would have to
   kill somebody. `always`: count pages that reading touches, too (shared files). */
bool pages_room(const void *start, size_t size);

/* blocks.c, under the lock */
size_t block_charge_size(size_t size);
struct block *block_at(const void *address);
struct block *block_exact(const void *address);
struct block *block_insert(const struct block *like);
void block_remove(struct block *block);             /* unmaps, uncharges, frees */
void blocks_close(CUcontext context);
CUresult block_allocate(void **out, const struct block *like, size_t alignment);
struct block *block_next(size_t *position);         /* iteration; start with 0 */
/* CUDA_SUCCESS if the device may touch all of [address, address + size); CUDA_ERROR_INVALID_VALUE otherwise. An
   address in no block is the tenant's pageable memory: refused only where `must_be_known`. */
CUresult range_check(const void *address, size_t size, bool must_be_known, bool writes);
bool range_is_device(const void *address);
bool range_is_pinned(const void *address);

/* vmm.c, under the lock */
bool vmm_range_usable(const struct block *range, const char *address, size_t size, bool writes);
void vmm_range_close(struct block *range);
int vmm_device_at(const struct block *range, const char *address);

#endif
