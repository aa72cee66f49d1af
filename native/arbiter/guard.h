/* A tenant may cut its usage region short at any moment; touching what is gone is a SIGBUS, which only this program handles. */
#ifndef GPUPOOL_ARBITER_GUARD_H
#define GPUPOOL_ARBITER_GUARD_H

#include <stdbool.h>

/* Once, before the first guarded call. False: errno tells. */
bool guard_install(void);

/* Calls `work(context)`; false when it touched memory that is not there. What it had half done stays so: `work` must only
   read into locals or store words that may be lost. Not nested. */
bool guarded(void (*work)(void *context), void *context);

#endif
