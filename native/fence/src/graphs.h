/* Memory nodes of graphs. A card's graph memory is one pool of the process, which the driver fills at launches and keeps
   until it is trimmed. Charged is the larger of what the executable graphs may need and what the driver says is reserved. */
#ifndef GPUPOOL_GRAPHS_H
#define GPUPOOL_GRAPHS_H

#include <stdbool.h>

void graphs_settle(int card);

/* Lets the driver give up what no graph uses now. True: something came back. */
bool graphs_give_back(int card);

#endif
