/* Shows the job one host directory, read-only, at a fixed path that nobody else sees. */
#ifndef GPUPOOL_SHARE_H
#define GPUPOOL_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* Moves the calling process into a private mount namespace (and, when not root, a user namespace that maps only
   itself) and mounts `directory` at `mount`. false: it could not be; `why` says what was refused, nothing else broke. */
bool share_mount(const char *directory, const char *mount, char *why, size_t size);

#endif
