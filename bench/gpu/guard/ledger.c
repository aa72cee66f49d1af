#include "ledger.h"
#include <string.h>

bool class_takes_card_memory(uint32_t class_id)
{
    return class_id == CLASS_MEMORY_LOCAL_USER || class_id == CLASS_MEMORY_PRIVILEGED;
}

static struct object *find(struct ledger *ledger, uint32_t root, uint32_t handle)
{
    for (size_t n = 0; n < ledger->objects; n++)
        if (ledger->object[n].root == root && ledger->object[n].handle == handle)
            return &ledger->object[n];
    return NULL;
}

static struct group *group_of(struct ledger *ledger, uint32_t root, uint32_t handle)
{
    for (size_t n = 0; n < ledger->groups; n++)
        if (ledger->group[n].root == root && ledger->group[n].handle == handle)
            return &ledger->group[n];
    return NULL;
}

static void note_channel(struct ledger *ledger, const struct object *made)
{
    struct group *group = group_of(ledger, made->root, made->parent);
    if (group && !group->channel)
        group->channel = made->handle;
}

/* Compute is allocated on a channel, or on the group itself. */
static void note_compute(struct ledger *ledger, const struct object *made)
{
    struct group *group = group_of(ledger, made->root, made->parent);
    if (group) {
        group->compute = true;
        return;
    }
    const struct object *channel = find(ledger, made->root, made->parent);
    if (channel && (group = group_of(ledger, made->root, channel->parent))) {
        group->compute = true;
        group->channel = channel->handle;
    }
}

void ledger_add(struct ledger *ledger, const struct object *made, int descriptor)
{
    if (ledger->objects == MOST_OBJECTS) {
        ledger->not_understood++; /* said in the answer: a ledger that lost something is no proof */
        return;
    }
    ledger->object[ledger->objects++] = *made;
    ledger->bytes += made->bytes;
    if (ledger->bytes > ledger->most_bytes)
        ledger->most_bytes = ledger->bytes;
    if (made->class_id == CLASS_CHANNEL_GROUP && ledger->groups < MOST_GROUPS)
        ledger->group[ledger->groups++] =
            (struct group){.root = made->root, .handle = made->handle, .descriptor = descriptor};
    else if ((made->class_id & 0xff) == CLASS_LOW_CHANNEL && made->class_id > 0xff)
        note_channel(ledger, made);
    else if ((made->class_id & 0xff) == CLASS_LOW_COMPUTE && made->class_id > 0xff)
        note_compute(ledger, made);
}

static void drop(struct ledger *ledger, size_t number)
{
    ledger->bytes -= ledger->object[number].bytes;
    ledger->object[number] = ledger->object[--ledger->objects];
}

void ledger_free(struct ledger *ledger, uint32_t root, uint32_t handle)
{
    for (size_t n = 0; n < ledger->objects; n++)
        if (ledger->object[n].root == root && ledger->object[n].handle == handle) {
            drop(ledger, n);
            break;
        }
    for (size_t n = 0; n < ledger->objects;) {
        const struct object child = ledger->object[n];
        if (child.root != root || child.parent != handle || child.handle == handle) {
            n++;
            continue;
        }
        ledger_free(ledger, root, child.handle);
        n = 0; /* the list has moved */
    }
}

void ledger_scheduled(struct ledger *ledger, uint32_t root, uint32_t handle, uint32_t params_size)
{
    struct group *group = group_of(ledger, root, handle);
    if (group)
        group->schedule_size = params_size;
}

struct group *ledger_compute_group(struct ledger *ledger)
{
    for (size_t n = 0; n < ledger->groups; n++)
        if (ledger->group[n].compute && ledger->group[n].channel && ledger->group[n].schedule_size)
            return &ledger->group[n];
    return NULL;
}
