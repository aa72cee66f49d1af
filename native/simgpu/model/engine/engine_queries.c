/* What is done and when, what waits for the host, and the load. */
#include "engine_internal.h"

/* --- what is done, and when --- */

int engine_done(const struct engine *engine, const struct engine_ticket *ticket)
{
    const struct engine_context *c = engine_context_seen(engine, ticket->context);
    if (!c || c->generation != ticket->generation || ticket->stream >= ENGINE_STREAMS)
        return 1;
    return c->stream[ticket->stream].completed >= ticket->seq;
}

static struct engine_ticket ticket_of(const struct engine_context *c, uint32_t context, uint32_t stream, uint64_t seq)
{
    return (struct engine_ticket){context, c->generation, stream, 0, seq};
}

struct engine_ticket engine_last(const struct engine *engine, uint32_t context, uint32_t stream)
{
    const struct engine_context *c = engine_context_seen(engine, context);
    if (!c || stream >= ENGINE_STREAMS)
        return (struct engine_ticket){0};
    return ticket_of(c, context, stream, c->stream[stream].submitted);
}

struct engine_ticket engine_oldest(const struct engine *engine, uint32_t context, uint32_t stream)
{
    const struct engine_context *c = engine_context_seen(engine, context);
    if (!c || stream >= ENGINE_STREAMS || !c->stream[stream].head)
        return (struct engine_ticket){0};
    return ticket_of(c, context, stream, c->stream[stream].completed + 1);
}

int engine_idle(const struct engine *engine, uint32_t context)
{
    const struct engine_context *c = engine_context_seen(engine, context);
    return !c || !c->queued;
}

/* Work from the head of the stream up to and with the item `seq`, in 1/1024 ns; ENGINE_NEVER when the host has to do
   something first. */
static uint64_t work_before(const struct engine_context *c, uint32_t stream, uint64_t seq)
{
    uint64_t work = 0;
    for (uint32_t i = c->stream[stream].head; i && c->item[i - 1].seq <= seq; i = c->item[i - 1].next) {
        if (c->item[i - 1].kind == ENGINE_HOST)
            return ENGINE_NEVER;
        work = work + c->item[i - 1].left < work ? ENGINE_NEVER - 1 : work + c->item[i - 1].left;
    }
    return work;
}

/* Not before the work is done at full rate, and not before anything at all happens. */
static uint64_t bound_of(const struct engine *engine, uint64_t work)
{
    if (work == ENGINE_NEVER)
        return ENGINE_NEVER;
    uint64_t next = engine_next_event(engine), wait = work / UNIT;
    uint64_t alone = wait >= ENGINE_NEVER - engine->now_ns ? ENGINE_NEVER - 1 : engine->now_ns + wait;
    return alone > next ? alone : next;
}

uint64_t engine_bound(const struct engine *engine, const struct engine_ticket *ticket)
{
    if (engine_done(engine, ticket))
        return engine->now_ns;
    const struct engine_context *c = &engine->context[ticket->context];
    return bound_of(engine, work_before(c, ticket->stream, ticket->seq));
}

/* --- the host's part --- */

int engine_host_ready(struct engine *engine, uint32_t context, uint64_t *cookie, struct engine_ticket *ticket)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c || !c->hosts)
        return 0;
    for EACH_STREAM(s, c->active) {
        struct engine_item *head = head_of(c, (uint32_t)s);
        if (head->kind != ENGINE_HOST || head->state != ITEM_DUE)
            continue;
        head->state = ITEM_TOLD;
        *cookie = head->cookie;
        *ticket = ticket_of(c, context, (uint32_t)s, head->seq);
        return 1;
    }
    return 0;
}

/* When the first host item of the stream may be due; ENGINE_NEVER: all were returned. */
static uint64_t host_bound_of_stream(const struct engine *engine, const struct engine_context *c, uint32_t stream)
{
    uint64_t work = 0;
    for (uint32_t i = c->stream[stream].head; i; i = c->item[i - 1].next) {
        const struct engine_item *item = &c->item[i - 1];
        if (item->kind == ENGINE_HOST && item->state == ITEM_DUE)
            return engine->now_ns;
        if (item->kind == ENGINE_HOST)
            return item->state == ITEM_TOLD ? ENGINE_NEVER : bound_of(engine, work);
        work += item->left;
    }
    return ENGINE_NEVER;
}

uint64_t engine_host_bound(const struct engine *engine, uint32_t context)
{
    const struct engine_context *c = engine_context_seen(engine, context);
    uint64_t bound = ENGINE_NEVER;
    if (!c || !c->hosts)
        return bound;
    for EACH_STREAM(s, c->active) {
        uint64_t at = host_bound_of_stream(engine, c, (uint32_t)s);
        bound = at < bound ? at : bound;
    }
    return bound;
}

/* The item may not be at the head yet (the value waited for was written early): then it stops nothing when it gets there. */
void engine_release(struct engine *engine, const struct engine_ticket *ticket, uint64_t now)
{
    engine_advance(engine, now);
    if (engine_done(engine, ticket))
        return;
    struct engine_context *c = &engine->context[ticket->context];
    for (uint32_t i = c->stream[ticket->stream].head; i; i = c->item[i - 1].next) {
        struct engine_item *item = &c->item[i - 1];
        if (item->seq != ticket->seq || item->kind != ENGINE_HOST)
            continue;
        bool due = item->state != ITEM_QUEUED;
        item->kind = ENGINE_NOTHING;
        c->hosts--;
        if (due)
            engine_complete(engine, ticket->context, ticket->stream);
        engine_settle(engine);
        return;
    }
}

/* --- the load --- */

static uint64_t overlap(uint64_t from, uint64_t to, uint64_t begin)
{
    uint64_t end = begin + ENGINE_SAMPLE_NS;
    begin = begin > from ? begin : from;
    end = end < to ? end : to;
    return end > begin ? end - begin : 0;
}

static uint64_t busy(const struct engine_sample *samples, uint64_t from, uint64_t to)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ENGINE_SAMPLES; i++) {
        uint64_t part = overlap(from, to, samples[i].number * ENGINE_SAMPLE_NS);
        sum += (uint64_t)((unsigned __int128)samples[i].busy_ns * part / ENGINE_SAMPLE_NS);
    }
    return sum;
}

uint64_t engine_card_busy(const struct engine *engine, uint32_t card, uint64_t from, uint64_t to)
{
    return card < ENGINE_CARDS ? busy(engine->card[card].sample, from, to) : 0;
}

uint64_t engine_context_busy(const struct engine *engine, uint32_t context, uint64_t from, uint64_t to)
{
    const struct engine_context *c = engine_context_seen(engine, context);
    return c ? busy(c->sample, from, to) : 0;
}
