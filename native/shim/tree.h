/* Everything that descends from this process, found through /proc: the job's processes when there is no cgroup. */
#ifndef GPUPOOL_TREE_H
#define GPUPOOL_TREE_H

#include <stddef.h>

/* Sends a signal to every descendant once. The number seen; `denied` counts those that we may not signal. */
size_t tree_signal(int number, size_t *denied);

#endif
