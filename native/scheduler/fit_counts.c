/* Counts the nodes on which each of many shapes fits, so that a queue of thousands of shapes knows which a change concerns
 * (src/gpupool/scheduling/filtering/node_counts.py holds the same in NumPy). */
#include <stdbool.h>

#include "scheduler.h"

enum { MIB_BITS = 20 };

static int64_t need_on(const struct kernel_rooms *rooms, int64_t shape, int64_t memory)
{
    if (rooms->need[shape] >= 0)
        return rooms->need[shape];
    return memory * rooms->part[shape] / 1000 >> MIB_BITS << MIB_BITS;
}

static bool fits(const struct kernel_rooms *rooms, int64_t shape, int64_t row)
{
    if (!rooms->open[rooms->group[shape] * rooms->cards_in_all + row])
        return false;
    int64_t milli = rooms->milli[row], size = rooms->size[row], memory = rooms->memory[row];
    if (rooms->whole[shape] && (milli < KERNEL_WHOLE || size < memory))
        return false;
    if (rooms->held[shape] && milli < rooms->held[shape])
        return false;
    return size >= need_on(rooms, shape, memory);
}

static bool takes(const struct kernel_rooms *rooms, int64_t shape, int64_t node)
{
    if (rooms->cpu[node] < rooms->asked_cpu[shape] || rooms->host[node] < rooms->asked_host[shape])
        return false;
    int64_t found = 0;
    for (int64_t at = node * rooms->width; at < node * rooms->width + rooms->cards[node]; at++)
        found += fits(rooms, shape, rooms->rows[at]);
    return found >= rooms->count[shape];
}

void rooms_count(const struct kernel_rooms *rooms, int64_t first, int64_t shapes, const int64_t *nodes, int64_t n, int64_t sign)
{
    for (int64_t shape = first; shape < first + shapes; shape++)
        for (int64_t at = 0; at < n; at++)
            rooms->found[shape] += takes(rooms, shape, nodes[at]) ? sign : 0;
}
