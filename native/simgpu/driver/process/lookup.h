/* The generated table of every symbol, by base name and the version of CUDA in which each form was born. */
#ifndef GPUPOOL_SIMGPU_LOOKUP_H
#define GPUPOOL_SIMGPU_LOOKUP_H

struct lookup_row {
    const char *base;
    int born;
    const char *symbol;
    void *function, *twin; /* twin: itself where it has none */
};

struct lookup_export {
    const char *symbol;
    int implemented;
};

extern const struct lookup_row lookup_rows[];
extern const unsigned lookup_row_count;
extern const struct lookup_export lookup_exports[];
extern const unsigned lookup_export_count;

#endif
