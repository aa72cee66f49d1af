/* Mounts host directories and files at fixed paths in the job's own mount namespace: its share, and what its fence needs. */
#ifndef GPUPOOL_SHARE_H
#define GPUPOOL_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "spec.h"

/* Moves the calling process into a private mount namespace (and, when not root, a user namespace that maps only
   itself), mounts the share and makes the spec's binds, in their order. All or nothing: false says that nothing is mounted,
   and `why` what was refused; nothing else broke. */
bool share_mount(const struct spec *spec, char *why, size_t size);

#endif
