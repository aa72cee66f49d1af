/* Tells the agent of this node which cgroups a new container is in. Knows nothing of limits and of images. */
#ifndef GPUPOOL_HOOK_REPORT_H
#define GPUPOOL_HOOK_REPORT_H

#include <stdint.h>

/* Returns once the agent has answered that the limits are in force; else why they are not, as the agent says it, or why
   the report did not reach the agent. Waits for some seconds at most. The text lasts until the next call. */
const char *report_container(const char *socket_path, const char *allocation, int64_t pid);

#endif
