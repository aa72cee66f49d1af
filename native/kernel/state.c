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
    state->part[end] = (int16_t)size;
}

static void remove_at(struct state *state, int at)
{
    state->parts--;
    for (; at < state->parts; at++)
        state->part[at] = state->part[at + 1];
}

void state_read(const struct kernel_pool *pool, int64_t node, struct state *state)
{
    state->cpu = pool->cpu[node];
    state->kind = pool->kind[node];
    state->whole = state->parts = 0;
    const int64_t *cards = pool->grid + node * pool->width;
    for (int64_t place = 0; place < pool->width; place++) {
        if (cards[place] >= KERNEL_WHOLE)
            state->whole++;
        else if (cards[place] > 0)
            insert(state, state->parts++, (int)cards[place]);
    }
}

void state_cut(struct state *state, int size, int milli)
{
    int left = size - milli, at = state->parts;
    if (!milli)
        return;
    if (size == KERNEL_WHOLE) {
        state->whole--;
        state->parts++;
    } else {
        for (at = 0; state->part[at] != size;)
            at++;
    }
    insert(state, at, left);
    if (!left)
        remove_at(state, 0);
}

/* The first part of at least `milli`. */
static int tightest(const struct state *state, int64_t milli)
{
    int at = 0;
    while (at < state->parts && state->part[at] < milli)
        at++;
    return at;
}

/* Shares of one claim sit on cards of their own: each next one goes to a part above the last one's. */
static bool place_several(struct state *state, int64_t count, int milli)
{
    int sizes[KERNEL_MAX_CARDS], found = 0;
    for (int at = tightest(state, milli); at < state->parts && found < count; at++)
        sizes[found++] = state->part[at];
    if (count - found > state->whole)
        return false;
    while (found < count)
        sizes[found++] = KERNEL_WHOLE;
    while (found > 0)
        state_cut(state, sizes[--found], milli);
    return true;
}

bool state_place(struct state *state, int64_t count, int64_t milli)
{
    if (count <= 0 || milli <= 0)
        return true;
    if (count > KERNEL_MAX_CARDS)
        return false;
    if (milli >= KERNEL_WHOLE) {
        state->whole -= (int)count;
        return state->whole >= 0;
    }
    return place_several(state, count, (int)milli);
}

/* What is free of the card at this place if the shape may take it, else -1. */
static int usable(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int64_t place)
{
    int64_t at = node * pool->width + place, left = pool->grid[at];
    if (left < 0 || left < shape->milli || shape->why[pool->rows[at]])
        return -1;
    return left < KERNEL_WHOLE ? (int)left : KERNEL_WHOLE;
}

int fitting_sizes(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int16_t *sizes)
{
    int found = 0;
    for (int64_t place = 0; place < pool->width; place++) {
        int size = usable(pool, shape, node, place), known = 0;
        while (known < found && sizes[known] != size)
            known++;
        if (size >= 0 && known == found)
            sizes[found++] = (int16_t)size;
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

static int64_t tightness(void *context, int size)
{
    (void)context;
    return -size;
}

int64_t order_plainly(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node, int64_t *rows)
{
    return order_cards(pool, shape, node, tightness, NULL, rows);
}
