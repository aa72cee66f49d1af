#include "value_cache.h"

#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { WORDS_PER_KEY = 16 };

bool value_cache_open(struct value_cache *memo, uint32_t entries)
{
    memo->slots = 2 * entries;
    memo->room = WORDS_PER_KEY * entries;
    memo->used = memo->written = 0;
    memo->entries = calloc(memo->slots, sizeof *memo->entries);
    memo->words = malloc(memo->room * sizeof *memo->words);
    if (memo->entries && memo->words)
        return true;
    value_cache_close(memo);
    return false;
}

void value_cache_close(struct value_cache *memo)
{
    free(memo->entries);
    free(memo->words);
    memo->entries = NULL;
    memo->words = NULL;
}

static uint64_t hash_of(const int16_t *key, uint32_t length)
{
    uint64_t hash = length;
    for (uint32_t n = 0; n < length; n += 4) {
        uint64_t word = 0;
        memcpy(&word, key + n, (length - n < 4 ? length - n : 4) * sizeof *key);
        hash = mixed(hash, word);
    }
    return hash;
}

/* Where the key is, or the free place where it belongs. */
static struct memo_entry *find(const struct value_cache *memo, const int16_t *key, uint32_t length, uint64_t hash)
{
    for (uint32_t slot = (uint32_t)(hash >> 16) & (memo->slots - 1);; slot = (slot + 1) & (memo->slots - 1)) {
        struct memo_entry *entry = &memo->entries[slot];
        if (!entry->length)
            return entry;
        if (entry->hash == hash && entry->length == length && !memcmp(memo->words + entry->at, key, length * sizeof *key))
            return entry;
    }
}

bool value_cache_get(const struct value_cache *memo, const int16_t *key, uint32_t length, int64_t *value)
{
    const struct memo_entry *entry = find(memo, key, length, hash_of(key, length));
    *value = entry->value;
    return entry->length != 0;
}

void value_cache_put(struct value_cache *memo, const int16_t *key, uint32_t length, int64_t value)
{
    if (2 * (memo->used + 1) > memo->slots || memo->written + length > memo->room) {
        memset(memo->entries, 0, memo->slots * sizeof *memo->entries);
        memo->used = memo->written = 0;
    }
    uint64_t hash = hash_of(key, length);
    struct memo_entry *entry = find(memo, key, length, hash);
    if (!entry->length) {
        *entry = (struct memo_entry){hash, memo->written, length, 0};
        memcpy(memo->words + memo->written, key, length * sizeof *key);
        memo->written += length;
        memo->used++;
    }
    entry->value = value;
}
