#define _GNU_SOURCE
#include "numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/small_file.h"

static bool read_range(char *range, uint64_t *first, uint64_t *last, size_t count)
{
    char *dash = strchr(range, '-');

    if (dash)
        *dash++ = '\0';
    return parse_number(range, count - 1, first) && parse_number(dash ? dash : range, count - 1, last) && *first <= *last;
}

bool numa_read_list(char *text, unsigned long *bits, size_t count)
{
    uint64_t first, last;

    for (char *range = text, *next; range; range = next) {
        next = strchr(range, ',');
        if (next)
            *next++ = '\0';
        if (!read_range(range, &first, &last, count))
            return false;
        for (uint64_t number = first; number <= last; number++)
            bits[number / NUMA_WORD] |= 1ul << number % NUMA_WORD;
    }
    return true;
}

bool numa_bind_to_cpus(const unsigned long *cpus, size_t count)
{
    return sched_setaffinity(0, count / 8, (const cpu_set_t *)cpus) == 0;
}

void numa_prefer_memory_of(const unsigned long *nodes, size_t count)
{
    /* Several nodes need Linux 5.15; before it, the first of them. */
    if (syscall(SYS_set_mempolicy, MPOL_PREFERRED_MANY, nodes, count) < 0)
        syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, count);
}
