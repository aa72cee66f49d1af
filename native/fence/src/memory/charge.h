/* The steps of an allocation (reserve, driver, remember the handle, commit) and of a free, shared by all handlers. */
#ifndef GPUPOOL_CHARGE_H
#define GPUPOOL_CHARGE_H

#include <gpupool/cuda_all.h>
#include <stdbool.h>
#include <stdint.h>

#include "handles.h"

/* card < 0: nothing is charged, the driver will say what is wrong or the memory is not a card's. */
struct charge {
    int card;
    uint64_t bytes;
};

/* Reserves what `bytes` take of the card; CUDA_SUCCESS, or what the caller shall see: no fence, no such card for it, out of memory. */
CUresult charge_begin(struct charge *charge, int card, uint64_t bytes);

/* After the driver answered `result`: commits and remembers the handle, or cancels. Returns `result`. */
CUresult charge_end(const struct charge *charge, CUresult result, enum handle_kind kind, uint64_t key);
void charge_cancel(const struct charge *charge);

/* The handle is remembered as ending with the current context. */
CUresult charge_end_in_context(const struct charge *charge, CUresult result, enum handle_kind kind, uint64_t key);

/* A free: takes the handle out, and puts it back when the driver refused. False: not a handle of ours, only the driver knows it. */
bool charge_take(enum handle_kind kind, uint64_t key, struct handle *handle);
CUresult charge_freed(const struct handle *handle, bool known, CUresult result);

#endif
