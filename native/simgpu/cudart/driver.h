/*
 * The driver as the runtime reaches it: one dlopen, one dlsym, and every function by cuGetProcAddress with its base name and
 * version, twice where there is a twin for the default stream of each thread. That is the vendor runtime's own way in, so
 * whatever stands at libcuda.so.1 (the fence) meets the same look-ups.
 */
#ifndef GPUPOOL_CUDART_DRIVER_H
#define GPUPOOL_CUDART_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

/* The packages have cudaProfilerTypedefs.h without the header it includes. */
typedef CUresult(CUDAAPI *PFN_cuProfilerStart_v4000)(void);
typedef CUresult(CUDAAPI *PFN_cuProfilerStop_v4000)(void);

#pragma GCC visibility push(hidden)

struct driver_functions {
#define FUNCTION(name, version) PFN_##name##_v##version name##_fn;
#define TWIN(name, version, twin_version) PFN_##name##_v##version name##_fn;
#include "driver_functions.def"
#undef FUNCTION
#undef TWIN
};

enum { LEGACY_STREAM, THREAD_STREAM };
extern struct driver_functions cudart_driver[2];

/* Sources with twins are compiled twice; the headers rename their functions, and this chooses the table. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define DEFAULT_STREAM THREAD_STREAM
#else
#define DEFAULT_STREAM LEGACY_STREAM
#endif
#define DRIVER_TABLE (cudart_driver[DEFAULT_STREAM])
/* Inside other macros use the table itself: the headers rename functions, and an argument is renamed before it arrives here. */
#define DRIVER(name) (DRIVER_TABLE.name##_fn)

/* Loads the driver and calls cuInit, once. 0, a CUresult, or cudaErrorInsufficientDriver; a failure is tried again. */
int cudart_driver_ready(void);
/* Loads the driver without cuInit. 0 or cudaErrorInsufficientDriver. */
int cudart_driver_loaded(void);
/* Nonzero once the process is on its way out: the driver may be gone. */
int cudart_leaving(void);

#pragma GCC visibility pop
#endif
