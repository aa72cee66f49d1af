/* Reserves memory of a card, and frees unused memory before it refuses. */
#ifndef GPUPOOL_RESERVE_H
#define GPUPOOL_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* Reserves; false when it is over the limit, which is then counted as a refusal. Before that it clears the slots of dead
   processes and gives back what pools and graphs of this process keep unused. May wait, up to about a second, while others'
   reservations are undecided. */
bool reserve_memory(int card, uint64_t bytes);

#endif
