/* The generated table of symbols, and the functions that search it.

   One table per library that is stood in for: fence_driver_table (libcuda.so.1), fence_nvml_table (libnvidia-ml.so.1).
   Nothing here calls the driver, and nothing takes a lock: a table is filled once, before any handler runs. */
#ifndef GPUPOOL_FENCE_TABLE_H
#define GPUPOOL_FENCE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum fence_class { FENCE_PASS, FENCE_WAIT, FENCE_ACCOUNT, FENCE_THROTTLE, FENCE_VIRTUALIZE, FENCE_DENY };

/* A name of the headers. `member` is its pointer in the table's struct of real functions, `absent` what stands there
   for a function that the driver at hand does not have. */
struct fence_symbol {
    const char *name, *base; /* base: without _v2 and the like, _ptsz and _ptds: what cuGetProcAddress is asked for */
    int born;                /* version of CUDA whose look-ups first mean this symbol, 0 where there are none by version */
    bool per_thread;         /* its default stream is the calling thread's own */
    enum fence_class class;
    void **member, *absent;
    void *ours;    /* the stand-in's function, NULL for pass */
    void **answer; /* of a handled one: what the driver's own look-up gives for it, where that is not `*member` */
};

struct fence_table {
    const char *prefix;                /* of the library's public names: "cu", "nvml" */
    const struct fence_symbol *symbols; /* by name, ascending as strcmp has it */
    size_t count;
};

extern const struct fence_table fence_driver_table, fence_nvml_table;

/* Fills the real functions from `handle` (dlopen of the driver's file). How many of the table's names it lacks. */
size_t fence_table_fill(const struct fence_table *table, void *handle);

/* The driver has the function: its member is not the one that stands for an absent one. */
bool fence_symbol_present(const struct fence_symbol *symbol);

const struct fence_symbol *fence_table_find(const struct fence_table *table, const char *name);

/* Which symbol the driver's function `real` is; NULL: a function that the table does not know. A driver may use one function
   for several names: then the one with this base name is preferred, then a handled one, then this kind of stream. */
const struct fence_symbol *fence_table_identify(const struct fence_table *table, const void *real, const char *base,
                                                bool per_thread);

/* Calls `seen` for each public function that the library of `handle` exports and the table does not know. How many;
   -1 when its dynamic symbols cannot be read. */
int fence_table_unclassified(const struct fence_table *table, void *handle, void (*seen)(const char *name, void *context),
                             void *context);

/* A look-up by name gave a function that the table does not know: it passes, is counted and lowers the level. */
void fence_unknown_lookup(const char *name);

#endif
