/* The pages of a share: the region is its job's to write, to the fence of another process of it and to the arbiter. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decision/arbitrate.h"
#include "process/ledger.h"
#include "process/process_id.h"
#include "share.h"

enum { RANGE = sizeof(struct fence_usage) - sizeof(struct fence_slot) * (FENCE_MAX_SLOTS - 4) };

static bool all_dead(const struct fence_slot *slot, uint64_t owner, void *context)
{
    (void)slot, (void)context;
    return owner & 1;
}

/* Pairs of a place among the first four slots (2 bytes) and a word (8 bytes). */
static void scribble(struct fence_usage *usage, const uint8_t *data, size_t size)
{
    for (; size >= 10; data += 10, size -= 10) {
        size_t place = (size_t)(data[0] | data[1] << 8) * 8 % RANGE;
        memcpy((char *)usage + place, data + 2, 8);
    }
}

static void account(struct fence_usage *usage, uint64_t limit)
{
    for (uint32_t slot = 0; slot < 4; slot++)
        for (uint32_t device = 0; device < 2; device++) {
            enum ledger_answer answer = ledger_reserve(usage, slot, device, 1 << 20, limit);
            bool counts = usage->slot[slot].owner && slot < ledger_high_water(usage);
            if (answer == LEDGER_GRANTED && counts && ledger_used(usage, device) < 1 << 20)
                abort(); /* granted and not counted */
            if (answer == LEDGER_WAITING || answer == LEDGER_GRANTED)
                ledger_cancel(usage, slot, device, 1 << 20);
            ledger_release(usage, slot, device, UINT64_MAX);
        }
    struct process_id self = read_process_id();
    ledger_clear_dead(usage, self.owner, is_dead_process, &self);
    ledger_clear_dead(usage, self.owner, all_dead, NULL);
    int taken = ledger_take_slot(usage, 4, self.owner, self.pid_namespace, self.image);
    if (taken > 3)
        abort();
}

/* Two allocations on a card: what one writes must not make the arbiter forget the other. */
static void divide(const struct fence_usage *usage)
{
    static struct arb_card card;
    struct arb_member liar = {0}, honest = {0};
    struct arb_limits limits = {300, FENCE_BURST, 300, 0};
    memset(&card, 0, sizeof card);
    arb_join(&card, &liar, limits, (struct arb_seen){0}, 1);
    arb_join(&card, &honest, limits, (struct arb_seen){0}, 1);
    uint64_t now = 1, granted = 0;
    for (int i = 0; i < 64; i++) {
        const struct fence_slot_device *used = &usage->slot[i % 4].device[0];
        liar.seen = (struct arb_seen){usage->device[i % 2].charged_ns, used->inflight_ns, used->waiters};
        honest.seen = (struct arb_seen){granted, 0, 1};
        uint64_t due = arb_run(&card, now);
        if (due != ARB_NEVER && due <= now)
            abort();
        if (honest.word.granted_ns > granted)
            granted = honest.word.granted_ns;
        now += due == ARB_NEVER ? 1000000 : due - now < 2000000000u ? due - now : 2000000000u;
    }
    if (!granted)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fence_usage *usage;
    if (!usage)
        usage = calloc(1, sizeof *usage);
    memset(usage, 0, RANGE);
    scribble(usage, data, size);
    divide(usage);
    account(usage, size * 65536);
    return 0;
}
