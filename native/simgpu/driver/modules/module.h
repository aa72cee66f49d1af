/* Code: images, the modules and libraries made of them, their functions and variables. */
#ifndef GPUPOOL_SIMGPU_MODULE_H
#define GPUPOOL_SIMGPU_MODULE_H

#include "contexts/context.h"

/* A kernel that an image has. `params` -1: the image does not say. */
struct entry {
    char *name;
    int params;
    struct entry_param {
        size_t offset, size;
    } *param;
    struct entry *next;
};

struct variable {
    char *name;
    size_t size;
    bool managed;
    struct variable *next;
};

/* What could be read of an image. `open`: its names cannot be read (compressed), so every name asked for is there. */
struct image {
    bool open;
    struct entry *entries, *last;
    struct variable *variables;
};

/* images.c */
CUresult image_read(const void *data, struct image *image);
CUresult image_read_file(const char *path, struct image *image);
void image_free(struct image *image);
struct entry *image_entry(struct image *image, const char *name);       /* NULL: not there */
struct variable *image_variable(struct image *image, const char *name);
CUresult ptx_read(const char *text, struct image *image);
struct entry *image_add_entry(struct image *image, const char *name, size_t length);
struct variable *image_add_variable(struct image *image, const char *name, size_t length, size_t size);

struct function_attributes {
    int max_dynamic_shared, carveout, cluster_required, cluster[3], nonportable_cluster, scheduling;
};

struct CUmod_st {
    CUcontext context;
    CUlibrary library;     /* NULL: loaded as a module */
    struct image own, *image;
    CUfunction functions;
    struct global {
        struct global *next;
        struct variable *variable;
        void *memory;
    } *globals;
    CUmodule next;         /* of all */
};

struct CUlib_st {
    struct image image;
    CUkernel kernels;
    CUlibrary next;
};

struct CUkern_st {
    CUlibrary library;
    struct entry *entry;
    struct function_attributes attributes;
    CUkernel next;
};

struct CUfunc_st {
    CUmodule module;
    struct entry *entry;
    struct function_attributes attributes;
    CUkernel kernel;       /* of a library's module */
    int block[3];          /* cuFuncSetBlockShape, cuParamSet*: what cuLaunch uses */
    unsigned shared_bytes, param_bytes;
    unsigned char *params;
    CUfunction next;
};

/* modules.c and libraries.c, under the lock */
void modules_close(CUcontext context);
CUresult module_of_library(CUlibrary library, CUcontext context, CUmodule *module);
CUresult module_function(CUmodule module, const char *name, CUfunction *function);
CUresult module_global(CUmodule module, const char *name, void **memory, size_t *size, bool managed);
void module_unload(CUmodule module);

/* A function handle or, as the runtime passes them, a kernel handle. */
struct callee {
    struct entry *entry;
    struct function_attributes *attributes;
    CUcontext context; /* NULL: of no context */
};
CUresult callee_of(CUfunction handle, struct callee *callee);

/* compile_options.c */
void jit_options_answer(unsigned count, const CUjit_option *options, void **values);

/* occupancy.c */
int blocks_per_sm(int device, unsigned threads, size_t shared_bytes);

#endif
