/* The names of the runtime's error codes, generated from the enumeration in driver_types.h (see make_symbols.py). */
#ifndef GPUPOOL_CUDART_ERRORS_H
#define GPUPOOL_CUDART_ERRORS_H

struct error_name {
    int code;
    const char *name;
};
extern const struct error_name cudart_error_names[] __attribute__((visibility("hidden")));
extern const int cudart_error_count __attribute__((visibility("hidden")));

#endif
