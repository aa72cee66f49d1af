/*
 * What compiled code registers before main: device code, and the host addresses that stand for its kernels and variables. The
 * kernels are the driver's context-independent ones (cuLibrary), so a handle holds for every device and after a reset.
 */
#ifndef GPUPOOL_CUDART_REGISTRY_H
#define GPUPOOL_CUDART_REGISTRY_H

#include <stddef.h>

#include "driver.h"

#pragma GCC visibility push(hidden)

/* A managed variable is registered by the pointer to it; once it has an address, programs name it by that: its alias. */
enum entry_kind { KERNEL_ENTRY, VARIABLE_ENTRY, MANAGED_ENTRY, MANAGED_ALIAS };

struct binary; /* one fat binary */

/* The calls below are safe from any thread; those that return an int give 0 or an error code. */

struct binary *cudart_binary_new(const void *wrapper);
void cudart_binary_delete(struct binary *binary);
void cudart_entry_add(struct binary *binary, enum entry_kind kind, const void *host, const char *name, size_t bytes);
/* Writes the device addresses of BINARY's managed variables where the compiled code reads them. */
int cudart_managed_ready(struct binary *binary);

/* The kernel that HOST stands for, loading its binary if need be. HOST may also be a kernel handle given out before. */
int cudart_kernel(const void *host, CUkernel *kernel);
/* The address and size of the variable HOST stands for, in the current context. */
int cudart_variable(const void *host, CUdeviceptr *address, size_t *bytes);
/* What a program knows KERNEL by: its host address, or the handle itself. */
const void *cudart_kernel_host(CUkernel kernel);
/* Makes a handle got from a library, or from cudaGetFuncBySymbol, one that cudart_kernel knows. */
void cudart_handle_add(const void *handle);

#pragma GCC visibility pop
#endif
