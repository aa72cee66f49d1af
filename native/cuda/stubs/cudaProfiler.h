/* The vendor packs this header apart; its three functions are known from cudaProfilerTypedefs.h, which needs one type. */
#ifndef GPUPOOL_STUB_CUDA_PROFILER_H
#define GPUPOOL_STUB_CUDA_PROFILER_H
#include <cuda.h>
typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile, CUoutput_mode outputMode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
#endif
