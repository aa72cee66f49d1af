/* Adds what is taken or given back to the columns of src/gpupool/scheduling/filtering/free_capacity.py. */
#include "scheduler.h"

void amounts_add(const struct kernel_amounts *amounts, int64_t sign, int64_t node, const int64_t *rows, int64_t n,
                 int64_t milli, const int64_t *sizes, int64_t cpu, int64_t host)
{
    for (int64_t at = 0; at < n; at++) {
        int64_t row = rows[at];
        amounts->milli[row] += sign * milli;
        amounts->size[row] += sign * sizes[at];
        if (amounts->open[row])
            amounts->grid[amounts->slot[row]] = amounts->milli[row];
    }
    amounts->cpu[node] += sign * cpu;
    amounts->host[node] += sign * host;
}
