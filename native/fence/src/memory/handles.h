/* What this process holds: for each handle of the driver the bytes charged for it. Exact frees come from here.

   Sharded by a hash of the handle, a short lock per shard; empty in a forked child, which can use none of its parent's. Knows
   neither CUDA nor the ledger. */
#ifndef GPUPOOL_HANDLES_H
#define GPUPOOL_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

enum handle_kind {
    HANDLE_MEMORY = 1, /* device pointer of cuMemAlloc and its kin */
    HANDLE_ARRAY,      /* CUarray and CUmipmappedArray */
    HANDLE_CONTEXT,    /* made by cuCtxCreate */
    HANDLE_PHYSICAL,   /* cuMemCreate, imported or not: `object` */
    HANDLE_MAPPING,    /* start of a mapping: `object`, `bytes` mapped */
    HANDLE_POOLED,     /* pointer from a pool: `object` */
    HANDLE_IMPORT,     /* pointer opened by IPC: `count` opens */
    HANDLE_GRAPH       /* executable graph with memory nodes */
};

struct handle {
    uint64_t key; /* the driver's handle */
    uint32_t kind;
    int32_t card; /* index into limits.device */
    uint64_t bytes, count;
    void *object, *context; /* context: that it ends with; NULL: with none */
};

/* False: no memory to remember it; what was charged for it stays charged. An older handle of the same key is replaced. */
bool handles_add(const struct handle *handle);

/* Takes the handle out. A free takes it out before the driver frees, since afterwards another thread may get the same key. */
bool handles_take(enum handle_kind kind, uint64_t key, struct handle *out);
bool handles_find(enum handle_kind kind, uint64_t key, struct handle *out);
/* The handle of that kind whose `bytes` from its key on hold the address. Looks at all handles: for rare calls. */
bool handles_find_covering(enum handle_kind kind, uint64_t address, struct handle *out);

/* Takes out everything that ended with a context, one at a time under `gone`, which must not use handles. */
void handles_sweep(void *context, void (*gone)(const struct handle *handle));

#endif
