/* The driver's functions, and the names and prototypes under which ours are exported. Generated. */
#ifndef GPUPOOL_REAL_H
#define GPUPOOL_REAL_H

#include "fence_handlers.h"
#include "fence_real.h"
#include "table.h"

#endif
