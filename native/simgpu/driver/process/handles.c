/* The live handles of this process, so that a stale or foreign one is answered with an error instead of followed.
   Open addressing by pointer; everything here runs under the driver's lock. */
#include "driver.h"

#include <stdlib.h>

struct entry {
    const void *handle; /* NULL: free; TOMB: was used */
    enum handle_kind kind;
};

static const char tomb_place;
#define TOMB ((const void *)&tomb_place)

static struct entry *table;
static size_t room, filled, live; /* filled: live ones and tombs */

static size_t place_of(const void *handle)
{
    return (size_t)(((uintptr_t)handle >> 3) * 0x9E3779B97F4A7C15ull >> 20) & (room - 1);
}

static struct entry *find(const void *handle)
{
    if (!room || !handle)
        return NULL;
    for (size_t at = place_of(handle);; at = (at + 1) & (room - 1)) {
        if (table[at].handle == handle)
            return &table[at];
        if (!table[at].handle)
            return NULL;
    }
}

static void place(const void *handle, enum handle_kind kind)
{
    size_t at = place_of(handle);

    while (table[at].handle)
        at = (at + 1) & (room - 1);
    table[at] = (struct entry){handle, kind};
    ++filled;
    ++live;
}

static bool grow(void)
{
    struct entry *old = table;
    size_t old_room = room, wanted = room ? room : 256;

    while (wanted < (live + 1) * 4)
        wanted *= 2;
    struct entry *fresh = calloc(wanted, sizeof *fresh);
    if (!fresh)
        return false;
    table = fresh;
    room = wanted;
    filled = live = 0;
    for (size_t at = 0; at < old_room; ++at)
        if (old[at].handle && old[at].handle != TOMB)
            place(old[at].handle, old[at].kind);
    free(old);
    return true;
}

bool handle_add(const void *handle, enum handle_kind kind)
{
    if ((filled + 1) * 2 > room && !grow())
        return false;
    place(handle, kind);
    return true;
}

void handle_drop(const void *handle)
{
    struct entry *entry = find(handle);

    if (!entry)
        return;
    entry->handle = TOMB;
    --live;
}

bool handle_is(const void *handle, enum handle_kind kind)
{
    struct entry *entry = find(handle);

    return entry && entry->kind == kind;
}

void *handle_new(size_t size, enum handle_kind kind)
{
    void *handle = calloc(1, size);

    if (handle && handle_add(handle, kind))
        return handle;
    free(handle);
    return NULL;
}

void handle_free(void *handle)
{
    handle_drop(handle);
    free(handle);
}
