/* Stream Fill: a claim goes where it displaces least of what streams of expected claims would still place
 * (docs/decisions/0006-compiled-kernel.md). The score is E / step, rounded down, with
 *
 *     E = count * milli - (V(before) - V(after)) - fresh card - toll of the node's kind - price of the host slots lost
 *
 * V is what streams would place, or, where claims end, what the expected classes could use. It and what one placement makes
 * of it depend on the node alone and are remembered; tolls and prices are added anew. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "scores.h"
#include "state.h"
#include "stream_value.h"

#define NO_WAY INT64_MIN

#define NOT_RATED (-((int64_t)1 << 62)) /* for a node that can not take the shape; callers never ask for it */

enum { RECENT = 1 << 14 }; /* nodes of one make in one state, which a large pool has by the thousand, are looked at once */

/* What a shape does to a node as it was when `seen` was its fingerprint: D on the best used card, D on a free card. Where
 * which card makes no difference there is only one D, and `opened` free cards that it takes. */
struct known {
    uint64_t seen; /* 0: nothing known */
    int64_t used, fresh;
    int32_t opened;
};

struct stream {
    const struct kernel_pool *pool;   /* the caller's, as their columns are */
    const struct stream_hosts *hosts;
    struct values *values;
    int64_t scale, step, fresh_card;
    struct known *known[KERNEL_MAX_SLOTS]; /* per node; made when first asked for */
    struct known recent[RECENT];           /* by fingerprint, whatever the node */
    uint64_t *mended, call;                /* per node: in which call of `stream_mend` it was rated last */
};

static int64_t scale_of(const struct stream_rules *rules, const struct kernel_classes *expected)
{
    int64_t sum = 0;
    for (int64_t class = 0; rules->weight && class < expected->size; class++)
        sum += rules->weight[class];
    return rules->weight ? sum : rules->number;
}

struct stream *stream_open(const struct kernel_pool *pool, const struct kernel_classes *expected,
                           const struct stream_rules *rules, const struct stream_hosts *hosts)
{
    struct stream *stream = pool->width <= KERNEL_MAX_CARDS ? calloc(1, sizeof *stream) : NULL;
    if (!stream)
        return NULL;
    stream->pool = pool;
    stream->hosts = hosts;
    stream->scale = scale_of(rules, expected);
    stream->step = rules->step;
    stream->fresh_card = rules->fresh_card;
    stream->values = values_open(pool->kinds, expected, rules);
    stream->mended = calloc((size_t)(pool->nodes ? pool->nodes : 1), sizeof *stream->mended);
    if (stream->values && stream->mended)
        return stream;
    stream_close(stream);
    return NULL;
}

void stream_close(struct stream *stream)
{
    if (!stream)
        return;
    for (int slot = 0; slot < KERNEL_MAX_SLOTS; slot++)
        free(stream->known[slot]);
    free(stream->mended);
    values_close(stream->values);
    free(stream);
}

int64_t stream_value(struct stream *stream, int64_t node)
{
    struct state state;
    state_read(stream->pool, node, &state);
    return values_of(stream->values, &state);
}

int64_t stream_computed(const struct stream *stream)
{
    return values_computed(stream->values);
}

/* Everything of the node and of the shape that D depends on, in one word; never 0. One change in 2^64 goes unseen. Words are
 * mixed in one after the other: of two that were only combined by "exclusive or", exchanged ones would look the same. */
static uint64_t fingerprint(const struct kernel_pool *pool, const struct kernel_shape *shape, int64_t node)
{
    uint64_t print = mixed(mixed(1, (uint64_t)shape->cpu), (uint64_t)pool->cpu[node]);
    print = mixed(print, (uint64_t)pool->kind[node]);
    print = mixed(print, (uint64_t)(shape->count << 32 | shape->milli));
    for (int64_t at = node * pool->width; at < (node + 1) * pool->width; at++)
        if (pool->grid[at] != KERNEL_NO_CARD)
            print = mixed(print, (uint64_t)pool->grid[at] << 1 | !shape->why[pool->rows[at]]);
    for (int64_t at = node * pool->width; pool->size && at < (node + 1) * pool->width; at++)
        if (pool->grid[at] >= 0)
            print = mixed(mixed(print, (uint64_t)pool->size[pool->rows[at]]), (uint64_t)pool->memory[pool->rows[at]]);
    if (shape->need)
        print = mixed(print, (uint64_t)shape->need[pool->kind[node]]);
    return print ? print : 1;
}

