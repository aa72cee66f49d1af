/* Near the job's cards: on which processors its command runs, and from which NUMA nodes it has memory first. */
#ifndef GPUPOOL_NEAR_H
#define GPUPOOL_NEAR_H

#include <stdbool.h>
#include <stddef.h>

#define NEAR_WORD (8 * sizeof(unsigned long))

/* A list as the kernel writes it ("0-3,8") into bits, of which there are `count`; false for any other text. Cuts the text. */
bool near_read_list(char *text, unsigned long *bits, size_t count);

/* The calling thread and all that it begins run on these processors alone; false and errno where the kernel refuses. */
bool near_keep_to(const unsigned long *cpus, size_t count);

/* Memory comes from these NUMA nodes while they have some, then from any. A kernel or a sandbox without memory policies
 * is no reason not to run: nothing is said of it. */
void near_prefer_memory_of(const unsigned long *nodes, size_t count);

#endif
