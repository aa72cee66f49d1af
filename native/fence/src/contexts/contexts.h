/* Contexts cost memory that no allocation shows: the calibrated figure of the limits page is charged for each. */
#ifndef GPUPOOL_CONTEXTS_H
#define GPUPOOL_CONTEXTS_H

/* Gives back everything that ended with a context. */
void contexts_ended(void *context);

#endif
