/* The queues of a context, and the bits that say which streams have work. What is primary is `submitted` and `completed` of each
   stream and the items' own words; lists and bits can be made again from them (engine_repair.c). */
#include "engine_internal.h"

#include <stddef.h>

struct engine_context *engine_context_of(struct engine *engine, uint32_t context)
{
    if (context >= ENGINE_CONTEXTS || !engine->context[context].owner)
        return NULL;
    return &engine->context[context];
}

const struct engine_context *engine_context_seen(const struct engine *engine, uint32_t context)
{
    return engine_context_of((struct engine *)(uintptr_t)engine, context);
}

/* One never used in this context may hold what an earlier context left in it. */
static int take_fresh(struct engine_context *c)
{
    if (c->fresh >= ENGINE_ITEMS)
        return -1;
    c->item[c->fresh].state = ITEM_FREE;
    STEP();
    return (int)c->fresh++;
}

/* A free item's index, or -1. */
int engine_take_item(struct engine_context *c)
{
    uint32_t i = c->free;
    if (!i)
        return take_fresh(c);
    c->free = c->item[i - 1].next;
    return (int)i - 1;
}

static void give_item(struct engine_context *c, uint32_t i)
{
    c->item[i].state = ITEM_FREE;
    c->item[i].next = c->free;
    STEP();
    c->free = (uint16_t)(i + 1);
}

static void refresh_card(struct engine *engine, uint32_t context)
{
    struct engine_context *c = &engine->context[context];
    struct engine_card *card = &engine->card[c->card];
    if (any(c->active, ENGINE_STREAMS))
        set_bit(card->waiting, context);
    else
        clear_bit(card->waiting, context);
    if (any(card->waiting, ENGINE_CONTEXTS))
        set_bit(engine->active, c->card);
    else
        clear_bit(engine->active, c->card);
}

/* The stream's head has changed: updates the bits of streams with work, and whether the work needs the context's turn. */
void engine_refresh(struct engine *engine, uint32_t context, uint32_t stream)
{
    struct engine_context *c = &engine->context[context];
    const struct engine_item *head = head_of(c, stream);
    clear_bit(c->linked, stream);
    if (!head) {
        clear_bit(c->active, stream);
        refresh_card(engine, context);
        return;
    }
    if (uses_link(head->kind) || (!uses_compute(head->kind) && c->stream[stream].link))
        set_bit(c->linked, stream);
    if (!bit(c->active, stream)) {
        set_bit(c->active, stream);
        refresh_card(engine, context);
    }
}

/* The item is whole but for its place; it is submitted at the store of `submitted`. */
void engine_push(struct engine *engine, uint32_t context, uint32_t stream, uint32_t item)
{
    struct engine_context *c = &engine->context[context];
    struct engine_stream *s = &c->stream[stream];
    c->item[item].seq = s->submitted + 1;
    c->item[item].order = ++c->order;
    c->item[item].next = 0;
    STEP();
    c->item[item].state = ITEM_QUEUED;
    STEP();
    s->submitted++;
    STEP();
    if (s->tail)
        c->item[s->tail - 1].next = (uint16_t)(item + 1);
    else
        s->head = (uint16_t)(item + 1);
    s->tail = (uint16_t)(item + 1);
    s->queued++;
    c->queued++;
    c->hosts += c->item[item].kind == ENGINE_HOST;
    STEP();
    if (s->queued == 1)
        engine_refresh(engine, context, stream);
}

static void count(struct engine *engine, struct engine_context *c, const struct engine_item *item)
{
    if (uses_link(item->kind) || item->kind == ENGINE_COPY_DEVICE)
        c->copies++;
    else if (uses_compute(item->kind))
        c->launches += item->launches;
    if (uses_compute(item->kind))
        engine->card[c->card].launches += item->launches;
}

/* The head of the stream is done now. */
void engine_complete(struct engine *engine, uint32_t context, uint32_t stream)
{
    struct engine_context *c = &engine->context[context];
    struct engine_stream *s = &c->stream[stream];
    uint32_t index = s->head - 1u;
    struct engine_item *item = &c->item[index];
    if (item->kind == ENGINE_RECORD && item->event < ENGINE_EVENTS)
        c->event[item->event].done_ns = engine->now_ns;
    s->done_ns = engine->now_ns;
    if (takes_time(item->kind))
        s->link = uses_link(item->kind);
    count(engine, c, item);
    STEP();
    s->completed = item->seq;
    STEP();
    s->head = item->next;
    if (!s->head)
        s->tail = 0;
    s->queued--;
    c->queued--;
    c->hosts -= item->kind == ENGINE_HOST;
    STEP();
    give_item(c, index);
    if (!s->head && s->state == STREAM_CLOSING)
        s->state = STREAM_FREE;
    engine_refresh(engine, context, stream);
}

/* Nothing of the context is queued any more, and all of it counts as done. */
void engine_drop_all(struct engine *engine, uint32_t context)
{
    struct engine_context *c = &engine->context[context];
    for (uint32_t i = 0; i < ENGINE_STREAMS; i++) {
        struct engine_stream *s = &c->stream[i];
        s->completed = s->submitted;
        STEP();
        s->head = s->tail = s->queued = 0;
        if (s->state == STREAM_CLOSING)
            s->state = STREAM_FREE;
    }
    c->queued = c->hosts = c->fresh = c->free = 0;
    for (uint32_t w = 0; w < ENGINE_STREAMS / 64; w++)
        c->active[w] = c->linked[w] = 0;
    STEP();
    refresh_card(engine, context);
}
