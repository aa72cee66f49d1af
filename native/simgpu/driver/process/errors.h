/* The generated table of the error codes' names. */
#ifndef GPUPOOL_SIMGPU_ERRORS_H
#define GPUPOOL_SIMGPU_ERRORS_H

struct error_name {
    int error;
    const char *name;
};

extern const struct error_name error_names[]; /* generated, in order of number */
extern const unsigned error_name_count;

#endif
