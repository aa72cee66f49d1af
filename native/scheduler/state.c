#include "state.h"

#include <stdlib.h>
#include <string.h>

void *copied(const void *from, size_t bytes)
{
    void *to = malloc(bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, from, bytes);
    return to;
}

/* Puts a size where it belongs among parts [0, end), which leaves a gap at `end`. */
static void insert(struct state *state, int end, int size)
{
    while (end > 0 && state->part[end - 1] > size) {
        state->part[end] = state->part[end - 1];
        end--;
    }
    state->part[end] = size;
}

static void remove_at(struct state *state, int at)
{
    state->parts--;
    for (; at < state->parts; at++)
        state->part[at] = state->part[at + 1];
}

/* What is free of the card at this place; below 0 where no card is open or more is promised of it than it has. */
static int free_of(const struct kernel_pool *pool, int64_t at)
{
    int64_t left = pool->grid[at];
    if (left < 0)
        return -1;
    left = left < KERNEL_WHOLE ? left : KERNEL_WHOLE;
    if (!pool->size)
        return part_of(left, 0);
    int64_t size = pool->size[pool->rows[at]], memory = pool->memory[pool->rows[at]];
    int64_t free = memory > 0 ? floor_div(size * 1000, memory) : 1000;
    return part_of(left, free < 0 ? 0 : free < 1000 ? free : 1000);
}

static int full_card(const struct kernel_pool *pool)
{
    return part_of(KERNEL_WHOLE, pool->size ? 1000 : 0);
}

void state_read(const struct kernel_pool *pool, int64_t node, struct state *state)
{
    state->cpu = pool->cpu[node];
    state->kind = pool->kind[node];
    state->full = full_card(pool);
    state->whole = state->parts = 0;
    for (int64_t at = node * pool->width; at < (node + 1) * pool->width; at++) {
        int size = free_of(pool, at);
        if (size >= state->full)
            state->whole++;
        else if (size > 0 && milli_of(size) > 0)
            insert(state, state->parts++, size);
    }
}

int state_bare(const struct state *state)
{
    int bare = state->whole;
    for (int at = state->parts - 1; at >= 0 && milli_of(state->part[at]) >= KERNEL_WHOLE; at--)
        bare++;
    return bare;
}

int seat_of(const struct kernel_shape *shape, int64_t kind)
{
    return part_of(shape->milli, shape->need ? shape->need[kind] : 0);
}

void state_cut(struct state *state, int size, int seat)
{
    int left = part_less(size, seat), at = state->parts;
    if (!milli_of(seat))
        return;
    if (size == state->full) {
        state->whole--;
        state->parts++;
    } else {
        for (at = 0; state->part[at] != size;)
            at++;
    }
    insert(state, at, left);
    if (!milli_of(left))
        remove_at(state, 0);
}

/* The tightest parts that take the seat, at most so many; returns how many. */
static int tightest_parts(const struct state *state, int64_t count, int seat, int *sizes)
{
    int found = 0;
    for (int at = 0; at < state->parts && found < count; at++)
        if (part_takes(state->part[at], seat))
            sizes[found++] = state->part[at];
    return found;
}

/* Shares of one claim sit on cards of their own: each next one goes to a part above the last one's. By bytes it fits; where
 * rounded thousandths do not say so, compute alone tells which cards they are. */
static bool place_several(struct state *state, int64_t count, int seat)
{
    int sizes[KERNEL_MAX_CARDS], found = tightest_parts(state, count, seat, sizes);
    if (count - found > state->whole)
        found = tightest_parts(state, count, part_of(milli_of(seat), 0), sizes);
    if (count - found > state->whole)
        return false;
    while (found < count)
        sizes[found++] = state->full;
    while (found > 0)
        state_cut(state, sizes[--found], seat);
    return true;
}

bool state_place(struct state *state, int64_t count, int seat)
{
    if (count <= 0 || milli_of(seat) <= 0)
        return true;
    if (count > KERNEL_MAX_CARDS)
        return false;
    if (milli_of(seat) >= KERNEL_WHOLE) {
        state->whole -= (int)count;
        return state->whole >= 0;
    }
    return place_several(state, count, seat);
}

/* What is free of the card at this place if the shape may take it, else -1. A share that holds nothing may also take a card
 * of which more is promised than it has; nothing is free of that. */
static int usable(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int64_t place)
{
    int64_t at = node * pool->width + place, left = pool->grid[at];
    if (left == KERNEL_NO_CARD || (shape->milli && left < shape->milli) || shape->why[pool->rows[at]])
        return -1;
    int size = free_of(pool, at);
    return size < 0 ? 0 : size;
}

int fitting_sizes(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int *sizes)
{
    int found = 0;
    for (int64_t place = 0; place < pool->width; place++) {
        int size = usable(pool, shape, node, place), known = 0;
        while (known < found && sizes[known] != size)
            known++;
        if (size >= 0 && known == found)
            sizes[found++] = size;
    }
    return found;
}

int64_t order_cards(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, card_score *score,
                    void *context, int64_t *rows)
{
    int64_t scores[KERNEL_MAX_CARDS], found = 0;
    for (int64_t place = 0; place < pool->width; place++) {
        int size = usable(pool, shape, node, place);
        if (size < 0)
            continue;
        int64_t mine = score(context, size), at = found++;
        for (; at > 0 && scores[at - 1] < mine; at--) {
            scores[at] = scores[at - 1];
            rows[at] = rows[at - 1];
        }
        scores[at] = mine;
        rows[at] = pool->rows[node * pool->width + place];
    }
    return found;
}

/* By compute alone: of equals the first. */
static int64_t tightness(void *context, int size)
{
    (void)context;
    return -milli_of(size);
}

int64_t order_plainly(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int64_t *rows)
{
    return order_cards(pool, shape, node, tightness, NULL, rows);
}
