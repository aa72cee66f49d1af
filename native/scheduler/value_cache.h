/* A cache of computed values by the words that they depend on. Bounded: when it is full it forgets everything, which costs
 * time and changes no answer. Keys are compared word for word, never by their hash alone. */
#ifndef GPUPOOL_SCHEDULER_VALUE_CACHE_H
#define GPUPOOL_SCHEDULER_VALUE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct memo_entry {
    uint64_t hash;
    uint32_t at; /* of the key among the words */
    uint32_t length; /* 0: nothing here */
    int64_t value;
};

struct value_cache {
    struct memo_entry *entries;
    int16_t *words;
    uint32_t slots, used; /* slots: a power of two, at most half of them used */
    uint32_t room, written;
};

/* For up to `entries` values (a power of two) whose keys have 16 words on average. */
bool value_cache_open(struct value_cache *memo, uint32_t entries);
void value_cache_close(struct value_cache *memo);
/* True: `value` is what was put. The key is at least one word long. */
bool value_cache_get(const struct value_cache *memo, const int16_t *key, uint32_t length, int64_t *value);
void value_cache_put(struct value_cache *memo, const int16_t *key, uint32_t length, int64_t value);

#endif
