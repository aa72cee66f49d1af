/* Finds other copies of the driver in this process, which the fence would not see. */
#ifndef GPUPOOL_DUPLICATE_DRIVER_H
#define GPUPOOL_DUPLICATE_DRIVER_H

#include <stdbool.h>

/* Whether a libcuda other than this stand-in and the driver behind it is mapped, in any namespace of the linker. */
bool has_duplicate_driver(void);

#endif
