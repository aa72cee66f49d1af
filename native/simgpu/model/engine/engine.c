/* Contexts, streams, events and submission, as engine.h says. Queues are in engine_queue.c, time in engine_run.c, what is
   only asked in engine_queries.c. */
#include "engine_internal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define DEFAULT_SLICE_NS 2000000ull

void engine_init(struct engine *engine, const struct engine_config *config, uint64_t now)
{
    engine->config = *config;
    engine->now_ns = now;
    if (!engine->config.slice_ns)
        engine->config.slice_ns = DEFAULT_SLICE_NS;
    if (engine->config.cards > ENGINE_CARDS)
        engine->config.cards = ENGINE_CARDS;
    STEP();
    engine->ready = 1;
}

/* --- contexts --- */

/* The events' and items' memory is left as it is: what was never used is not looked at. */
static void clear_context(struct engine_context *c, uint32_t card)
{
    c->generation++;
    STEP();
    memset(&c->card, 0, offsetof(struct engine_context, item) - offsetof(struct engine_context, card));
    c->card = (uint16_t)card;
    c->stream[0].state = STREAM_OPEN;
}

int engine_context_create(struct engine *engine, uint32_t card, uint64_t owner, uint64_t now)
{
    if (card >= engine->config.cards || !owner)
        return -EINVAL;
    engine_advance(engine, now);
    for (uint32_t i = 0; i < ENGINE_CONTEXTS; i++) {
        struct engine_context *c = &engine->context[i];
        if (c->owner)
            continue;
        clear_context(c, card);
        engine->high_water = i >= engine->high_water ? i + 1 : engine->high_water;
        STEP();
        c->owner = owner;
        return (int)i;
    }
    return -ENOSPC;
}

/* The next owner of the index has had no turn on the card. */
static void leave_card(struct engine_card *card, uint32_t context)
{
    if (card->current == context + 1)
        card->current = 0;
    if (card->last == context + 1)
        card->last = 0;
}

void engine_context_destroy(struct engine *engine, uint32_t context, uint64_t now)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c)
        return;
    engine_advance(engine, now);
    engine_drop_all(engine, context);
    leave_card(&engine->card[c->card], context);
    c->generation++; /* tickets of it are done from here on */
    STEP();
    c->owner = 0;
    engine_settle(engine);
}

void engine_context_fail(struct engine *engine, uint32_t context, uint32_t error, uint64_t now)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c || c->error)
        return;
    engine_advance(engine, now);
    c->error = error;
    STEP();
    engine_drop_all(engine, context);
    engine_settle(engine);
}

/* --- streams and events --- */

int engine_stream_create(struct engine *engine, uint32_t context, uint32_t flags, int32_t priority)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c)
        return -EINVAL;
    for (uint32_t i = 1; i < ENGINE_STREAMS; i++) {
        struct engine_stream *s = &c->stream[i];
        if (s->state != STREAM_FREE)
            continue;
        s->flags = flags;
        s->priority = priority;
        s->link = 0;
        STEP();
        s->state = STREAM_OPEN;
        return (int)i;
    }
    return -ENOSPC;
}

void engine_stream_destroy(struct engine *engine, uint32_t context, uint32_t stream)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c || stream == 0 || stream >= ENGINE_STREAMS || c->stream[stream].state != STREAM_OPEN)
        return;
    c->stream[stream].state = c->stream[stream].head ? STREAM_CLOSING : STREAM_FREE;
}

static int use_event(struct engine_context *c, uint32_t event)
{
    c->event[event].done_ns = 0;
    STEP();
    c->event[event].used = 1;
    c->event_hint = event + 1;
    return (int)event;
}

static int find_free_event(const struct engine_context *c)
{
    for (uint32_t i = 0; i < c->events_fresh; i++) {
        uint32_t event = (c->event_hint + i) % c->events_fresh;
        if (!c->event[event].used)
            return (int)event;
    }
    return -ENOSPC;
}

int engine_event_create(struct engine *engine, uint32_t context)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c)
        return -EINVAL;
    if (c->events_fresh < ENGINE_EVENTS) {
        int event = use_event(c, c->events_fresh);
        STEP();
        c->events_fresh++;
        return event;
    }
    int event = find_free_event(c);
    return event < 0 ? event : use_event(c, (uint32_t)event);
}

void engine_event_destroy(struct engine *engine, uint32_t context, uint32_t event)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c || event >= c->events_fresh)
        return;
    c->event[event].used = 0;
    c->event_hint = event;
}

uint64_t engine_event_ns(const struct engine *engine, uint32_t context, uint32_t event)
{
    const struct engine_context *c = engine_context_seen(engine, context);
    return c && event < c->events_fresh ? c->event[event].done_ns : 0;
}

/* --- submitting --- */

static bool good(const struct engine_context *c, uint32_t stream, const struct engine_work *work)
{
    if (stream >= ENGINE_STREAMS || c->stream[stream].state != STREAM_OPEN)
        return false;
    if (work->kind < ENGINE_KERNEL || work->kind > ENGINE_NOTHING || work->width_milli > ENGINE_WHOLE)
        return false;
    if (work->duration_ns > UINT64_MAX / UNIT)
        return false;
    return work->kind != ENGINE_RECORD || work->event == ENGINE_NO_EVENT || work->event < c->events_fresh;
}

static void fill(struct engine_item *item, uint32_t stream, const struct engine_work *work)
{
    item->state = ITEM_FREE;
    STEP();
    item->kind = (uint8_t)work->kind;
    item->stream = (uint16_t)stream;
    item->left = takes_time(work->kind) ? work->duration_ns * UNIT : 0;
    item->width = (uint16_t)(work->width_milli ? work->width_milli : ENGINE_WHOLE);
    item->launches = work->kind == ENGINE_GRAPH && work->launches ? work->launches : 1;
    item->event = work->event;
    item->cookie = work->kind == ENGINE_WAIT ? work->after.seq : work->cookie;
    item->wait_context = (uint16_t)work->after.context;
    item->wait_generation = work->after.generation;
    item->wait_stream = (uint16_t)work->after.stream;
}

/* Waiting for what is done, or marking the end of an empty queue, leaves nothing to do. */
static bool is_void(const struct engine *engine, const struct engine_stream *s, const struct engine_work *work)
{
    if (s->head)
        return false;
    return work->kind == ENGINE_NOTHING || (work->kind == ENGINE_WAIT && engine_done(engine, &work->after));
}

int engine_submit(struct engine *engine, uint32_t context, uint32_t stream, const struct engine_work *work,
                  uint64_t now, struct engine_ticket *ticket)
{
    struct engine_context *c = engine_context_of(engine, context);
    if (!c || !good(c, stream, work))
        return -EINVAL;
    engine_advance(engine, now);
    if (c->error)
        return (int)c->error;
    struct engine_stream *s = &c->stream[stream];
    if (!is_void(engine, s, work)) {
        int item = s->queued < ENGINE_QUEUE ? engine_take_item(c) : -1;
        if (item < 0)
            return -EAGAIN;
        fill(&c->item[item], stream, work);
        engine_push(engine, context, stream, (uint32_t)item);
        if (s->queued == 1)
            engine_settle(engine);
    }
    if (ticket)
        *ticket = engine_last(engine, context, stream);
    return 0;
}
