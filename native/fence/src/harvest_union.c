#include "harvest_union.h"

#include <string.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void put(struct harvest_union *all, uint32_t at, uint64_t from, uint64_t to)
{
    if (all->count == HARVEST_SPANS) {
        if (at == 0)
            return; /* older than all that is remembered */
        memmove(all->span, all->span + 1, (at - 1) * sizeof(all->span[0]));
        at--;
    } else {
        memmove(all->span + at + 1, all->span + at, (all->count - at) * sizeof(all->span[0]));
        all->count++;
    }
    all->span[at].from = from;
    all->span[at].to = to;
}

uint64_t harvest_union_add(struct harvest_union *all, uint64_t from, uint64_t to)
{
    if (from >= to)
        return 0;
    uint64_t fresh = to - from;
    uint32_t first = 0, last;
    while (first < all->count && all->span[first].to < from)
        first++;
    for (last = first; last < all->count && all->span[last].from <= to; last++) {
        uint64_t overlap_from = most(from, all->span[last].from), overlap_to = least(to, all->span[last].to);
        fresh -= overlap_to > overlap_from ? overlap_to - overlap_from : 0;
    }
    if (last == first) {
        put(all, first, from, to);
        return fresh;
    }
    all->span[first].from = least(from, all->span[first].from);
    all->span[first].to = most(to, all->span[last - 1].to);
    memmove(all->span + first + 1, all->span + last, (all->count - last) * sizeof(all->span[0]));
    all->count -= last - first - 1;
    return fresh;
}

uint64_t harvest_union_use(struct harvest_union *all, uint64_t from, uint64_t to, uint64_t idle_ns)
{
    uint64_t fresh = harvest_union_add(all, from, to);
    all->idle_ns += least(idle_ns, to > from ? to - from : 0);
    uint64_t less = least(fresh, all->idle_ns);
    all->idle_ns -= less;
    return fresh - less;
}
