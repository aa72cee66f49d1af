#include "limiter.h"

/* One word per key: 24 bits of the key's hash, 4 bits of samples, 36 bits of nanoseconds. */
#define TAG_SHIFT 40u
#define SAMPLES_SHIFT 36u
#define SAMPLES_MOST 15u
#define NS_MASK ((1ull << SAMPLES_SHIFT) - 1)

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

static uint64_t pack(uint64_t tag, uint64_t samples, uint64_t ns)
{
    return tag << TAG_SHIFT | samples << SAMPLES_SHIFT | (ns < NS_MASK ? ns : NS_MASK);
}

static uint64_t samples_of(uint64_t word)
{
    return word >> SAMPLES_SHIFT & SAMPLES_MOST;
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

struct limiter_cost limiter_predict(const struct limiter_predictions *predictions, uint64_t key)
{
    uint32_t way;
    uint64_t word = find(predictions, key, &way);
    if (!word)
        return (struct limiter_cost){key, LIMITER_UNKNOWN_NS, false};
    uint64_t ns = word & NS_MASK;
    return (struct limiter_cost){key, ns < LIMITER_LONGEST_NS ? ns : LIMITER_LONGEST_NS, true};
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
    uint64_t word = find(predictions, key, &way), samples = word ? samples_of(word) : 0, ns = measured_ns ? measured_ns : 1;
    _Atomic uint64_t *set = predictions->entry[key % LIMITER_SETS];
    if (!word)
        way = victim(set);
    else { /* a mean at first, then a moving one that gives the newest a quarter */
        uint64_t known = word & NS_MASK, weight = samples + 1 < 4 ? samples + 1 : 4;
        ns = (known * (weight - 1) + ns) / weight;
    }
    samples = samples < SAMPLES_MOST ? samples + 1 : SAMPLES_MOST;
    atomic_store_explicit(&set[way], pack(tag_of(key), samples, ns), memory_order_relaxed);
}

void limiter_forget(struct limiter_predictions *predictions, uint64_t key)
{
    uint32_t way;
    if (find(predictions, key, &way))
        atomic_store_explicit(&predictions->entry[key % LIMITER_SETS][way], 0, memory_order_relaxed);
}
