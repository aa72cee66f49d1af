/* Reads what a runtime writes of a container: where its root file system is, and its process. Does not look into it. */
#ifndef HOOK_BUNDLE_H
#define HOOK_BUNDLE_H

#include "common/text.h"

/* The path of the root file system of the container whose state is read from there (runtime-spec, runtime.md "State",
   config.md "Root"); what was wrong, or NULL. */
const char *bundle_root(int state, struct text *root);
/* The container's process, by the state that is read from there; 0 where it names none. */
int64_t bundle_pid(int state);
/* All of a file; false where it cannot be read. */
bool read_whole(int file, struct text *text);

#endif
