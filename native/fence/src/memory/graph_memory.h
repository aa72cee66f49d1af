/* Memory nodes of graphs. A card's graph memory is one pool of the process, which the driver fills at launches and keeps
   until it is trimmed. Charged is the larger of what the executable graphs may need and what the driver says is reserved. */
#ifndef GPUPOOL_GRAPH_MEMORY_H
#define GPUPOOL_GRAPH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

void graph_memory_settle(int card);

/* Lets the driver give up what no graph uses now. True: something came back. */
bool graph_memory_trim(int card);

/* `bytes` by card: what the memory nodes of an executable graph need, from now on (`more`) or no longer. */
void graph_memory_change(const uint64_t *bytes, bool more);

#endif
