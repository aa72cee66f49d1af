/* What the card says through NVML, for comparison; and small files. */
#ifndef GUARD_TRUTH_H
#define GUARD_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

bool truth_memory_of(pid_t pid, uint64_t *bytes); /* on the first card; false: NVML does not say */
int truth_others(void);                           /* processes on the first card; -1: NVML does not say */
bool truth_read(const char *path, char *into, size_t size);

#endif
