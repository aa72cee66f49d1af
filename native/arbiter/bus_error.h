/* Survives a tenant that cuts its usage file short: touching the missing part is a SIGBUS, which becomes a return value. */
#ifndef GPUPOOL_ARBITER_BUS_ERROR_H
#define GPUPOOL_ARBITER_BUS_ERROR_H

#include <stdbool.h>

/* Once, before the first guarded call. False: errno tells. */
bool install_bus_error_guard(void);

/* Calls `work(context)`; false when it touched memory that is not there. What it had half done stays so: `work` must only
   read into locals or store words that may be lost. Not nested. */
bool run_guarded(void (*work)(void *context), void *context);

#endif
