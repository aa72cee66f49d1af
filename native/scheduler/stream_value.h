/* V of a node: how much of it streams of random expected claims would fill, milli-devices added up over all streams
 * (docs/decisions/0006-compiled-kernel.md tells how a stream is walked). A pure function of the node's state. */
#ifndef GPUPOOL_SCHEDULER_STREAM_VALUE_H
#define GPUPOOL_SCHEDULER_STREAM_VALUE_H

#include "state.h"

struct values;

/* NULL: no memory. */
struct values *values_open(int64_t kinds, const struct kernel_classes *expected, const struct stream_rules *rules);
void values_close(struct values *values);
int64_t values_of(struct values *values, const struct state *state);
int64_t values_computed(const struct values *values);

#endif
