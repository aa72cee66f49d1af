#include "ledger.h"

#include <stddef.h>

/* A test build defines LEDGER_STEP(number) to die at a step; the shipped ledger has no trace of it. */
#ifndef LEDGER_STEP
#define LEDGER_STEP(number) ((void)0)
#endif

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t ledger_round(uint64_t bytes, uint32_t granule)
{
    if (granule < 2)
        return bytes;
    uint64_t rest = bytes % granule;
    if (!rest)
        return bytes;
    return bytes > UINT64_MAX - granule ? UINT64_MAX / granule * granule : bytes - rest + granule;
}

void ledger_lower(_Atomic uint64_t *counter, uint64_t bytes)
{
    uint64_t seen = atomic_load(counter);
    while (!atomic_compare_exchange_weak(counter, &seen, seen > bytes ? seen - bytes : 0))
        ;
}

uint32_t ledger_high_water(const struct fence_usage *usage)
{
    uint32_t high = atomic_load(&usage->high_water);
    return high < FENCE_MAX_SLOTS ? high : FENCE_MAX_SLOTS;
}

static void raise_high_water(struct fence_usage *usage, uint32_t high)
{
    uint32_t seen = atomic_load(&usage->high_water);
    while (seen < high && !atomic_compare_exchange_weak(&usage->high_water, &seen, high))
        ;
}

/* False: another process took it half-way, because our pid means nothing in its namespace. */
static bool describe(struct fence_slot *slot, uint64_t owner, uint64_t pid_namespace, uint64_t image)
{
    uint64_t entering = owner | FENCE_OWNER_ENTERING;
    atomic_store(&slot->image, image);
    atomic_store(&slot->pid_namespace, pid_namespace);
    return atomic_compare_exchange_strong(&slot->owner, &entering, owner);
}

int ledger_take_slot(struct fence_usage *usage, uint32_t slots, uint64_t owner, uint64_t pid_namespace, uint64_t image)
{
    for (uint32_t i = 0; i < slots && i < FENCE_MAX_SLOTS; i++) {
        uint64_t free_word = 0;
        if (atomic_load(&usage->slot[i].owner))
            continue;
        LEDGER_STEP(1);
        raise_high_water(usage, i + 1); /* first: a slot above it would never be cleared */
        LEDGER_STEP(2);
        if (!atomic_compare_exchange_strong(&usage->slot[i].owner, &free_word, owner | FENCE_OWNER_ENTERING))
            continue;
        LEDGER_STEP(3);
        if (describe(&usage->slot[i], owner, pid_namespace, image))
            return (int)i;
    }
    return -1;
}

/* What the slots but one have open of other processes' memory. */
struct imports {
    uint64_t bytes, pieces, unmapped;
};

#define NO_SLOT FENCE_MAX_SLOTS

static struct imports imports_beside(const struct fence_usage *usage, uint32_t slot, uint32_t device)
{
    struct imports found = {0};
    uint32_t high = ledger_high_water(usage);
    for (uint32_t i = 0; i < high; i++) {
        if (i == slot || !atomic_load(&usage->slot[i].owner))
            continue;
        found.pieces = sum(found.pieces, atomic_load(&usage->slot[i].imports));
        found.unmapped = sum(found.unmapped, atomic_load(&usage->slot[i].unmapped_imports));
        found.bytes = sum(found.bytes, atomic_load(&usage->slot[i].device[device].imported_bytes));
    }
    return found;
}

void ledger_orphan(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes)
{
    if (bytes && imports_beside(usage, slot, device).pieces)
        atomic_fetch_add(&usage->device[device].orphaned_bytes, bytes);
}

/* An importer counts its piece before it asks the driver, so none is overlooked while its exporter ends. */
static uint64_t orphaned(struct fence_usage *usage, uint32_t device)
{
    uint64_t bytes = atomic_load(&usage->device[device].orphaned_bytes);
    if (!bytes)
        return 0;
    struct imports open = imports_beside(usage, NO_SLOT, device);
    if (!open.pieces)
        atomic_compare_exchange_strong(&usage->device[device].orphaned_bytes, &bytes, 0);
    if (!open.pieces)
        return 0;
    return open.unmapped || bytes < open.bytes ? bytes : open.bytes;
}

/* Kept for the allocation's totals. A kill between taking and adding loses a figure of what was used, never counts it twice. */
static void depart(_Atomic uint64_t *total, _Atomic uint64_t *figure)
{
    atomic_fetch_add(total, atomic_exchange(figure, 0));
}

static void clear_device(struct fence_usage_device *total, struct fence_slot_device *used)
{
    depart(&total->departed_gpu_ns, &used->gpu_ns);
    depart(&total->departed_wait_ns, &used->wait_ns);
    depart(&total->departed_throttled_ns, &used->throttled_ns);
    depart(&total->departed_launches, &used->launches);
    atomic_fetch_add(&total->departed_refusals, atomic_exchange(&used->refusals, 0));
    atomic_store(&used->imported_bytes, 0);
    atomic_store(&used->inflight_ns, 0);
    atomic_store(&used->waiters, 0);
    atomic_store(&used->contexts, 0);
    atomic_store(&used->pending_bytes, 0);
    atomic_store(&used->committed_bytes, 0);
}

