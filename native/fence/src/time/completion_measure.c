/* Measures what a finished batch used: from the events around it to the allocation's timeline. */
#include "completion.h"
#include "limiter/timeline.h"
#include "process/ledger.h"
#include "process/real.h"
#include "process/state.h"

#define ANCHOR_NS 250000000 /* a float of milliseconds holds 15 ns over so long */
#define LOOK_NS 1000000ull  /* the slots of the other processes are read no more often */

void give_back_event(struct event_context *c, CUevent event)
{
    if (!event || (c && event == c->anchor))
        return;
    if (c && c->spares < COMPLETION_EVENTS)
        c->spare[c->spares++] = event;
    else
        fence_real.cuEventDestroy_v2(event);
}

static bool elapsed(CUevent from, CUevent to, int64_t *ns)
{
    float ms;
    if (fence_real.cuEventElapsedTime_v2(&ms, from, to) != CUDA_SUCCESS &&
        fence_real.cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS)
        return false;
    *ns = (int64_t)((double)ms * 1e6);
    return true;
}

static void anchor_at(struct event_context *c, CUevent event, int64_t position)
{
    CUevent before = c->anchor;
    c->anchor = event;
    c->anchor_ns = position;
    give_back_event(c, before);
}

/* Where the end of the batch is in the context's GPU time. */
static bool position(struct event_context *c, CUevent end, int64_t *at)
{
    int64_t since = 0;
    if (c->anchor && !elapsed(c->anchor, end, &since))
        return false;
    *at = c->anchor_ns + since;
    if (!c->anchor || since > ANCHOR_NS)
        anchor_at(c, end, *at);
    return true;
}

/* When the batch ended, by the host's clock. It was seen at `now`. */
static uint64_t host_end(struct event_context *c, const struct submitted_batch *batch, int64_t took, bool is_contended, uint64_t now)
{
    int64_t end;
    if (!c || !position(c, batch->end, &end))
        return now;
    if (batch->recorded_ns)
        gpu_clock_recorded(&c->clock, end - took, batch->recorded_ns);
    gpu_clock_seen(&c->clock, end, now);
    return gpu_clock_host(&c->clock, end, is_contended);
}

/* The other processes of the allocation tell by their slots whether they have work in flight. What they write there makes this
   process measure more closely, or less. */
static void note_others(struct limiter_card *card, uint32_t device, uint64_t now)
{
    const struct fence_usage *usage = fence_state.region.usage;
    if (now - card->looked_ns < LOOK_NS)
        return;
    card->looked_ns = now;
    for (uint32_t i = 0; i < ledger_high_water(usage); i++) {
        const struct fence_slot_device *slot = &usage->slot[i].device[device];
        if (slot == card->slot || atomic_load_explicit(&slot->inflight_ns, memory_order_relaxed) == 0)
            continue;
        atomic_store_explicit(&card->contended_ns, now, memory_order_relaxed);
        return;
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Without memory for a timeline nothing is known of what ran at the same time. */
static uint64_t use(const struct limiter_card *card, const struct limiter_batch *it, uint64_t from, uint64_t to, uint64_t now)
{
    if (card->timeline)
        return timeline_use(card->timeline, it, from, to, now);
    return to - from - least(it->idle_ns, to - from);
}

uint64_t measure_batch(struct event_context *c, struct limiter_card *card, const struct submitted_batch *batch, uint64_t now)
{
    const struct limiter_batch *it = &batch->it;
    int64_t took;
    note_others(card, (uint32_t)batch->card, now);
    if (!batch->start || !batch->end || !elapsed(batch->start, batch->end, &took) || took < 0)
        return use(card, it, it->opened_ns, it->opened_ns + it->used_ns + it->idle_ns, now);
    uint64_t to = host_end(c, batch, took, limiter_is_contended(card, now), now);
    uint64_t used = use(card, it, to - least(to, (uint64_t)took), to, now);
    limiter_note_measurement(&card->predictions, it, (uint64_t)took, used);
    return used;
}
