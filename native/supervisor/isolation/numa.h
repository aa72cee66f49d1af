/* NUMA binding: on which processors the job's command runs, and from which nodes it gets memory first. */
#ifndef GPUPOOL_NUMA_H
#define GPUPOOL_NUMA_H

#include <stdbool.h>
#include <stddef.h>

#define NUMA_WORD (8 * sizeof(unsigned long))

/* A list as the kernel writes it ("0-3,8") into bits, of which there are `count`; false for any other text. Cuts the text. */
bool numa_read_list(char *text, unsigned long *bits, size_t count);

/* The calling thread and all that it begins run on these processors alone; false and errno where the kernel refuses. */
bool numa_bind_to_cpus(const unsigned long *cpus, size_t count);

/* Memory comes from these NUMA nodes while they have some, then from any. A kernel or a sandbox without memory policies
 * is no reason not to run: nothing is said of it. */
void numa_prefer_memory_of(const unsigned long *nodes, size_t count);

#endif
