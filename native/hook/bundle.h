/* Finds a container's root file system in what its runtime writes. Does not look into it. */
#ifndef HOOK_BUNDLE_H
#define HOOK_BUNDLE_H

#include "common/text.h"

/* The path of the root file system of the container whose state is read from there (runtime-spec, runtime.md "State",
   config.md "Root"); what was wrong, or NULL. */
const char *bundle_root(int state, struct text *root);

#endif
