/* What a placement policy sees of a node: how much of it is free, no matter on which of its cards. */
#ifndef GPUPOOL_SCHEDULER_STATE_H
#define GPUPOOL_SCHEDULER_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "scheduler.h"

/* What is free of a card, or taken of it, is one number: milli-devices, and below them thousandths of its memory. Where memory
 * plays no part those are 0. So numbers are in the order of compute. */
enum { MEMORY_BITS = 11 };

static inline int part_of(int64_t milli, int64_t memory)
{
    return (int)(milli << MEMORY_BITS | memory);
}

static inline int milli_of(int part)
{
    return part >> MEMORY_BITS;
}

static inline int memory_of(int part)
{
    return part & ((1 << MEMORY_BITS) - 1);
}

/* What a seat leaves; memory was rounded, and so is never less than none. */
static inline int part_less(int part, int seat)
{
    int memory = memory_of(part) - memory_of(seat);
    return part_of(milli_of(part) - milli_of(seat), memory > 0 ? memory : 0);
}

static inline bool part_takes(int part, int seat)
{
    return milli_of(part) >= milli_of(seat) && memory_of(part) >= memory_of(seat);
}

struct state {
    int64_t cpu, kind;
    int full;                       /* what a free card is */
    int whole;                      /* cards that are wholly free */
    int parts;                      /* others of which something is free */
    int32_t part[KERNEL_MAX_CARDS]; /* ascending */
};

void state_read(const struct kernel_pool *pool, int64_t node, struct state *state);

/* Cards of which no compute is in use, with or without some of their memory. */
int state_bare(const struct state *state);

/* What one seat of the shape takes of a card of such a node. */
int seat_of(const struct kernel_shape *shape, int64_t kind);

/* What is left when the shape goes where it fits tightest. False: it does not fit (processors are not asked about). */
bool state_place(struct state *state, int64_t count, int seat);

/* One share on a card of this size, which is there; none if the seat has no compute. */
void state_cut(struct state *state, int size, int seat);

/* The different sizes of the cards on which one share may go, in the order of their index; returns how many. */
int fitting_sizes(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int *sizes);

/* The node's cards that may be taken, highest score first, the first of equals first; returns how many. */
typedef int64_t card_score(void *context, int size);
int64_t order_cards(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, card_score *score,
                    void *context, int64_t *rows);
/* Likewise for whole cards, lowest index first, and for several shares, tightest first. */
int64_t order_plainly(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int64_t *rows);

/* One share of a card (a best-effort one holds nothing of it): the only case in which which card it is may matter. */
static inline bool one_share(const struct kernel_shape *shape)
{
    return shape->count == 1 && shape->milli < KERNEL_WHOLE;
}

static inline uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static inline int64_t floor_div(int64_t number, int64_t by)
{
    int64_t whole = number / by;
    return number % by < 0 ? whole - 1 : whole;
}

/* A copy of `bytes` bytes, NULL when there is no memory; never NULL because there are none. */
void *copied(const void *from, size_t bytes);

#endif
