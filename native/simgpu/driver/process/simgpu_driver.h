/* What the simulated libcuda.so.1 exports besides CUDA's driver API. For tests and tools. */
#ifndef GPUPOOL_SIMGPU_DRIVER_EXPORTS_H
#define GPUPOOL_SIMGPU_DRIVER_EXPORTS_H

#pragma GCC visibility push(default)
/* How many unsupported entry points this process has called, and their names and calls by index. */
unsigned simgpu_unsupported_count(void);
const char *simgpu_unsupported_name(unsigned index, unsigned long *calls);
/* Classified table of exports: 1 implemented, 0 answers NOT_SUPPORTED, -1 no such symbol. */
int simgpu_symbol_is_implemented(const char *symbol);
#pragma GCC visibility pop

#endif
