/* The tables of undocumented functions behind cuGetExportTable, as far as runtimes were seen to need them. */
#ifndef GPUPOOL_SIMGPU_EXPORT_TABLES_H
#define GPUPOOL_SIMGPU_EXPORT_TABLES_H

#include "driver.h"

/* Without the lock, before a context goes: its values' destructors are the program's. */
void context_values_release(CUcontext context);

#endif
