/* Opens and closes everything of a share together: its files, its doorbell, its processes. */
#ifndef GPUPOOL_ARBITER_SHARE_SERVICE_H
#define GPUPOOL_ARBITER_SHARE_SERVICE_H

#include <stddef.h>

#include "share.h"

/* Opens the files, listens, and adopts the processes that an earlier arbiter left in the slots: the dead are cleared, the
   living watched. NULL: `why` tells in a clause. */
struct share *open_service(const char *name, const char *share_directory, const char *usage_directory, char *why, size_t size);
void close_service(struct share *share);

#endif
