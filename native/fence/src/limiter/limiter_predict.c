/* Predictions of what a launch takes: a lock-free table of means and of the distances from them. */
#include "limiter.h"

/* One word per key: 20 bits of the key's hash, 4 bits of samples, a mean and a mean distance from it of 20 bits each: 14 bits
   and the place of the first. */
#define TAG_SHIFT 44u
#define SAMPLES_SHIFT 40u
#define SAMPLES_MOST 15u
#define SHORT_BITS 20u
#define SHORT_MASK ((1ull << SHORT_BITS) - 1)
#define DIGITS 14u
#define NEWEST 8u  /* a mean at first, then a moving one that gives the newest an eighth */
#define YOUNG 8u   /* samples until a mean is believed: what it may take is an unknown launch's, less and less */
#define APART 1u   /* distances from the mean that a launch may take more than it */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32; /* a multiply-xorshift finaliser: any odd constant with well-spread bits serves */
    x *= 0xd6e8feb86659fd93ull;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

uint64_t limiter_key(uint64_t what, uint64_t size)
{
    uint64_t octave = size ? 63u - (uint64_t)__builtin_clzll(size) : 0;
    uint64_t upper_half = octave ? size >> (octave - 1) & 1 : 0;
    return mix(what * 128 + octave * 2 + upper_half) | 1;
}

static uint64_t tag_of(uint64_t key)
{
    return key >> TAG_SHIFT | 1;
}

static uint64_t shorten(uint64_t ns)
{
    uint64_t shift = ns >> DIGITS ? 64u - (uint64_t)__builtin_clzll(ns) - DIGITS : 0;
    return shift << DIGITS | ns >> shift;
}

static uint64_t lengthen(uint64_t word)
{
    uint64_t shift = word >> DIGITS;
    return (word & ((1ull << DIGITS) - 1)) << shift;
}

struct learnt {
    uint64_t samples, mean_ns, off_ns;
};

static uint64_t pack(uint64_t tag, const struct learnt *it)
{
    uint64_t mean = it->mean_ns < LIMITER_LONGEST_NS ? it->mean_ns : LIMITER_LONGEST_NS;
    uint64_t off = it->off_ns < LIMITER_LONGEST_NS ? it->off_ns : LIMITER_LONGEST_NS;
    return tag << TAG_SHIFT | it->samples << SAMPLES_SHIFT | shorten(mean) << SHORT_BITS | shorten(off);
}

static uint64_t samples_of(uint64_t word)
{
    return word >> SAMPLES_SHIFT & SAMPLES_MOST;
}

static struct learnt unpack(uint64_t word)
{
    return (struct learnt){samples_of(word), lengthen(word >> SHORT_BITS & SHORT_MASK), lengthen(word & SHORT_MASK)};
}

static uint64_t find(const struct limiter_predictions *p, uint64_t key, uint32_t *way)
{
    const _Atomic uint64_t *set = p->entry[key % LIMITER_SETS];
    for (*way = 0; *way < LIMITER_WAYS; ++*way) {
        uint64_t word = atomic_load_explicit(&set[*way], memory_order_relaxed);
        if (word >> TAG_SHIFT == tag_of(key))
            return word;
    }
    return 0;
}

/* Written where it is kept: a copy of it would wait for these very stores. */
void limiter_predict(const struct limiter_predictions *predictions, uint64_t key, struct limiter_cost *cost)
{
    uint32_t way;
    uint64_t word = find(predictions, key, &way);
    cost->key = key;
    cost->known = word != 0;
    cost->uncertain = true;
    cost->predicted_ns = cost->mean_ns = LIMITER_UNKNOWN_NS;
    if (!word)
        return;
    struct learnt it = unpack(word);
    bool is_spread = it.off_ns * 4 > it.mean_ns;
    uint64_t most = is_spread ? it.mean_ns + APART * it.off_ns : it.mean_ns;
    if (it.samples < YOUNG)
        most += LIMITER_UNKNOWN_NS / it.samples;
    cost->mean_ns = it.mean_ns;
    cost->predicted_ns = most < LIMITER_LONGEST_NS ? most : LIMITER_LONGEST_NS;
    cost->uncertain = is_spread && most >= LIMITER_UNCERTAIN_NS;
}

/* An empty way, else the one that was measured least. */
static uint32_t victim(const _Atomic uint64_t *set)
{
    uint32_t least = 0;
    uint64_t fewest = UINT64_MAX;
    for (uint32_t way = 0; way < LIMITER_WAYS; way++) {
        uint64_t word = atomic_load_explicit(&set[way], memory_order_relaxed);
        uint64_t samples = word ? samples_of(word) + 1 : 0;
        if (samples < fewest) {
            fewest = samples;
            least = way;
        }
    }
    return least;
}

void limiter_learn(struct limiter_predictions *predictions, uint64_t key, uint64_t measured_ns)
{
    uint32_t way;
    uint64_t word = find(predictions, key, &way), ns = measured_ns ? measured_ns : 1;
    _Atomic uint64_t *set = predictions->entry[key % LIMITER_SETS];
    struct learnt it = {0, ns, 0};
    if (!word)
        way = victim(set);
    else {
        it = unpack(word);
        uint64_t weight = it.samples + 1 < NEWEST ? it.samples + 1 : NEWEST;
        uint64_t off = ns > it.mean_ns ? ns - it.mean_ns : it.mean_ns - ns;
        it.off_ns = (it.off_ns * (weight - 1) + off) / weight;
        it.mean_ns = (it.mean_ns * (weight - 1) + ns + weight / 2) / weight;
    }
    it.samples += it.samples < SAMPLES_MOST;
    atomic_store_explicit(&set[way], pack(tag_of(key), &it), memory_order_relaxed);
}

void limiter_doubt(struct limiter_predictions *predictions, uint64_t key, uint64_t off_ns)
{
    uint32_t way;
    uint64_t word = find(predictions, key, &way);
    if (!word)
        return;
    struct learnt it = unpack(word);
    it.off_ns += off_ns / NEWEST;
    atomic_store_explicit(&predictions->entry[key % LIMITER_SETS][way], pack(tag_of(key), &it), memory_order_relaxed);
}

void limiter_forget(struct limiter_predictions *predictions, uint64_t key)
{
    uint32_t way;
    if (find(predictions, key, &way))
        atomic_store_explicit(&predictions->entry[key % LIMITER_SETS][way], 0, memory_order_relaxed);
}
