#include "handles.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "process/state.h"

#define SHARDS 64u
#define FIRST_ROOM 32u

/* Open addressing; kind 0 is an empty place. Never more than half full. */
struct shard {
    pthread_mutex_t lock;
    struct handle *place;
    uint32_t room, used; /* room: a power of two */
};

static _Atomic(struct shard *) shards;

/* The pages stay where they are in a child, emptied. Two threads may both make them: one lot is left over, once. */
static struct shard *all_shards(void)
{
    struct shard *found = atomic_load(&shards), *made;
    if (found)
        return found;
    made = fence_process_memory(SHARDS * sizeof *made);
    if (made && atomic_compare_exchange_strong(&shards, &found, made))
        return made;
    return found;
}

static uint64_t hash(uint32_t kind, uint64_t key)
{
    uint64_t mixed = (key ^ (uint64_t)kind << 56) * 0x9e3779b97f4a7c15ull;
    return mixed ^ mixed >> 32;
}

static struct shard *shard_of(uint32_t kind, uint64_t key)
{
    struct shard *all = all_shards();
    return all ? &all[hash(kind, key) % SHARDS] : NULL;
}

static uint32_t home(const struct shard *shard, uint32_t kind, uint64_t key)
{
    return (uint32_t)(hash(kind, key) / SHARDS) & (shard->room - 1);
}

/* The handle's place, or the empty one where it would go. The shard has room. */
static struct handle *place_of(const struct shard *shard, uint32_t kind, uint64_t key)
{
    uint32_t at = home(shard, kind, key);
    while (shard->place[at].kind && (shard->place[at].kind != kind || shard->place[at].key != key))
        at = (at + 1) & (shard->room - 1);
    return &shard->place[at];
}

static bool make_room(struct shard *shard)
{
    if (shard->room && shard->used < shard->room / 2)
        return true;
    struct shard wider = {.room = shard->room ? shard->room * 2 : FIRST_ROOM};
    wider.place = calloc(wider.room, sizeof *wider.place);
    if (!wider.place)
        return shard->room && shard->used + 1 < shard->room;
    for (uint32_t i = 0; i < shard->room; i++)
        if (shard->place[i].kind)
            *place_of(&wider, shard->place[i].kind, shard->place[i].key) = shard->place[i];
    free(shard->place);
    shard->place = wider.place;
    shard->room = wider.room;
    return true;
}

bool handles_add(const struct handle *handle)
{
    struct shard *shard = shard_of(handle->kind, handle->key);
    if (!shard)
        return false;
    pthread_mutex_lock(&shard->lock);
    bool has_room = make_room(shard);
    if (has_room) {
        struct handle *place = place_of(shard, handle->kind, handle->key);
        shard->used += !place->kind;
        *place = *handle;
    }
    pthread_mutex_unlock(&shard->lock);
    return has_room;
}

/* Empties a place and moves up those behind it that would no longer be found. */
static void remove_at(struct shard *shard, uint32_t hole)
{
    uint32_t mask = shard->room - 1;
    for (uint32_t at = (hole + 1) & mask; shard->place[at].kind; at = (at + 1) & mask) {
        uint32_t wanted = home(shard, shard->place[at].kind, shard->place[at].key);
        if (((at - wanted) & mask) < ((at - hole) & mask))
            continue;
        shard->place[hole] = shard->place[at];
        hole = at;
    }
    memset(&shard->place[hole], 0, sizeof shard->place[hole]);
    shard->used--;
}

static bool look_up(enum handle_kind kind, uint64_t key, struct handle *out, bool take)
{
    struct shard *shard = shard_of(kind, key);
    if (!shard)
        return false;
    pthread_mutex_lock(&shard->lock);
    struct handle *place = shard->room ? place_of(shard, kind, key) : NULL;
    bool found = place && place->kind;
    if (found) {
        *out = *place;
        if (take)
            remove_at(shard, (uint32_t)(place - shard->place));
    }
    pthread_mutex_unlock(&shard->lock);
    return found;
}

bool handles_take(enum handle_kind kind, uint64_t key, struct handle *out)
{
    return look_up(kind, key, out, true);
}

bool handles_find(enum handle_kind kind, uint64_t key, struct handle *out)
{
    return look_up(kind, key, out, false);
}

static const struct handle *covering_in(const struct shard *shard, enum handle_kind kind, uint64_t address)
{
    for (uint32_t at = 0; at < shard->room; at++) {
        const struct handle *place = &shard->place[at];
        if (place->kind == kind && place->key <= address && address - place->key < place->bytes)
            return place;
    }
    return NULL;
}

bool handles_find_covering(enum handle_kind kind, uint64_t address, struct handle *out)
{
    struct shard *all = all_shards();
    bool found = false;
    for (uint32_t i = 0; all && !found && i < SHARDS; i++) {
        pthread_mutex_lock(&all[i].lock);
        const struct handle *place = covering_in(&all[i], kind, address);
        found = place != NULL;
        if (found)
            *out = *place;
        pthread_mutex_unlock(&all[i].lock);
    }
    return found;
}

/* Removing moves others into the place, so it is looked at again. */
static void sweep(struct shard *shard, void *context, void (*gone)(const struct handle *handle))
{
    for (uint32_t at = 0; at < shard->room;) {
        if (!shard->place[at].kind || shard->place[at].context != context) {
            at++;
            continue;
        }
        gone(&shard->place[at]);
        remove_at(shard, at);
    }
}

void handles_sweep(void *context, void (*gone)(const struct handle *handle))
{
    struct shard *all = all_shards();
    for (uint32_t i = 0; all && context && i < SHARDS; i++) {
        pthread_mutex_lock(&all[i].lock);
        sweep(&all[i], context, gone);
        pthread_mutex_unlock(&all[i].lock);
    }
}
