/* Other copies of the driver in this process. */
#ifndef GPUPOOL_FOREIGN_H
#define GPUPOOL_FOREIGN_H

#include <stdbool.h>

/* Whether a libcuda other than this stand-in and the driver behind it is mapped, in any namespace of the linker. */
bool foreign_is_mapped(void);

#endif
