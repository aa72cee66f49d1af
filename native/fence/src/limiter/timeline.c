#include "timeline.h"

#include <stdbool.h>

#define WORD_NS ((uint64_t)FENCE_FINE_NS * 32)
#define HALF 32u
#define COARSE_SPAN_NS ((uint64_t)FENCE_COARSE_NS * FENCE_COARSE_WORDS)

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The round of a ring that lasts `span_ns`. */
static uint64_t round_of(uint64_t ns, uint64_t span_ns)
{
    return ns / span_ns + 1;
}

/* A word is of this round, of an older one (then it is empty), or already of a newer one. What claims to be of the future is garbage. */
enum age { CURRENT, EMPTY, NEWER };

static enum age age_of(uint64_t word, uint64_t round, uint64_t last_round)
{
    uint64_t found = word >> HALF;
    if (found == round)
        return CURRENT;
    return found > round && found <= last_round ? NEWER : EMPTY;
}

/* Sets the bits of `mask` and returns how many were not set. */
static uint32_t set_bits(_Atomic uint64_t *at, uint32_t mask, uint64_t round, uint64_t last_round)
{
    uint64_t seen = atomic_load_explicit(at, memory_order_relaxed), next;
    uint32_t known;
    do {
        enum age age = age_of(seen, round, last_round);
        if (age == NEWER)
            return (uint32_t)__builtin_popcount(mask);
        known = age == CURRENT ? (uint32_t)seen : 0;
        if ((known & mask) == mask)
            return 0;
        next = round << HALF | known | mask;
    } while (!atomic_compare_exchange_weak_explicit(at, &seen, next, memory_order_relaxed, memory_order_relaxed));
    return (uint32_t)__builtin_popcount(mask & ~known);
}

/* A bit stands for what is at its middle: what is shorter than a bit has one as often as its length says. */
static uint64_t add_fine(struct fence_timeline *timeline, uint64_t from, uint64_t to, uint64_t now)
{
    uint64_t bit = (from + FENCE_FINE_NS / 2) / FENCE_FINE_NS, end = (to + FENCE_FINE_NS / 2) / FENCE_FINE_NS, fresh = 0;
    while (bit < end) {
        uint64_t word = bit / 32, last = least(end, (word + 1) * 32), count = last - bit;
        uint32_t mask = (uint32_t)(((1ull << count) - 1) << bit % 32);
        uint64_t round = round_of(word * WORD_NS, TIMELINE_FINE_SPAN_NS), newest = round_of(now, TIMELINE_FINE_SPAN_NS);
        fresh += set_bits(&timeline->fine[word % FENCE_FINE_WORDS], mask, round, most(round, newest));
        bit = last;
    }
    return fresh * FENCE_FINE_NS;
}

/* Counts up to `ns` more of the bin that begins at `bin`, and returns how much of that it had room for. */
static uint64_t add_coarse(struct fence_timeline *timeline, uint64_t bin, uint64_t ns, uint64_t now)
{
    _Atomic uint64_t *at = &timeline->coarse[bin / FENCE_COARSE_NS % FENCE_COARSE_WORDS];
    uint64_t round = round_of(bin, COARSE_SPAN_NS), newest = most(round, round_of(now, COARSE_SPAN_NS));
    uint64_t seen = atomic_load_explicit(at, memory_order_relaxed), more, next;
    do {
        enum age age = age_of(seen, round, newest);
        if (age == NEWER)
            return ns;
        uint64_t counted = age == CURRENT ? least((uint32_t)seen, FENCE_COARSE_NS) : 0;
        more = least(ns, FENCE_COARSE_NS - counted);
        next = round << HALF | (counted + more);
    } while (!atomic_compare_exchange_weak_explicit(at, &seen, next, memory_order_relaxed, memory_order_relaxed));
    return more;
}

static bool is_fine(uint64_t bin, uint64_t now)
{
    return bin + TIMELINE_FINE_SPAN_NS > now + WORD_NS;
}

uint64_t timeline_add(struct fence_timeline *timeline, uint64_t from, uint64_t to, uint64_t now)
{
    uint64_t fresh = 0;
    to = least(to, now);
    from = most(from, to > LIMITER_LONGEST_NS ? to - LIMITER_LONGEST_NS : 0);
    for (uint64_t bin = from - from % FENCE_COARSE_NS; bin < to; bin += FENCE_COARSE_NS) {
        uint64_t begin = most(from, bin), end = least(to, bin + FENCE_COARSE_NS);
        uint64_t found = end - begin;
        if (is_fine(bin, now)) {
            found = add_fine(timeline, begin, end, now);
            add_coarse(timeline, bin, found, now);
        } else {
            found = add_coarse(timeline, bin, found, now);
        }
        fresh += found;
    }
    return fresh;
}

uint64_t timeline_use(struct fence_timeline *timeline, const struct limiter_batch *batch, uint64_t from, uint64_t to, uint64_t now)
{
    uint64_t fresh = 0;
    for (uint32_t i = 0; i < batch->gaps; i++) {
        fresh += timeline_add(timeline, from, least(to, batch->gap[i].from_ns), now);
        from = most(from, batch->gap[i].to_ns);
    }
    return fresh + timeline_add(timeline, from, to, now);
}
