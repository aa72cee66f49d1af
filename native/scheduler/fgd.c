/* FGD (Weng et al., "Beware of Fragmentation", ATC 2023): a claim goes where the fragments that the expected claims see
 * grow least. All in whole numbers: F is kept times the sum of the weights. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { STEPS = 99 };

struct class {
    int64_t count, milli, cpu, weight;
    const uint8_t *allowed;
};

struct fgd {
    const struct kernel_pool *pool; /* the caller's, as its columns are */
    struct class *classes; /* those with cards, by milli ascending */
    uint8_t *allowed;
    int64_t size, elsewhere; /* the weight of those without */
    int64_t steps[STEPS];
};

static int by_milli(const void *a, const void *b)
{
    const struct class *one = a, *other = b;
    return (one->milli > other->milli) - (one->milli < other->milli);
}

struct fgd *fgd_open(const struct kernel_pool *pool, const struct kernel_classes *expected, const int64_t *weight,
                     const int64_t *steps)
{
    struct fgd *fgd = pool->width <= KERNEL_MAX_CARDS ? calloc(1, sizeof *fgd) : NULL;
    if (!fgd)
        return NULL;
    fgd->pool = pool;
    memcpy(fgd->steps, steps, sizeof fgd->steps);
    fgd->classes = calloc((size_t)expected->size + 1, sizeof *fgd->classes);
    fgd->allowed = copied(expected->allowed, (size_t)(expected->size * pool->kinds));
    if (!fgd->classes || !fgd->allowed) {
        fgd_close(fgd);
        return NULL;
    }
    for (int64_t n = 0; n < expected->size; n++) {
        if (expected->count[n] > 0 && expected->milli[n] > 0)
            fgd->classes[fgd->size++] = (struct class){expected->count[n], expected->milli[n], expected->cpu[n], weight[n],
                                                       fgd->allowed + n * pool->kinds};
        else
            fgd->elsewhere += weight[n];
    }
    qsort(fgd->classes, (size_t)fgd->size, sizeof *fgd->classes, by_milli);
    return fgd;
}

void fgd_close(struct fgd *fgd)
{
    if (!fgd)
        return;
    free(fgd->classes);
    free(fgd->allowed);
    free(fgd);
}

/* F of a state: all that is left, for a class that can not run here; the parts that are too small, for one that can. */
static int64_t fragment(const struct fgd *fgd, const struct state *state)
{
    int64_t small = 0, left = state->whole * KERNEL_WHOLE;
    int below = 0, cards = state->parts + state->whole;
    for (int n = 0; n < state->parts; n++)
        left += milli_of(state->part[n]);
    if (!left)
        return 0;
    int64_t sum = fgd->elsewhere * left;
    for (const struct class *class = fgd->classes; class < fgd->classes + fgd->size; class++) {
        while (below < state->parts && milli_of(state->part[below]) < class->milli)
            small += milli_of(state->part[below++]);
        bool runs = state->cpu >= class->cpu && cards - below >= class->count && class->allowed[state->kind];
        sum += class->weight * (runs ? small : left);
    }
    return sum;
}

/* trunc(100 / (1 + exp(-D / 1000))), by the least D of each score. */
static int64_t score_of(const struct fgd *fgd, int64_t gain)
{
    int low = 0, high = STEPS;
    while (low < high) {
        int middle = (low + high) / 2;
        if (fgd->steps[middle] <= gain)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t fgd_fragment(struct fgd *fgd, int64_t node)
{
    struct state state;
    state_read(fgd->pool, node, &state);
    return fragment(fgd, &state);
}

/* One share about to go on a node. */
struct trial {
    const struct fgd *fgd;
    const struct kernel_shape *shape;
    struct state before;
    int64_t fragments;
};

static struct trial trial_of(const struct fgd *fgd, const struct kernel_shape *shape, int64_t node)
{
    struct trial trial = {.fgd = fgd, .shape = shape};
    state_read(fgd->pool, node, &trial.before);
    trial.fragments = fragment(fgd, &trial.before);
    return trial;
}

static int64_t score_on(void *context, int size)
{
    const struct trial *trial = context;
    struct state after = trial->before;
    after.cpu -= trial->shape->cpu;
    state_cut(&after, size, part_of(trial->shape->milli, 0));
    return score_of(trial->fgd, trial->fragments - fragment(trial->fgd, &after));
}

static int64_t rate_share(struct trial *trial, int64_t node)
{
    int sizes[KERNEL_MAX_CARDS];
    int64_t best = 0;
    for (int n = fitting_sizes(trial->fgd->pool, trial->shape, node, sizes) - 1; n >= 0; n--) {
        int64_t score = score_on(trial, sizes[n]);
        best = score > best ? score : best;
    }
    return best;
}

static int64_t rate(const struct fgd *fgd, const struct kernel_shape *shape, int64_t node)
{
    struct trial trial = trial_of(fgd, shape, node);
    if (one_share(shape))
        return rate_share(&trial, node);
    struct state after = trial.before;
    after.cpu -= shape->cpu;
    if (!state_place(&after, shape->count, part_of(shape->milli, 0)))
        return 0;
    return score_of(fgd, trial.fragments - fragment(fgd, &after));
}

void fgd_rate(struct fgd *fgd, const struct kernel_shape *shape, const int64_t *nodes, int64_t n, int64_t *scores)
{
    for (int64_t at = 0; at < n; at++)
        scores[at] = rate(fgd, shape, nodes[at]);
}

int64_t fgd_choose(struct fgd *fgd, const struct kernel_shape *shape, int64_t node, int64_t *rows)
{
    if (!one_share(shape))
        return order_plainly(fgd->pool, shape, node, rows);
    struct trial trial = trial_of(fgd, shape, node);
    return order_cards(fgd->pool, shape, node, score_on, &trial, rows);
}