bool ledger_clear_slot(struct fence_usage *usage, uint32_t slot, uint64_t seen, uint64_t reaper)
{
    struct fence_slot *dead = &usage->slot[slot];
    uint64_t clearing = reaper == FENCE_OWNER_REAPING ? reaper : reaper | FENCE_OWNER_REAPER;
    if (!atomic_compare_exchange_strong(&dead->owner, &seen, clearing))
        return false;
    LEDGER_STEP(4);
    for (uint32_t i = 0; i < FENCE_MAX_DEVICES; i++) {
        ledger_orphan(usage, slot, i, atomic_load(&dead->device[i].committed_bytes));
        clear_device(&usage->device[i], &dead->device[i]);
        if (i == 0)
            LEDGER_STEP(5);
    }
    atomic_store(&dead->pid_outside, 0);
    atomic_store(&dead->flags, 0);
    atomic_store(&dead->imports, 0);
    atomic_store(&dead->unmapped_imports, 0);
    LEDGER_STEP(6);
    atomic_compare_exchange_strong(&dead->owner, &clearing, 0);
    LEDGER_STEP(7);
    return true;
}

uint32_t ledger_clear_dead(struct fence_usage *usage, uint64_t reaper, ledger_is_dead *is_dead, void *context)
{
    uint32_t cleared = 0;
    for (uint32_t i = 0; i < ledger_high_water(usage); i++) {
        struct fence_slot *slot = &usage->slot[i];
        uint64_t owner = atomic_load(&slot->owner);
        if (owner && owner != FENCE_OWNER_REAPING && is_dead(slot, owner, context))
            cleared += ledger_clear_slot(usage, i, owner, reaper);
    }
    return cleared;
}

/* What all slots say of one card, seen from one reservation. */
struct view {
    uint64_t firm;    /* committed bytes, the own slot's too */
    uint64_t racing;  /* others' pending bytes */
    uint64_t own;     /* the own slot's */
    bool lower_first; /* some of the others are in a lower slot: they go first */
};

/* Pending is read before committed: a mover adds to committed first, so bytes on the way are seen once or twice, never
   not at all. */
static struct view look(struct fence_usage *usage, uint32_t slot, uint32_t device)
{
    struct view view = {.firm = orphaned(usage, device)};
    uint32_t high = ledger_high_water(usage);
    for (uint32_t i = 0; i < high; i++) {
        const struct fence_slot_device *used = &usage->slot[i].device[device];
        if (!atomic_load(&usage->slot[i].owner))
            continue;
        uint64_t pending = atomic_load(&used->pending_bytes);
        view.firm = sum(view.firm, atomic_load(&used->committed_bytes));
        if (i == slot) {
            view.own = pending;
        } else {
            view.racing = sum(view.racing, pending);
            view.lower_first |= pending && i < slot;
        }
    }
    return view;
}

/* `before`: pending bytes of the own process's other threads that came first. */
static enum ledger_answer judge(struct view view, uint64_t before, uint64_t bytes, uint64_t limit)
{
    uint64_t firm = sum(view.firm, bytes);
    if (sum(firm, sum(view.racing, before)) <= limit)
        return LEDGER_GRANTED;
    if (firm > limit)
        return LEDGER_REFUSED;
    return before || view.lower_first ? LEDGER_RACING : LEDGER_WAITING;
}

static enum ledger_answer settle(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes,
                                 enum ledger_answer answer)
{
    LEDGER_STEP(10);
    if (answer == LEDGER_RACING || answer == LEDGER_REFUSED)
        ledger_cancel(usage, slot, device, bytes);
    return answer;
}

/* Looks once before it adds: a reservation that would only be in the way of an earlier one stays out. Of two threads of one process
   the later one counts the earlier one's bytes, so of any two reservations one counts the other. */
enum ledger_answer ledger_reserve(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes, uint64_t limit)
{
    struct view view = look(usage, slot, device);
    enum ledger_answer answer = judge(view, view.own, bytes, limit);
    if (answer == LEDGER_RACING || answer == LEDGER_REFUSED)
        return answer;
    LEDGER_STEP(8);
    uint64_t before = atomic_fetch_add(&usage->slot[slot].device[device].pending_bytes, bytes);
    LEDGER_STEP(9);
    answer = judge(look(usage, slot, device), before, bytes, limit);
    return settle(usage, slot, device, bytes, answer);
}

/* A waiting reservation came before those of all other threads of its process. */
enum ledger_answer ledger_decide(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes, uint64_t limit)
{
    return settle(usage, slot, device, bytes, judge(look(usage, slot, device), 0, bytes, limit));
}

void ledger_cancel(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes)
{
    LEDGER_STEP(11);
    ledger_lower(&usage->slot[slot].device[device].pending_bytes, bytes);
    LEDGER_STEP(12);
}

void ledger_commit(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes)
{
    LEDGER_STEP(13);
    ledger_charge(usage, slot, device, bytes);
    LEDGER_STEP(14);
    ledger_lower(&usage->slot[slot].device[device].pending_bytes, bytes);
    LEDGER_STEP(15);
}

void ledger_charge(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes)
{
    atomic_fetch_add(&usage->slot[slot].device[device].committed_bytes, bytes);
}

void ledger_release(struct fence_usage *usage, uint32_t slot, uint32_t device, uint64_t bytes)
{
    LEDGER_STEP(16);
    ledger_lower(&usage->slot[slot].device[device].committed_bytes, bytes);
    LEDGER_STEP(17);
}

uint64_t ledger_used(struct fence_usage *usage, uint32_t device)
{
    uint64_t used = orphaned(usage, device);
    uint32_t high = ledger_high_water(usage);
    for (uint32_t i = 0; i < high; i++) {
        if (!atomic_load(&usage->slot[i].owner))
            continue;
        uint64_t pending = atomic_load(&usage->slot[i].device[device].pending_bytes);
        used = sum(used, sum(pending, atomic_load(&usage->slot[i].device[device].committed_bytes)));
    }
    return used;
}