/* A shape about to go on a node. */
struct trial {
    struct stream *stream;
    const struct kernel_shape *shape;
    struct state before;
    int seat;
    int64_t base; /* D on a card is this, plus V after */
};

static struct trial trial_of(struct stream *stream, const struct kernel_shape *shape, int64_t node)
{
    struct trial trial = {.stream = stream, .shape = shape};
    state_read(stream->pool, node, &trial.before);
    trial.seat = seat_of(shape, trial.before.kind);
    trial.base = shape->count * shape->milli * stream->scale - values_of(stream->values, &trial.before);
    return trial;
}

static int64_t gain_on(const struct trial *trial, int size)
{
    struct state after = trial->before;
    after.cpu -= trial->shape->cpu;
    state_cut(&after, size, trial->seat);
    return trial->base + values_of(trial->stream->values, &after);
}

static void learn_share(const struct trial *trial, int64_t node, struct known *known)
{
    int sizes[KERNEL_MAX_CARDS];
    for (int n = fitting_sizes(trial->stream->pool, trial->shape, node, sizes) - 1; n >= 0; n--) {
        int64_t gain = gain_on(trial, sizes[n]);
        int64_t *best = milli_of(sizes[n]) >= KERNEL_WHOLE ? &known->fresh : &known->used;
        if (gain > *best)
            *best = gain;
    }
}

static void learn(struct stream *stream, const struct kernel_shape *shape, int64_t node, struct known *known)
{
    struct trial trial = trial_of(stream, shape, node);
    known->used = known->fresh = NO_WAY;
    known->opened = 0;
    if (one_share(shape)) {
        learn_share(&trial, node, known);
        return;
    }
    struct state after = trial.before;
    after.cpu -= shape->cpu;
    if (state_place(&after, shape->count, trial.seat))
        known->used = trial.base + values_of(stream->values, &after);
    known->opened = state_bare(&trial.before) - state_bare(&after);
}

/* In thousandths, with what a slot counts that lacks some cards. */
static int64_t slots_of(const struct stream_hosts *hosts, int64_t group, int64_t whole, int64_t cpu)
{
    int64_t count = hosts->count[group], each = hosts->cpu[group];
    int64_t by_cards = whole / count, over = whole % count;
    int64_t by_cpu = each ? cpu / each : by_cards + 1;
    if (by_cpu <= by_cards)
        return 1000 * by_cpu;
    return 1000 * by_cards + (over ? hosts->near_slot[group * hosts->lacks + count - over] : 0);
}

/* Slots for dear groups of hosts that go when the node has `fewer` free cards and the shape's processors less. */
static int64_t hosts_lost(const struct stream *stream, const struct state *before, int64_t fewer, int64_t cpu)
{
    const struct stream_hosts *hosts = stream->hosts;
    int64_t price = 0, bare = state_bare(before);
    for (int64_t group = 0; group < hosts->size; group++) {
        if (!hosts->price[group] || !hosts->allowed[group * stream->pool->kinds + before->kind])
            continue;
        int64_t lost =
            slots_of(hosts, group, bare, before->cpu) - slots_of(hosts, group, bare - fewer, before->cpu - cpu);
        price += hosts->price[group] * lost;
    }
    return price / 1000;
}

static bool any_dear(const struct stream_hosts *hosts)
{
    for (int64_t group = 0; group < hosts->size; group++)
        if (hosts->price[group])
            return true;
    return false;
}

