/* The descendants of this process, found through /proc: the job's processes when there is no cgroup. */
#ifndef GPUPOOL_PROCESS_TREE_H
#define GPUPOOL_PROCESS_TREE_H

#include <stddef.h>

/* Sends a signal to every descendant once. The number seen; `denied` counts those that we may not signal. */
size_t signal_process_tree(int number, size_t *denied);

#endif