/* E but for the toll, when the shape takes `opened` free cards. */
static int64_t paid(const struct stream *stream, const struct kernel_shape *shape, const struct state *before, int64_t gain,
                    int64_t opened, bool dear)
{
    if (shape->milli < KERNEL_WHOLE)
        gain -= opened * stream->fresh_card;
    return dear ? gain - hosts_lost(stream, before, opened, shape->cpu) : gain;
}

static const struct known *recent(struct stream *stream, const struct kernel_shape *shape, int64_t node, uint64_t print)
{
    struct known *known = &stream->recent[print >> 32 & (RECENT - 1)];
    if (known->seen != print) {
        learn(stream, shape, node, known);
        known->seen = print;
    }
    return known;
}

static int64_t rate(struct stream *stream, const struct kernel_shape *shape, struct known *known, const int64_t *toll,
                    int64_t node, bool dear)
{
    uint64_t print = fingerprint(stream->pool, shape, node);
    struct state before = {.kind = stream->pool->kind[node]};
    int64_t best = INT64_MIN;
    if (known->seen != print)
        *known = *recent(stream, shape, node, print);
    if (dear)
        state_read(stream->pool, node, &before);
    if (known->used != NO_WAY)
        best = paid(stream, shape, &before, known->used, known->opened, dear);
    if (known->fresh != NO_WAY) {
        int64_t fresh = paid(stream, shape, &before, known->fresh, 1, dear);
        best = fresh > best ? fresh : best;
    }
    return best == INT64_MIN ? NOT_RATED : floor_div(best - toll[before.kind], stream->step);
}

static struct known *known_of(struct stream *stream, int64_t slot)
{
    if (!stream->known[slot])
        stream->known[slot] = calloc((size_t)stream->pool->nodes, sizeof **stream->known);
    return stream->known[slot];
}

void stream_rate(struct stream *stream, const struct kernel_shape *shape, int64_t slot, const int64_t *toll,
                 const int64_t *nodes, int64_t n, int64_t *scores)
{
    struct known unkept = {0}, *known = known_of(stream, slot);
    bool dear = any_dear(stream->hosts);
    for (int64_t at = 0; at < n; at++)
        scores[at] = rate(stream, shape, known ? &known[nodes[at]] : &unkept, toll, nodes[at], dear);
}

void stream_mend(struct stream *stream, const struct kernel_shape *shape, int64_t slot, const int64_t *toll,
                 const struct kernel_scores *scores, const int64_t *nodes, int64_t n)
{
    struct known unkept = {0}, *known = known_of(stream, slot);
    bool dear = any_dear(stream->hosts);
    stream->call++;
    for (int64_t at = 0; at < n; at++) {
        int64_t node = nodes[at], score = KERNEL_NOT_FEASIBLE;
        if (stream->mended[node] == stream->call)
            continue; /* what changed several times is listed several times */
        stream->mended[node] = stream->call;
        if (scores->roomy[node])
            score = rate(stream, shape, known ? &known[node] : &unkept, toll, node, dear);
        scores_set(scores, scores->rank[node], score);
    }
}

/* A trial whose cards are rated beside each other. */
struct choice {
    struct trial trial;
    int64_t toll;
    bool dear;
};

static int64_t score_on(void *context, int size)
{
    const struct choice *choice = context;
    const struct trial *trial = &choice->trial;
    int64_t gain = gain_on(trial, size);
    gain = paid(trial->stream, trial->shape, &trial->before, gain, milli_of(size) >= KERNEL_WHOLE, choice->dear);
    return floor_div(gain - choice->toll, trial->stream->step);
}

int64_t stream_choose(struct stream *stream, const struct kernel_shape *shape, const int64_t *toll, int64_t node,
                      int64_t *rows)
{
    if (!one_share(shape))
        return order_plainly(stream->pool, shape, node, rows);
    struct choice choice = {trial_of(stream, shape, node), toll[stream->pool->kind[node]], any_dear(stream->hosts)};
    return order_cards(stream->pool, shape, node, score_on, &choice, rows);
}
